"""Hamming distances between packed codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.validation import check_codes, check_same_width
from onlinehash.codes import kernels
from onlinehash.types import Codes

Words = NDArray[np.unsignedinteger[Any]]


def as_words(codes: Codes) -> Words:
    """View rows of bytes as rows of the widest unsigned integers that fit, without a copy."""
    codes = np.ascontiguousarray(codes)
    for word in (np.uint64, np.uint32, np.uint16):
        size = np.dtype(word).itemsize
        if codes.shape[1] % size == 0 and codes.ctypes.data % size == 0:
            return codes.view(word)
    return codes


def distance_dtype(n_bytes: int) -> type[np.unsignedinteger[Any]]:
    """Return the smallest integer type that holds every distance between codes of that width."""
    return next(dtype for dtype in (np.uint8, np.uint16, np.uint32) if n_bytes * 8 <= np.iinfo(dtype).max)


def as_long_words(codes: Codes) -> NDArray[np.uint64]:
    """Copy rows of bytes to rows of 64-bit words, padded with zeros: one type for codes of any width."""
    n_rows, n_bytes = codes.shape
    words = np.zeros((n_rows, -(-n_bytes // 8)), np.uint64)
    words.view(np.uint8)[:, :n_bytes] = codes
    return words


def distance_buffer(n_bytes: int) -> NDArray[Any]:
    """Return a buffer for the distances of one tile of rows."""
    return np.empty(kernels.TILE, np.uint16 if n_bytes < 1 << 13 else np.uint32)


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
    left, right = same_words(check_codes(queries), check_codes(codes))
    out = np.empty((len(left), len(right)), distance_dtype(left.shape[1] * left.itemsize))
    kernels.pairwise_distances(left, right, out)
    return out


def same_words(queries: Codes, codes: Codes) -> tuple[Words, Words]:
    """View both as rows of the same word type, copying only where memory is not aligned for it."""
    check_same_width(queries, codes)
    right = as_words(codes)
    left = np.ascontiguousarray(queries)
    if left.ctypes.data % right.itemsize:
        left = left.copy()
    return left.view(right.dtype), right
