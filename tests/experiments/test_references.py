import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier

from onlinehash import HCOH, load_dataset, pack_signs, unpack_bits
from onlinehash.encoders.calibration import softmax
from onlinehash.exceptions import FileFormatError, InvalidInputError, NotLearnedError, UnknownNameError
from onlinehash.experiments import REFERENCES, Run, evaluate, parse_plan, run
from onlinehash.experiments.references import (
    Reference,
    _calibrated,
    cca_itq,
    class_lists,
    classifier,
    cosine_quality,
    float_features,
    hcsdh,
    hroh,
    knn,
    learned,
    posteriors,
    quantised,
    sign,
)
from onlinehash.indexes import ClassListIndex
from onlinehash.types import Batch

DIGITS = {"dataset": "digits", "bits": [8, 16], "seeds": [0, 1]}


@pytest.fixture(scope="module")
def split():
    return load_dataset("digits").split("published", seed=0)


def slow_quality(queries, query_labels, items, labels, map_at, precision_at, denominator="found"):
    """Rank by cosine, one query and one item at a time."""
    averages, precisions, recalls = [], [], []
    for x, label in zip(queries, query_labels, strict=True):
        scores = [x @ item / (np.linalg.norm(item) or 1) for item in items]
        ranked = sorted(range(len(items)), key=lambda i: -scores[i])
        hits, total = 0, 0.0
        for place, i in enumerate(ranked[:map_at], start=1):
            if labels[i] == label:
                hits += 1
                total += hits / place
        n_relevant = sum(labels == label)
        n_best = hits if denominator == "found" else min(map_at or n_relevant, n_relevant)
        if n_best:
            averages.append(total / n_best)
        head = ranked[:precision_at]
        precisions.append(sum(labels[i] == label for i in head) / len(head))
        if (labels == label).any():
            recalls.append(sum(labels[i] == label for i in head) / sum(labels == label))
    return np.mean(averages), np.mean(precisions), np.mean(recalls)


@pytest.mark.parametrize("denominator", ["found", "possible"])
@pytest.mark.parametrize("map_at, precision_at", [(None, 10), (7, 20), (30, 5), (500, 500)])
def test_cosine_ranking_equals_the_slow_one(monkeypatch, map_at, precision_at, denominator):
    rng = np.random.default_rng(0)
    items, labels = rng.normal(size=(60, 5)), rng.integers(4, size=60)
    items[3] = 0
    items[20:50] = items[5]  # ties: storage order
    queries, query_labels = rng.normal(size=(9, 5)), rng.integers(5, size=9)  # class 4 is not in the database
    monkeypatch.setattr("onlinehash.experiments.references._SCORES_PER_BLOCK", 200)
    sides, cuts = (queries, query_labels, items, labels), {"map_at": map_at, "precision_at": precision_at}
    found = cosine_quality(*sides, **cuts, denominator=denominator)
    assert found == pytest.approx(slow_quality(*sides, **cuts, denominator=denominator))


def test_float_quality_does_not_depend_on_the_stream_of_a_normalised_split(split):
    reference = Reference(float_features, preprocess="none").partial_fit(split.stream.X[:3], split.stream.y[:3])
    assert reference.snapshot().encode(split.queries.X) is split.queries.X
    plain, turned = (
        run(Run("Float", "reference:float", "digits", "published", 2048, 0, **options))["metrics"]
        for options in ({}, {"drift": "rotation", "drift_angle": 90, "label_noise": 0.5})
    )
    assert plain == turned
    assert plain["stable"]["mean_average_precision"] == plain["mean_average_precision"]


def test_sign_codes_are_the_signs_of_features_minus_the_mean_of_the_stream():
    raw = load_dataset("digits").split("online", seed=0)
    codes = Reference(sign, preprocess="running").partial_fit(*raw.stream).snapshot().encode(raw.queries.X)
    bits = unpack_bits(codes, 64)
    centred = raw.queries.X - raw.stream.X.mean(axis=0, dtype=np.float64)
    clear = np.abs(centred) > 1e-6
    np.testing.assert_array_equal(bits[clear], (centred >= 0)[clear])


def test_the_classifier_agrees_with_scikit_learn(split):
    codes = Reference(classifier, preprocess="none").partial_fit(*split.stream).snapshot().encode(split.queries.X)
    bits = unpack_bits(codes, 10)
    assert (bits.sum(axis=1) == 1).all()
    order = list(dict.fromkeys(np.unique(split.stream.y).tolist()))
    theirs = RidgeClassifier(alpha=1.0).fit(*split.stream).predict(split.queries.X)
    assert (np.array(order)[bits.argmax(axis=1)] == theirs).mean() > 0.98


