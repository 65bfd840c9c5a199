"""Exact block updates: single-instance learning at the speed of matrix products.

A method that changes W by a rank-one term per instance, ``W <- W - x g^T``, where g depends on W only through
``z = W^T x``, can replay a block of instances in stream order without touching W inside the block::

    Z = X W                      K = X X^T
    for i = 0, 1, ...:           z_i = Z_i - sum_{j<i} K_ij g_j ;   g_i = rule(z_i)
    W <- W - X^T G

Up to rounding, the result is the same as one instance at a time. Methods differ only in the middle line, ``replay``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from onlinehash._kernel import kernel
from onlinehash.exceptions import InvalidInputError

Replay = Callable[[NDArray[Any], NDArray[Any]], None]
"""Called as ``replay(Z, K)``: turns the projections Z of a block into its gradients G, in place."""

BLOCK = 40  # rows; measured best between 24 and 64 on 784 to 4096 features and 32 to 128 bits
_PADDING = 16  # columns; rows a power of two apart would share the same few cache sets
_TILE = 4
_STRIP = 512  # columns of X
_WIDE = 64  # bits; below, a product and a subtraction by strips is faster than a product that subtracts


def block_rows(n_rows: int, n_columns: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a zeroed array for the rows of a block, padded so that the loops below may read whole tiles."""
    return np.zeros((n_rows + -n_rows % _TILE, n_columns + _PADDING), dtype)


