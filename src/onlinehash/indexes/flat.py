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
from onlinehash.indexes._keys import rising
from onlinehash.indexes._tables import KeyTable, grown
from onlinehash.indexes.index import SoftIndex
from onlinehash.types import Codes, Keys, Matches, SoftCodes

_LAYOUT = 1


class FlatIndex(SoftIndex):
    """Search packed codes exactly by Hamming distance, by scanning all of them.

    An item keeps its integer key when others are removed. Adding, replacing and removing cost O(1) per item; a search
    reads every code once per query. Ties are ordered by key.

    Parameters
    ----------
    n_bits : int
        Length of the codes.

    Examples
    --------
    >>> index = FlatIndex(n_bits=8)
    >>> index.add(np.array([[0b0000], [0b0001], [0b0111]], np.uint8), keys=[10, 20, 30])
    >>> found = index.search(np.array([[0b0011]], np.uint8), k=2)
    >>> found.keys, found.distances
    (array([[20, 30]]), array([[1, 1]], dtype=int32))
    >>> index.remove([20])
    >>> len(index), 20 in index
    (2, False)
    """

    def __init__(self, n_bits: int) -> None:
        super().__init__(n_bits)
        self._codes: Codes = np.empty((0, code_width(self.n_bits)), np.uint8)
        self._keys: Keys = np.empty(0, np.int64)
        self._rows: KeyTable | None = None
        self._size = 0
        self._ordered = True  # keys increase with the row, so ties need not compare them

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: object) -> bool:
        return key in self._row_of()

    @property
    def keys(self) -> Keys:
        """Keys of all items, in storage order."""
        return self._keys[: self._size].copy()

    @property
    def codes(self) -> Codes:
        """Codes of all items, in storage order, read-only."""
        view = self._codes[: self._size]
        view.flags.writeable = False
        return view

    def _get(self, keys: Keys) -> Codes:
        return self._codes[self._row_of().find_known(keys)]

    # ------------------------------------------------------------------ changing

    def _put(self, codes: Codes, keys: Keys) -> None:
        rows = self._row_of().find(keys)
        known = rows >= 0
        if known.any():
            self._make_room(self._size)
            self._codes[rows[known]] = codes[known]
            codes, keys = codes[~known], keys[~known]
        if len(keys):
            self._append(codes, keys)

    def _drop(self, keys: Keys) -> None:
        table = self._row_of()
        rows = table.find_known(keys)
        self._make_room(self._size)
        table.drop(keys)
        size = self._size - len(keys)
        stays = np.ones(len(keys), bool)
        stays[rows[rows >= size] - size] = False
        free, last = rows[rows < size], size + np.flatnonzero(stays)
        if len(free):  # the last items fill the gaps
            self._codes[free], self._keys[free] = self._codes[last], self._keys[last]
            table.put(self._keys[free], free)
        self._ordered = (self._ordered and not len(free)) or size <= 1
        self._size = size

    # ------------------------------------------------------------------ searching

    def _search(self, queries: Codes, k: int, within: Keys | None) -> Matches:
        items, item_keys, ordered = self._among(within)
        k = min(k, len(items))
        distances = np.empty((len(queries), k), np.int32)
        keys = np.empty((len(queries), k), np.int64)
        if k and len(queries):
            query_words, words = same_words(queries, items)
            _kernels.top_k(query_words, words, item_keys, ordered, distance_buffer(items.shape[1]), distances, keys)
        return Matches(keys, distances)

    def _search_soft(self, queries: SoftCodes, k: int, within: Keys | None) -> Matches:
        items, item_keys, ordered = self._among(within)
        k = min(k, len(items))
        distances = np.empty((len(queries), k), np.float32)
        keys = np.empty((len(queries), k), np.int64)
        if k:
            buffer = np.empty(_kernels.TILE, np.float32)
            for rows, tables in byte_tables(queries):
                _kernels.top_k(tables, items, item_keys, ordered, buffer, distances[rows], keys[rows])
        return Matches(keys, distances)

    def _search_radius(self, queries: Codes, radius: int, within: Keys | None) -> list[Matches]:
        items, item_keys, _ = self._among(within)
        if not len(items) or not len(queries):
            return [Matches(np.empty(0, np.int64), np.empty(0, np.int32)) for _ in queries]
        query_words, words = same_words(queries, items)
        buffer = distance_buffer(items.shape[1])
        counts = np.empty(len(queries), np.int64)
        _kernels.count_within(query_words, words, radius, buffer, counts)
        matches = []
        for query, count in zip(query_words, counts, strict=True):
            rows, distances = np.empty(count, np.int64), np.empty(count, np.int32)
            _kernels.rows_within(query, words, radius, buffer, rows, distances)
            keys = item_keys[rows]
            order = np.lexsort((keys, distances))
            matches.append(Matches(keys[order], distances[order]))
        return matches

    # ------------------------------------------------------------------ saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to one file (safetensors, no pickle)."""
        arrays: dict[str, NDArray[Any]] = {
            "codes": self._codes[: self._size],
            "keys": self._keys[: self._size],
        }
        write_arrays(path, "index", _LAYOUT, {"index": "flat", "n_bits": self.n_bits}, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> FlatIndex:
        """Read an index that :meth:`save` wrote; with ``mmap`` codes stay on disk until the first change."""
        header, arrays = read_arrays(path, "index", _LAYOUT, mmap=mmap)
        if header["index"] != "flat":
            raise FileFormatError(f"{path} holds an index of kind {header['index']!r}, not 'flat'.")
        index = cls(header["n_bits"])
        index._codes, index._keys = check_codes(arrays["codes"], index.n_bits), arrays["keys"]
        index._size = len(index._keys)
        index._rows = None  # built on the first lookup of a key; a search does not need it
        index._ordered = rising(index._keys)
        return index

    # ------------------------------------------------------------------ storage

    def _among(self, within: Keys | None) -> tuple[Codes, Keys, bool]:
        """Return the codes and keys to search, and whether the keys are sorted."""
        if within is None:
            return self._codes[: self._size], self._keys[: self._size], self._ordered
        rows = self._row_of().find(within)
        return self._codes[rows[rows >= 0]], within[rows >= 0], True

    def _next_key(self) -> int:
        return int(self._keys[: self._size].max()) + 1 if self._size else 0

    def _row_of(self) -> KeyTable:
        if self._rows is None:
            self._rows = KeyTable(self._keys[: self._size], np.arange(self._size, dtype=np.int32))
        return self._rows

    def _make_room(self, size: int) -> None:
        """Make sure that the arrays are writable and long enough."""
        self._codes, self._keys = (grown(array, self._size, size) for array in (self._codes, self._keys))

    def _append(self, codes: Codes, keys: Keys) -> None:
        size = self._size + len(codes)
        self._make_room(size)
        self._row_of().put(keys, np.arange(self._size, size, dtype=np.int32))
        follows = not self._size or bool(keys[0] > self._keys[self._size - 1])
        self._codes[self._size : size], self._keys[self._size : size] = codes, keys
        self._ordered, self._size = self._ordered and follows and rising(keys), size
