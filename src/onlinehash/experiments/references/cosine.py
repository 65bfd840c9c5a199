"""Quality of the ranking by cosine of float features."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.experiments.streams import chunks
from onlinehash.types import Features, Labels

_SCORES = 1 << 22  # scores in memory at a time


def cosine_quality(
    queries: Features,
    query_labels: Labels,
    items: Features,
    labels: Labels,
    *,
    map_at: int | None,
    precision_at: int,
) -> tuple[float, float, float]:
    """Return mAP, precision and recall of the ranking by cosine; equal scores stay in storage order.

    Precision and recall are those of the first ``precision_at``. As published, mAP@k divides by the relevant items
    found, and queries without any are left out. Costs O(n_queries n_items (n_features + log n_items)); queries are
    processed in blocks.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", items, items))
    lengths[lengths == 0] = 1
    depth = len(items) if map_at is None else min(map_at, len(items))
    places = np.arange(1, depth + 1)
    averages, precisions, recalls = [], [], []
    n_relevant = Counter(labels.tolist())
    for some in chunks(queries, _SCORES, len(items)):
        scores = queries[some] @ items.T
        scores /= lengths
        for row, label in zip(scores, query_labels[some], strict=True):
            relevant = labels[_best(row, max(depth, precision_at))] == label
            precisions.append(relevant[:precision_at].mean())
            if n_relevant[label]:
                recalls.append(relevant[:precision_at].sum() / n_relevant[label])
            found = relevant[:depth]
            if found.any():
                averages.append((np.cumsum(found) / places)[found].mean())
    mean_average_precision, precision, recall = (
        float(np.mean(values)) if values else float("nan") for values in (averages, precisions, recalls)
    )
    return mean_average_precision, precision, recall


def _best(scores: NDArray[Any], n: int) -> NDArray[np.intp]:
    """Return the places of the n highest scores, highest first, equal ones in storage order."""
    if n >= len(scores):
        return np.argsort(-scores, kind="stable")
    last = np.partition(scores, len(scores) - n)[len(scores) - n]
    places = np.flatnonzero(scores >= last)  # more than n where the last one ties
    return places[np.argsort(-scores[places], kind="stable")[:n]]
