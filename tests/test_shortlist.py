"""Encoders with many classes score the likely ones only."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import HROH, Encoder
from onlinehash.encoders.shortlist import N_LISTED

pytestmark = pytest.mark.slow

N_CLASSES, N_FEATURES = 1100, 40
CENTRES = np.random.default_rng(0).normal(size=(N_CLASSES, N_FEATURES)).astype(np.float32)


def rows(seed, n_rows=4):
    y = np.tile(np.arange(N_CLASSES), n_rows)
    return CENTRES[y] + 0.4 * np.random.default_rng(seed).normal(size=(len(y), N_FEATURES)).astype(np.float32), y


@pytest.fixture(scope="module")
def encoder():
    X, y = rows(1)
    return HROH(32, general_bits=8, features="none", assignment="arrival", random_state=0).partial_fit(X, y).snapshot()


def all_scores(encoder, X):
    values = encoder.features.transform(X) @ encoder.weights + encoder.intercept
    return values[:, :N_CLASSES], values[:, N_CLASSES:]


def test_the_likely_classes_have_their_scores_and_others_none(encoder):
    X, y = rows(2, 1)
    scores, (exact, _) = encoder.class_scores(X), all_scores(encoder, X)
    is_listed = scores != 0.0
    assert (is_listed.sum(axis=1) == N_LISTED).all()
    np.testing.assert_allclose(scores[is_listed], exact[is_listed], atol=1e-5)
    assert (scores.argmax(axis=1) == exact.argmax(axis=1)).mean() > 0.99
    assert (np.array(encoder.classes)[scores.argmax(axis=1)] == y).mean() > 0.9


def test_bits_follow_from_the_listed_scores_and_the_rest_of_the_columns(encoder):
    X, _ = rows(3, 1)
    scores, values = encoder.class_scores(X).astype(np.float64), encoder.project(X)
    sharp = np.expm1(encoder.sharpness * scores / np.abs(scores).max(axis=1, keepdims=True))
    np.testing.assert_allclose(values[:, :24], sharp @ encoder.codewords / np.expm1(encoder.sharpness), atol=1e-4)
    np.testing.assert_allclose(values[:, 24:], all_scores(encoder, X)[1], atol=1e-5)
    codes, together = encoder.encode_and_score(X)
    np.testing.assert_array_equal(codes, encoder.encode(X))
    np.testing.assert_array_equal(together, encoder.class_scores(X))


def test_one_row_and_many_have_the_same_scores(encoder):
    X, _ = rows(4, 1)
    one_by_one = np.concatenate([encoder.class_scores(row[None]) for row in X[:20]])
    np.testing.assert_allclose(one_by_one, encoder.class_scores(X[:20]), atol=1e-6)


def test_a_saved_encoder_is_the_same_and_holds_its_weights_once(encoder, tmp_path):
    X, _ = rows(5, 1)
    encoder.save(tmp_path / "encoder")
    loaded = Encoder.load(tmp_path / "encoder")
    np.testing.assert_array_equal(loaded.encode(X), encoder.encode(X))
    np.testing.assert_array_equal(loaded.class_scores(X), encoder.class_scores(X))
    assert loaded.weights.T.flags.c_contiguous, "classes are read one by one, without a copy"


def test_another_program_makes_the_same_codes(encoder, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    X, _ = rows(6, 1)
    encoder.to_onnx(tmp_path / "encoder.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "encoder.onnx"))
    codes, values = session.run(["codes", "values"], {"vectors": X})
    off = np.abs(values - encoder.project(X)).max(axis=1)
    assert (off < 1e-3).mean() > 0.95, "but for rows whose last class on the list is another, by rounding"
    assert (np.bitwise_count(codes ^ encoder.encode(X)).sum(axis=1) > 0).mean() < 0.02


def test_a_collection_of_many_classes_finds_names_and_keeps_them(tmp_path):
    import onlinehash as oh

    X, y = rows(7, 3)
    labels = [f"source {number}" for number in y]
    hasher = HROH(64, general_bits=32, features="none", assignment="arrival", random_state=0)
    with oh.Collection.open(tmp_path / "items.oh", hasher, "manual") as items:
        items.upsert(range(len(y)), X, labels)
        items.refresh()
    with oh.Collection.open(tmp_path / "items.oh") as items:
        queries, wanted = rows(8, 1)
        found = items.search(queries[:200], 1, include=["labels"])
        assert np.mean([names[0] == f"source {n}" for names, n in zip(found.labels, wanted, strict=False)]) > 0.9
        decisions = items.classify(queries[:200], max_error=0.1)
        given = [(each.label, f"source {n}") for each, n in zip(decisions, wanted, strict=False) if each.label]
        assert len(given) > 100
        assert np.mean([label != own for label, own in given]) < 0.1
        assert all(items.search(X[i]).ids[0] == i for i in range(0, len(y), 500))
