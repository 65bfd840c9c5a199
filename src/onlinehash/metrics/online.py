"""Quality along a stream: a curve over the instances learned from, and the area under it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from onlinehash._validation import check_positive_int
from onlinehash.exceptions import InvalidInputError


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
