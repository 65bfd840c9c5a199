"""Prequential quality: every item is a query against what is stored, before it is learned from."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import ArrayLike

from onlinehash._validation import check_positive_int
from onlinehash.metrics.ranking import Ranking


class Prequential:
    """Quality of the last searches of a stream in which every item is searched for first, then learned from.

    It needs no held-out queries: items that arrive with their labels are the queries. Items of a class that is not
    stored yet find nothing relevant: their precision is 0, and they have no average precision.

    Parameters
    ----------
    k : int, default=10
        Number of nearest items for the precision.
    window : int, default=1000
        Number of last queries that values are means of.

    Attributes
    ----------
    n_queries : int
        Number of queries so far.

    Examples
    --------
    >>> codes, labels = np.array([[0], [1], [254], [255]], np.uint8), np.array([0, 0, 1, 1])
    >>> quality = Prequential(k=2)
    >>> quality.search(codes[:2], [0, 1], codes, labels)
    >>> quality.precision, round(quality.mean_average_precision, 3), quality.n_queries
    (0.5, 0.708, 2)
    """

    def __init__(self, k: int = 10, *, window: int = 1000) -> None:
        self.k = check_positive_int("k", k)
        self.window = check_positive_int("window", window)
        self.n_queries = 0
        self._precisions: deque[float] = deque(maxlen=window)
        self._averages: deque[float] = deque(maxlen=window)

    def search(
        self, query_codes: ArrayLike, query_labels: ArrayLike, stored_codes: ArrayLike, stored_labels: ArrayLike
    ) -> None:
        """Search for items that are not learned from yet; ties count in expectation, as in :class:`Ranking`."""
        ranking = Ranking(query_codes, query_labels, stored_codes, stored_labels)
        self.add(ranking.precisions_at(self.k), ranking.average_precision())

    def add(self, precisions: ArrayLike, average_precisions: ArrayLike) -> None:
        """Add the precision at k and the average precision of queries that were searched elsewhere; NaN for none."""
        self._precisions.extend(np.ravel(precisions).tolist())
        self._averages.extend(np.ravel(average_precisions).tolist())
        self.n_queries += np.size(precisions)

    @property
    def precision(self) -> float:
        """Mean precision at k of the window; NaN before the first query."""
        return float(np.mean(self._precisions)) if self._precisions else float("nan")

    @property
    def mean_average_precision(self) -> float:
        """Mean average precision of the queries in the window that have one; NaN if there are none."""
        values = np.array(self._averages)
        return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
