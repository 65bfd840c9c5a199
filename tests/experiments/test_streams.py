import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onlinehash import load_dataset
from onlinehash.exceptions import FileFormatError, InvalidInputError
from onlinehash.experiments import Run, StreamOptions, load_plan, make_stream, parse_plan, read_results, reproduce, run
from onlinehash.experiments.streams import turn_towards, unseen_classes

DIGITS = {"dataset": "digits", "bits": [16], "seeds": [0]}
PLANS = sorted((Path(__file__).parents[2] / "experiments").glob("*.toml"))


@pytest.fixture(scope="module")
def split():
    return load_dataset("digits").split(seed=2)


def rows_of(X):
    return sorted(map(bytes, np.ascontiguousarray(X)))


def test_a_plain_stream_is_not_copied(split):
    plain = make_stream(split, StreamOptions(), seed=0)
    assert plain.stream.X is split.stream.X and plain.stream.y is split.stream.y


@pytest.mark.parametrize(
    "options",
    [
        {"order": "sorted"},
        {"order": "groups", "groups": 5},
        {"drift": "rotation", "drift_angle": 30},
        {"label_noise": 0.2},
        {"missing_labels": 0.5},
        {"unseen": 0.25},
    ],
)
def test_only_the_stream_changes_and_the_seed_decides_how(split, options):
    before = split.database.X.copy(), split.database.y.copy()
    first, again, other = (make_stream(split, StreamOptions(**options), seed) for seed in (0, 0, 1))
    assert first.database is split.database and first.queries is split.queries
    np.testing.assert_array_equal(split.database.X, before[0])
    np.testing.assert_array_equal(split.database.y, before[1])
    np.testing.assert_array_equal(first.stream.X, again.stream.X)
    np.testing.assert_array_equal(first.stream.y, again.stream.y)
    same = np.array_equal(first.stream.X, other.stream.X) and np.array_equal(first.stream.y, other.stream.y)
    assert same == (options == {"order": "sorted"})


def test_a_sorted_stream_is_class_after_class_in_stream_order(split):
    sorted_stream = make_stream(split, StreamOptions(order="sorted"), seed=0).stream
    slow = [i for label in range(10) for i in range(len(split.stream.y)) if split.stream.y[i] == label]
    np.testing.assert_array_equal(sorted_stream.X, split.stream.X[slow])


def test_groups_of_classes_follow_each_other_shuffled_inside(split):
    stream = make_stream(split, StreamOptions(order="groups", groups=4), seed=3).stream
    assert rows_of(stream.X) == rows_of(split.stream.X)
    places = {label: np.flatnonzero(stream.y == label) for label in range(10)}
    spans = sorted((rows[0], rows[-1]) for rows in places.values())
    groups = 1
    for k in range(1, 10):
        end = max(last for _, last in spans[:k])
        groups += spans[k][0] > end  # a class that starts after all before it have ended opens a group
    assert groups == 4
    for label, rows in places.items():
        np.testing.assert_array_equal(stream.X[rows], split.stream.X[split.stream.y == label])


def test_drift_turns_every_row_by_its_own_angle_in_every_plane():
    rng = np.random.default_rng(0)
    for n_features in (6, 7):
        X = rng.normal(size=(5, n_features))
        turned = X.copy()
        turn_towards(turned, 80.0, seed=1)
        pairs = np.random.default_rng([1, 2]).permutation(n_features)
        half = n_features // 2
        for t, (before, after) in enumerate(zip(X, turned, strict=True)):
            angle = math.radians(80 * (t / 4 - 1))
            expected = before.copy()
            for i, j in zip(pairs[:half], pairs[half : 2 * half], strict=True):
                expected[i] = math.cos(angle) * before[i] - math.sin(angle) * before[j]
                expected[j] = math.sin(angle) * before[i] + math.cos(angle) * before[j]
            np.testing.assert_allclose(after, expected, atol=1e-12)
        np.testing.assert_array_equal(turned[-1], X[-1])


def test_drift_by_pieces_is_drift_at_once(monkeypatch):
    X = np.random.default_rng(0).normal(size=(50, 9)).astype(np.float32)
    whole, pieces = X.copy(), X.copy()
    turn_towards(whole, 90, seed=0)
    monkeypatch.setattr("onlinehash.experiments.streams._ELEMENTS_PER_CHUNK", 20)
    turn_towards(pieces, 90, seed=0)
    np.testing.assert_array_equal(whole, pieces)
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), np.linalg.norm(X, axis=1), rtol=1e-5)


def test_the_share_of_wrong_labels_is_as_asked_and_hits_every_class(split):
    y = make_stream(split, StreamOptions(label_noise=0.2), seed=0).stream.y
    wrong = y != split.stream.y
    assert wrong.sum() == 300
    assert set(y[wrong].tolist()) == set(split.stream.y[wrong].tolist()) == set(range(10))


def test_the_share_of_missing_labels_is_as_asked_and_the_others_stay(split):
    y = make_stream(split, StreamOptions(missing_labels=0.5), seed=0).stream.y
    missing = np.isnan(y)
    assert missing.sum() == 750
    np.testing.assert_array_equal(y[~missing], split.stream.y[~missing])


def test_wrong_labels_are_drawn_before_labels_go_missing(split):
    noisy = make_stream(split, StreamOptions(label_noise=0.2), seed=0).stream.y
    both = make_stream(split, StreamOptions(label_noise=0.2, missing_labels=0.5), seed=0).stream.y
    kept = ~np.isnan(both)
    np.testing.assert_array_equal(both[kept], noisy[kept])


