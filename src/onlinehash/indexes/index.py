"""Index: the base class of every index, which validates input."""

from __future__ import annotations

from abc import ABC, abstractmethod

from numpy.typing import ArrayLike

from onlinehash._validation import check_codes, check_n_bits, check_positive_int, check_soft_codes
from onlinehash.indexes._keys import check_different_keys, check_keys, check_new_keys, check_radius, check_within
from onlinehash.types import Codes, Keys, Matches, SoftCodes


class Index(ABC):
    """Packed codes under integer keys, searched by Hamming distance.

    Input is checked here, once; a subclass gets packed codes of the right width, distinct int64 keys, and ``within``
    sorted or None. :func:`onlinehash.checks.check_index` tests a subclass against this contract.

    Parameters
    ----------
    n_bits : int
        Length of the codes.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import FlatIndex
    >>> index = FlatIndex(n_bits=8)
    >>> isinstance(index, Index)
    True
    >>> index.add(np.array([[0b0000], [0b0001], [0b0111]], np.uint8), keys=[10, 20, 30])
    >>> index.search(np.array([[0b0001]], np.uint8), k=2, within=[10, 30, 40]).keys
    array([[10, 30]])
    """

    def __init__(self, n_bits: int) -> None:
        self.n_bits = check_n_bits(n_bits)

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __contains__(self, key: object) -> bool: ...

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} codes of {self.n_bits} bits>"

    @property
    @abstractmethod
    def keys(self) -> Keys:
        """Keys of all items."""

    @property
    @abstractmethod
    def codes(self) -> Codes:
        """Codes of all items, in the order of `keys`, read-only."""

    def get(self, keys: ArrayLike) -> Codes:
        """Return the codes of the given keys."""
        return self._get(check_keys(keys))

    def add(self, codes: ArrayLike, keys: ArrayLike | None = None) -> None:
        """Add items; an existing key gets the new code.

        Parameters
        ----------
        codes : array-like of uint8, shape (n_items, n_bytes)
            May be read-only or memory-mapped.
        keys : array-like of int, shape (n_items,), optional
            Distinct. By default, items are numbered from the largest key + 1.
        """
        packed = check_codes(codes, self.n_bits)
        self._put(packed, check_new_keys(keys, packed, self._next_key() if keys is None else 0))

    def remove(self, keys: ArrayLike) -> None:
        """Remove items by key; if any key is unknown, nothing is removed."""
        self._drop(check_different_keys(keys))

    def search(self, codes: ArrayLike, k: int, *, within: ArrayLike | None = None) -> Matches:
        """Find the k nearest items of every query.

        Parameters
        ----------
        codes : array-like of uint8, shape (n_queries, n_bytes)
        k : int
        within : array-like of int, optional
            Keys of the items to search among, all by default. Unknown keys are ignored.

        Returns
        -------
        matches : Matches
            Keys and distances of shape (n_queries, min(k, number of items searched)), nearest first, ties by key.
        """
        queries, k = check_codes(codes, self.n_bits), check_positive_int("k", k)
        return self._search(queries, k, None if within is None else check_within(within))

    def range_search(self, codes: ArrayLike, radius: int, *, within: ArrayLike | None = None) -> list[Matches]:
        """Find all items at most ``radius`` away from every query (inclusive).

        Parameters
        ----------
        codes : array-like of uint8, shape (n_queries, n_bytes)
        radius : int
        within : array-like of int, optional
            Keys of the items to search among, as for :meth:`search`.

        Returns
        -------
        matches : list of Matches
            One per query, nearest first, ties by key.
        """
        queries, radius = check_codes(codes, self.n_bits), check_radius(radius)
        return self._search_radius(queries, radius, None if within is None else check_within(within))

    # ------------------------------------------------------------------ for subclasses

    @abstractmethod
    def _get(self, keys: Keys) -> Codes: ...

    @abstractmethod
    def _next_key(self) -> int: ...

    @abstractmethod
    def _put(self, codes: Codes, keys: Keys) -> None: ...

    @abstractmethod
    def _drop(self, keys: Keys) -> None: ...

    @abstractmethod
    def _search(self, queries: Codes, k: int, within: Keys | None) -> Matches: ...

    @abstractmethod
    def _search_radius(self, queries: Codes, radius: int, within: Keys | None) -> list[Matches]: ...


class SoftIndex(Index):
    """An index that also compares the real values of a query with the bits of its items.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import FlatIndex
    >>> index = FlatIndex(n_bits=2)
    >>> index.add(np.array([[0b00], [0b01], [0b10]], np.uint8))
    >>> found = index.search_soft([[1.0, 0.5]], k=2)
    >>> found.keys, found.distances
    (array([[1, 2]]), array([[0.75, 1.25]], dtype=float32))
    """

    def search_soft(self, soft: ArrayLike, k: int, *, within: ArrayLike | None = None) -> Matches:
        """Find the k nearest items of every soft query, by asymmetric distance.

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
        """
        queries, k = check_soft_codes(soft, self.n_bits), check_positive_int("k", k)
        return self._search_soft(queries, k, None if within is None else check_within(within))

    @abstractmethod
    def _search_soft(self, queries: SoftCodes, k: int, within: Keys | None) -> Matches: ...
