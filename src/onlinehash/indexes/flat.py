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
from onlinehash.exceptions import FileFormatError, InvalidInputError, UnknownKeyError
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
        self._rows: dict[int, int] | None = {}
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
        return self._codes[self._find(_as_keys(keys))]

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
        if keys is None:
            first = int(self._keys[: self._size].max()) + 1 if self._size else 0
            new_keys = np.arange(first, first + len(packed))
        else:
            new_keys = _as_keys(keys)
        if len(new_keys) != len(packed):
            raise InvalidInputError(f"There are {len(new_keys)} keys for {len(packed)} codes; pass one key a code.")
        if len(np.unique(new_keys)) != len(new_keys):
            raise InvalidInputError("keys holds a key twice; pass every key once.")
        rows = self._row_of()
        wanted = new_keys.tolist()
        known = np.fromiter((key in rows for key in wanted), bool, len(wanted))
        if known.any():
            self._own()
            self._codes[[rows[key] for key in new_keys[known].tolist()]] = packed[known]
            packed, new_keys = packed[~known], new_keys[~known]
        self._append(packed, new_keys)

    def remove(self, keys: ArrayLike) -> None:
        """Remove items by key; if any key is unknown, nothing is removed."""
        doomed = _as_keys(keys)
        if len(np.unique(doomed)) != len(doomed):
            raise InvalidInputError("keys holds a key twice; pass every key once.")
        self._find(doomed)
        self._own()
        rows = self._row_of()
        for key in doomed.tolist():
            row, last = rows.pop(key), self._size - 1
            if row != last:  # the last item takes the free place
                self._codes[row] = self._codes[last]
                self._keys[row] = self._keys[last]
                rows[int(self._keys[row])] = row
                self._ordered = False
            self._size = last
        self._ordered = self._ordered or self._size <= 1

    # ------------------------------------------------------------------ searching

    def search(self, codes: ArrayLike, k: int) -> Matches:
        """Find the k nearest items of every query.

        Parameters
        ----------
        codes : array-like of uint8, shape (n_queries, n_bytes)
        k : int

        Returns
        -------
        matches : Matches
            Keys and distances of shape (n_queries, min(k, len(index))), nearest first, ties by key.
        """
        queries = check_codes(codes, self.n_bits)
        k = min(check_positive_int("k", k), self._size)
        distances = np.empty((len(queries), k), np.int32)
        keys = np.empty((len(queries), k), np.int64)
        if k and len(queries):
            query_words, words = same_words(queries, self._codes[: self._size])
            buffer = distance_buffer(self._codes.shape[1])
            _kernels.top_k(query_words, words, self._keys[: self._size], self._ordered, buffer, distances, keys)
        return Matches(keys, distances)

    def search_soft(self, soft: ArrayLike, k: int) -> Matches:
        """Find the k nearest items of every soft query, by asymmetric distance.

        Reads every code once a query, as :meth:`search` does, but with a look-up a byte.

        Parameters
        ----------
        soft : array-like of shape (n_queries, n_bits)
            Values from -1 to 1, as :meth:`onlinehash.Encoder.encode_soft` returns.
        k : int

        Returns
        -------
        matches : Matches
            Keys and distances (see :func:`onlinehash.codes.asymmetric_distances`) of shape
            (n_queries, min(k, len(index))), nearest first, ties by key.

        Examples
        --------
        >>> index = FlatIndex(n_bits=2)
        >>> index.add(np.array([[0b00], [0b01], [0b10]], np.uint8))
        >>> found = index.search_soft([[1.0, 0.5]], k=2)
        >>> found.keys, found.distances
        (array([[1, 2]]), array([[0.75, 1.25]], dtype=float32))
        """
        queries = check_soft_codes(soft, self.n_bits)
        k = min(check_positive_int("k", k), self._size)
        distances = np.empty((len(queries), k), np.float32)
        keys = np.empty((len(queries), k), np.int64)
        if k:
            codes, item_keys = self._codes[: self._size], self._keys[: self._size]
            buffer = np.empty(_kernels.TILE, np.float32)
            for rows, tables in byte_tables(queries):
                _kernels.top_k(tables, codes, item_keys, self._ordered, buffer, distances[rows], keys[rows])
        return Matches(keys, distances)

    def search_radius(self, codes: ArrayLike, radius: int) -> list[Matches]:
        """Find all items at most ``radius`` away from every query, the radius included.

        Returns
        -------
        matches : list of Matches
            One a query, nearest first, ties by key.
        """
        queries = check_codes(codes, self.n_bits)
        if isinstance(radius, bool) or not isinstance(radius, (int, np.integer)) or radius < 0:
            raise InvalidInputError(f"radius={radius!r} is not an integer of at least 0.")
        if not self._size or not len(queries):
            return [Matches(np.empty(0, np.int64), np.empty(0, np.int32)) for _ in queries]
        query_words, words = same_words(queries, self._codes[: self._size])
        buffer = distance_buffer(self._codes.shape[1])
        counts = np.empty(len(queries), np.int64)
        _kernels.count_within(query_words, words, radius, buffer, counts)
        matches = []
        for query, count in zip(query_words, counts, strict=True):
            rows, distances = np.empty(count, np.int64), np.empty(count, np.int32)
            _kernels.rows_within(query, words, radius, buffer, rows, distances)
            keys = self._keys[rows]
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
        index._ordered = bool((np.diff(index._keys) > 0).all())
        return index

    # ------------------------------------------------------------------ storage

    def _row_of(self) -> dict[int, int]:
        if self._rows is None:
            self._rows = {key: row for row, key in enumerate(self._keys[: self._size].tolist())}
        return self._rows

    def _find(self, keys: Keys) -> NDArray[np.intp]:
        rows = self._row_of()
        try:
            return np.fromiter((rows[key] for key in keys.tolist()), np.intp, len(keys))
        except KeyError as error:
            raise UnknownKeyError(f"There is no item with key {error.args[0]} in this index of {len(self)}.") from None

    def _own(self) -> None:
        """Copy arrays that are not ours to write to."""
        if not (self._codes.flags.writeable and self._keys.flags.writeable):
            self._codes, self._keys = np.array(self._codes), np.array(self._keys)

    def _append(self, codes: Codes, keys: Keys) -> None:
        if not len(keys):
            return
        size = self._size + len(codes)
        if size > len(self._codes) or not self._codes.flags.writeable:
            room = max(size, 3 * len(self._codes) // 2)
            grown, grown_keys = np.empty((room, codes.shape[1]), np.uint8), np.empty(room, np.int64)
            grown[: self._size], grown_keys[: self._size] = (
                self._codes[: self._size],
                self._keys[: self._size],
            )
            self._codes, self._keys = grown, grown_keys
        rising = bool((np.diff(keys) > 0).all()) and (not self._size or keys[0] > self._keys[self._size - 1])
        self._row_of().update(zip(keys.tolist(), range(self._size, size), strict=True))
        self._codes[self._size : size], self._keys[self._size : size] = codes, keys
        self._ordered, self._size = self._ordered and rising, size


def _as_keys(keys: ArrayLike) -> Keys:
    array = np.asarray(keys)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise InvalidInputError(f"keys has dtype {array.dtype} and shape {array.shape}; pass a 1-D array of integers.")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise InvalidInputError("keys holds integers beyond int64; use smaller ones.")
    return array.astype(np.int64)
