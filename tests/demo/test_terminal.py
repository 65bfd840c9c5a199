from __future__ import annotations

import numpy as np
import pytest

from onlinehash import HCOH
from onlinehash.datasets import load_dataset
from onlinehash.demo import run as demo_run


@pytest.fixture(scope="module")
def split():
    return load_dataset("digits").split()


def test_the_baseline_of_the_demo_equals_a_slow_ranking(split):
    got = demo_run.rank_by_features(split)
    X, y = split.database
    averages = []
    for query, label in zip(*split.queries, strict=True):
        cosines = X @ query / np.linalg.norm(X, axis=1)
        hits = np.flatnonzero(y[np.argsort(-cosines, kind="stable")] == label)
        averages.append(np.mean(np.arange(1, len(hits) + 1) / (hits + 1)))
    assert got.mean_average_precision == pytest.approx(np.mean(averages), abs=1e-4)


def test_the_examples_are_one_query_per_class_for_both_methods(split):
    encoder = HCOH(32, random_state=0).partial_fit(*split.stream).snapshot()
    examples = demo_run.search_examples({"HROH": encoder, "HCOH": encoder}, split, n_queries=10, k=3)
    assert split.queries.y[examples.queries].tolist() == list(range(10))
    assert [found.ids.shape for found in examples.found.values()] == [(10, 3), (10, 3)]
