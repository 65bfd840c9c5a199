import numpy as np
import pytest
from tests.reference import foh as reference

from onlinehash import FOH
from onlinehash.exceptions import InvalidInputError


def stream(n=300, seed=0, n_classes=5, scale=1.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    y[:n_classes] = np.arange(n_classes)  # in order of arrival
    return scale * rng.normal(size=(n_classes, 12))[y] + rng.normal(size=(n, 12)), y


@pytest.mark.parametrize("n_bits", [4, 11])
def test_groups_of_equal_codes_give_the_same_as_keeping_every_item(n_bits):
    X, y = stream()
    start = np.random.default_rng(1).normal(size=(12, n_bits))
    exact = {"similar_weight": 1.5, "dissimilar_weight": 0.25}  # exact in binary, so that both ways meet the same ties
    hasher = FOH(n_bits, batch_size=50, preprocess="none", init=start, random_state=0, **exact)
    batches = [(X[i : i + 50], y[i : i + 50]) for i in range(0, 300, 50)]
    hasher.partial_fit(*batches[0])
    expected = reference.learn(batches, start, hasher._label_codes.copy(), 5, 1.5, 0.25)
    for i, (batch, total) in enumerate(zip(batches, expected, strict=True)):
        if i:
            hasher.partial_fit(*batch)
        assert np.abs(hasher.snapshot().weights - total).max() < 1e-9


def test_codes_of_a_class_come_together():
    X, y = stream(3000)
    hasher = FOH(16, batch_size=200, random_state=0).partial_fit(X, y)
    signs = np.unpackbits(hasher.transform(X), axis=1).astype(float) * 2 - 1
    products = signs @ signs.T / 16
    same = y[:, None] == y
    assert products[same].mean() > products[~same].mean() + 0.4


def test_the_first_batch_is_hashed_at_random():
    X, y = stream()
    start = np.random.default_rng(1).normal(size=(12, 6))
    hasher = FOH(6, batch_size=100, preprocess="none", init=start).partial_fit(X[:150], y[:150])
    assert np.array_equal(hasher.snapshot().weights, start)


@pytest.mark.parametrize("params", [{"batch_size": 0}, {"label_weight": 0}, {"label_regularisation": -1}])
def test_faulty_parameters_are_refused(params):
    with pytest.raises(InvalidInputError, match=next(iter(params))):
        FOH(8, **params).partial_fit(*stream())
