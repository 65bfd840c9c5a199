"""FlatIndex: the exact scan, and the oracle for every other index."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import gcd
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numba import config
from numpy.typing import NDArray

from onlinehash._internal.files import pack_arrays, read_arrays, write_bytes
from onlinehash._internal.validation import check_codes
from onlinehash.codes import code_width
from onlinehash.codes.distances import distance_dtype, tables_of
from onlinehash.codes.kernels import pairwise_distances
from onlinehash.exceptions import FileFormatError
from onlinehash.indexes.index import Index, Ties, is_id, rising, unknown_id
from onlinehash.indexes.kernels import FAR, NO_ID, nearest_in_planes, nearest_in_tiles, top_k, unmixed
from onlinehash.types import Codes, Distances, Ids, QueryValues, SearchResult

Rows = NDArray[np.int64]

_LAYOUT = 1
_ITEMS_PER_GATHERED = 64  # if fewer than one item in this many passes a filter, codes are gathered, else masked
_MASK_BYTES_PER_ITEM = 16
_QUERIES_PER_BLOCK = 16  # a tile of codes is read once for so many
_MIN_QUERIES_PER_THREAD = 8
_MIN_DISTANCES_PER_THREAD = 2_000_000  # for fewer, starting a thread takes longer than it saves
_NO_MASK = np.empty(0, np.uint8)


class _Items(NamedTuple):
    """Items to search, as :func:`~onlinehash.indexes.kernels.top_k` takes them, and how many they are at most."""

    codes: Codes
    ids: Ids
    ordered: bool
    mask: NDArray[np.uint8]
    base: int
    n_items: int


class FlatIndex(Index):
    """Search packed codes exactly by Hamming distance, by scanning all of them.

    An item keeps its integer id when others are removed. Adding, replacing and removing cost O(1) per item; a search
    reads every code once per 16 queries, on several threads if there are many (at most ``NUMBA_NUM_THREADS``, an
    environment variable; by default, the number of cores).

    Parameters
    ----------
    n_bits : int
        Length of the codes.
    ties : {"id", "hash"}, default="id"
        Order of items at the same distance: by id, or by a hash of the id, which does not prefer old items.

    Examples
    --------
    >>> index = FlatIndex(n_bits=8)
    >>> index.upsert(np.array([[0b0000], [0b0001], [0b0111]], np.uint8), ids=[10, 20, 30])
    >>> found = index.search(np.array([[0b0011]], np.uint8), k=2)
    >>> found.ids, found.distances
    (array([[20, 30]]), array([[1, 1]], dtype=int32))
    >>> index.delete([20])
    >>> len(index), 20 in index
    (2, False)
    """

    _kind: ClassVar[str] = "flat"
    _parameters: ClassVar[tuple[str, ...]] = ("n_bits", "ties")
    _stored = staticmethod(np.asarray)  # moves an array to the codes: a subclass has them on a GPU

    def __init__(self, n_bits: int, ties: Ties = "id") -> None:
        super().__init__(n_bits, ties)
        n_bytes = code_width(self.n_bits)
        self._word = np.dtype(f"u{gcd(n_bytes, 8)}")  # the widest integer that divides a row
        self._distance = distance_dtype(n_bytes)
        self._size = 0
        self._codes: Codes = np.empty((0, n_bytes), np.uint8)
        self._ids: Ids = np.empty(0, np.int64)
        self._ordered, self._last_id = True, 0  # ids increase with the row, so ties need not compare them
        self._id_rows: IdRows | None = None  # made when it is first needed: a search needs none

    def __len__(self) -> int:
        return self._size

    def __contains__(self, id: object) -> bool:
        return is_id(id) and bool(self._find(np.array([id], np.int64))[0] >= 0)

    @property
    def ids(self) -> Ids:
        """Ids of all items, in storage order."""
        return np.array(self._ids_of(slice(self._size)))

    @property
    def codes(self) -> Codes:
        """Codes of all items, in storage order, read-only."""
        view = self._codes[: self._size]
        view.flags.writeable = False
        return view

    def _get(self, ids: Ids) -> Codes:
        return self._codes[self._stored(self._find_known(ids))]

    def _next_id(self) -> int:
        if not self._size:
            return 0
        return (self._last_id if self._ordered else int(self._ids_of(slice(self._size)).max())) + 1

    def _ids_of(self, rows: Any) -> Ids:
        """Return the ids of rows."""
        ids: Ids = self._ids[rows]
        return ids

    def _stored_ids(self, ids: Ids) -> Any:
        """Return ids as they are stored."""
        return ids

    def _find(self, ids: Ids) -> Rows:
        """Return the row of every id, -1 where there is none."""
        if self._id_rows is None or self._id_rows.is_outdated:
            self._id_rows = IdRows(self._ids_of(slice(self._size)))
        return self._id_rows.find(ids)

    def _find_known(self, ids: Ids) -> Rows:
        """Return the row of every id; all must exist."""
        rows = self._find(ids)
        for id in ids[rows < 0][:1]:
            raise unknown_id(int(id), self._size)
        return rows

    # ------------------------------------------------------------------ changing

    def _put(self, codes: Codes, ids: Ids) -> None:
        if not len(ids):
            return
        if self._follow(ids):  # none is known
            self._make_room(self._size + len(ids))
            self._append(codes, ids)
            return
        rows = self._find(ids)
        known, new = np.flatnonzero(rows >= 0), np.flatnonzero(rows < 0)
        self._make_room(self._size + len(new))
        # What takes memory comes before the first change: a GPU may have none.
        replaced, changed = self._stored(rows[known]), codes[self._stored(known)]
        if len(new):
            self._append(codes[self._stored(new)], ids[new])
        self._codes[replaced] = changed

    def _follow(self, ids: Ids) -> bool:
        """Return whether all stored ids and then the given ones are strictly increasing."""
        return self._ordered and rising(ids) and not (self._size and ids[0] <= self._last_id)

    def _append(self, codes: Codes, ids: Ids) -> None:
        size = self._size + len(codes)
        self._codes[self._size : size], self._ids[self._size : size] = codes, self._stored_ids(ids)
        if self._id_rows is not None:  # last: a GPU may have no memory for the others
            self._id_rows.put(ids, np.arange(self._size, size))
        self._ordered, self._last_id, self._size = self._follow(ids), int(ids[-1]), size

    def _drop(self, ids: Ids) -> None:
        if not len(ids):
            return
        rows = self._find_known(ids)
        self._make_room(self._size)
        size = self._size - len(ids)
        stays = np.ones(len(ids), bool)  # of the rows from size on
        stays[rows[rows >= size] - size] = False
        free, last = rows[rows < size], size + np.flatnonzero(stays)
        assert self._id_rows is not None
        self._id_rows.put(ids, np.full(len(ids), -1))
        if len(free):  # the last items fill the gaps
            here, there = self._stored(free), self._stored(last)
            self._codes[here], self._ids[here] = self._codes[there], self._ids[there]
            self._id_rows.put(self._ids_of(here), free)
        self._ordered = (self._ordered and not len(free)) or size <= 1
        self._size, self._last_id = size, int(self._ids_of(slice(size - 1, size))[0]) if size else 0

    def _make_room(self, size: int) -> None:
        """Make sure that the arrays are writable and long enough."""
        if size <= len(self._ids) and self._ids.flags.writeable:
            return
        room = max(size, 3 * self._size // 2)
        codes, ids = np.zeros((room, self._codes.shape[1]), np.uint8), np.zeros(room, np.int64)
        codes[: self._size], ids[: self._size] = self._codes[: self._size], self._ids[: self._size]
        self._codes, self._ids = codes, ids

    # ------------------------------------------------------------------ searching

    def _chosen(self, among: Ids | None) -> _Items:
        """Return all items, or those of sorted ids: few are gathered, many are all items with a mask."""
        size = self._size
        codes, ids = self._codes[:size], self._ids[:size]
        if among is None:
            return _Items(codes, ids, self._ordered, _NO_MASK, 0, size)
        length = int(among[-1]) - int(among[0]) + 1 if len(among) else 0
        if _ITEMS_PER_GATHERED * len(among) > size and length <= _MASK_BYTES_PER_ITEM * size:
            base, mask = int(among[0]), np.zeros(length, np.uint8)
            mask[among - base] = 1
            return _Items(codes, ids, self._ordered, mask, base, min(len(among), size))
        rows = self._find(among)
        among, rows = among[rows >= 0], rows[rows >= 0]
        return _Items(codes.take(rows, axis=0), among, True, _NO_MASK, 0, len(among))  # 9 times faster than [rows]

    def _search(self, queries: Codes, k: int, among: Ids | None) -> SearchResult[NDArray[Any]]:
        chosen = self._chosen(among)
        words = queries.copy().view(self._word)
        return self._nearest(words.__getitem__, len(words), chosen, chosen.codes.view(self._word), k)

    def _search_asymmetric(self, queries: QueryValues, k: int, among: Ids | None) -> SearchResult[NDArray[Any]]:
        chosen = self._chosen(among)
        return self._nearest(lambda rows: tables_of(queries[rows]), len(queries), chosen, chosen.codes, k)

    def _nearest(
        self, queries: Callable[[slice], NDArray[Any]], n_queries: int, chosen: _Items, words: NDArray[Any], k: int
    ) -> SearchResult[NDArray[Any]]:
        """Return the k nearest of every query; ``queries`` gives a block of them as the kernels need them."""
        k, n_bytes, hashed = min(k, chosen.n_items), chosen.codes.shape[1], self.ties == "hash"
        tile = 512 if n_bytes <= 8 else 256 if n_bytes <= 16 else 128  # larger ones take longer to open
        n_tiles = -(-len(words) // tile)
        bounded = k <= n_tiles and not len(chosen.mask)  # else the nearest of a tile may be one that is left out

        def search(start: int) -> tuple[Ids, Distances]:
            block = queries(slice(start, start + size))
            asymmetric = block.ndim == 3
            ids, dtype = np.empty((len(block), k), np.int64), np.float32 if asymmetric else self._distance
            distances = np.empty(ids.shape, np.float32 if asymmetric else np.int32)
            if ids.size:
                nearest, buffer = np.zeros((len(block), n_tiles), dtype), np.empty(tile, dtype)
                if bounded and not asymmetric and words.shape[1] in (3, 4) and len(block) > 2:
                    nearest_in_planes(block, words, np.zeros((4, tile), words.dtype), nearest)
                elif bounded:
                    nearest_in_tiles(block, words, buffer, nearest)
                top_k(block, words, *chosen[1:5], hashed, nearest, buffer, distances, ids)
            return ids, distances

        allowed: int = vars(config)["NUMBA_NUM_THREADS"]
        n_threads = max(1, min(allowed, n_queries * len(words) // _MIN_DISTANCES_PER_THREAD))
        size = min(_QUERIES_PER_BLOCK, max(_MIN_QUERIES_PER_THREAD, -(-n_queries // n_threads)))
        if n_queries <= size:
            ids, distances = search(0)
        else:
            with ThreadPoolExecutor(n_threads) as pool:  # starts no thread before it is given something
                in_turn: Any = pool.map if n_threads > 1 else map
                found = list(in_turn(search, range(0, n_queries, size)))
            ids, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
        if ids.size and ids[0, -1] == NO_ID and distances[0, -1] >= FAR:  # as many for every query
            n_found = int(np.count_nonzero(distances[0] < FAR))
            ids, distances = ids[:, :n_found], distances[:, :n_found]
        return SearchResult(unmixed(ids) if hashed else ids, distances)

    def _range_search(self, queries: Codes, radius: int, among: Ids | None) -> list[tuple[Ids, Distances]]:
        chosen = self._chosen(among)
        query_words, words = queries.copy().view(self._word), chosen.codes.view(self._word)
        distances = np.empty((1, len(words)), self._distance)
        found = []
        for q in range(len(queries)):
            pairwise_distances(query_words[q : q + 1], words, distances)
            rows = np.flatnonzero(distances[0] <= radius)
            ids, near = chosen.ids[rows], distances[0, rows].astype(np.int32)
            if len(chosen.mask):
                inside = (ids >= chosen.base) & (ids < chosen.base + len(chosen.mask))
                inside[inside] = chosen.mask[ids[inside] - chosen.base] > 0
                ids, near = ids[inside], near[inside]
            order = np.lexsort((self._tie_keys(ids), near))
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
        index._restore(arrays)
        return index

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a file."""
        return {"codes": self._codes[: self._size], "ids": self._ids[: self._size]}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the arrays of a file."""
        self._codes, self._ids = check_codes(arrays["codes"], self.n_bits), arrays["ids"]
        self._ordered, self._last_id = rising(self._ids), int(self._ids[-1]) if len(self._ids) else 0
        self._size = len(self._ids)


class IdRows:
    """Find the rows of ids: in sorted arrays, or in a dictionary of what has changed since they were sorted."""

    def __init__(self, ids: Ids) -> None:
        order = np.argsort(ids, kind="stable")
        self._ids = np.append(ids[order], NO_ID)  # the last is found by ids that are larger than all
        self._rows = np.append(order, -1).astype(np.int32)
        self._changed: dict[int, int] = {}

    @property
    def is_outdated(self) -> bool:
        """Whether sorting again is due."""
        return len(self._changed) > 1024 + len(self._ids) // 8

    def find(self, ids: Ids) -> Rows:
        """Return the row of every id, -1 where there is none."""
        places = np.searchsorted(self._ids, ids)
        rows = np.where(self._ids[places] == ids, self._rows[places], -1)
        if self._changed:
            both = zip(ids.tolist(), rows.tolist(), strict=True)
            rows = np.array([self._changed.get(id, row) for id, row in both], np.int64)
        return rows.astype(np.int64, copy=False)

    def put(self, ids: Ids, rows: Rows) -> None:
        """Set the row of every id; -1 for those that are deleted."""
        self._changed.update(zip(ids.tolist(), rows.tolist(), strict=True))
