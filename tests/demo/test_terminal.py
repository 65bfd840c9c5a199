from __future__ import annotations

import numpy as np
import pytest

from onlinehash import HCOH
from onlinehash.datasets import load_dataset
from onlinehash.demo import run as demo_run
from onlinehash.demo.picture import _apart
from onlinehash.demo.terminal import draw


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


def test_labels_of_curves_do_not_overlap():
    heights = _apart([0.89, 0.89, 0.86, 0.81, 0.3], 0.05)
    assert np.diff(sorted(heights)).min() > 0.049
    assert heights[4] == 0.3
    heights = _apart([0.99, 0.99, 0.98], 0.05)
    assert np.diff(sorted(heights)).min() > 0.049
    assert max(heights) <= 0.98


@pytest.mark.parametrize(("side", "lines", "width"), [(8, 4, 8), (28, 7, 14), (5, 3, 5)])
def test_a_picture_of_blocks_has_two_pixels_a_character(side, lines, width):
    for grey in (True, False):
        picture = draw(np.eye(side), grey=grey)
        assert len(picture) == lines
        assert {len(line) for line in picture} == {width}
