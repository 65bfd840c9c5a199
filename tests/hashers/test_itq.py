"""ITQ: exact principal directions from sums, and a rotation that brings projections close to their signs."""

import numpy as np
import pytest
from tests.reference import itq as slow

from onlinehash import LSH, load_dataset
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers._principal import random_rotation
from onlinehash.hashers.itq import ITQ, fit_rotation
from onlinehash.hashers.sketchhash import SketchHash
from onlinehash.metrics import Ranking


def digits(seed=0):
    return load_dataset("digits").split("published", seed)


def test_equals_the_slow_twin():
    X = digits().stream.X.astype(np.float64)
    encoder = ITQ(12, preprocess="none", random_state=4).partial_fit(X).snapshot()
    V = slow.directions(X, 12)
    Z = (X - X.mean(axis=0)) @ V  # 1500 rows: the sample holds them all
    R = slow.rotate(Z, random_rotation(V, 4, 0), 50)[-1]
    assert np.allclose(encoder.weights, V @ R, rtol=0, atol=1e-9)
    assert np.allclose(encoder.intercept, -X.mean(axis=0) @ V @ R, rtol=0, atol=1e-9)


def test_no_iteration_raises_the_loss_and_rotations_stay_orthogonal():
    X = digits().stream.X.astype(np.float64)
    V = slow.directions(X, 16)
    Z, start = (X - X.mean(axis=0)) @ V, random_rotation(V, 0, 0)
    expected = slow.rotate(Z, start, 30)
    losses = []
    for n_iterations in range(31):
        R = fit_rotation(Z, start, n_iterations)
        assert np.allclose(R.T @ R, np.eye(16), atol=1e-12)
        assert np.allclose(R, expected[n_iterations], atol=1e-9)
        losses.append(slow.loss(Z, R))
    assert (np.diff(losses) <= 1e-9).all()
    assert losses[-1] < 0.98 * losses[0]


def test_mean_and_covariance_are_exact():
    X = np.random.default_rng(0).normal(5.0, 1.0, size=(1024, 9)) * np.arange(1, 10)
    hasher = ITQ(4, preprocess="none", random_state=0)
    for start in range(0, len(X), 100):
        hasher.partial_fit(X[start : start + 100])
    assert np.allclose(hasher.mean_, X.mean(axis=0), rtol=1e-13)
    assert np.allclose(hasher.covariance_, np.cov(X.T, bias=True), rtol=1e-11, atol=1e-11)


def test_the_cut_of_the_stream_makes_no_difference_at_all():
    X = digits().stream.X
    whole = ITQ(16, sample_size=300, random_state=0).partial_fit(X).snapshot()
    cut = ITQ(16, sample_size=300, random_state=0)
    for start in range(0, len(X), 37):
        cut.partial_fit(X[start : start + 37])
    assert np.array_equal(cut.snapshot().weights, whole.weights)
    assert np.array_equal(cut.snapshot().intercept, whole.intercept)


def test_sample_is_uniform_over_the_stream():
    X = np.arange(1024.0)[:, None] @ np.ones((1, 2))
    means = [
        ITQ(1, sample_size=100, preprocess="none", random_state=seed).partial_fit(X)._sample[:, 0].mean()
        for seed in range(50)
    ]
    assert abs(np.mean(means) - 511.5) < 4 * np.std(means) / np.sqrt(50)
    assert len(set(means)) == 50


def test_constant_features_and_single_rows_give_orthonormal_hash_functions():
    X = np.random.default_rng(0).normal(size=(300, 10))
    X[:, :5] = 2.0
    for n_rows in (1, 3, 300):
        weights = ITQ(8, random_state=0).partial_fit(X[:n_rows]).snapshot().weights
        assert np.allclose(weights.T @ weights, np.eye(8), atol=1e-12)


def test_retrieves_better_than_methods_that_forget():
    scores = {"itq": [], "sketchhash": [], "lsh": []}
    for seed in range(4):
        split = digits(seed)
        for method in (ITQ, SketchHash, LSH):
            encoder = method(16, preprocess="none", random_state=seed).fit(split.stream.X).snapshot()
            codes = encoder.encode(split.queries.X), encoder.encode(split.database.X)
            ranking = Ranking(codes[0], split.queries.y, codes[1], split.database.y)
            scores[method.name].append(ranking.mean_average_precision())
    means = {name: np.mean(values) for name, values in scores.items()}
    assert means["itq"] > means["sketchhash"] + 0.02
    assert means["sketchhash"] > means["lsh"]


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"n_bits": 11}, "n_bits=11 is more than n_features=10; ITQ"),
        ({"n_iterations": -1}, "n_iterations=-1 is not an integer of at least 0"),
        ({"sample_size": 0}, "sample_size=0 is not positive"),
    ],
)
def test_refuses_settings_that_cannot_work(params, told):
    with pytest.raises(InvalidInputError, match=told):
        ITQ(**{"n_bits": 4, **params}).partial_fit(np.ones((20, 10)))
