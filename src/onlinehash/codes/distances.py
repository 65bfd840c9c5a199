"""Distances between packed codes: Hamming distances, and asymmetric ones, where the query keeps its real values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.validation import check_codes, check_query_values
from onlinehash.codes import kernels
from onlinehash.codes.packing import code_width
from onlinehash.types import Codes, QueryValues

_QUERIES_PER_TABLE = 64  # number of queries whose tables are in memory at a time


def as_words(codes: Codes) -> NDArray[np.uint64]:
    """Copy rows of bytes to rows of 64-bit words, padded with zeros: one type for codes of any width."""
    n_rows, n_bytes = codes.shape
    words = np.zeros((n_rows, -(-n_bytes // 8)), np.uint64)
    words.view(np.uint8)[:, :n_bytes] = codes
    return words


def distance_dtype(n_bytes: int) -> type[np.unsignedinteger[Any]]:
    """Return the smallest integer type that holds every distance between codes of that width."""
    return next(dtype for dtype in (np.uint8, np.uint16, np.uint32) if n_bytes * 8 <= np.iinfo(dtype).max)


def hamming_distances(queries: ArrayLike, codes: ArrayLike) -> NDArray[Any]:
    """Count the bits in which each query differs from each code.

    Parameters
    ----------
    queries : array-like of uint8, shape (n_queries, n_bytes)
    codes : array-like of uint8, shape (n_codes, n_bytes)

    Returns
    -------
    distances : ndarray of uint8, uint16 or uint32, shape (n_queries, n_codes)
        In the smallest type that holds the number of bits.

    Examples
    --------
    >>> hamming_distances(np.array([[0b1010]], np.uint8), np.array([[0b1000], [0b0101]], np.uint8))
    array([[1, 4]], dtype=uint8)
    """
    left = check_codes(queries)
    right = check_codes(codes, 8 * left.shape[1])
    out = np.empty((len(left), len(right)), distance_dtype(left.shape[1]))
    kernels.pairwise_distances(as_words(left), as_words(right), out)
    return out


def tables_of(queries: QueryValues) -> NDArray[np.float32]:
    """Return what each value of each byte of a code adds to the distance of each query."""
    tables = np.empty((len(queries), code_width(queries.shape[1]), 256), np.float32)
    kernels.fill_tables(queries, tables)
    return tables


def byte_tables(queries: QueryValues) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Yield slices of the queries with their tables, a few at a time."""
    for start in range(0, len(queries), _QUERIES_PER_TABLE):
        rows = slice(start, min(start + _QUERIES_PER_TABLE, len(queries)))
        yield rows, tables_of(queries[rows])


def table_distances(queries: QueryValues, codes: ArrayLike) -> NDArray[np.float32]:
    """Return :func:`asymmetric_distances` of checked queries."""
    packed = np.ascontiguousarray(check_codes(codes, queries.shape[1]))
    out = np.empty((len(queries), len(packed)), np.float32)
    for rows, tables in byte_tables(queries):
        kernels.pairwise_distances(tables, packed, out[rows])
    return out


def asymmetric_distances(queries: ArrayLike, codes: ArrayLike) -> NDArray[np.float32]:
    """Return the asymmetric distance of each query and code: the Hamming distance, weighted by the query's confidence.

    For a query q and a code of signs s it is the sum of (1 - q_k s_k) / 2 over the bits: a bit on which the query is
    certain counts 0 or 1, an uncertain one about 1/2. Equal codes have bitwise equal distances. Costs a table of 256
    values per byte and query, then n_bytes lookups per code.

    Parameters
    ----------
    queries : array-like of shape (n_queries, n_bits)
        Values from -1 to 1, as :meth:`onlinehash.Encoder.encode_asymmetric` returns.
    codes : array-like of uint8, shape (n_codes, ceil(n_bits / 8))

    Returns
    -------
    distances : ndarray of float32, shape (n_queries, n_codes)

    Examples
    --------
    >>> asymmetric_distances([[1.0, -0.5, 0.0]], np.array([[0b001], [0b010]], np.uint8))
    array([[0.75, 2.25]], dtype=float32)
    """
    return table_distances(check_query_values(queries), codes)
