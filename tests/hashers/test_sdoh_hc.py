import numpy as np
import pytest
from tests.reference import sdoh_hc as reference

from onlinehash import SDOHHC
from onlinehash.exceptions import InvalidInputError

SMALL = {"batch_size": 100, "n_anchors": 60, "memory_size": 40, "random_state": 0}


def stream(n=600, seed=0, n_classes=5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    return rng.normal(size=(n_classes, 12))[y] + 0.7 * rng.normal(size=(n, 12)), y


@pytest.mark.parametrize("variant", ["as_described", "as_released"])
def test_codes_of_a_batch_are_those_of_whole_matrices(variant):
    X, y = stream()
    params = {"class_weight": 8.0, "codebook_weight": 0.5, "rounds": 3}  # exact in binary: both ways meet the same ties
    hasher = SDOHHC(8, variant=variant, **params, **SMALL).partial_fit(X[:200], y[:200])
    numbers = hasher._classes.numbers(y[200:300])
    rows = hasher._preprocessed(X[200:300])
    kernel = hasher._kernel(rows) - hasher._kernel_mean
    attracted = 8 * hasher._similarities(kernel, numbers) @ hasher._memory_codes
    earlier = hasher._value_sums[numbers] - hasher._value_sums.sum(axis=0)
    words, Y = hasher._classes.codewords.astype(float), hasher._class_codes.copy()
    start = np.random.default_rng(3).choice([-1.0, 1.0], (100, 8))
    classed = variant == "as_described"
    expected = reference.fit_codes(
        start, Y, np.eye(5)[numbers], words, attracted, earlier, eta=8.0, theta=0.5, rounds=3, classed=classed
    )
    codes, values = hasher._fit_codes(kernel, numbers, np.random.default_rng(3))
    assert np.array_equal(codes, expected[0]) and np.array_equal(hasher._class_codes, expected[1])
    assert np.abs(values - expected[2]).max() < 1e-6


def test_the_hash_function_is_the_ridge_regression_of_all_codes():
    X, y = stream(200)
    hasher = SDOHHC(8, preprocess="none", **SMALL)
    codes, kernels = [], []
    fit = hasher._fit_codes
    hasher._fit_codes = lambda kernel, *rest: (kernels.append(kernel), codes.append(fit(kernel, *rest)))[1] or codes[-1]
    hasher.partial_fit(X, y)
    K, B = np.vstack(kernels), np.vstack([of_batch for of_batch, _ in codes])
    expected = np.linalg.solve(K.T @ K + np.eye(60), K.T @ B)
    del hasher._fit_codes
    assert np.abs(hasher.project(X) - K @ expected).max() < 1e-6


def test_queries_are_hashed_one_by_one_as_together():
    X, y = stream()
    hasher = SDOHHC(8, **SMALL).partial_fit(X, y)
    assert np.array_equal(hasher.transform(X[:20]), np.vstack([hasher.transform(X[i : i + 1]) for i in range(20)]))


def test_classes_are_told_apart():
    X, y = stream(2000)
    hasher = SDOHHC(16, **SMALL).partial_fit(X[:1000], y[:1000])
    assert hasher.score(X[1000:], y[1000:]) > 0.95


def test_a_late_class_gets_a_code_of_its_own():
    X, y = stream(2000)
    late = np.concatenate([np.flatnonzero(y[:1000] != 4), np.arange(1000, 2000)])
    hasher = SDOHHC(16, **SMALL).partial_fit(X[late], y[late])
    assert len(np.unique(hasher.codewords_, axis=0)) == 5 and hasher.score(X[y == 4], y[y == 4]) > 0.9


@pytest.mark.parametrize("params", [{"n_anchors": 0}, {"class_weight": 0}, {"variant": "released"}])
def test_faulty_parameters_are_refused(params):
    with pytest.raises(InvalidInputError, match=next(iter(params))):
        SDOHHC(8, **params).partial_fit(*stream())
