"""The computations of the demo: two methods learn at several code lengths, are measured and search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.datasets import Split
from onlinehash.encoders import Encoder
from onlinehash.experiments.references import cosine_quality
from onlinehash.experiments.run import Quality, learning_curve
from onlinehash.hashers import HCOH, HROH, OnlineHasher
from onlinehash.indexes import FlatIndex
from onlinehash.metrics import Curve
from onlinehash.types import SearchResult

METHODS = ("HROH", "HCOH")
LENGTHS = (8, 16, 32, 64, 128)
IMAGE = (8, 8)
N_COMPONENTS = 256  # of HROH: fewer than its default


@dataclass
class Learned:
    """Measurements of one method at one code length, extended while it learns."""

    method: str
    n_bits: int
    curve: Curve = field(default_factory=Curve)
    quality: Quality | None = None
    hasher: OnlineHasher | None = None


@dataclass(frozen=True)
class Examples:
    """Queries, one per class, and the items that each method found for them."""

    queries: NDArray[np.intp]
    found: dict[str, SearchResult[Any]]


def instance_counts(n_stream: int, n_points: int) -> list[int]:
    """Return the numbers of instances to measure at: geometrically spaced, and the powers of ten.

    Examples
    --------
    >>> instance_counts(1500, 4)
    [1, 10, 11, 100, 131, 1000, 1500]
    """
    spaced = np.rint(np.geomspace(1, n_stream, n_points)).astype(int).tolist()
    return sorted({*spaced, *(10**p for p in range(9) if 10**p < n_stream)})


def learn(learned: Learned, split: Split, points: list[int], seed: int) -> Iterator[Learned]:
    """Learn the stream, and yield after every measured point."""
    if learned.method == "HROH":
        learned.hasher = HROH(learned.n_bits, n_components=N_COMPONENTS, random_state=seed)
    else:
        learned.hasher = HCOH(
            learned.n_bits, learning_rate=split.learning_rate, preprocess=split.preprocess, random_state=seed
        )
    for point in learning_curve(learned.hasher, split, points):
        learned.curve.add(point.n_instances, point.quality.mean_average_precision)
        learned.quality = point.quality
        yield learned


def rank_by_features(split: Split) -> Quality:
    """Return the quality of the exact ranking of the vectors by cosine."""
    queries, database = split.queries, split.database
    return Quality(*cosine_quality(*queries, *database, map_at=split.map_at, precision_at=split.precision_at))


def search_examples(encoders: dict[str, Encoder], split: Split, n_queries: int, k: int) -> Examples:
    """Search for the first query of every class, so that none is chosen by its result."""
    _, first = np.unique(split.queries.y, return_index=True)
    chosen = first[:n_queries]
    found = {}
    for method, encoder in encoders.items():
        index = FlatIndex(encoder.n_bits)
        index.upsert(encoder.encode(split.database.X))
        found[method] = index.search(encoder.encode(split.queries.X[chosen]), k)
    return Examples(chosen, found)