def block_weights(n_columns: int, n_bits: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return zeroed weights, followed in memory by as many unused rows as the rows of a block have unused columns."""
    return np.zeros((n_columns + _PADDING, n_bits), dtype)[:n_columns]


class BlockUpdate:
    """Scratch memory for the updates of weights of shape (n_columns, n_bits), for blocks of up to ``n_rows``."""

    def __init__(self, n_rows: int, n_columns: int, n_bits: int, dtype: np.dtype[Any]) -> None:
        self._gram = np.zeros((n_rows + -n_rows % _TILE,) * 2, dtype)
        self._projections = np.empty((n_rows, n_bits), dtype)
        self._change = np.empty((min(n_columns, _STRIP), n_bits), dtype)

    def apply(
        self, weights: NDArray[Any], rows: NDArray[Any], n_rows: int, replay: Replay, *, sequential: bool
    ) -> NDArray[Any]:
        """Replay the first ``n_rows`` of ``rows``, change ``weights`` in place, and return G.

        With ``sequential=False`` the rows are one batch: they do not affect each other, and K is not computed.
        """
        n_columns = weights.shape[0]
        if weights.shape[1] != self._projections.shape[1] or n_rows > len(self._projections):
            raise InvalidInputError(
                f"{n_rows} rows and weights of shape {weights.shape} do not fit a block of "
                f"{len(self._projections)} rows and {self._projections.shape[1]} bits."
            )
        block = rows[:n_rows, :n_columns]
        gradients = self._projections[:n_rows]
        np.matmul(block, weights, out=gradients)
        if sequential:
            lower_gram(rows, n_rows, n_columns, self._gram)
        replay(gradients, self._gram)
        if n_rows == 1:  # a product with one row is mostly overhead
            _subtract_outer(weights, rows[0], gradients[0])
        elif gradients.shape[1] >= _WIDE and _are_padded(weights, rows):
            gemm = blas.sgemm if weights.itemsize == 4 else blas.dgemm
            padded: Any = weights.base
            gemm(-1.0, gradients.T, rows[:n_rows].T, 1.0, padded.T, trans_b=1, overwrite_c=1)
        else:
            for start in range(0, n_columns, _STRIP):  # a strip of the change stays in cache until it is subtracted
                strip = weights[start : start + _STRIP]
                change = np.matmul(block[:, start : start + _STRIP].T, gradients, out=self._change[: len(strip)])
                np.subtract(strip, change, out=strip)
        return gradients


def _are_padded(weights: NDArray[Any], rows: NDArray[Any]) -> bool:
    """Return whether BLAS may subtract X^T G from the weights in place, with their padding; a copy has none."""
    padded = weights.base
    shape = len(weights) + _PADDING, weights.shape[1]
    return isinstance(padded, np.ndarray) and padded.shape == shape and rows.shape[1] == shape[0]


@kernel(fastmath={"contract"})
def write_tanh(values: Any) -> None:
    """Replace values by their tanh, to the precision of their type.

    In single precision, Lambert's continued fraction of a quarter of the value, and tanh(2 a) = 2 t / (1 + t^2) twice:
    unlike the function of the C library, this becomes vector instructions.
    """
    number = values.dtype.type
    if values.itemsize > 4:
        for i in range(values.shape[0]):
            values[i] = math.tanh(values[i])
        return
    for i in range(values.shape[0]):
        a = number(0.25) * min(max(values[i], number(-10)), number(10))
        s = a * a
        above = number(34459425) + s * (number(4729725) + s * (number(135135) + s * (number(990) + s)))
        below = number(34459425) + s * (number(16216200) + s * (number(945945) + s * (number(13860) + s * number(45))))
        t = a * above / below
        t = (t + t) / (number(1) + t * t)
        values[i] = (t + t) / (number(1) + t * t)


@kernel(fastmath={"contract"})
def subtract_earlier(projections: Any, gram: Any, i: int, n_earlier: int) -> None:
    """Apply the gradients of the first ``n_earlier`` rows to row ``i``: z_i = Z_i - sum_j K_ij g_j."""
    row = projections[i]
    for j in range(n_earlier):
        k = gram[i, j]
        earlier = projections[j]
        for b in range(row.shape[0]):
            row[b] -= k * earlier[b]


@kernel()
def _subtract_outer(weights: Any, row: Any, gradient: Any) -> None:
    n_columns, n_bits = weights.shape
    for f in range(n_columns):
        for b in range(n_bits):
            weights[f, b] -= row[f] * gradient[b]


def lower_gram(rows: NDArray[Any], n_rows: int, n_columns: int, out: NDArray[Any]) -> None:
    """Write the lower triangle of ``rows @ rows.T``, in 0.3 of the time of BLAS for such flat blocks."""
    n_padded = n_rows + -n_rows % _TILE
    if len(rows) < n_padded or rows.shape[1] < n_columns or min(out.shape) < n_padded:
        raise InvalidInputError(
            f"Rows of shape {rows.shape} and output of shape {out.shape} do not hold {n_rows} rows of {n_columns} "
            f"columns in whole tiles of {_TILE}."
        )
    _lower_gram(rows, n_rows, n_columns, out)


@kernel(fastmath={"contract", "reassoc", "nsz"})
def _lower_gram(rows: Any, n_rows: int, n_columns: int, out: Any) -> None:
    zero = rows.dtype.type(0)
    for i in range(0, n_rows, 4):
        a0, a1, a2, a3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        for j in range(0, i + 4, 4):
            b0, b1, b2, b3 = rows[j], rows[j + 1], rows[j + 2], rows[j + 3]
            s00, s01, s02, s03 = zero, zero, zero, zero
            s10, s11, s12, s13 = zero, zero, zero, zero
            s20, s21, s22, s23 = zero, zero, zero, zero
            s30, s31, s32, s33 = zero, zero, zero, zero
            for f in range(n_columns):
                u0, u1, u2, u3 = a0[f], a1[f], a2[f], a3[f]
                v0, v1, v2, v3 = b0[f], b1[f], b2[f], b3[f]
                s00 += u0 * v0
                s01 += u0 * v1
                s02 += u0 * v2
                s03 += u0 * v3
                s10 += u1 * v0
                s11 += u1 * v1
                s12 += u1 * v2
                s13 += u1 * v3
                s20 += u2 * v0
                s21 += u2 * v1
                s22 += u2 * v2
                s23 += u2 * v3
                s30 += u3 * v0
                s31 += u3 * v1
                s32 += u3 * v2
                s33 += u3 * v3
            out[i, j], out[i, j + 1], out[i, j + 2], out[i, j + 3] = s00, s01, s02, s03
            out[i + 1, j], out[i + 1, j + 1], out[i + 1, j + 2], out[i + 1, j + 3] = s10, s11, s12, s13
            out[i + 2, j], out[i + 2, j + 1], out[i + 2, j + 2], out[i + 2, j + 3] = s20, s21, s22, s23
            out[i + 3, j], out[i + 3, j + 1], out[i + 3, j + 2], out[i + 3, j + 3] = s30, s31, s32, s33
