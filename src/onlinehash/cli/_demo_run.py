"""The work of the demo: learn by two methods at several lengths, measure, search. Nothing here prints or draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from onlinehash.datasets import Dataset, Split
from onlinehash.encoders import Encoder
from onlinehash.experiments.run import Quality, learning_curve
from onlinehash.hashers import HCOH, HROH, OnlineHasher
from onlinehash.indexes import FlatIndex
from onlinehash.metrics import Curve
from onlinehash.types import Batch, SearchResult

METHODS = ("HROH", "HCOH")
LENGTHS = (8, 16, 32, 64, 128)
N_COMPONENTS = 256  # of HROH: fewer than its default, so that a snapshot at every point takes milliseconds
IMAGES = {"digits": (8, 8), "mnist": (28, 28), "fashion_mnist": (28, 28)}
_MOST_PRODUCTS = 10_000_000  # beyond, ranking by real features would keep a newcomer waiting


@dataclass
class Learned:
    """What was measured of one method at one length of code; grows while it learns."""

    method: str
    n_bits: int
    curve: Curve = field(default_factory=Curve)
    quality: Quality | None = None
    microseconds: float | None = None
    hasher: OnlineHasher | None = None


@dataclass(frozen=True)
class Examples:
    """Queries, one per class, and the items that each method found for them."""

    queries: NDArray[np.intp]
    found: dict[str, SearchResult]


def instance_counts(n_stream: int, n_points: int) -> list[int]:
    """Return the numbers of instances to measure at: evenly spaced by ratio, with the powers of ten.

    Examples
    --------
    >>> instance_counts(1500, 4)
    [1, 10, 11, 100, 131, 1000, 1500]
    """
    spaced = np.rint(np.geomspace(1, n_stream, n_points)).astype(int).tolist()
    return sorted({*spaced, *(10**p for p in range(9) if 10**p < n_stream)})


def learn(learned: Learned, split: Split, points: list[int], seed: int) -> Iterator[Learned]:
    """Learn the stream, and yield after every measured point."""
    learned.hasher = _make(learned, split, seed)
    for point in learning_curve(learned.hasher, split, points):
        learned.curve.add(point.n_instances, point.quality.mean_average_precision)
        learned.quality = point.quality
        yield learned
    again = _make(learned, split, seed)
    start = perf_counter()
    again.partial_fit(*split.stream)
    learned.microseconds = (perf_counter() - start) / len(split.stream.X) * 1e6
    yield learned


def _make(learned: Learned, split: Split, seed: int) -> OnlineHasher:
    if learned.method == "HROH":
        return HROH(learned.n_bits, n_components=N_COMPONENTS, random_state=seed)
    return HCOH(learned.n_bits, learning_rate=split.learning_rate, preprocess=split.preprocess, random_state=seed)


def warm_up(split: Split) -> None:
    """Compile what compiles at first use, so that nobody's time is measured with it."""
    for method, n_bits in product(METHODS, LENGTHS):
        for _ in learn(Learned(method, n_bits), _head(split), [1, 4], seed=0):
            pass


def rank_by_features(split: Split) -> Quality | None:
    """Measure the real features themselves, ranked exactly by cosine; None where that takes long."""
    queries, database = split.queries, split.database
    if len(queries.X) * len(database.X) > _MOST_PRODUCTS:
        return None
    cosines = _unit(queries.X) @ _unit(database.X).T
    order = np.argsort(-cosines, axis=1, kind="stable")
    relevant = database.y[order] == queries.y[:, np.newaxis]
    precision = np.cumsum(relevant, axis=1) / np.arange(1, len(database.y) + 1)
    cut = slice(None, split.map_at)
    sums = (precision * relevant)[:, cut].sum(axis=1)
    averages = sums / np.maximum(relevant[:, cut].sum(axis=1), 1)
    recall = relevant[:, : split.precision_at].sum(axis=1) / np.maximum(relevant.sum(axis=1), 1)
    return Quality(float(averages.mean()), float(precision[:, split.precision_at - 1].mean()), float(recall.mean()))


def search_examples(encoders: dict[str, Encoder], split: Split, n_queries: int, k: int) -> Examples:
    """Search for the first query of every class; none is picked by its result."""
    _, first = np.unique(split.queries.y, return_index=True)
    chosen = first[:n_queries]
    found = {}
    for method, encoder in encoders.items():
        index = FlatIndex(encoder.n_bits)
        index.upsert(encoder.encode(split.database.X))
        found[method] = index.search(encoder.encode(split.queries.X[chosen]), k)
    return Examples(chosen, found)


def image_shape(dataset: Dataset) -> tuple[int, int] | None:
    """Return the shape of a row where rows are pictures."""
    shape = IMAGES.get(dataset.name)
    return shape if shape and shape[0] * shape[1] == dataset.X.shape[1] else None


def _head(split: Split) -> Split:
    stream, database, queries = (
        Batch(batch.X[:n], batch.y[:n]) for batch, n in ((split.stream, 4), (split.database, 64), (split.queries, 2))
    )
    return replace(split, stream=stream, database=database, queries=queries)


def _unit(X: NDArray[np.floating]) -> NDArray[np.floating]:
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(lengths > 0, lengths, 1))
