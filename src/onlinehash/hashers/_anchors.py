"""Anchors from the head of a stream."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from onlinehash._files import Arrays
from onlinehash.features import Anchors, FeatureMap, StreamFeatures, squared_distances
from onlinehash.hashers._base import OnlineHasher
from onlinehash.types import Features


def head_rows(features: StreamFeatures, head: Features) -> Features:
    """Return the preprocessed head of a stream, without learning from it."""
    rows = np.empty_like(head)
    copy.deepcopy(features).learn(head, rows)
    return rows


def mean_squared_distance(rows: Features) -> float:
    """Return the mean of |x - a|^2 over all pairs of different rows."""
    n = len(rows)
    if n < 2:
        return 1.0
    distances = squared_distances(rows.astype(np.float64), rows.astype(np.float64))
    return float((distances.sum() - np.trace(distances)) / (n * (n - 1))) or 1.0


def median_squared_distance(rows: Features) -> float:
    """Return the median of |x - a|^2 over all pairs of different rows."""
    distances = squared_distances(rows.astype(np.float64), rows.astype(np.float64))
    pairs = distances[np.triu_indices(len(rows), 1)]
    return (float(np.median(pairs)) or 1.0) if len(pairs) else 1.0


class WithAnchors(OnlineHasher):
    """Base class of methods that learn from similarities to anchors, ``_anchors``, once the stream has given them."""

    has_constant: ClassVar[bool] = False
    _anchors: Anchors | None

    def _frozen_features(self) -> FeatureMap:
        """Return the current map from a row to what is projected."""
        inner, anchors = self._features.freeze(), self._anchors
        return inner if anchors is None else replace(anchors, anchors=anchors.anchors.copy(), inner=inner)

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        state, arrays = super()._state()  # type: ignore[safe-super]
        if self._anchors is not None:
            arrays |= {"anchors": self._anchors.anchors, "width": np.array([self._anchors.width])}
        return state, arrays

    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        super()._restore(state, arrays)  # type: ignore[safe-super]
        if "anchors" in arrays:
            self._anchors = Anchors(arrays["anchors"], arrays["width"].item(), self.has_constant)
