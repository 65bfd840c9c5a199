"""MemoryIndex: what the exact indexes in memory share: scanning, ties and files."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import gcd
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numba import config
from numpy.typing import NDArray

from onlinehash._internal.files import pack_arrays, read_arrays, write_bytes
from onlinehash._internal.validation import check_choice
from onlinehash.codes import code_width
from onlinehash.codes.asymmetric import tables_of
from onlinehash.codes.hamming import distance_dtype
from onlinehash.codes.kernels import pairwise_distances
from onlinehash.exceptions import FileFormatError
from onlinehash.indexes.index import Index
from onlinehash.indexes.kernels import FAR, NO_ID, mixed, nearest_in_planes, nearest_in_tiles, top_k, unmixed
from onlinehash.indexes.tables import IdTable, Numbers
from onlinehash.types import Codes, Distances, Ids, QueryValues, SearchResult

TieOrder = Literal["id", "hash"]

_LAYOUT = 1
_ITEMS_PER_GATHERED = 64  # if fewer than one item in this many passes a filter, codes are gathered, else masked
_MASK_BYTES_PER_ITEM = 16
_QUERIES_PER_BLOCK = 16  # a tile of codes is read once for so many
_MIN_QUERIES_PER_THREAD = 8
_MIN_DISTANCES_PER_THREAD = 2_000_000  # for fewer, starting a thread takes longer than it saves
_NO_MASK = np.empty(0, np.uint8)
_ONE_EACH = np.empty(0, np.int64)


class Candidates(NamedTuple):
    """Items to search: codes, and the ids of each as :func:`~onlinehash.indexes.kernels.top_k` takes them."""

    codes: Codes
    pool: Ids
    n_items: int  # at most
    starts: NDArray[np.int64] = _ONE_EACH
    sizes: NDArray[np.int64] = _ONE_EACH
    ordered: bool = False
    mask: NDArray[np.uint8] = _NO_MASK
    base: int = 0  # the id where the mask begins


class MemoryIndex(Index):
    """An index whose codes are in memory, with a table from ids to rows or buckets that is built when first needed."""

    _kind: ClassVar[str]
    _parameters: ClassVar[tuple[str, ...]] = ("n_bits", "ties")

    def __init__(self, n_bits: int, ties: TieOrder = "id") -> None:
        super().__init__(n_bits)
        check_choice("ties", ties, ("id", "hash"))
        self.ties = ties
        self._size = 0
        self._table: IdTable | None = None
        n_bytes = code_width(self.n_bits)
        self._word = np.dtype(f"u{gcd(n_bytes, 8)}")  # the widest integer that divides a row
        self._distance = distance_dtype(n_bytes)

    def __len__(self) -> int:
        return self._size

    def __contains__(self, id: object) -> bool:
        return id in self._numbers()

    def _numbers(self) -> IdTable:
        """Return the table from ids to rows or buckets."""
        if self._table is None:
            self._table = IdTable(*self._items())
        return self._table

    @abstractmethod
    def _items(self) -> tuple[Ids, Numbers]:
        """Return all ids, and the row or bucket of each."""

    @abstractmethod
    def _candidates(self, among: Ids | None) -> Candidates:
        """Return all items, or those of some ids."""

    def _chosen(self, among: Ids | None, n_queries: int) -> Candidates:
        """Return the items of sorted ids: few are gathered, many are all items with a mask."""
        if among is None or not n_queries or _ITEMS_PER_GATHERED * len(among) <= self._size:
            return self._candidates(among)
        base, length = int(among[0]), int(among[-1]) - int(among[0]) + 1
        if length > _MASK_BYTES_PER_ITEM * self._size:
            return self._candidates(among)
        mask = np.zeros(length, np.uint8)
        mask[among - base] = 1
        return self._candidates(None)._replace(n_items=min(len(among), self._size), mask=mask, base=base)

    # ------------------------------------------------------------------ searching

    def _search(self, queries: Codes, k: int, among: Ids | None) -> SearchResult:
        chosen = self._chosen(among, len(queries))
        query_words = queries.copy().view(self._word)
        return self._nearest(query_words.__getitem__, chosen.codes.view(self._word), chosen, k, len(queries))

    def _search_asymmetric(self, queries: QueryValues, k: int, among: Ids | None) -> SearchResult:
        chosen = self._chosen(among, len(queries))
        return self._nearest(lambda rows: tables_of(queries[rows]), chosen.codes, chosen, k, len(queries))

    def _nearest(
        self, queries: Callable[[slice], NDArray[Any]], words: NDArray[Any], chosen: Candidates, k: int, n_queries: int
    ) -> SearchResult:
        """Return the k nearest of every query; ``queries`` gives a block of them as the kernels need them."""
        k, n_bytes, hashed = min(k, chosen.n_items), chosen.codes.shape[1], self.ties == "hash"
        tile = 512 if n_bytes <= 8 else 256 if n_bytes <= 16 else 128  # larger ones take longer to open
        n_tiles = -(-len(words) // tile)
        bounded = k <= n_tiles and not len(chosen.mask)  # else the nearest of a tile may be one that is left out

        def search(rows: slice) -> tuple[Ids, NDArray[Any]]:
            block = queries(rows)
            asymmetric = block.ndim == 3
            ids, dtype = np.empty((len(block), k), np.int64), np.float32 if asymmetric else self._distance
            distances = np.empty(ids.shape, np.float32 if asymmetric else np.int32)
            if ids.size:
                nearest, buffer = np.zeros((len(block), n_tiles), dtype), np.empty(tile, dtype)
                if bounded and not asymmetric and words.shape[1] in (3, 4) and len(block) > 2:
                    nearest_in_planes(block, words, np.zeros((4, tile), words.dtype), nearest)
                elif bounded:
                    nearest_in_tiles(block, words, buffer, nearest)
                top_k(block, words, chosen.pool, *chosen[3:], hashed, nearest, buffer, distances, ids)
            return ids, distances

        ids, distances = _search_blocks(search, n_queries, len(words))
        if ids.size and ids[0, -1] == NO_ID and distances[0, -1] >= FAR:  # as many for every query
            n_found = int(np.count_nonzero(distances[0] < FAR))
            ids, distances = ids[:, :n_found], distances[:, :n_found]
        return SearchResult(unmixed(ids) if hashed else ids, distances)

    def _range_search(self, queries: Codes, radius: int, among: Ids | None) -> list[tuple[Ids, Distances]]:
        chosen = self._chosen(among, len(queries))
        query_words, words = queries.copy().view(self._word), chosen.codes.view(self._word)
        distances = np.empty((1, len(words)), self._distance)
        found = []
        for q in range(len(queries)):
            pairwise_distances(query_words[q : q + 1], words, distances)
            rows = np.flatnonzero(distances[0] <= radius)
            near = distances[0, rows].astype(np.int32)
            if len(chosen.starts):
                sizes = chosen.sizes[rows]
                ids, near = concatenated(chosen.pool, chosen.starts[rows], sizes), np.repeat(near, sizes)
            else:
                ids = chosen.pool[rows]
            if len(chosen.mask):
                inside = (ids >= chosen.base) & (ids < chosen.base + len(chosen.mask))
                inside[inside] = chosen.mask[ids[inside] - chosen.base] > 0
                ids, near = ids[inside], near[inside]
            order = np.lexsort((mixed.py_func(ids) if self.ties == "hash" else ids, near))
            found.append((ids[order], near[order]))
        return found

    # ------------------------------------------------------------------ saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to one file (safetensors, no pickle)."""
        parameters = {name: getattr(self, name) for name in self._parameters}
        write_bytes(path, pack_arrays("index", _LAYOUT, {"index": self._kind, **parameters}, self._arrays()))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> Self:
        """Read an index that :meth:`save` wrote; with ``mmap``, codes and ids stay on disk until the first change."""
        header, arrays = read_arrays(path, "index", _LAYOUT, mmap=mmap)
        if header["index"] != cls._kind:
            raise FileFormatError(f"{path} holds an index of kind {header['index']!r}, not {cls._kind!r}.")
        index = cls(**{name: header[name] for name in cls._parameters if name in header})
        index._restore(arrays, str(path))
        index._size = len(arrays["ids"])
        return index

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a file, among them ``ids``."""

    @abstractmethod
    def _restore(self, arrays: dict[str, NDArray[Any]], path: str) -> None:
        """Take over the arrays of a file, whose path is for errors."""


def concatenated(pool: Ids, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> Ids:
    """Return ``pool[starts[i] : starts[i] + sizes[i]]``, for one i after the other, in one array."""
    before = np.cumsum(sizes) - sizes
    return pool[np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))]


def _search_blocks(
    search: Callable[[slice], tuple[Ids, NDArray[Any]]], n_queries: int, n_rows: int
) -> tuple[Ids, NDArray[Any]]:
    """Join what ``search`` finds for blocks of queries, on up to NUMBA_NUM_THREADS threads if they pay."""
    allowed: int = vars(config)["NUMBA_NUM_THREADS"]
    n_threads = max(1, min(allowed, n_queries * n_rows // _MIN_DISTANCES_PER_THREAD))
    size = min(_QUERIES_PER_BLOCK, max(_MIN_QUERIES_PER_THREAD, -(-n_queries // n_threads)))
    blocks = [slice(start, min(start + size, n_queries)) for start in range(0, n_queries, size)] or [slice(0, 0)]
    if n_threads == 1 or len(blocks) == 1:
        found = [search(block) for block in blocks]
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            found = list(pool.map(search, blocks))
    ids, distances = (np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in zip(*found, strict=True))
    return ids, distances
