"""Run a hasher along a stream and judge the codes it makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from onlinehash.datasets import Split
from onlinehash.encoders import Encoder
from onlinehash.hashers import OnlineHasher
from onlinehash.metrics import Ranking


@dataclass(frozen=True)
class Quality:
    """How well the codes of one encoder retrieve.

    ``mean_average_precision`` is cut at the split's ``map_at`` where it has one, and then divided by the relevant
    items found, as published; ``precision`` is that of the first ``precision_at``.
    """

    mean_average_precision: float
    precision: float


@dataclass(frozen=True)
class Point:
    """One point of a learning curve: after how many instances, how good, and the seconds of learning so far."""

    n_instances: int
    quality: Quality
    learning_seconds: float


def judge(encoder: Encoder, split: Split, *, ties: str = "expected") -> Quality:
    """Encode the queries and the database of a split and measure the ranking.

    Examples
    --------
    >>> from onlinehash import HCOH, load_dataset
    >>> split = load_dataset("digits").split()
    >>> hasher = HCOH(16, random_state=0).partial_fit(*split.stream)
    >>> judge(hasher.snapshot(), split).mean_average_precision > 0.7
    True
    """
    queries, database = split.queries, split.database
    ranking = Ranking(encoder.encode(queries.X), queries.y, encoder.encode(database.X), database.y, ties=ties)
    denominator = "possible" if split.map_at is None else "found"
    return Quality(
        ranking.mean_average_precision(split.map_at, denominator=denominator), ranking.precision_at(split.precision_at)
    )


def learning_curve(
    hasher: OnlineHasher, split: Split, points: Sequence[int], *, ties: str = "expected"
) -> Iterator[Point]:
    """Learn a split's stream, and judge the codes after each of the given numbers of instances.

    Examples
    --------
    >>> from onlinehash import HCOH, load_dataset
    >>> split = load_dataset("digits").split()
    >>> [point.n_instances for point in learning_curve(HCOH(16, random_state=0), split, [10, 1000])]
    [10, 1000]
    """
    seconds, done = 0.0, 0
    for n in map(int, points):
        start = perf_counter()
        hasher.partial_fit(split.stream.X[done:n], split.stream.y[done:n])
        seconds += perf_counter() - start
        done = n
        yield Point(n, judge(hasher.snapshot(), split, ties=ties), seconds)
