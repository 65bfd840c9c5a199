"""Index: the base class of every index, which validates input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.validation import (
    check_choice,
    check_codes,
    check_ids,
    check_n_bits,
    check_non_negative_int,
    check_positive_int,
    check_query_values,
)
from onlinehash.exceptions import InvalidInputError, TooManyResultsError, UnknownIdError, counted
from onlinehash.indexes.kernels import mixed, unmixed
from onlinehash.types import Codes, Distances, Ids, QueryValues, SearchResult

Ties = Literal["id", "hash"]


class Index(ABC):
    """Packed codes under integer ids, searched by Hamming distance.

    Input is checked here, once; a subclass gets packed codes of the right width, distinct int64 ids, and ``among``
    sorted or None. :func:`onlinehash.checks.check_index` tests a subclass against this contract. Several threads may
    search at once; a change must not overlap with searches or other changes.

    Parameters
    ----------
    n_bits : int
        Length of the codes.
    ties : {"id", "hash"}, default="id"
        Order of items at the same distance. With "hash", it is an order that looks random and is always the same, in
        every index, so that the first k are a fair draw: with ids in order of arrival, "id" always prefers old items.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import FlatIndex
    >>> index = FlatIndex(n_bits=8)
    >>> isinstance(index, Index)
    True
    >>> index.upsert(np.array([[0b0000], [0b0001], [0b0111]], np.uint8), ids=[10, 20, 30])
    >>> index.search(np.array([[0b0001]], np.uint8), k=2, ids=[10, 30, 40]).ids
    array([[10, 30]])
    """

    _check_codes = staticmethod(check_codes)

    def __init__(self, n_bits: int, ties: Ties = "id") -> None:
        self.n_bits = check_n_bits(n_bits)
        check_choice("ties", ties, ("id", "hash"))
        self.ties = ties

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __contains__(self, id: object) -> bool: ...

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {counted(len(self), 'code')} of {self.n_bits} bits>"

    @property
    def supports_asymmetric(self) -> bool:
        """Whether :meth:`search` takes ``asymmetric=True``: whether the subclass defines ``_search_asymmetric``."""
        return type(self)._search_asymmetric is not Index._search_asymmetric

    @property
    @abstractmethod
    def ids(self) -> Ids:
        """Ids of all items."""

    @property
    @abstractmethod
    def codes(self) -> Codes:
        """Codes of all items, in the order of `ids`, read-only."""

    def get(self, ids: ArrayLike) -> Codes:
        """Return the codes of the given ids."""
        return self._get(check_item_ids(ids))

    def upsert(self, codes: ArrayLike, ids: ArrayLike | None = None) -> None:
        """Insert items, or replace the codes of existing ids.

        Parameters
        ----------
        codes : array-like of uint8, shape (n_items, n_bytes)
            May be read-only or memory-mapped.
        ids : array-like of int, shape (n_items,), optional
            Distinct. By default, items are numbered from the largest id + 1.
        """
        packed = self._check_codes(codes, self.n_bits)
        self._put(packed, self._new_ids(len(packed)) if ids is None else check_different_ids(ids, len(packed)))

    def delete(self, ids: ArrayLike) -> None:
        """Delete items by id; if any id is unknown, nothing is deleted."""
        self._drop(check_different_ids(ids))

    def search(
        self, codes: ArrayLike, k: int, *, ids: ArrayLike | None = None, asymmetric: bool = False
    ) -> SearchResult[NDArray[Any]]:
        """Find the k nearest items of every query.

        Parameters
        ----------
        codes : array-like of uint8, shape (n_queries, n_bytes)
            With ``asymmetric``, values from -1 to 1 of shape (n_queries, n_bits), as
            :meth:`onlinehash.Encoder.encode_asymmetric` returns.
        k : int
        ids : array-like of int, optional
            Ids of the items to search among, all by default. Unknown ids are ignored.
        asymmetric : bool, default=False
            Rank by :func:`onlinehash.codes.asymmetric_distances` instead of the Hamming distance.

        Returns
        -------
        result : SearchResult
            Ids and distances of shape (n_queries, min(k, number of items searched)), nearest first, then in the
            order of `ties`.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash import FlatIndex
        >>> index = FlatIndex(n_bits=2)
        >>> index.upsert(np.array([[0b00], [0b01], [0b10]], np.uint8))
        >>> found = index.search([[1.0, 0.5]], k=2, asymmetric=True)
        >>> found.ids, found.distances
        (array([[1, 2]]), array([[0.75, 1.25]], dtype=float32))
        """
        k = check_positive_int("k", k)
        among = None if ids is None else check_id_filter(ids)
        if not asymmetric:
            return self._search(self._check_codes(codes, self.n_bits), k, among)
        return self._search_asymmetric(self._check_values(codes), k, among)

    def range_search(
        self, codes: ArrayLike, radius: int, *, ids: ArrayLike | None = None, max_results: int | None = None
    ) -> SearchResult[Any]:
        """Find all items at most ``radius`` away from every query (inclusive).

        Parameters
        ----------
        codes : array-like of uint8, shape (n_queries, n_bytes)
        radius : int
        ids : array-like of int, optional
            Ids of the items to search among, as for :meth:`search`.
        max_results : int, optional
            Raise :class:`~onlinehash.exceptions.TooManyResultsError` as soon as all queries together find more.

        Returns
        -------
        result : SearchResult
            Ids and distances as lists of one array per query, nearest first, then in the order of `ties`.
        """
        queries = self._check_codes(codes, self.n_bits)
        radius = min(check_non_negative_int("radius", radius), self.n_bits)
        among = None if ids is None else check_id_filter(ids)
        if max_results is None:
            found = self._range_search(queries, radius, among)
        else:
            found, n_found = [], 0
            for q in range(len(queries)):
                found += self._range_search(queries[q : q + 1], radius, among)
                n_found += len(found[-1][0])
                if n_found > max_results:
                    raise TooManyResultsError.of(n_found, max_results)
        return SearchResult([ids for ids, _ in found], [distances for _, distances in found])

    # ------------------------------------------------------------------ for subclasses

    def _new_ids(self, n_items: int) -> Ids:
        first = self._next_id()
        if first + n_items > np.iinfo(np.int64).max:
            raise InvalidInputError(f"Ids from {first} to {first + n_items - 1} do not all fit into int64; pass ids.")
        return np.arange(first, first + n_items)

    def _tie_keys(self, ids: Ids) -> Ids:
        """Return the integers that order items at the same distance, one of its own for every id."""
        return mixed(ids) if self.ties == "hash" else ids

    def _ids_of_keys(self, keys: Ids) -> Ids:
        """Return the ids of what :meth:`_tie_keys` returned."""
        return unmixed(keys) if self.ties == "hash" else keys

    def _check_values(self, values: ArrayLike) -> QueryValues:
        return check_query_values(values, self.n_bits)

    @abstractmethod
    def _get(self, ids: Ids) -> Codes: ...

    def _next_id(self) -> int:
        return int(self.ids.max()) + 1 if len(self) else 0

    @abstractmethod
    def _put(self, codes: Codes, ids: Ids) -> None: ...

    @abstractmethod
    def _drop(self, ids: Ids) -> None: ...

    @abstractmethod
    def _search(self, queries: Codes, k: int, among: Ids | None) -> SearchResult[NDArray[Any]]: ...

    @abstractmethod
    def _range_search(self, queries: Codes, radius: int, among: Ids | None) -> list[tuple[Ids, Distances]]: ...

    def _search_asymmetric(self, queries: QueryValues, k: int, among: Ids | None) -> SearchResult[NDArray[Any]]:
        raise InvalidInputError(f"{type(self).__name__} has no asymmetric search; leave asymmetric out.")


def check_item_ids(ids: ArrayLike) -> Ids:
    """Return ids as a new array of int64."""
    column = check_ids(ids)
    if getattr(ids, "ndim", not np.isscalar(ids)) == 0 or (len(column) and isinstance(column[0], str)):
        raise InvalidInputError("ids is not a 1-D array of integers; pass one.")
    return np.array(column, np.int64)


def check_different_ids(ids: ArrayLike, n_codes: int | None = None) -> Ids:
    """Return ids as a new array of int64, checked to be distinct, and one per code."""
    array = ids if type(ids) is np.ndarray and ids.dtype == np.int64 and ids.ndim == 1 else check_item_ids(ids)
    if not rising(array) and not rising(np.sort(array)):
        raise InvalidInputError("ids contains an id twice; pass every id once.")
    if n_codes is not None and len(array) != n_codes:
        raise InvalidInputError(f"ids has length {len(array)}, but codes has length {n_codes}; pass one id per code.")
    return array


def check_id_filter(ids: ArrayLike) -> Ids:
    """Return the allowed ids, sorted and distinct."""
    array = check_item_ids(ids)
    return array if rising(array) else np.unique(array)


def rising(ids: Ids) -> bool:
    """Return whether the ids are strictly increasing."""
    return bool((ids[1:] > ids[:-1]).all())


def is_id(value: object) -> TypeGuard[int]:
    """Return whether a value can be an id: an integer of 64 bits."""
    return isinstance(value, (int, np.integer)) and -(2**63) <= int(value) < 2**63


def unknown_id(id: int, n_items: int) -> UnknownIdError:
    """Return the error that there is no such id."""
    return UnknownIdError(f"There is no item with id {id} in this index of {n_items}.")