def test_the_classifier_learns_the_same_in_pieces_and_skips_missing_labels(split):
    X, y = split.stream
    whole = Reference(classifier, preprocess="none").partial_fit(X[:500], y[:500])
    pieces = Reference(classifier, preprocess="none")
    for start in range(0, 500, 100):
        pieces.partial_fit(X[start : start + 100], y[start : start + 100])
    missing = y.astype(float)
    missing[500:] = np.nan
    skipping = Reference(classifier, preprocess="none").partial_fit(X, missing)
    expected = whole.snapshot().encode(split.queries.X)
    np.testing.assert_array_equal(pieces.snapshot().encode(split.queries.X), expected)
    np.testing.assert_array_equal(skipping.snapshot().encode(split.queries.X), expected)


@pytest.mark.slow
def test_the_class_predicted_by_hroh_is_that_of_its_highest_score(split, few_components):
    codes = Reference(hroh, preprocess="none").partial_fit(*split.stream).snapshot().encode(split.queries.X)
    bits = unpack_bits(codes, 10)
    assert (bits.sum(axis=1) == 1).all()
    order = np.array(list(dict.fromkeys(split.stream.y.tolist())))
    assert (order[bits.argmax(axis=1)] == split.queries.y).mean() > 0.95


def test_items_of_the_predicted_class_come_first_and_all_others_tie(split):
    encoder = Reference(classifier, preprocess="none").partial_fit(*split.stream).snapshot()
    queries, items = encoder.encode(split.queries.X), encoder.encode(split.database.X)
    q, n = split.queries.y, len(items)
    averages = []
    for code, label in zip(queries, q, strict=True):
        same, relevant = (items == code).all(axis=1), split.database.y == label
        order = np.random.default_rng(0).permutation(n)
        order = np.concatenate([order[same[order]], order[~same[order]]])
        hits = relevant[order]
        averages.append((np.cumsum(hits) / np.arange(1, n + 1))[hits].mean())
    assert evaluate(encoder, split).mean_average_precision == pytest.approx(np.mean(averages), abs=0.01)


@pytest.mark.parametrize("discriminant", [False, True])
def test_supervised_directions_are_those_of_scikit_learn(split, discriminant):
    """LDA and CCA of one label per row span the same space; more bits than directions are a rotation of it."""
    rng, y = np.random.default_rng(0), np.arange(400) % 4
    X = rng.normal(size=(400, 6)) @ rng.normal(size=(6, 6)) + rng.normal(size=(4, 6))[y]
    encoder = Reference(cca_itq, preprocess="none", n_bits=16, discriminant=discriminant).partial_fit(X, y).snapshot()
    weights = encoder.encode.__self__.weights
    theirs = LinearDiscriminantAnalysis(n_components=3).fit(X, y).scalings_[:, :3]
    ours, theirs = np.linalg.svd(weights)[0][:, :3], np.linalg.qr(theirs)[0]
    assert np.linalg.matrix_rank(weights) == 3
    assert np.linalg.svd(ours.T @ theirs)[1].min() > 0.999
    learned = (
        Reference(cca_itq, preprocess="none", n_bits=16, discriminant=discriminant)
        .partial_fit(*split.stream)
        .snapshot()
    )
    assert evaluate(learned, split).mean_average_precision > 0.75


def test_a_reference_that_has_learned_nothing_says_so():
    for reference in REFERENCES.values():
        with pytest.raises(NotLearnedError):
            Reference(reference).snapshot()
    with pytest.raises(NotLearnedError):
        Reference(classifier).partial_fit(np.eye(2), np.full(2, np.nan)).snapshot()


def test_a_plan_runs_a_reference_once_a_seed_with_the_bits_it_stores():
    methods = {"HCOH": {}} | {name: {"hasher": name} for name in REFERENCES}
    runs = parse_plan("references", DIGITS | {"methods": methods}).runs
    stored = [(run.hasher, run.n_bits, run.seed) for run in runs if run.hasher in REFERENCES]
    sizes = {"reference:float": 32 * 64, "reference:sign": 64, "reference:classifier": 4, "reference:hroh": 4}
    sizes |= {"reference:knn": 4, "reference:posteriors": 320, "reference:class_lists": 160}
    sizes |= {"reference:learned": 32 * 64 + 160}
    batch = ("reference:hcsdh", "reference:cca_itq", "reference:quantised")
    by_length = [(name, n_bits, seed) for name in batch for n_bits in DIGITS["bits"] for seed in (0, 1)]
    assert sorted(stored) == sorted(
        [(name, n_bits, seed) for name, n_bits in sizes.items() for seed in (0, 1)] + by_length
    )


