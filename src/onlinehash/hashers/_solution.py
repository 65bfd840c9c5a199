"""RidgeSolution: the weights of all bits, solved once and updated by a few additional rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash.hashers._ridge import NOTHING, Matrix, Members, RidgeFactor, RidgeStatistics

_STRUCTURE = 3.0  # penalty on the structure bits, in mean squares of a feature; other strong values work as well


class _Part(NamedTuple):
    """A slice of the bits and the inputs they use."""

    bits: slice
    n_inputs: int
    factor: RidgeFactor
    solution: Matrix


class RidgeSolution:
    """The solution for the summed rows: class bits use all features, structure bits only the rows themselves.

    With fewer classes than bits, it is solved per class, and codewords combine the solutions.

    Parameters
    ----------
    statistics : RidgeStatistics
    codewords : ndarray of shape (n_classes, n_bits)
        Class bits, then structure bits.
    n_class_bits : int
    penalty : float
        Penalty of the class bits.
    n_features : int
        Number of features that are the rows themselves; they come first.

    Examples
    --------
    >>> statistics = RidgeStatistics(1)
    >>> statistics.add(np.array([[2.0], [-1.0]]), Members(np.arange(2), np.array([0, 1]), np.ones(2), np.ones(2)))
    >>> words = np.array([[1, 1], [-1, -1]])
    >>> RidgeSolution(statistics, words, 2, penalty=1.0, n_features=1).weights(words)
    array([[0.5, 0.5]])
    """

    def __init__(
        self, statistics: RidgeStatistics, codewords: NDArray[Any], n_class_bits: int, penalty: float, n_features: int
    ) -> None:
        n_bits, n_inputs = codewords.shape[1], len(statistics.gram)
        self._by_class = len(statistics.counts) < n_bits
        towards = statistics.sums.T if self._by_class else statistics.towards(codewords)
        kinds = []
        if n_class_bits:
            kinds.append((slice(n_class_bits), n_inputs, penalty))
        if n_class_bits < n_bits:
            mean_square = float(np.trace(statistics.gram[:n_features, :n_features])) / n_features
            kinds.append((slice(n_class_bits, n_bits), n_features, max(_STRUCTURE * mean_square, NOTHING)))
        self._parts = []
        for bits, n, least in kinds:
            factor = statistics.factor(least, n)
            columns = slice(None) if self._by_class else bits
            self._parts.append(_Part(bits, n, factor, factor.solve(towards[:n, columns])))
        self._shape = (n_inputs, n_bits)

    def weights(self, codewords: NDArray[Any]) -> Matrix:
        """Return the weights of all bits."""
        return self._joined([part.solution for part in self._parts], codewords)

    def with_rows(self, rows: Matrix, members: Members, codewords: NDArray[Any]) -> Matrix:
        """Return the weights with a few additional rows."""
        moved = []
        for part in self._parts:
            solution, basis = part.solution, codewords[:, part.bits]
            if self._by_class:
                basis = np.eye(len(codewords))
                solution = np.pad(solution, ((0, 0), (0, len(codewords) - solution.shape[1])))  # classes new since
            some = rows[:, : part.n_inputs]
            moved.append(part.factor.solve_with(solution, some, members.weight, members.targets(basis)))
        return self._joined(moved, codewords)

    def _joined(self, solutions: list[Matrix], codewords: NDArray[Any]) -> Matrix:
        weights = np.zeros(self._shape)
        for part, solution in zip(self._parts, solutions, strict=True):
            words = codewords[: solution.shape[1], part.bits].astype(np.float64)
            weights[: part.n_inputs, part.bits] = solution @ words if self._by_class else solution
        return weights
