"""Quality along a stream: the curve of a measure, and searches for every item before it is learned from."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.validation import check_positive_int
from onlinehash.exceptions import InvalidInputError
from onlinehash.metrics.ranking import Ranking


@dataclass
class Curve:
    """A measure at growing numbers of instances.

    Examples
    --------
    >>> curve = Curve()
    >>> for n, value in [(0, 0.2), (100, 0.6), (400, 0.6)]:
    ...     curve.add(n, value)
    >>> round(curve.auc(), 4), round(curve.mean(), 4)
    (0.55, 0.4667)
    """

    instances: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, n_instances: int, value: float) -> None:
        """Append a point; instances must grow."""
        if self.instances and n_instances <= self.instances[-1]:
            raise InvalidInputError(f"n_instances={n_instances} does not come after {self.instances[-1]}.")
        self.instances.append(int(n_instances))
        self.values.append(float(value))

    def auc(self) -> float:
        """Return the area under the curve (trapezoids) divided by the range of instances."""
        if len(self.values) < 2:
            raise InvalidInputError(f"The curve has {len(self.values)} points; an area needs at least 2.")
        return float(np.trapezoid(self.values, self.instances) / (self.instances[-1] - self.instances[0]))

    def mean(self) -> float:
        """Return the plain mean over the points, which is what the paper calls AUC."""
        return float(np.mean(self.values))


def checkpoints(n_instances: int, n_points: int = 50, *, seed: int | None = None) -> NDArray[np.int64]:
    """Return the numbers of instances at which a curve is measured.

    The first and the last instance always; the others at a regular spacing, moved with ``seed`` by up to a sixth of
    it at random, as published.

    Examples
    --------
    >>> checkpoints(1000, 5).tolist()
    [1, 251, 500, 750, 1000]
    """
    check_positive_int("n_instances", n_instances)
    check_positive_int("n_points", n_points)
    points = np.linspace(1, n_instances, max(2, min(n_points, n_instances)))
    if seed is not None:
        spacing = points[1] - points[0]
        jitter = np.random.default_rng(seed).uniform(-spacing / 6, spacing / 6, len(points) - 2)
        points[1:-1] += jitter
    return np.unique(np.rint(points).astype(np.int64))


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
