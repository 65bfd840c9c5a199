"""Scores and codes of HROH from the first labels on, beside regression alone and class means alone.

Of each class some rows are learned; none of these is classified, searched for or searched among. Regression alone is
HROH with the penalty that it chose given as ``alpha``. Class means are compared by the cosine, at unit length. mAP is
that of codes of 64 bits. The value of a row is the mean of three splits, with the lowest and the highest.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Row
from onlinehash import HROH, Encoder
from onlinehash.datasets import load_dataset
from onlinehash.metrics import Ranking
from onlinehash.types import Batch

DATASETS = ("clinc150", "tinyimagenet", "cifar10", "mnist")
LABELS_PER_CLASS = (1, 2, 3, 5, 10, 20, 50)
SEEDS = (0, 1, 2)
N_BITS, N_NEW, N_QUERIES = 64, 5000, 400
Array = NDArray[Any]


def measured(dataset: str, n_labels: int, seed: int) -> Iterator[tuple[str, str, float]]:
    """Yield methods, what is measured and values, on one split."""
    data, rng = load_dataset(dataset), np.random.default_rng(seed)
    new, rest = np.split(rng.permutation(len(data.y)), [N_NEW])
    by_class = rest[np.argsort(data.y[rest], kind="stable")]
    starts = np.unique(data.y[by_class], return_index=True)[1]
    learned = rng.permutation(np.concatenate([part[:n_labels] for part in np.split(by_class, starts[1:])]))
    X, y, items = data.X[learned], data.y[learned], Batch(data.X[new], data.y[new])
    hasher = HROH(N_BITS, random_state=seed).partial_fit(X, y)
    yield from of_encoder("HROH", hasher.snapshot(), items)
    hasher.alpha = hasher.alpha_
    yield from of_encoder("regression", hasher.snapshot(), items)
    classes = np.unique(y)
    means = unit(np.stack([unit(X[y == label]).mean(axis=0) for label in classes]))
    yield "class means", "accuracy", float(np.mean(classes[(unit(items.X) @ means.T).argmax(axis=1)] == items.y))


def of_encoder(name: str, encoder: Encoder, items: Batch) -> Iterator[tuple[str, str, float]]:
    codes, scores = encoder.encode_and_score(items.X)
    yield name, "accuracy", float(np.mean(np.array(encoder.classes)[scores.argmax(axis=1)] == items.y))
    (queries, others), (q, y) = (np.split(each, [N_QUERIES]) for each in (codes, items.y))
    yield name, "mAP", Ranking(queries, q, others, y).mean_average_precision()


def unit(X: Array) -> Array:
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def run(only: str | None = None) -> list[Row]:
    """Measure all data sets, or one."""
    rows = []
    for dataset in DATASETS if only is None else [only]:
        for n_labels in LABELS_PER_CLASS:
            values: dict[tuple[str, str], list[float]] = {}
            for seed in SEEDS:
                for name, meaning, value in measured(dataset, n_labels, seed):
                    values.setdefault((name, meaning), []).append(value)
            others = [mean(values[name, "accuracy"]) for name in ("regression", "class means")]
            bar = f"at least {max(others) - 0.01:.3f}" if n_labels <= 5 else "-"
            for (name, meaning), v in values.items():
                what, held = f"{dataset}, {n_labels} per class, {name}", (name, meaning) == ("HROH", "accuracy")
                rows.append(Row(what, mean(v), min(v), max(v), meaning, bar if held else "-"))
    return rows
