"""Hashers along principal directions: the running mean, directions, rotations and sketches."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onlinehash._internal.validation import check_positive_int
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers._base import Encoder, Features
from onlinehash.hashers._mixins import BatchHasher, Matrix

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
    _saved: ClassVar[tuple[str, ...]] = ("_moments.mean", "_moments.n_seen")

    def _start(self, n_features: int) -> None:
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


class FrequentDirections:
    """Sketch rows A by few rows B such that ``0 <= |A x|^2 - |B x|^2 <= 2 |A|_F^2 / size`` for every unit x.

    Rows are appended while there is room. When there is none, the sketch shrinks: with B = U S V^T it becomes
    ``sqrt(max(S^2 - s^2, 0)) V^T`` for the (size / 2 + 1)-th singular value s, which empties half of its rows.
    Costs O(n_features size) per row on average. ``size`` ("l") is even. The first ``n_rows`` of ``rows`` are in use;
    once all have been, the sketch is ``filled``. E. Liberty. Simple and Deterministic Matrix Sketching. KDD 2013.
    """

    def __init__(self, size: int, n_features: int) -> None:
        self.rows: Matrix = np.zeros((size, n_features))
        self.forget()

    def forget(self) -> None:
        """Empty the sketch."""
        self.rows[:] = 0.0
        self.n_rows = 0
        self.filled = False

    def append(self, new: Matrix) -> None:
        """Append rows in stream order, as many at once as there is room for."""
        size = len(self.rows)
        start = 0
        while start < len(new):
            if self.n_rows == size:
                self.shrink()
            stop = min(start + size - self.n_rows, len(new))
            self.rows[self.n_rows : self.n_rows + stop - start] = new[start:stop]
            self.n_rows += stop - start
            self.filled |= self.n_rows == size
            start = stop

    def shrink(self) -> None:
        """Empty half of the rows, from the eigenvectors of their Gram matrix.

        The error of a squared singular value is the rounding error of the largest one. So is that of ``B^T B``, and
        nothing else of B is used; a singular value decomposition takes four to ten times as long.
        """
        rows, kept = self.rows, len(self.rows) // 2
        squares, vectors = np.linalg.eigh(rows @ rows.T)
        squares, vectors = squares[::-1], vectors[:, ::-1].T
        left = np.maximum(squares[:kept] - max(squares[kept], 0.0), 0.0)
        real = squares[:kept] > _noise(rows) * squares[0]
        scale = np.sqrt(np.divide(left, squares[:kept], out=np.zeros_like(left), where=real))
        rows[:kept] = (scale[:, None] * vectors[:kept]) @ rows
        rows[kept:] = 0.0
        self.n_rows = kept

    def directions(self, n_directions: int) -> Matrix:
        """Return the first right singular vectors, one per column; fewer if the sketch has a lower rank."""
        _, values, vectors = np.linalg.svd(self.rows[: self.n_rows], full_matrices=False)
        rank = int((values > _noise(self.rows) * values[0]).sum()) if len(values) else 0
        return np.asarray(vectors[: min(rank, n_directions)].T)


def _noise(rows: Matrix) -> float:
    return float(max(rows.shape) * np.finfo(np.float64).eps)


@dataclass(eq=False, repr=False, kw_only=True)
class SketchHasher(PrincipalHasher):
    """Base class of methods that hash along the rotated principal directions of a zero-mean sketch.

    A method implements :meth:`_learn_batch`, which adds the contribution of a batch to the scatter matrix to
    ``_sketch``, and counts it in ``_n_batches``.
    """

    _saved = (*PrincipalHasher._saved, "_sketch.rows", "_sketch.n_rows", "_sketch.filled", "_n_batches")

    sketch_size: int = 200

    def _start(self, n_features: int) -> None:
        super()._start(n_features)
        size = check_positive_int("sketch_size", self.sketch_size)
        if size % 2:
            raise InvalidInputError(
                f"sketch_size={size} is odd; half of the sketch is emptied at a time. Use {size + 1}."
            )
        if size < self.n_bits:
            raise InvalidInputError(
                f"sketch_size={size} is less than n_bits={self.n_bits}; a sketch has no more directions than rows. "
                f"Use at least {self.n_bits + self.n_bits % 2}."
            )
        self._sketch = FrequentDirections(size, n_features)
        self._n_batches = 0

    @property
    def sketch_(self) -> Matrix:
        """Rows of the sketch that are in use; whole batches only."""
        self._demand_learned()
        return self._sketch.rows[: self._sketch.n_rows].copy()

    def _hash_functions(self) -> tuple[Matrix, Matrix]:
        directions = with_missing_directions(self._sketch.directions(self.n_bits), self.n_bits, self.seed_)
        weights = directions @ self._rotation(directions)
        return weights, -(self._moments.mean @ weights)

    def _rotation(self, directions: Matrix) -> Matrix:
        return random_rotation(directions, self.seed_, self._n_batches)
