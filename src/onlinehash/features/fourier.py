"""Random Fourier features: cosines whose inner products approximate a Gaussian kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._kernel import kernel, read_only
from onlinehash._walsh import transform_columns
from onlinehash.exceptions import InvalidInputError
from onlinehash.features.centring import Centring, Identity
from onlinehash.types import Features

_TILE = 32  # rows transformed together: whole vector registers, and a tile that stays in cache


@dataclass(frozen=True, eq=False)
class Fourier:
    """Map a row to cosines of random frequencies: sqrt(2 / D) cos(w . x + b).

    With Gaussian w of variance 1 / bandwidth and uniform b, the inner product of two maps approximates the kernel
    exp(-|x - y|^2 / (2 bandwidth)). Costs one product with all frequencies per row.

    Parameters
    ----------
    frequencies : ndarray of shape (n_components, n_features)
    phases : ndarray of shape (n_components,)
    inner : Identity or Centring
        Preprocessing of a row.

    References
    ----------
    A. Rahimi and B. Recht. Random Features for Large-Scale Kernel Machines. NIPS 2007.

    Examples
    --------
    >>> fourier = Fourier.draw(n_features=2, n_components=4096, bandwidth=1.0, seed=0)
    >>> x, y = fourier.transform(np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> round(float(x @ y), 1), round(float(np.exp(-1 / 2)), 1)
    (0.6, 0.6)
    """

    frequencies: NDArray[Any]
    phases: NDArray[Any]
    inner: Identity | Centring = Identity()  # noqa: RUF009 (immutable)

    @classmethod
    def draw(cls, n_features: int, n_components: int, bandwidth: float, seed: int) -> Fourier:
        """Draw frequencies and phases."""
        rng = np.random.default_rng([seed, n_components, 4])
        frequencies = rng.standard_normal((n_components, n_features)) / np.sqrt(bandwidth)
        return cls(frequencies, rng.uniform(0.0, 2.0 * np.pi, n_components))

    @property
    def n_inputs(self) -> int:
        """Number of input features."""
        return int(self.frequencies.shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of output features."""
        return len(self.frequencies)

    def transform(self, X: Features) -> Features:
        """Return the cosines of the rows of X, shape (n_samples, n_components), in the precision of X."""
        return _transformed(self, X)

    def write(self, rows: Features, out: Features) -> None:
        """Write the cosines of rows already mapped by ``inner`` to the head of ``out``."""
        angles = out[: len(rows)]
        angles[:] = rows @ self.frequencies.T.astype(rows.dtype, copy=False)
        _write_cosines(angles, self.phases)


@dataclass(frozen=True, eq=False)
class HadamardFourier:
    """Map a row to cosines of random frequencies that are never stored.

    The frequencies are rows of sqrt(p / bandwidth) H S3 H S2 H S1, with H the orthonormal Hadamard matrix of order p,
    the smallest power of two that is at least n_features, and S random signs. They are orthogonal, which approximates
    the kernel better than independent ones, and take O(log p) additions per component instead of n_features products.
    Otherwise as :class:`Fourier`.

    Parameters
    ----------
    signs : ndarray of int8, shape (n_blocks, 3, p)
        Each block gives p components; those of the last block beyond n_components are dropped.
    phases : ndarray of shape (n_components,)
    bandwidth : float
    n_inputs : int
        Number of input features.
    inner : Identity or Centring
        Preprocessing of a row.

    References
    ----------
    F. X. Yu, A. T. Suresh, K. Choromanski, D. Holtmann-Rice, S. Kumar. Orthogonal Random Features. NIPS 2016.

    Examples
    --------
    >>> fourier = HadamardFourier.draw(n_features=2, n_components=4096, bandwidth=1.0, seed=0)
    >>> x, y = fourier.transform(np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> round(float(x @ y), 1), round(float(np.exp(-1 / 2)), 1)
    (0.6, 0.6)
    """

    signs: NDArray[np.int8]
    phases: NDArray[Any]
    bandwidth: float
    n_inputs: int
    inner: Identity | Centring = Identity()  # noqa: RUF009 (immutable)

    @classmethod
    def draw(cls, n_features: int, n_components: int, bandwidth: float, seed: int) -> HadamardFourier:
        """Draw signs and phases."""
        rng = np.random.default_rng([seed, n_components, 5])
        order = max(16, 1 << (n_features - 1).bit_length())  # fewer rows would repeat too few frequencies
        n_blocks = -(-n_components // order)
        signs = rng.choice(np.array([-1, 1], np.int8), (n_blocks, 3, order))
        return cls(signs, rng.uniform(0.0, 2.0 * np.pi, n_components), bandwidth, n_features)

    @property
    def n_outputs(self) -> int:
        """Number of output features."""
        return len(self.phases)

    def transform(self, X: Features) -> Features:
        """Return the cosines of the rows of X, shape (n_samples, n_components), in the precision of X."""
        return _transformed(self, X)

    def write(self, rows: Features, out: Features) -> None:
        """Write the cosines of rows already mapped by ``inner`` to the head of ``out``."""
        angles = out[: len(rows)]
        n_blocks, _, order = self.signs.shape
        if rows.shape != (len(angles), self.n_inputs) or not (
            self.n_inputs <= order and angles.shape[1] == self.n_outputs <= n_blocks * order
        ):
            raise InvalidInputError(
                f"Rows of shape {rows.shape} and an output of shape {out.shape} do not fit a map from {self.n_inputs} "
                f"to {self.n_outputs} features."
            )
        self._write_angles(rows, angles)
        _write_cosines(angles, self.phases)

    def dense_frequencies(self) -> NDArray[np.float64]:
        """Return the frequencies as a matrix of shape (n_components, n_inputs), as :class:`Fourier` stores them.

        Examples
        --------
        >>> fourier = HadamardFourier.draw(n_features=2, n_components=16, bandwidth=1.0, seed=0)
        >>> dense, X = Fourier(fourier.dense_frequencies(), fourier.phases), np.array([[0.3, -0.4]])
        >>> bool(np.allclose(dense.transform(X), fourier.transform(X)))
        True
        """
        angles = np.empty((self.n_inputs, self.n_outputs))
        self._write_angles(np.eye(self.n_inputs), angles)
        return angles.T

    def _write_angles(self, rows: Features, angles: Features) -> None:
        """Write the products of rows with all frequencies."""
        order = self.signs.shape[2]
        # three orthonormal transforms are left unscaled: together a factor p^(3/2)
        scale = np.sqrt(order / self.bandwidth) / order**1.5
        columns, tile = np.empty((2, order, _TILE), rows.dtype)
        # One row of a wider array counts as contiguous: with a gap, the kernel is compiled once for any number of rows.
        target = angles if len(angles) > 1 else np.empty((2, self.n_outputs + 1), rows.dtype)[:, :-1]
        _rotate(read_only(rows), read_only(self.signs), rows.dtype.type(scale), columns, tile, target)
        if target is not angles:
            angles[:] = target[: len(angles)]


def _transformed(features: Fourier | HadamardFourier, X: Features) -> Features:
    out = np.empty((len(X), features.n_outputs), X.dtype)
    features.write(features.inner.transform(X), out)
    return out


def _write_cosines(angles: Features, phases: NDArray[Any]) -> None:
    """Turn angles into scaled cosines, in place."""
    angles += phases.astype(angles.dtype, copy=False)
    np.cos(angles, out=angles)
    angles *= angles.dtype.type(np.sqrt(2.0 / len(phases)))


@kernel()
def _rotate(rows: Any, signs: Any, scale: Any, columns: Any, tile: Any, out: Any) -> None:
    """Write the products of rows with the frequencies of all blocks to ``out``, a tile of rows at a time."""
    n_rows, n_features = rows.shape
    n_components = out.shape[1]
    order, width = tile.shape
    columns[:] = 0  # a row is a column here, so that rows are transformed side by side
    for start in range(0, n_rows, width):
        n = min(width, n_rows - start)
        for f in range(n_features):
            for i in range(n):
                columns[f, i] = rows[start + i, f] * scale
        for block in range(len(signs)):
            for turn in range(3):
                source = columns if turn == 0 else tile
                for f in range(order):
                    sign = tile.dtype.type(signs[block, turn, f])
                    for i in range(width):
                        tile[f, i] = source[f, i] * sign
                transform_columns(tile)
            first = block * order
            for f in range(min(order, n_components - first)):
                for i in range(n):
                    out[start + i, first + f] = tile[f, i]
