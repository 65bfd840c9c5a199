"""RidgeSolution: the ridge regression of a stream, solved once and moved by a few more rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.hashers._ridge import Matrix, Members, RidgeStatistics


class RidgeSolution:
    """The solution for the rows that are summed: one column per bit of codewords or, without any, one per class.

    Examples
    --------
    >>> statistics = RidgeStatistics(1)
    >>> statistics.add(np.array([[2.0], [-1.0]]), Members(np.arange(2), np.array([0, 1]), np.ones(2), np.ones(2)))
    >>> words = np.array([[1, 1], [-1, -1]])
    >>> RidgeSolution(statistics, penalty=1.0).columns(words)
    array([[ 0.33333333, -0.16666667]])
    >>> RidgeSolution(statistics, 1.0, words).columns(words)
    array([[0.5, 0.5]])
    """

    def __init__(self, statistics: RidgeStatistics, penalty: float, codewords: NDArray[Any] | None = None) -> None:
        self.by_class = codewords is None
        self.penalty = penalty
        self._factor = statistics.factor(penalty)
        self._columns = self._factor.solve(statistics.sums.T if codewords is None else statistics.towards(codewords))

    def columns(self, codewords: NDArray[Any]) -> Matrix:
        """Return the columns; those of classes that have no rows are zero."""
        if not self.by_class:
            return self._columns
        return np.pad(self._columns, ((0, 0), (0, len(codewords) - self._columns.shape[1])))

    def with_rows(self, rows: Matrix, members: Members, codewords: NDArray[Any]) -> Matrix:
        """Return the columns for a few more rows."""
        basis = np.eye(len(codewords)) if self.by_class else codewords
        return self._factor.solve_with(self.columns(codewords), rows, members.weight, members.targets(basis))
