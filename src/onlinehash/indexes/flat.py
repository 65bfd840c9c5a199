"""FlatIndex: the exact scan, and the oracle for every other index."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import read_arrays, write_arrays
from onlinehash._validation import check_codes
from onlinehash.codes import _kernels, code_width
from onlinehash.codes.asymmetric import byte_tables
from onlinehash.codes.hamming import distance_buffer, same_words
from onlinehash.exceptions import FileFormatError
from onlinehash.indexes._ids import rising
from onlinehash.indexes._tables import KeyTable, grown
from onlinehash.indexes.index import Index
from onlinehash.types import Codes, Distances, Ids, QueryValues, SearchResult

_LAYOUT = 1


class FlatIndex(Index):
    """Search packed codes exactly by Hamming distance, by scanning all of them.

    An item keeps its integer id when others are removed. Adding, replacing and removing cost O(1) per item; a search
    reads every code once per query. Ties are ordered by id.

    Parameters
    ----------
    n_bits : int
        Length of the codes.

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

    supports_asymmetric = True

    def __init__(self, n_bits: int) -> None:
        super().__init__(n_bits)
        self._codes: Codes = np.empty((0, code_width(self.n_bits)), np.uint8)
        self._ids: Ids = np.empty(0, np.int64)
        self._rows: KeyTable | None = None
        self._size = 0
        self._ordered = True  # ids increase with the row, so ties need not compare them

    def __len__(self) -> int:
        return self._size

    def __contains__(self, id: object) -> bool:
        return id in self._row_of()

    @property
    def ids(self) -> Ids:
        """Ids of all items, in storage order."""
        return self._ids[: self._size].copy()

    @property
    def codes(self) -> Codes:
        """Codes of all items, in storage order, read-only."""
        view = self._codes[: self._size]
        view.flags.writeable = False
        return view

    def _get(self, ids: Ids) -> Codes:
        return self._codes[self._row_of().find_known(ids)]

    # ------------------------------------------------------------------ changing

    def _put(self, codes: Codes, ids: Ids) -> None:
        rows = self._row_of().find(ids)
        known = rows >= 0
        if known.any():
            self._make_room(self._size)
            self._codes[rows[known]] = codes[known]
            codes, ids = codes[~known], ids[~known]
        if len(ids):
            self._append(codes, ids)

    def _drop(self, ids: Ids) -> None:
        table = self._row_of()
        rows = table.find_known(ids)
        self._make_room(self._size)
        table.drop(ids)
        size = self._size - len(ids)
        stays = np.ones(len(ids), bool)
        stays[rows[rows >= size] - size] = False
        free, last = rows[rows < size], size + np.flatnonzero(stays)
        if len(free):  # the last items fill the gaps
            self._codes[free], self._ids[free] = self._codes[last], self._ids[last]
            table.put(self._ids[free], free)
        self._ordered = (self._ordered and not len(free)) or size <= 1
        self._size = size

    # ------------------------------------------------------------------ searching

    def _search(self, queries: Codes, k: int, among: Ids | None) -> SearchResult:
        items, item_ids, ordered = self._among(among)
        k = min(k, len(items))
        distances = np.empty((len(queries), k), np.int32)
        ids = np.empty((len(queries), k), np.int64)
        if k and len(queries):
            query_words, words = same_words(queries, items)
            _kernels.top_k(query_words, words, item_ids, ordered, distance_buffer(items.shape[1]), distances, ids)
        return SearchResult(ids, distances)

    def _search_asymmetric(self, queries: QueryValues, k: int, among: Ids | None) -> SearchResult:
        items, item_ids, ordered = self._among(among)
        k = min(k, len(items))
        distances = np.empty((len(queries), k), np.float32)
        ids = np.empty((len(queries), k), np.int64)
        if k:
            buffer = np.empty(_kernels.TILE, np.float32)
            for rows, tables in byte_tables(queries):
                _kernels.top_k(tables, items, item_ids, ordered, buffer, distances[rows], ids[rows])
        return SearchResult(ids, distances)

    def _range_search(self, queries: Codes, radius: int, among: Ids | None) -> list[tuple[Ids, Distances]]:
        items, item_ids, _ = self._among(among)
        if not len(items) or not len(queries):
            return [(np.empty(0, np.int64), np.empty(0, np.int32)) for _ in queries]
        query_words, words = same_words(queries, items)
        buffer = distance_buffer(items.shape[1])
        counts = np.empty(len(queries), np.int64)
        _kernels.count_within(query_words, words, radius, buffer, counts)
        found = []
        for query, count in zip(query_words, counts, strict=True):
            rows, distances = np.empty(count, np.int64), np.empty(count, np.int32)
            _kernels.rows_within(query, words, radius, buffer, rows, distances)
            ids = item_ids[rows]
            order = np.lexsort((ids, distances))
            found.append((ids[order], distances[order]))
        return found

    # ------------------------------------------------------------------ saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to one file (safetensors, no pickle)."""
        arrays: dict[str, NDArray[Any]] = {
            "codes": self._codes[: self._size],
            "ids": self._ids[: self._size],
        }
        write_arrays(path, "index", _LAYOUT, {"index": "flat", "n_bits": self.n_bits}, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> FlatIndex:
        """Read an index that :meth:`save` wrote; with ``mmap`` codes stay on disk until the first change."""
        header, arrays = read_arrays(path, "index", _LAYOUT, mmap=mmap)
        if header["index"] != "flat":
            raise FileFormatError(f"{path} holds an index of kind {header['index']!r}, not 'flat'.")
        index = cls(header["n_bits"])
        index._codes, index._ids = check_codes(arrays["codes"], index.n_bits), arrays["ids"]
        index._size = len(index._ids)
        index._rows = None  # built on the first lookup of an id; a search does not need it
        index._ordered = rising(index._ids)
        return index

    # ------------------------------------------------------------------ storage

    def _among(self, among: Ids | None) -> tuple[Codes, Ids, bool]:
        """Return the codes and ids to search, and whether the ids are sorted."""
        if among is None:
            return self._codes[: self._size], self._ids[: self._size], self._ordered
        rows = self._row_of().find(among)
        return self._codes[rows[rows >= 0]], among[rows >= 0], True

    def _next_id(self) -> int:
        return int(self._ids[: self._size].max()) + 1 if self._size else 0

    def _row_of(self) -> KeyTable:
        if self._rows is None:
            self._rows = KeyTable(self._ids[: self._size], np.arange(self._size, dtype=np.int32))
        return self._rows

    def _make_room(self, size: int) -> None:
        """Make sure that the arrays are writable and long enough."""
        self._codes, self._ids = (grown(array, self._size, size) for array in (self._codes, self._ids))

    def _append(self, codes: Codes, ids: Ids) -> None:
        size = self._size + len(codes)
        self._make_room(size)
        self._row_of().put(ids, np.arange(self._size, size, dtype=np.int32))
        follows = not self._size or bool(ids[0] > self._ids[self._size - 1])
        self._codes[self._size : size], self._ids[self._size : size] = codes, ids
        self._ordered, self._size = self._ordered and follows and rising(ids), size
