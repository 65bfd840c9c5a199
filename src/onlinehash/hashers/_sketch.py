"""Frequent directions: a small matrix that approximates the scatter matrix of a stream."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import Arrays
from onlinehash._threads import single_threaded_products
from onlinehash._validation import check_positive_int
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers._principal import Matrix, PrincipalHasher, random_rotation, with_missing_directions


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
        """Empty half of the rows, from the eigenvectors of the smaller Gram matrix.

        The error of a squared singular value is the rounding error of the largest one. So is that of ``B^T B``, and
        nothing else of B is used; a singular value decomposition takes four to ten times as long.
        """
        rows, kept = self.rows, len(self.rows) // 2
        wide = rows.shape[1] >= len(rows)
        with single_threaded_products(len(rows)):
            squares, vectors = np.linalg.eigh(rows @ rows.T if wide else rows.T @ rows)
            squares, vectors = squares[::-1], vectors[:, ::-1].T
            lost = squares[kept] if kept < len(squares) else 0.0
            squares, vectors = squares[:kept], vectors[:kept]
            left = np.maximum(squares - max(lost, 0.0), 0.0)
            if wide:
                real = squares > _noise(rows) * squares[0]
                scale = np.sqrt(np.divide(left, squares, out=np.zeros_like(left), where=real))
                new = (scale[:, None] * vectors) @ rows
            else:
                new = np.sqrt(left)[:, None] * vectors
        rows[: len(new)] = new
        rows[len(new) :] = 0.0
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

    A method implements :meth:`_sketch_batch`, which adds the contribution of a batch to the scatter matrix to
    ``_sketch``.
    """

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

    @abstractmethod
    def _sketch_batch(self, rows: NDArray[Any]) -> None:
        """Add the next batch of preprocessed rows to the sketch."""

    def _learn_batch(self, rows: NDArray[Any], labels: Any) -> None:
        self._sketch_batch(rows)
        self._n_batches += 1

    @property
    def sketch_(self) -> Matrix:
        """Rows of the sketch that are in use; whole batches only."""
        self._demand_learned()
        return self._sketch.rows[: self._sketch.n_rows].copy()

    def _hash_functions(self) -> tuple[Matrix, Matrix]:
        with single_threaded_products(self.sketch_size):
            directions = with_missing_directions(self._sketch.directions(self.n_bits), self.n_bits, self.seed_)
            weights = directions @ self._rotation(directions)
        return weights, -(self._moments.mean @ weights)

    def _rotation(self, directions: Matrix) -> Matrix:
        return random_rotation(directions, self.seed_, self._n_batches)

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        state, arrays = super()._state()
        sketch = self._sketch
        counts = {"n_rows": sketch.n_rows, "filled": bool(sketch.filled), "n_batches": self._n_batches}
        return state | counts, arrays | {"sketch": sketch.rows}

    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        super()._restore(state, arrays)
        sketch = self._sketch
        sketch.rows, sketch.n_rows, sketch.filled = arrays["sketch"], state["n_rows"], state["filled"]
        self._n_batches = state["n_batches"]
