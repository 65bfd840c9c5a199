"""Classes of very different sizes: HROH with and without balance, and HCOH, where counts follow Zipf's law.

The value of a row is the quality of retrieval, the mean of three seeds, with the lowest and the highest. A fifth of
every class are queries, so that large classes have most of them: the mean over queries describes large classes, the
mean over classes all alike. Items are the rows that were learned from.
"""

from __future__ import annotations

from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Row
from onlinehash import HCOH, HROH
from onlinehash.datasets import load_dataset
from onlinehash.metrics import Ranking
from onlinehash.types import Batch

N_BITS, SEEDS = 64, (0, 1, 2)
N_CLASSES, N_FEATURES, LARGEST, LEAST, NOISE = 300, 64, 3000, 10, 1.5
METHODS: dict[str, Any] = {
    "HROH, balance=1": lambda seed: HROH(N_BITS, balance=1.0, random_state=seed),
    "HROH": lambda seed: HROH(N_BITS, random_state=seed),
    "HCOH": lambda seed: HCOH(N_BITS, learning_rate=1.0, random_state=seed),  # the best of a few tried with seed 7
}


def zipf_counts(n_classes: int, largest: int) -> NDArray[np.intp]:
    """Return the number of rows of each class: the largest over 1, 2, 3, ..., and some of each."""
    return np.maximum(largest // np.arange(1, n_classes + 1), LEAST)


def synthetic(seed: int) -> Batch:
    """Return rows around the centre of their class."""
    rng = np.random.default_rng([seed, 1])
    y = np.repeat(np.arange(N_CLASSES), zipf_counts(N_CLASSES, LARGEST))
    centres = rng.standard_normal((N_CLASSES, N_FEATURES), np.float32)
    X = centres[y] + np.float32(NOISE) * rng.standard_normal((len(y), N_FEATURES), np.float32)
    return shuffled(Batch(X, y), rng)


def tinyimagenet(seed: int) -> Batch:
    """Return rows of Tiny-ImageNet, of each class, in random order of the classes, as many as Zipf's law says."""
    X, y = load_dataset("tinyimagenet").split("published", seed).database
    rng = np.random.default_rng([seed, 2])
    classes, counts = np.unique(y, return_counts=True)
    drawn = zip(rng.permutation(classes), zipf_counts(len(classes), counts.min()), strict=True)
    rows = np.concatenate([rng.permutation(np.flatnonzero(y == label))[:n] for label, n in drawn])
    return shuffled(Batch(X[rows], y[rows]), rng)


def shuffled(rows: Batch, rng: np.random.Generator) -> Batch:
    order = rng.permutation(len(rows.y))
    return Batch(rows.X[order], rows.y[order])


def quality(hasher: Any, rows: Batch) -> dict[str, float]:
    """Return the quality of retrieval after learning from four fifths of every class."""
    X, y = rows
    classes, counts = np.unique(y, return_counts=True)
    asked = np.zeros(len(y), bool)
    for label, n in zip(classes, counts, strict=True):
        asked[np.flatnonzero(y == label)[: n // 5]] = True
    encoder = hasher.partial_fit(X[~asked], y[~asked]).snapshot()
    queries, items, own, labels = encoder.encode(X[asked]), encoder.encode(X[~asked]), y[asked], y[~asked]
    ranking = Ranking(queries, own, items, labels)
    of_class = {
        label: Ranking(queries[own == label], own[own == label], items, labels).mean_average_precision()
        for label in classes.tolist()
    }
    small = classes[counts < counts.mean()].tolist()
    return {
        "mAP, mean over queries": ranking.mean_average_precision(),
        "precision@10, mean over queries": ranking.precision_at(10),
        "mAP, mean over classes": mean(of_class.values()),
        "mAP, mean over classes of less than average size": mean(of_class[label] for label in small),
    }


def run() -> list[Row]:
    rows = []
    for name, make in (("Zipf, 300 classes", synthetic), ("Tiny-ImageNet, Zipf counts", tinyimagenet)):
        data = [make(seed) for seed in SEEDS]
        measured = {
            method: [quality(hasher(seed), each) for seed, each in zip(SEEDS, data, strict=True)]
            for method, hasher in METHODS.items()
        }
        for method, results in measured.items():
            for meaning in results[0]:
                values = [result[meaning] for result in results]
                bar = "more than with balance=1" if method == "HROH" else "-"
                rows.append(Row(f"{name}, {method}", mean(values), min(values), max(values), meaning, bar))
    return rows