def test_a_reference_takes_no_bits_and_an_unknown_one_is_named():
    with pytest.raises(FileFormatError, match="leave out bits"):
        parse_plan("bits", DIGITS | {"methods": {"Float": {"hasher": "reference:float", "bits": [8]}}})
    with pytest.raises(UnknownNameError, match="Did you mean 'reference:float'"):
        parse_plan("typo", DIGITS | {"methods": {"Float": {"hasher": "reference:flat"}}})


@pytest.mark.slow
@pytest.mark.parametrize("name", REFERENCES)
def test_results_of_references_have_the_form_of_all_results(name, few_components):
    extra = {"unseen": 0.2, "checkpoints": 2 if name != "reference:classifier" else 0}
    result = run(Run("Reference", name, "digits", "online", 64, 0, **extra))
    assert {"mean_average_precision", "precision", "stable", "map_at", "unseen_at_all"} < set(result["metrics"])
    assert 0.3 < result["metrics"]["mean_average_precision"] < 0.9
    assert set(result["seconds"]) == {"learning", "encoding", "evaluation"}


@pytest.fixture(scope="module")
def scored(split):
    """Return the calibrated encoder that references of scores make, and some rows."""
    return _calibrated([split.stream], "unit", random_state=0)[0], split


def order_of(reference, split, n=20):
    encoder = reference.partial_fit(*split.stream).snapshot()
    queries, items = encoder.for_queries.encode(split.queries.X[:n]), encoder.encode(split.database.X[:500])
    return queries, queries @ items.T / np.linalg.norm(items, axis=1)


@pytest.mark.slow
def test_posteriors_rank_by_the_probability_of_the_same_class(scored):
    encoder, split = scored
    both = (split.queries.X[:20], split.database.X[:500])
    p, q = (softmax(encoder.class_scores(X), encoder.calibration.temperature) for X in both)
    assert np.allclose(2.0 * order_of(Reference(posteriors, preprocess="unit"), split)[1], p @ q.T, atol=1e-5)


@pytest.mark.slow
def test_class_lists_rank_as_their_index_does(scored):
    encoder, split = scored
    index = ClassListIndex()
    index.upsert(encoder.class_lists(split.database.X[:500]), np.arange(500))
    found = index.search(encoder.class_lists(split.queries.X[:20]), 500)
    distances = 1.0 - 2.0 * order_of(Reference(class_lists, preprocess="unit"), split)[1]
    assert np.allclose(np.take_along_axis(distances, found.ids, axis=1), found.distances, atol=1e-5)


@pytest.mark.slow
def test_the_learned_order_is_that_of_a_calibration(scored):
    encoder, split = scored
    items, queries = split.database.X[:500], split.queries.X[:20]
    unit = [X / np.linalg.norm(X, axis=1, keepdims=True) for X in (queries, items)]
    lists, cosines = encoder.class_lists(items), unit[0] @ unit[1].T
    expected = [
        encoder.calibration.distances(scores, lists, near)
        for scores, near in zip(encoder.class_scores(queries), cosines, strict=True)
    ]
    assert np.allclose(1.0 - 2.0 * order_of(Reference(learned, preprocess="unit"), split)[1], expected, atol=1e-4)


@pytest.mark.slow
def test_more_levels_of_quantisation_are_nearer_to_the_probabilities(scored):
    _, split = scored
    exact = order_of(Reference(posteriors, preprocess="unit"), split)[1]
    errors = [
        np.abs(order_of(Reference(quantised, preprocess="unit", n_bits=n), split)[1] - exact).mean()
        for n in (8, 16, 32)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.01
    with pytest.raises(InvalidInputError, match="n_bits=12 is not a multiple of 8"):
        Reference(quantised, n_bits=12).partial_fit(*split.stream).snapshot()


def test_nearest_neighbours_predict_as_those_of_scikit_learn(split):
    (X, y), queries = split.stream, split.queries.X
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, queries)]
    expected = KNeighborsClassifier(1).fit(unit[0], y).predict(unit[1])
    reference = (
        Reference(knn, preprocess="none", n_neighbors=1).partial_fit(X[:900], y[:900]).partial_fit(X[900:], y[900:])
    )
    assert np.array_equal(unpack_bits(reference.snapshot().encode(queries), 10).argmax(axis=1), expected)
    ten = Reference(knn, preprocess="none").partial_fit(X, y).snapshot().encode(queries)
    voted = KNeighborsClassifier(10).fit(unit[0], y).predict(unit[1])
    assert (unpack_bits(ten, 10).argmax(axis=1) == voted).mean() > 0.98  # equal votes differ


