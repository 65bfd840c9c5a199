"""OKH has no readable reference: its invariants stand for it."""

import numpy as np
import pytest

from onlinehash import OKH
from onlinehash.exceptions import InvalidInputError


def stream(n=200, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    return rng.normal(size=(4, 10))[y] + 0.3 * rng.normal(size=(n, 10)), y


def pair_loss(hasher, inputs, similar):
    bits = inputs @ hasher._weights >= 0
    distance = int((bits[0] != bits[1]).sum())
    return max(0, distance - hasher.similar_radius if similar else hasher.dissimilar_share * hasher.n_bits - distance)


@pytest.fixture
def hasher():
    return OKH(16, n_anchors=30, aggressiveness=1e9, random_state=0).partial_fit(*stream())


@pytest.mark.parametrize("similar", [True, False])
def test_a_passive_step_changes_nothing_and_an_aggressive_one_reduces_the_loss(hasher, similar):
    rng = np.random.default_rng(1)
    passive = aggressive = 0
    for _ in range(60):
        inputs = np.hstack([rng.random((2, 30)), np.ones((2, 1))])
        before = pair_loss(hasher, inputs, similar)
        change = hasher._step(inputs, similar)
        if before == 0:
            assert change is None
            passive += 1
            continue
        weights = hasher._weights
        hasher._weights = weights + change
        assert pair_loss(hasher, inputs, similar) <= before
        hasher._weights = weights
        aggressive += 1
    assert aggressive
    assert passive or similar


def test_a_free_step_reaches_the_margin_it_asks_for(hasher):
    rng = np.random.default_rng(2)
    for _ in range(20):
        inputs = np.hstack([rng.random((2, 30)), np.ones((2, 1))])
        loss = pair_loss(hasher, inputs, True)
        change = hasher._step(inputs, True)
        if change is None:
            continue
        moved = np.linalg.lstsq(inputs.T, change, rcond=None)[0]
        moved = 2 * np.sign(np.where(np.abs(moved) > 1e-12, moved, 0))
        margin = (moved * (inputs @ (hasher._weights + change))).sum()
        assert margin == pytest.approx(np.sqrt(loss), abs=1e-8)


def test_the_step_is_bounded_by_the_aggressiveness():
    X, y = stream()
    rng = np.random.default_rng(3)
    for bound in (1e-6, 1e-3):
        hasher = OKH(16, n_anchors=30, aggressiveness=bound, random_state=0).partial_fit(X, y)
        inputs = np.hstack([rng.random((2, 30)), np.ones((2, 1))])
        change = hasher._step(inputs, similar=True)
        # Every flipped bit contributes at most 2 times a row of inputs, on one side of the pair.
        assert np.abs(change).max() <= bound * 2 * np.abs(inputs).max() + 1e-12


def test_anchors_are_the_head_of_the_stream_and_learning_waits_for_them():
    X, y = stream()
    hasher = OKH(16, n_anchors=50, preprocess="none", random_state=0).partial_fit(X[:49], y[:49])
    assert hasher._anchors is None
    assert hasher.transform(X).shape == (200, 2)  # a look uses what is there
    assert hasher._anchors is None
    hasher.partial_fit(X[49:], y[49:])
    assert np.array_equal(hasher._anchors.anchors, X[:50])


def test_the_released_bandwidth_makes_similarities_nearly_equal():
    X, y = stream()
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    spread = {}
    for variant in ("as_described", "as_released"):
        hasher = OKH(8, n_anchors=50, variant=variant, preprocess="none", random_state=0).partial_fit(X, y)
        spread[variant] = np.ptp(hasher.snapshot().features.transform(X)[:, :-1])
    assert spread["as_released"] < spread["as_described"]


@pytest.mark.parametrize("params", [{"similar_radius": -1}, {"dissimilar_share": 2}, {"aggressiveness": 0}])
def test_faulty_parameters_are_refused(params):
    with pytest.raises(InvalidInputError, match=next(iter(params))):
        OKH(8, **params).partial_fit(*stream())
