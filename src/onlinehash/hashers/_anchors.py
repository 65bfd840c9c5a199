"""Anchors from the head of a stream."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.features import StreamFeatures, squared_distances
from onlinehash.features.anchors import Anchors
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


def frozen(anchors: Anchors, features: StreamFeatures) -> Anchors:
    """Return the map of the anchors with the current preprocessing."""
    return Anchors(anchors.anchors.copy(), anchors.width, anchors.constant, features.freeze())


def anchor_arrays(anchors: Anchors | None) -> dict[str, NDArray[Any]]:
    """Return the arrays of anchors for a saved hasher."""
    return {} if anchors is None else {"anchors": anchors.anchors, "width": np.array([anchors.width])}
