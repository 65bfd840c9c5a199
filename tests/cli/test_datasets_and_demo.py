from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from onlinehash.datasets import dataset_names
from onlinehash.demo import run as demo_run
from onlinehash.demo.picture import _apart
from onlinehash.demo.pixels import draw


def test_data_sets_are_listed_with_their_sizes(folder, run):
    lines = run("datasets").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines[1:]] == list(dataset_names())
    assert lines[1].startswith("digits\t1797\t64\t10\tyes\t")


def test_data_sets_as_json_say_what_is_here(folder, run, monkeypatch):
    monkeypatch.setenv("ONLINEHASH_DATA", str(folder))
    infos = {info["name"]: info for info in json.loads(run("datasets --json").stdout)}
    assert infos["digits"]["available"] is True
    assert infos["mnist"]["available"] is False
    assert infos["mnist"]["n_classes"] == 10


def test_the_demo_shows_a_rise_searches_and_a_picture(folder, run):
    result = run("demo --quick --out pictures/here")
    text = result.stdout
    assert "1500 labelled instances arrive" in text
    assert "HROH, 32 bits: mAP" in text
    assert "HCOH, 32 bits: mAP" in text
    assert "✓" in text
    assert "█" in text
    assert "Picture: pictures/here/demo.png" in text
    assert Path("pictures/here/demo.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in Path("pictures/here").iterdir()] == ["demo.png"]
    assert max(map(len, text.splitlines())) < 110
    assert result.stderr == ""
    assert not {"\x1b", "\r"} & set(text)


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
    encoder = demo_run.HCOH(32, random_state=0).partial_fit(*split.stream).snapshot()
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


@pytest.mark.slow
def test_everything_is_compiled_ahead(run):
    assert "Compiled." in run("compile").stderr
