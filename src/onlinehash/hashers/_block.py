"""Exact block updates: single-instance learning at the speed of matrix products.

A method that changes W by a rank-one term per instance, ``W <- W - x g^T``, where g depends on W only through
``z = W^T x``, can replay a block of instances in stream order without touching W inside the block::

    Z = X W                      K = X X^T
    for i = 0, 1, ...:           z_i = Z_i - sum_{j<i} K_ij g_j ;   g_i = rule(z_i)
    W <- W - X^T G

Up to rounding, the result is the same as one instance at a time. Methods differ only in the middle line, ``replay``.
The products are loops over tiles that fit in registers: for such flat blocks they run at the rate of large products of
BLAS.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.kernels import kernel
from onlinehash._internal.validation import check_positive
from onlinehash.codebooks import ClassTable, make_codebook
from onlinehash.hashers._base import Changeable, Encoder, Features, OnlineHasher, Targets, Weights
from onlinehash.hashers._mixins import LinearHasher, WithCodewords

ROWS_PER_BLOCK = 32  # best of 16 to 64: as fast as 16 from 1024 features on, a fifth faster at 128


class CodewordHasher(WithCodewords, LinearHasher):
    """Base class of methods that learn towards codewords by rank-one steps.

    A method implements :meth:`_replay`, which computes the gradients of a block from its projections.
    """

    changeable: ClassVar[Changeable] = {**OnlineHasher.changeable, "learning_rate": check_positive}
    _saved: ClassVar[tuple[str, ...]] = ("_weights",)
    learning_rate: float
    batch_size: int = 1
    fit_bias: bool = False

    def _start(self, n_features: int) -> None:
        self._classes = ClassTable(make_codebook(self.codebook, self.n_bits, self.seed_))
        self._make_room(n_features)

    def _make_room(self, n_inputs: int) -> None:
        """Allocate the weights and the block for rows of ``n_inputs``."""
        n_columns = n_inputs + bool(self.fit_bias)
        capacity = max(self.batch_size, ROWS_PER_BLOCK - ROWS_PER_BLOCK % self.batch_size)
        # Differs from Alg. 1 of HCOH: the bias starts at zero, not at a Gaussian that would drown unit rows.
        self._weights = np.zeros((self.n_bits, n_columns), self._dtype).T
        self._weights[:n_inputs] = self._starting_weights(n_inputs)
        self._rows = np.ones((capacity, n_columns), self._dtype)
        self._targets = np.zeros((capacity, self.n_bits), self._dtype)
        self._projections = np.zeros((capacity, self.n_bits), self._dtype)
        self._gram = np.zeros((capacity, capacity), self._dtype)

    @abstractmethod
    def _replay(self, projections: NDArray[Any], gram: NDArray[Any], targets: NDArray[Any], batch_size: int) -> None:
        """Turn the projections of a block into its gradients, in place."""

    def _learn(self, X: Features, targets: Targets, weights: Weights) -> None:
        assert targets is not None
        signs = self._classes.targets(targets)
        capacity = len(self._targets)
        for start in range(0, len(X), capacity):
            rows = X[start : start + capacity]
            self._write_inputs(rows, self._rows[: len(rows)])
            self._targets[: len(rows)] = signs[start : start + capacity]
            self._step(len(rows))

    def _write_inputs(self, X: Features, out: Features) -> None:
        """Write the inputs of the projection, from the next rows of the stream, to the first columns of ``out``."""
        self._features.learn(X, out)

    def _step(self, n_rows: int) -> NDArray[Any]:
        """Learn from the first rows of the block, batch by batch, and return their gradients."""
        batch_size = min(self.batch_size, n_rows)
        columns, gradients, gram = self._weights.T, self._projections[:n_rows], self._gram
        products(self._rows, columns, n_rows, self.n_bits, len(self._weights), False, gradients)
        if n_rows > batch_size or batch_size == 1:  # rows of one batch do not affect each other, but by their length
            products(self._rows, self._rows, n_rows, n_rows, len(self._weights), True, gram)
        self._replay(gradients, gram, self._targets, batch_size)
        subtract_products(columns, self._rows, len(self._weights), gradients)
        return gradients

    def _encoder(self) -> Encoder:
        n_inputs = len(self._weights) - bool(self.fit_bias)
        weights = self._weights[:n_inputs].copy()
        intercept = self._weights[n_inputs].copy() if self.fit_bias else None
        return Encoder(weights, intercept, self._frozen_features(), self.version_, self.name)

    @property
    def weights_(self) -> NDArray[Any]:
        """Hash functions, one per column, in the precision of the first batch; whole batches only."""
        return super().weights_[: len(self._weights) - bool(self.fit_bias)]

    @property
    def intercept_(self) -> NDArray[Any]:
        """Intercept per bit; zeros without ``fit_bias``."""
        self._demand_learned()
        return np.asarray(self._weights[len(self._weights) - bool(self.fit_bias) :].sum(axis=0))


@kernel(fastmath={"contract"}, inner=True)
def apply_tanh(values: Any) -> None:
    """Replace values by their tanh, to the precision of their type.

    Lambert's continued fraction p / q of a quarter or an eighth of the value, and tanh(2 a) = 2 p q / (p^2 + q^2) twice
    or three times: unlike the function of the C library, this becomes vector instructions, with a single division.
    """
    number = values.dtype.type
    if number(1) + number(1e-12) == number(1):  # single precision, which the compiler sees: it leaves out the rest
        ten, quarter = number(10), number(0.25)
        a0, a1, a2, a3 = number(34459425), number(4729725), number(135135), number(990)
        b1, b2, b3, b4 = number(16216200), number(945945), number(13860), number(45)
        for i in range(values.shape[0]):
            a = values[i]
            a = ten if a > ten else a
            a = quarter * (-ten if a < -ten else a)
            s = a * a
            p = a * (a0 + s * (a1 + s * (a2 + s * (a3 + s))))
            q = a0 + s * (b1 + s * (b2 + s * (b3 + s * b4)))
            p, q = (p + p) * q, p * p + q * q
            values[i] = (p + p) * q / (p * p + q * q)
    else:
        for i in range(values.shape[0]):
            a = values[i]
            a = 20.0 if a > 20.0 else a
            a = 0.125 * (-20.0 if a < -20.0 else a)
            s = a * a
            p = 41247931725.0 + s * (523783260.0 + s * (2552550.0 + s * (4095.0 + s)))
            q = 252070693875.0 + s * (5237832600.0 + s * (41351310.0 + s * (120120.0 + s * 91.0)))
            p = a * (7905853580625.0 + s * (1159525191825.0 + s * p))
            q = 7905853580625.0 + s * (3794809718700.0 + s * q)
            p, q = (p + p) * q, p * p + q * q
            p, q = (p + p) * q, p * p + q * q
            values[i] = (p + p) * q / (p * p + q * q)


@kernel(fastmath={"contract"}, inner=True)
def subtract_earlier(projections: Any, gram: Any, i: int, n_earlier: int) -> None:
    """Apply the gradients of the first ``n_earlier`` rows to row ``i``: z_i = Z_i - sum_j K_ij g_j."""
    row = projections[i]
    for j in range(n_earlier):
        k = gram[i, j]
        earlier = projections[j]
        for b in range(row.shape[0]):
            row[b] -= k * earlier[b]


@kernel(fastmath={"contract", "reassoc", "nsz"})
def products(left: Any, right: Any, n_left: int, n_right: int, n_columns: int, lower: bool, out: Any) -> None:
    """Write ``left @ right.T``, or its lower triangle, by tiles of 4 x 4; tiles at the edge repeat the last row."""
    zero = left.dtype.type(0)
    for j in range(0, n_right, 4):
        j1 = j + 1 if j + 1 < n_right else j
        j2 = j + 2 if j + 2 < n_right else j1
        j3 = j + 3 if j + 3 < n_right else j2
        b0, b1, b2, b3 = right[j], right[j1], right[j2], right[j3]
        for i in range(j if lower else 0, n_left, 4):
            i1 = i + 1 if i + 1 < n_left else i
            i2 = i + 2 if i + 2 < n_left else i1
            i3 = i + 3 if i + 3 < n_left else i2
            a0, a1, a2, a3 = left[i], left[i1], left[i2], left[i3]
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
            out[i, j], out[i, j1], out[i, j2], out[i, j3] = s00, s01, s02, s03
            out[i1, j], out[i1, j1], out[i1, j2], out[i1, j3] = s10, s11, s12, s13
            out[i2, j], out[i2, j1], out[i2, j2], out[i2, j3] = s20, s21, s22, s23
            out[i3, j], out[i3, j1], out[i3, j2], out[i3, j3] = s30, s31, s32, s33


@kernel(fastmath={"contract"})
def subtract_products(weights: Any, rows: Any, n_columns: int, gradients: Any) -> None:
    """Subtract ``gradients.T @ rows`` from weights, one row per bit, by tiles of 4 bits x 4 rows."""
    n_rows, n_bits = gradients.shape
    n_tiled = n_rows - n_rows % 4
    last = n_bits - 1
    for b in range(0, n_bits, 4):
        # A tile at the edge repeats the last bit, and writes the same result to it again.
        b1 = b + 1 if b < last else last
        b2 = b + 2 if b + 1 < last else last
        b3 = b + 3 if b + 2 < last else last
        w0, w1, w2, w3 = weights[b], weights[b1], weights[b2], weights[b3]
        for i in range(0, n_tiled, 4):
            x0, x1, x2, x3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
            g0, g1, g2, g3 = gradients[i], gradients[i + 1], gradients[i + 2], gradients[i + 3]
            g00, g01, g02, g03 = g0[b], g0[b1], g0[b2], g0[b3]
            g10, g11, g12, g13 = g1[b], g1[b1], g1[b2], g1[b3]
            g20, g21, g22, g23 = g2[b], g2[b1], g2[b2], g2[b3]
            g30, g31, g32, g33 = g3[b], g3[b1], g3[b2], g3[b3]
            for f in range(n_columns):
                u0, u1, u2, u3 = x0[f], x1[f], x2[f], x3[f]
                c0 = w0[f] - g00 * u0 - g10 * u1 - g20 * u2 - g30 * u3
                c1 = w1[f] - g01 * u0 - g11 * u1 - g21 * u2 - g31 * u3
                c2 = w2[f] - g02 * u0 - g12 * u1 - g22 * u2 - g32 * u3
                c3 = w3[f] - g03 * u0 - g13 * u1 - g23 * u2 - g33 * u3
                w0[f], w1[f], w2[f], w3[f] = c0, c1, c2, c3
    for i in range(n_tiled, n_rows):
        row = rows[i]
        for b in range(n_bits):
            w, g = weights[b], gradients[i, b]
            for f in range(n_columns):
                w[f] -= g * row[f]
