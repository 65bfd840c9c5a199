import numpy as np
import pytest
from tests.reference import bsodh as reference

from onlinehash import BSODH
from onlinehash.exceptions import InvalidInputError


def stream(n=300, seed=0, n_classes=5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    return rng.normal(size=(n_classes, 12))[y] + rng.normal(size=(n, 12)), y


@pytest.mark.parametrize("n_bits", [4, 11])
def test_statistics_give_the_same_as_keeping_every_item(n_bits):
    X, y = stream()
    y[100:] += y[100:] % 2 * 10  # new classes appear on the way
    start = np.random.default_rng(1).normal(size=(12, n_bits))
    # Weights that are exact in binary, so that both ways meet the same ties.
    exact = {"similar_weight": 1.25, "dissimilar_weight": 0.25}
    hasher = BSODH(n_bits, batch_size=50, preprocess="none", init=start, **exact)
    expected = reference.learn([(X[i : i + 50], y[i : i + 50]) for i in range(0, 300, 50)], start, 1.25, 0.25)
    for i, W in zip(range(0, 300, 50), expected, strict=True):
        hasher.partial_fit(X[i : i + 50], y[i : i + 50])
        assert np.abs(hasher.weights_ - W).max() < 1e-9


def test_the_first_batch_is_hashed_at_random():
    X, y = stream()
    start = np.random.default_rng(1).normal(size=(12, 6))
    hasher = BSODH(6, batch_size=100, preprocess="none", init=start).partial_fit(X[:100], y[:100])
    assert np.array_equal(hasher.weights_, start)


def test_codes_of_a_class_come_together():
    X, y = stream(3000)
    hasher = BSODH(16, batch_size=200, random_state=0).partial_fit(X, y)
    signs = np.unpackbits(hasher.transform(X), axis=1).astype(float) * 2 - 1
    products = signs @ signs.T / 16
    same = y[:, None] == y
    assert products[same].mean() > products[~same].mean() + 0.4


@pytest.mark.parametrize("params", [{"batch_size": 0}, {"fit_weight": 0}, {"regularisation": -1}])
def test_faulty_parameters_are_refused(params):
    with pytest.raises(InvalidInputError, match=next(iter(params))):
        BSODH(8, **params).partial_fit(*stream())
