"""Anchors from the head of a stream."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.features import Centring, Identity, StreamFeatures, squared_distances
from onlinehash.features.anchors import Anchors
from onlinehash.types import Features


def head_rows(features: StreamFeatures, head: Features) -> Features:
    """Return the preprocessed head of a stream without moving along it: it is learned from later."""
    rows = np.empty_like(head)
    copy.deepcopy(features).learn(head, rows)
    return rows


def mean_squared_distance(rows: Features) -> float:
    """Return the mean of |x - a|^2 over all pairs of different rows.

    Examples
    --------
    >>> mean_squared_distance(np.array([[0.0], [1.0], [3.0]]))  # 1, 9 and 4
    4.666666666666667
    """
    n = len(rows)
    if n < 2:
        return 1.0
    distances = squared_distances(rows.astype(np.float64), rows.astype(np.float64))
    return float((distances.sum() - np.trace(distances)) / (n * (n - 1))) or 1.0


def median_squared_distance(rows: Features) -> float:
    """Return the median of |x - a|^2 over all pairs of different rows.

    Examples
    --------
    >>> median_squared_distance(np.array([[0.0], [1.0], [3.0]]))  # 1, 9 and 4
    4.0
    """
    distances = squared_distances(rows.astype(np.float64), rows.astype(np.float64))
    pairs = distances[np.triu_indices(len(rows), 1)]
    return (float(np.median(pairs)) or 1.0) if len(pairs) else 1.0


def frozen(anchors: Anchors, features: StreamFeatures) -> Anchors:
    """Return the anchors' map with the preprocessing as it is now."""
    inner: Identity | Centring = features.freeze()
    return Anchors(anchors.anchors.copy(), anchors.width, anchors.constant, inner)


def anchor_arrays(anchors: Anchors | None) -> dict[str, NDArray[Any]]:
    """Return what a saved stream needs of its anchors."""
    return {} if anchors is None else {"anchors": anchors.anchors, "width": np.array([anchors.width])}
