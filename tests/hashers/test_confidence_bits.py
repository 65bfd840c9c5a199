"""Confidence bits: rows whose class is not sure have some bits inverted, and are found after those that are."""

import numpy as np
import pytest
from tests.reference import hroh as reference

from onlinehash import HROH, Encoder
from onlinehash.codes import hamming_distances
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers import load_hasher
from onlinehash.metrics import Ranking

N_CLASSES = 30


def stream(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, N_CLASSES, n)
    centres = np.random.default_rng(99).normal(size=(N_CLASSES, 16))
    return centres[y] + 1.1 * rng.normal(size=(n, 16)), y


def make(n_bits=16, **params):
    return HROH(n_bits, **{"n_components": 64, "bandwidth": 0.8, "random_state": 0} | params)


@pytest.mark.parametrize("params", [{}, {"general_bits": 5}, {"sharpness": None}, {"sharpness": 9.0}], ids=str)
@pytest.mark.parametrize("confidence_bits", [1, 2, 3, 99])
def test_the_bits_nearest_to_zero_are_inverted_where_the_class_is_not_sure(params, confidence_bits):
    X, y = stream()
    encoder = make(confidence_bits=confidence_bits, **params).partial_fit(X, y).snapshot()
    plain = encoder.for_queries
    n_class_bits = encoder.codewords.shape[1]
    expected = reference.doubted(plain.project(X), plain.class_scores(X), n_class_bits, confidence_bits)
    assert np.allclose(encoder.project(X), expected, atol=1e-6)
    assert np.array_equal(encoder.project(X)[:, n_class_bits:], plain.project(X)[:, n_class_bits:])
    inverted = hamming_distances(encoder.encode(X), plain.encode(X)).diagonal()
    assert 0 < inverted.max() <= min(confidence_bits, n_class_bits)
    codes, scores = encoder.encode_and_score(X)
    assert np.array_equal(codes, encoder.encode(X))
    assert np.array_equal(scores, plain.class_scores(X))


def test_sure_items_are_found_first_and_more_of_what_is_found_is_right():
    X, y = stream(6000)
    quality = []
    for confidence_bits in (0, 2):
        encoder = make(confidence_bits=confidence_bits).partial_fit(X[:3000], y[:3000]).snapshot()
        items, queries = X[3500:], encoder.for_queries.encode(X[3000:3500])
        ranking = Ranking(queries, y[3000:3500], encoder.encode(items), y[3500:])
        quality.append((ranking.mean_average_precision(), ranking.precision_at(10)))
    assert quality[1][0] > quality[0][0] + 0.01
    assert quality[1][1] > quality[0][1] + 0.02


def test_a_bit_that_rounding_of_the_margin_decides_is_near_zero():
    words = np.array([[1, 1, 1], [1, -1, -1]], np.int8)
    encoder = Encoder(np.eye(2), codewords=words, sharpness=3.0, confidence_bits=1)
    steps = np.linspace(0.1, 0.9, 1001)
    values = encoder.project(np.stack([np.ones(1001), steps], axis=1))
    assert np.abs(np.diff(values, axis=0)).max() < 0.02
    assert np.array_equal(values[:, 1] < 0, steps > 0.4)  # a margin of less than .6


@pytest.mark.parametrize("scores", [np.zeros((1, 2)), np.ones((1, 2))])
def test_of_bits_of_equal_size_the_first_are_inverted(scores):
    words = np.array([[1, 1, -1, -1], [1, -1, 1, -1]], np.int8)
    encoder = Encoder(np.eye(2), codewords=words, sharpness=2.0, confidence_bits=1)
    values = encoder.project(scores)
    plain = encoder.for_queries.project(scores)
    assert np.array_equal(np.abs(values), np.abs(plain))
    assert np.array_equal(values[0] != plain[0], [False] * 4)  # -0.0 is 0.0: the bit stays


def test_one_class_is_always_sure():
    X, _ = stream(50)
    encoder = make(confidence_bits=2).partial_fit(X, np.zeros(50, int)).snapshot()
    assert np.array_equal(encoder.encode(X), encoder.for_queries.encode(X))


def test_asymmetric_queries_keep_their_signs():
    X, y = stream()
    encoder = make(confidence_bits=2).partial_fit(X, y).snapshot()
    assert np.array_equal(encoder.encode_asymmetric(X), np.tanh(encoder.for_queries.project(X)))


def test_without_confidence_bits_queries_are_encoded_as_items_are():
    X, y = stream()
    encoder = make().partial_fit(X, y).snapshot()
    assert encoder.for_queries is encoder


def test_they_come_last_and_may_change_at_any_time(tmp_path):
    X, y = stream()
    hasher = make(confidence_bits=2).partial_fit(X, y)
    values = hasher.project(X)
    merged = make(confidence_bits=2).partial_fit(X[:1024], y[:1024])
    merged.merge(merged.empty_clone().partial_fit(X[1024:], y[1024:]))
    assert np.allclose(merged.project(X), values, atol=1e-6)
    twice = make(confidence_bits=2).partial_fit(X, y).partial_fit(X[:9], y[:9]).unlearn(X[:9], y[:9])
    assert np.allclose(twice.project(X), values, atol=1e-5)
    plain = make().partial_fit(X, y)
    assert np.array_equal(plain.set_params(confidence_bits=2).project(X), values)
    assert plain.with_bits(8).confidence_bits == 2
    hasher.save(tmp_path / "hasher.oh")
    assert np.array_equal(load_hasher(tmp_path / "hasher.oh").project(X), values)
    hasher.snapshot().save(tmp_path / "encoder.oh")
    loaded = Encoder.load(tmp_path / "encoder.oh")
    assert (loaded.confidence_bits, loaded.sharpness) == (2, hasher.sharpness_)
    assert np.array_equal(loaded.project(X), values)


def test_scores_are_sharper_with_them_because_inverted_bits_say_what_is_not_sure():
    X, y = stream()
    plain, confident = (make(confidence_bits=n).partial_fit(X, y).sharpness_ for n in (0, 2))
    assert confident == pytest.approx(2 * plain)
    few = make(32, confidence_bits=2).partial_fit(X, y % 3)
    assert few.sharpness_ == 2.0
    assert few.set_params(confidence_bits=0).sharpness_ == 0.0


@pytest.mark.parametrize("value", [-1, 1.5, True, "two", None])
def test_another_value_is_refused(value):
    X, y = stream(20)
    with pytest.raises(InvalidInputError, match=f"confidence_bits={value!r} is not an integer"):
        make(confidence_bits=value).partial_fit(X, y)