def test_hc_sdh_is_ridge_regression_on_the_codewords_of_all_rows(split):
    (X, y), queries = split.stream, split.queries
    parts = (
        Reference(hcsdh, preprocess="none", n_bits=16, n_anchors=300)
        .partial_fit(X[:700], y[:700])
        .partial_fit(X[700:], y[700:])
    )
    whole = Reference(hcsdh, preprocess="none", n_bits=16, n_anchors=300).partial_fit(X, y)
    codes = whole.snapshot().encode(queries.X)
    assert np.array_equal(parts.snapshot().encode(queries.X), codes)
    assert evaluate(whole.snapshot(), split).mean_average_precision > 0.85


@pytest.mark.slow
def test_a_method_takes_the_features_of_hroh(few_components):
    plain = run(Run("HCOH", "hcoh", "digits", "published", 16, 0))
    matched = Run("HCOH", "hcoh", "digits", "published", 16, 0, inputs="hroh", params={"learning_rate": 1.0})
    first = run(matched)
    assert first["metrics"]["mean_average_precision"] > plain["metrics"]["mean_average_precision"] + 0.05
    params = {"preprocess": "unit", "n_components": 256}
    asymmetric = Run("HROH", "hroh", "digits", "published", 16, 0, ranking="asymmetric", params=params)
    hamming = run(replace(asymmetric, ranking="hamming"))
    assert run(asymmetric)["metrics"]["mean_average_precision"] > hamming["metrics"]["mean_average_precision"] - 0.01


def test_a_database_coded_by_its_own_labels_looks_better_than_one_that_is_hashed():
    fair = run(Run("HCOH", "hcoh", "digits", "published", 16, 0))
    published = run(Run("HCOH", "hcoh", "digits", "published", 16, 0, database_codes="labels"))
    assert published["metrics"]["mean_average_precision"] > fair["metrics"]["mean_average_precision"] + 0.02
    with pytest.raises(InvalidInputError, match="no codewords_"):
        run(Run("LSH", "lsh", "digits", "published", 16, 0, database_codes="labels"))


def test_sides_that_are_centred_by_their_own_mean_have_balanced_bits(split):
    encoder = HCOH(16, preprocess="none", random_state=0).partial_fit(*split.stream).snapshot()
    values = encoder.project(split.queries.X + 1.0)
    codes = sys.modules["onlinehash.experiments.run"]._centred_codes(encoder, split.queries.X + 1.0)
    assert np.array_equal(codes, pack_signs(values - values.mean(axis=0)))
    result = run(Run("HCOH", "hcoh", "digits", "published", 16, 0, database_codes="centred"))
    assert result["metrics"]["mean_average_precision"] > 0.5
    with pytest.raises(InvalidInputError, match="Only encoders of hashers"):
        run(Run("Cosine", "reference:float", "digits", "published", 0, 0, database_codes="centred"))


def test_items_never_learned_from_are_evaluated_apart(split):
    result = run(Run("HCOH", "hcoh", "digits", "published", 16, 0))
    database = Batch(*(side[len(split.stream.y) :] for side in split.database))
    encoder = HCOH(16, preprocess="none", random_state=0).partial_fit(*split.stream).snapshot()
    assert result["metrics"]["new_items"] == asdict(evaluate(encoder, replace(split, database=database)))


def test_candidates_are_the_neighbours_of_points_near_a_query():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.array([[0, 0], [255, 255]], np.uint8), 2000, axis=0)  # two far groups
    codes ^= rng.integers(0, 4, codes.shape, np.uint8)
    found = sys.modules["onlinehash.experiments.run"]._candidates(codes[:3], codes, 4000, seed=0)
    assert 500 <= len(found) <= 2000 and found.max() < 2000  # nothing of the other group
    result = run(
        Run("FOH", "foh", "digits", "published", 16, 0, database_codes="candidates", params={"batch_size": 300})
    )
    assert 0.2 < result["metrics"]["mean_average_precision"] < 1.0
