"""HCOH and HROH on a stream sorted by class, for the demo page: the first forgets, the second does not."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.datasets import Split
from onlinehash.hashers import HCOH, HROH, OnlineHasher
from onlinehash.metrics import Ranking

_STEP = 25  # instances between two measurements
_N_BITS = 32
N_COMPONENTS = 256  # of HROH: fewer than its default


class Race:
    """HCOH and HROH on the same stream, sorted by class, measured on all classes seen so far.

    Points are computed on first use and kept.

    Parameters
    ----------
    split : Split
        Its stream is learned in the order of the classes; database and queries give the mAP.

    Examples
    --------
    >>> from onlinehash.datasets import load_dataset
    >>> race = Race(load_dataset("digits").split())
    >>> race.n_points, race.points(0, 2)[-1]["n"]
    (60, 50)
    """

    def __init__(self, split: Split) -> None:
        self._split = split
        self._stream = split.stream.take(np.argsort(split.stream.y, kind="stable"))
        self._learners: dict[str, OnlineHasher] = {"hcoh": published_hcoh(split), "hroh": small_hroh()}
        self._points: list[dict[str, Any]] = []
        self._shuffled: float | None = None
        self._lock = Lock()
        self.n_points = -(-len(self._stream.X) // _STEP)

    def points(self, start: int, n_points: int) -> list[dict[str, Any]]:
        """Return some points: instances learned, the current class, and the mAP of each hasher."""
        with self._lock:
            while len(self._points) < min(start + n_points, self.n_points):
                self._points.append(self._advance(len(self._points) * _STEP))
            return self._points[start : start + n_points]

    def shuffled(self) -> float:
        """Return the mAP that HCOH reaches on the same instances in random order."""
        with self._lock:
            if self._shuffled is None:
                learner = published_hcoh(self._split).partial_fit(*self._split.stream)
                seen = np.unique(self._stream.y)
                self._shuffled = float(np.mean(list(self._measure(learner, seen).values())))
            return self._shuffled

    def _advance(self, start: int) -> dict[str, Any]:
        X, y = self._stream.take(slice(start, start + _STEP))
        n_seen = start + len(X)
        seen = np.unique(self._stream.y[:n_seen])
        point: dict[str, Any] = {"n": n_seen, "label": int(y[-1])}
        for name, learner in self._learners.items():
            by_class = self._measure(learner.partial_fit(X, y), seen)
            point[name] = {"map": round(float(np.mean(list(by_class.values()))), 4), "by_class": by_class}
        return point

    def _measure(self, learner: OnlineHasher, seen: NDArray[np.int64]) -> dict[int, float]:
        """Return the mAP per class, over the queries and items of the classes seen."""
        encoder = learner.snapshot()
        queries, database = (
            batch.take(np.isin(batch.y, seen)) for batch in (self._split.queries, self._split.database)
        )
        ranking = Ranking(encoder.encode(queries.X), queries.y, encoder.encode(database.X), database.y)
        averages = ranking.average_precision()
        return {int(label): round(float(averages[queries.y == label].mean()), 4) for label in seen}


def small_hroh(n_bits: int = _N_BITS, seed: int = 0) -> HROH:
    """Return HROH with few components, enough for small images: a snapshot takes milliseconds."""
    return HROH(n_bits, n_components=N_COMPONENTS, random_state=seed)


def published_hcoh(split: Split, n_bits: int = _N_BITS, seed: int = 0) -> HCOH:
    """Return HCOH with the published parameters for a data set."""
    return HCOH(n_bits, learning_rate=split.learning_rate, preprocess=split.preprocess, random_state=seed)
