"""FlatIndex: the exact scan, and the oracle for every other index."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._files import read_arrays, write_arrays
from onlinehash._validation import check_codes, check_n_bits, check_positive_int, check_soft_codes
from onlinehash.codes import _kernels, code_width
from onlinehash.codes.asymmetric import byte_tables
from onlinehash.codes.hamming import distance_buffer, same_words
from onlinehash.exceptions import FileFormatError
from onlinehash.indexes._keys import (
    check_different_keys,
    check_keys,
    check_new_keys,
    check_radius,
    check_within,
    rising,
)
from onlinehash.indexes._tables import KeyTable, grown
from onlinehash.types import Codes, Keys, Matches

_LAYOUT = 1


class FlatIndex:
    """Search packed codes exactly by Hamming distance, by scanning all of them.

    Items have integer keys that stay theirs whatever is removed. Adding, replacing and removing cost O(1) an item; a
    search reads every code once a query. Ties are ordered by key.

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
        self.n_bits = check_n_bits(n_bits)
        self._codes: Codes = np.empty((0, code_width(self.n_bits)), np.uint8)
        self._keys: Keys = np.empty(0, np.int64)
        self._rows: KeyTable | None = None
        self._size = 0
        self._ordered = True  # keys rise with the row, so that ties need no look at them

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: object) -> bool:
        return key in self._row_of()

    def __repr__(self) -> str:
        return f"<FlatIndex of {len(self)} codes of {self.n_bits} bits>"

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

    def get(self, keys: ArrayLike) -> Codes:
        """Return the codes of the given keys."""
        return self._codes[self._row_of().find_known(check_keys(keys))]

    # ------------------------------------------------------------------ changing

    def add(self, codes: ArrayLike, keys: ArrayLike | None = None) -> None:
        """Add items; a key that is there already gets the new code.

        Parameters
        ----------
        codes : array-like of uint8, shape (n_items, n_bytes)
            May be read-only or memory-mapped.
        keys : array-like of int, shape (n_items,), optional
            All different. Without them, items are numbered on from the largest key.
        """
        packed = check_codes(codes, self.n_bits)
        new_keys = check_new_keys(keys, packed, self._next_key() if keys is None else 0)
        rows = self._row_of().find(new_keys)
        known = rows >= 0
        if known.any():
            self._make_room(self._size)
            self._codes[rows[known]] = packed[known]
            packed, new_keys = packed[~known], new_keys[~known]
        if len(new_keys):
            self._append(packed, new_keys)

    def remove(self, keys: ArrayLike) -> None:
        """Remove items by key; if any key is unknown, nothing is removed."""
        doomed = check_different_keys(keys)
        table = self._row_of()
        rows = table.find_known(doomed)
        self._make_room(self._size)
        table.drop(doomed)
        size = self._size - len(doomed)
        stays = np.ones(len(doomed), bool)
        stays[rows[rows >= size] - size] = False
        free, last = rows[rows < size], size + np.flatnonzero(stays)
        if len(free):  # the last items take the free places
            self._codes[free], self._keys[free] = self._codes[last], self._keys[last]
            table.put(self._keys[free], free)
        self._ordered = (self._ordered and not len(free)) or size <= 1
        self._size = size

    # ------------------------------------------------------------------ searching

    def search(self, codes: ArrayLike, k: int, *, within: ArrayLike | None = None) -> Matches:
        """Find the k nearest items of every query.

        Parameters
        ----------
        codes : array-like of uint8, shape (n_queries, n_bytes)
        k : int
        within : array-like of int, optional
            Keys of the items to search among, all by default. Keys without an item are passed over.

        Returns
        -------
        matches : Matches
            Keys and distances of shape (n_queries, min(k, number of items searched)), nearest first, ties by key.

        Examples
        --------
        >>> index = FlatIndex(n_bits=8)
        >>> index.add(np.array([[0b0000], [0b0001], [0b0111]], np.uint8), keys=[10, 20, 30])
        >>> index.search(np.array([[0b0001]], np.uint8), k=2, within=[10, 30, 40]).keys
        array([[10, 30]])
        """
        queries, k = check_codes(codes, self.n_bits), check_positive_int("k", k)
        items, item_keys, ordered = self._among(within)
        k = min(k, len(items))
        distances = np.empty((len(queries), k), np.int32)
        keys = np.empty((len(queries), k), np.int64)
        if k and len(queries):
            query_words, words = same_words(queries, items)
            _kernels.top_k(query_words, words, item_keys, ordered, distance_buffer(items.shape[1]), distances, keys)
        return Matches(keys, distances)

    def search_soft(self, soft: ArrayLike, k: int, *, within: ArrayLike | None = None) -> Matches:
        """Find the k nearest items of every soft query, by asymmetric distance.

        Reads every code once a query, as :meth:`search` does, but with a look-up a byte.

        Parameters
        ----------
        soft : array-like of shape (n_queries, n_bits)
            Values from -1 to 1, as :meth:`onlinehash.Encoder.encode_soft` returns.
        k : int
        within : array-like of int, optional
            Keys of the items to search among, as for :meth:`search`.

        Returns
        -------
        matches : Matches
            As for :meth:`search`, with distances of :func:`onlinehash.codes.asymmetric_distances`.

        Examples
        --------
        >>> index = FlatIndex(n_bits=2)
        >>> index.add(np.array([[0b00], [0b01], [0b10]], np.uint8))
        >>> found = index.search_soft([[1.0, 0.5]], k=2)
        >>> found.keys, found.distances
        (array([[1, 2]]), array([[0.75, 1.25]], dtype=float32))
        """
        queries, k = check_soft_codes(soft, self.n_bits), check_positive_int("k", k)
        items, item_keys, ordered = self._among(within)
        k = min(k, len(items))
        distances = np.empty((len(queries), k), np.float32)
        keys = np.empty((len(queries), k), np.int64)
        if k:
            buffer = np.empty(_kernels.TILE, np.float32)
            for rows, tables in byte_tables(queries):
                _kernels.top_k(tables, items, item_keys, ordered, buffer, distances[rows], keys[rows])
        return Matches(keys, distances)

    def search_radius(self, codes: ArrayLike, radius: int, *, within: ArrayLike | None = None) -> list[Matches]:
        """Find all items at most ``radius`` away from every query, the radius included.

        Parameters
        ----------
        codes : array-like of uint8, shape (n_queries, n_bytes)
        radius : int
        within : array-like of int, optional
            Keys of the items to search among, as for :meth:`search`.

        Returns
        -------
        matches : list of Matches
            One a query, nearest first, ties by key.
        """
        queries, radius = check_codes(codes, self.n_bits), check_radius(radius)
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
        index._rows = None  # made when a key is first asked for: a search needs none
        index._ordered = rising(index._keys)
        return index

    # ------------------------------------------------------------------ storage

    def _among(self, within: ArrayLike | None) -> tuple[Codes, Keys, bool]:
        """Return the codes and keys to search among, and whether the keys rise."""
        if within is None:
            return self._codes[: self._size], self._keys[: self._size], self._ordered
        keys = check_within(within)
        rows = self._row_of().find(keys)
        return self._codes[rows[rows >= 0]], keys[rows >= 0], True

    def _next_key(self) -> int:
        return int(self._keys[: self._size].max()) + 1 if self._size else 0

    def _row_of(self) -> KeyTable:
        if self._rows is None:
            self._rows = KeyTable(self._keys[: self._size], np.arange(self._size, dtype=np.int32))
        return self._rows

    def _make_room(self, size: int) -> None:
        """Have arrays that are ours to write to, and long enough."""
        self._codes, self._keys = (grown(array, self._size, size) for array in (self._codes, self._keys))

    def _append(self, codes: Codes, keys: Keys) -> None:
        size = self._size + len(codes)
        self._make_room(size)
        self._row_of().put(keys, np.arange(self._size, size, dtype=np.int32))
        follows = not self._size or bool(keys[0] > self._keys[self._size - 1])
        self._codes[self._size : size], self._keys[self._size : size] = codes, keys
        self._ordered, self._size = self._ordered and follows and rising(keys), size