def test_unseen_classes_are_in_the_database_and_not_in_the_stream(split):
    stream = make_stream(split, StreamOptions(unseen=0.25), seed=4).stream
    left_out = set(range(10)) - set(stream.y.tolist())
    assert left_out == set(unseen_classes(split.database.y, 0.25, seed=4).tolist())
    assert len(left_out) == 3
    assert len(stream.y) == sum(label not in left_out for label in split.stream.y.tolist())


@pytest.mark.parametrize(
    "options",
    [
        {"order": "backwards"},
        {"order": "groups"},
        {"groups": 3},
        {"order": "groups", "groups": 2.5},
        {"drift": "rotation"},
        {"drift_angle": 10.0},
        {"label_noise": 1.0},
        {"missing_labels": -0.1},
        {"unseen": "many"},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(InvalidInputError):
        StreamOptions(**options)
    with pytest.raises(InvalidInputError):
        parse_plan("faulty", DIGITS | options | {"methods": {"HCOH": {}}})


def test_more_groups_than_classes_or_no_class_left_is_refused(split):
    with pytest.raises(InvalidInputError, match="groups=11"):
        make_stream(split, StreamOptions(order="groups", groups=11), seed=0)
    with pytest.raises(InvalidInputError, match="leaves none"):
        make_stream(split, StreamOptions(unseen=0.97), seed=0)


def test_supervised_methods_skip_rows_without_a_label(split):
    half = run(Run("HCOH", "hcoh", "digits", "online", 16, 0, missing_labels=0.9))
    full = run(Run("HCOH", "hcoh", "digits", "online", 16, 0))
    assert 0.3 < half["metrics"]["mean_average_precision"] < full["metrics"]["mean_average_precision"]


def test_a_sorted_stream_makes_sgd_forget():
    shuffled, in_order = (
        run(Run("HCOH", "hcoh", "digits", "published", 16, 0, order=order))["metrics"]["mean_average_precision"]
        for order in ("shuffled", "sorted")
    )
    assert in_order < shuffled - 0.1


def test_unseen_metrics_are_those_of_the_parts():
    from onlinehash import HCOH, mean_average_precision

    metrics = run(Run("HCOH", "hcoh", "digits", "online", 16, 1, unseen=0.25))["metrics"]
    whole = load_dataset("digits").split(seed=1)
    part = make_stream(whole, StreamOptions(unseen=0.25), 1)
    encoder = HCOH(16, random_state=1).partial_fit(*part.stream).snapshot()
    unseen = unseen_classes(whole.database.y, 0.25, seed=1)

    def value(queries, items):
        q, d = whole.queries, whole.database
        return mean_average_precision(
            encoder.encode(q.X[queries]), q.y[queries], encoder.encode(d.X[items]), d.y[items]
        )

    asked, stored = np.isin(whole.queries.y, unseen), np.isin(whole.database.y, unseen)
    assert metrics["seen_at_seen"] == pytest.approx(value(~asked, ~stored))
    assert metrics["unseen_at_unseen"] == pytest.approx(value(asked, stored))
    assert metrics["unseen_at_all"] == pytest.approx(value(asked, slice(None)))
    assert metrics["seen_at_seen"] > metrics["unseen_at_all"]
    new = slice(len(whole.stream.y), None)
    groups = {"seen": ~asked, "unseen": asked, "all": slice(None)}
    assert metrics["open_world"].keys() == groups.keys()
    for name, queries in groups.items():
        assert metrics["open_world"][name]["mean_average_precision"] == pytest.approx(value(queries, new))


def test_the_config_of_a_plain_run_has_no_word_of_the_stream_but_its_order():
    run = Run("HCOH", "hcoh", "digits", "online", 16, 0)
    names = {"method", "hasher", "dataset", "protocol", "n_bits", "seed", "order", "checkpoints", "params"}
    assert set(run.config()) == names
    assert set(replace(run, label_noise=0.1).config()) == names | {"label_noise"}


def test_stream_options_are_shared_and_a_method_may_differ(tmp_path):
    methods = {"HCOH": {}, "LSH": {"label_noise": 0.0, "drift": "rotation", "drift_angle": 45}}
    runs = parse_plan("noisy", DIGITS | {"label_noise": 0.2, "methods": methods}).runs
    assert [(run.label_noise, run.drift_angle) for run in runs] == [(0.2, 0.0), (0.0, 45)]
    reproduce(runs, tmp_path / "noisy.jsonl")
    assert len(read_results(tmp_path / "noisy.jsonl", runs)) == 2


def test_a_grid_is_a_row_for_every_combination():
    methods = {"HCOH": {"codebook": "published", "grid": {"learning_rate": [0.1, 0.2], "label_noise": [0.0, 0.3]}}}
    runs = parse_plan("grid", DIGITS | {"methods": methods}).runs
    assert [(run.method, run.params, run.label_noise) for run in runs] == [
        (f"HCOH, learning_rate={rate}, label_noise={noise}", {"codebook": "published", "learning_rate": rate}, noise)
        for rate in (0.1, 0.2)
        for noise in (0.0, 0.3)
    ]
    assert len({run.key for run in runs}) == 4


def test_two_methods_that_get_the_same_name_are_refused():
    methods = {"HCOH": {"grid": {"learning_rate": [0.1]}}, "HCOH, learning_rate=0.1": {"hasher": "hcoh"}}
    with pytest.raises(FileFormatError, match=r"'HCOH, learning_rate=0\.1', 16 bits, seed 0 is there 2 times"):
        parse_plan("twins", DIGITS | {"methods": methods})


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_plan_of_the_project_loads(path):
    assert path.read_text().startswith("# ")
    assert load_plan(path).runs
