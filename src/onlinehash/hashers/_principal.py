"""Hashers along principal directions: the running mean, directions and rotations."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import Arrays
from onlinehash.encoders import Encoder
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers._batches import BatchHasher
from onlinehash.types import Features

Matrix = NDArray[np.float64]

_MISSING, _ROTATION = 1, 2  # what a random draw is for


class RunningMean:
    """Keep the mean of a stream, and compute the contribution of every batch to the scatter matrix."""

    def __init__(self, n_features: int) -> None:
        self.mean: Matrix = np.zeros(n_features)
        self.n_seen = 0

    def add(self, rows: Features) -> tuple[Matrix, Matrix]:
        """Update the mean; return the rows around their own mean, and one row for the shift of the mean.

        With m the mean of the b rows, and mu that of the n rows before, the shift is ``sqrt(n b / (n + b)) (m - mu)``.
        The Gram matrix of all rows ever returned is the scatter matrix of the stream.
        """
        mean = rows.mean(axis=0, dtype=np.float64)
        n_before, n_rows = self.n_seen, len(rows)
        self.n_seen += n_rows
        step = mean - self.mean
        self.mean = (n_before * self.mean + n_rows * mean) / self.n_seen
        return rows - mean, np.sqrt(n_before * n_rows / self.n_seen) * step

    def add_spread(self, rows: Features) -> Matrix:
        """Do as :meth:`add`, with the shift spread over the rows: the same Gram matrix without one row more.

        The b centred rows sum to zero, so adding ``shift / sqrt(b)`` to each leaves no cross terms.
        """
        centred, shift = self.add(rows)
        centred += shift / np.sqrt(len(rows))
        return centred


class PrincipalHasher(BatchHasher):
    """Base class of unsupervised methods that hash along rotated principal directions."""

    supervised: ClassVar[bool] = False

    def _start(self, n_features: int) -> None:
        super()._start(n_features)
        if self.n_bits > n_features:
            raise InvalidInputError(
                f"n_bits={self.n_bits} is more than n_features={n_features}; {type(self).__name__} takes one principal "
                f"direction per bit. Use n_bits={n_features} or fewer."
            )
        self._moments = RunningMean(n_features)

    @property
    def mean_(self) -> Matrix:
        """Mean of the preprocessed rows; whole batches only."""
        self._demand_learned()
        return self._moments.mean.copy()

    @abstractmethod
    def _hash_functions(self) -> tuple[Matrix, Matrix]:
        """Return weights and intercepts."""

    def _encoder(self) -> Encoder:
        weights, intercept = (values.astype(self._dtype) for values in self._hash_functions())
        return Encoder(weights, intercept, self._features.freeze(), self.version_, self.name)

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        state, arrays = super()._state()
        return state | {"n_seen": self._moments.n_seen}, arrays | {"mean": self._moments.mean}

    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        super()._restore(state, arrays)
        self._moments.mean, self._moments.n_seen = arrays["mean"], state["n_seen"]


def with_missing_directions(directions: Matrix, n_bits: int, seed: int) -> Matrix:
    """Return ``n_bits`` orthonormal directions: the given ones and, if those are too few, random ones.

    Early in a stream, or with constant features, there are fewer principal directions than bits.
    """
    n_features, n_known = directions.shape
    if n_known >= n_bits:
        return directions[:, :n_bits]
    others = np.random.default_rng([seed, n_features, n_bits, _MISSING]).standard_normal((n_features, n_bits - n_known))
    for _ in range(2):  # the second time removes what rounding left
        others -= directions @ (directions.T @ others)
        others = np.linalg.qr(others)[0]
    return np.hstack([directions, others])


def random_rotation(directions: Matrix, seed: int, number: int) -> Matrix:
    """Return a uniformly random rotation Q of the directions V, such that V Q depends only on the span of V.

    Q is the rotation nearest to V^T G for a Gaussian G. V^T G is Gaussian, so Q is uniform, and another basis V R gives
    R^T Q. So the signs of singular vectors, which depend on rounding, do not influence the codes.
    """
    n_features, n_bits = directions.shape
    gaussian = np.random.default_rng([seed, number, n_bits, _ROTATION]).standard_normal((n_features, n_bits))
    return nearest_rotation(directions.T @ gaussian)


def nearest_rotation(matrix: Matrix) -> Matrix:
    """Return the orthogonal matrix nearest to a square one, which has the largest inner product with it.

    Examples
    --------
    >>> nearest_rotation(np.array([[2.0, 0.0], [0.0, -3.0]])).round(9) + 0.0
    array([[ 1.,  0.],
           [ 0., -1.]])
    """
    left, _, right = np.linalg.svd(matrix)
    return np.asarray(left @ right)
