"""Run a hasher along a stream and judge the codes it makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from time import process_time
from typing import Any

import numpy as np

from onlinehash.codebooks import hadamard_codewords
from onlinehash.datasets import Dataset, Split, load_dataset
from onlinehash.encoders import Encoder
from onlinehash.experiments.plan import Run
from onlinehash.experiments.results import Result
from onlinehash.hashers import HASHERS, OnlineHasher
from onlinehash.metrics import Curve, Ranking, checkpoints
from onlinehash.types import Batch


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
    """One point of a learning curve: after how many instances, how good, and the CPU seconds of learning so far."""

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
    return _quality(ranking, split)


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
        start = process_time()
        hasher.partial_fit(split.stream.X[done:n], split.stream.y[done:n])
        seconds += process_time() - start
        done = n
        yield Point(n, judge(hasher.snapshot(), split, ties=ties), seconds)


def execute(run: Run) -> Result:
    """Do one run: learn, encode, evaluate, each timed apart in CPU seconds.

    Examples
    --------
    >>> result = execute(Run("HCOH", "hcoh", "digits", "online", n_bits=16, seed=0))
    >>> result["metrics"]["mean_average_precision"] > 0.7
    True
    """
    split = _ordered(_split(run.dataset, run.protocol, run.seed), run.order)
    hasher = make_hasher(run, split)
    curve: dict[str, Any] | None = None
    if run.checkpoints:
        drawn, seconds = Curve(), 0.0
        for point in learning_curve(hasher, split, checkpoints(len(split.stream.X), run.checkpoints).tolist()):
            drawn.add(point.n_instances, point.quality.mean_average_precision)
            seconds = point.learning_seconds
        curve = {"instances": drawn.instances, "values": drawn.values, "auc": drawn.auc(), "mean": drawn.mean()}
    else:
        start = process_time()
        hasher.partial_fit(*split.stream)
        seconds = process_time() - start
    start = process_time()
    encoder = hasher.snapshot()
    query_codes, codes = encoder.encode(split.queries.X), encoder.encode(split.database.X)
    encoding_seconds = process_time() - start
    start = process_time()
    sides = (query_codes, split.queries.y, codes, split.database.y)
    expected, stable = (_quality(Ranking(*sides, ties=ties), split) for ties in ("expected", "stable"))
    evaluation_seconds = process_time() - start
    return {
        "metrics": {**asdict(expected), "stable": asdict(stable), "map_at": split.map_at},
        "curve": curve,
        "seconds": {"learning": seconds, "encoding": encoding_seconds, "evaluation": evaluation_seconds},
    }


def make_hasher(run: Run, split: Split) -> OnlineHasher:
    """Return the unlearned hasher of a run; what the run does not set is taken from the split where it says it."""
    hasher = HASHERS[run.hasher]
    params: dict[str, Any] = {"n_bits": run.n_bits, "random_state": run.seed, "preprocess": split.preprocess}
    params |= run.params
    if params.get("codebook") == "published":
        params["codebook"] = hadamard_codewords(np.unique(split.database.y).tolist(), run.n_bits, seed=run.seed)
    return hasher(**params)


def _quality(ranking: Ranking, split: Split) -> Quality:
    denominator = "possible" if split.map_at is None else "found"
    precision = ranking.mean_average_precision(split.map_at, denominator=denominator)
    return Quality(precision, ranking.precision_at(split.precision_at))


@lru_cache(maxsize=1)
def _split(dataset: str, protocol: str, seed: int) -> Split:
    """Keep the last split: runs of one seed follow each other."""
    return _dataset(dataset).split(protocol, seed)


@lru_cache(maxsize=1)
def _dataset(name: str) -> Dataset:
    return load_dataset(name)


def _ordered(split: Split, order: str) -> Split:
    if order == "shuffled":
        return split
    by_class = np.argsort(split.stream.y, kind="stable")
    return replace(split, stream=Batch(split.stream.X[by_class], split.stream.y[by_class]))
