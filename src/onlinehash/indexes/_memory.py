"""MemoryIndex: what the indexes share that scan codes in memory."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from math import gcd
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numba import config
from numpy.typing import NDArray

from onlinehash._files import pack_arrays, read_arrays, write_bytes
from onlinehash.codes import code_width, kernels
from onlinehash.codes.asymmetric import tables_of
from onlinehash.codes.hamming import distance_dtype
from onlinehash.exceptions import FileFormatError
from onlinehash.indexes._search_kernels import FAR, NO_ID, nearest_in_planes, nearest_in_tiles, top_k
from onlinehash.indexes.index import Index
from onlinehash.indexes.tables import IdTable, Numbers
from onlinehash.types import Codes, Distances, Ids, QueryValues, SearchResult

Found = tuple[Ids, NDArray[Any]]

_LAYOUT = 1
_FEW = 64  # if fewer than one item in this many passes a filter, codes are gathered; else all are scanned with a mask
_SPREAD = 16  # bytes per item that a mask may take
_NO_MASK = np.empty(0, np.uint8)
_ONE_EACH = np.empty(0, np.int64)
_QUERIES = 16  # queries for which a tile of codes is read once
_FEW_QUERIES = 8  # of the smallest block, if there are several threads
_NOTHING = np.empty((0, 0), np.int64)
_WORTH_A_THREAD = 2_000_000  # distances; for fewer, starting a thread takes longer than it saves


class View(NamedTuple):
    """Items to search: codes, and the ids of each as :func:`~onlinehash.indexes._search_kernels.top_k` takes them."""

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
    _parameters: ClassVar[tuple[str, ...]] = ("n_bits",)

    def __init__(self, n_bits: int) -> None:
        super().__init__(n_bits)
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
    def _view(self, among: Ids | None) -> View:
        """Return all items, or those of some ids."""

    def _chosen(self, among: Ids | None, n_queries: int) -> View:
        """Return the items of sorted ids: few are gathered, many are all items with a mask."""
        if among is None or not n_queries or _FEW * len(among) <= self._size:
            return self._view(among)
        base, length = int(among[0]), int(among[-1]) - int(among[0]) + 1
        if length > _SPREAD * self._size:
            return self._view(among)
        mask = np.zeros(length, np.uint8)
        mask[among - base] = 1
        return self._view(None)._replace(n_items=min(len(among), self._size), mask=mask, base=base)

    # ------------------------------------------------------------------ searching

    def _search(self, queries: Codes, k: int, among: Ids | None) -> SearchResult:
        view = self._chosen(among, len(queries))
        query_words = queries.copy().view(self._word)
        return self._nearest(query_words.__getitem__, view.codes.view(self._word), view, k, len(queries))

    def _search_asymmetric(self, queries: QueryValues, k: int, among: Ids | None) -> SearchResult:
        view = self._chosen(among, len(queries))
        return self._nearest(lambda rows: tables_of(queries[rows]), view.codes, view, k, len(queries))

    def _nearest(
        self, queries: Callable[[slice], NDArray[Any]], words: NDArray[Any], view: View, k: int, n_queries: int
    ) -> SearchResult:
        """Return the k nearest of every query; ``queries`` gives a block of them as the kernels need them."""
        k, n_bytes = min(k, view.n_items), view.codes.shape[1]
        tile = 512 if n_bytes <= 8 else 256 if n_bytes <= 16 else 128  # larger ones take longer to open
        n_tiles = -(-len(words) // tile)
        bounded = k <= n_tiles and not len(view.mask)  # else the nearest of a tile may be one that is left out

        def search(rows: slice) -> Found:
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
                top_k(block, words, view.pool, *view[3:], nearest, buffer, distances, ids)
            return ids, distances

        return _without_gaps(_search_blocks(search, n_queries, len(words)))

    def _range_search(self, queries: Codes, radius: int, among: Ids | None) -> list[tuple[Ids, Distances]]:
        view = self._chosen(among, len(queries))
        query_words, words = queries.copy().view(self._word), view.codes.view(self._word)
        distances = np.empty((1, len(words)), self._distance)
        found = []
        for q in range(len(queries)):
            kernels.pairwise_distances(query_words[q : q + 1], words, distances)
            rows = np.flatnonzero(distances[0] <= radius)
            rows = rows[np.argsort(distances[0, rows], kind="stable")]
            ids, counts = self._ids_of(view, rows)
            near = np.repeat(distances[0, rows].astype(np.int32), counts)
            if len(view.mask):
                inside = (ids >= view.base) & (ids < view.base + len(view.mask))
                inside[inside] = view.mask[ids[inside] - view.base] > 0
                ids, near = ids[inside], near[inside]
            for ties in np.split(ids, np.flatnonzero(np.diff(near)) + 1):
                ties.sort()
            found.append((ids, near))
        return found

    @abstractmethod
    def _ids_of(self, view: View, rows: NDArray[np.int64]) -> tuple[Ids, Any]:
        """Return a new array of the ids in rows of a view, and the number of ids per row."""

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
        index = cls(**{name: header[name] for name in cls._parameters})
        index._restore(arrays, str(path))
        index._size = len(arrays["ids"])
        return index

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a file, among them ``ids``."""

    @abstractmethod
    def _restore(self, arrays: dict[str, NDArray[Any]], path: str) -> None:
        """Take over the arrays of a file, whose path is for errors."""


def _search_blocks(search: Callable[[slice], Found], n_queries: int, n_rows: int) -> SearchResult:
    """Join what ``search`` finds for blocks of queries, on up to NUMBA_NUM_THREADS threads if they pay.

    This thread searches too. It never waits for another that has not started, which may take long on a busy machine.
    """
    allowed: int = vars(config)["NUMBA_NUM_THREADS"]
    n_threads = max(1, min(allowed, n_queries * n_rows // _WORTH_A_THREAD))
    if n_threads == 1 and n_queries <= _QUERIES:
        return SearchResult(*search(slice(0, n_queries)))
    blocks = _blocks(n_queries, n_threads)
    found: list[Found] = [(_NOTHING, _NOTHING)] * len(blocks)
    todo = iter(range(len(blocks)))

    def work() -> None:
        for i in todo:
            found[i] = search(blocks[i])

    n_others = min(n_threads, len(blocks)) - 1
    others = [_pool(os.getpid(), allowed - 1).submit(work) for _ in range(n_others)]
    try:
        work()
    finally:
        for _ in todo:  # after an error
            pass
        for other in others:
            if not other.cancel():
                other.result()
    ids, distances = (np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in zip(*found, strict=True))
    return SearchResult(ids, distances)


def _blocks(n_queries: int, n_threads: int) -> list[slice]:
    """Cut queries into blocks; small ones come last, so that all threads end together."""
    blocks: list[slice] = []
    start = 0
    while start < n_queries:
        left = n_queries - start
        size = min(_QUERIES, left if n_threads == 1 else max(_FEW_QUERIES, left // (2 * n_threads)))
        blocks.append(slice(start, start + size))
        start += size
    return blocks


@cache
def _pool(process: int, n_threads: int) -> ThreadPoolExecutor:
    """Return the threads of a process, which outlast a search: starting one takes as long as a small search."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="onlinehash search")


def _without_gaps(found: SearchResult) -> SearchResult:
    """Return a result without the places that no item took, which are the same for every query."""
    if not found.ids.size or found.ids[0, -1] != NO_ID or found.distances[0, -1] < FAR:
        return found
    n_found = int(np.count_nonzero(found.distances[0] < FAR))
    return SearchResult(found.ids[:, :n_found], found.distances[:, :n_found])
