from pathlib import Path

import numpy as np
import pytest
from tests.reference import hcoh as reference

from onlinehash.exceptions import InvalidInputError
from onlinehash.features import Centring, Identity, RunningCentring, make_features

GOLDEN = Path(__file__).parents[1] / "golden"


def test_a_fixed_mean_gives_the_authors_normalisation():
    raw = np.load(GOLDEN / "inputs.npz")["Xraw"]
    expected = np.load(GOLDEN / "preproc_head.npz")["Xn"]
    assert np.abs(Centring(raw.mean(axis=0)).transform(raw[:40]) - expected).max() < 1e-12


@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-14), (np.float32, 1e-6)])
def test_the_running_mean_includes_the_instance_itself_and_nothing_after_it(dtype, tolerance):
    X = np.random.default_rng(0).normal(3.0, 1.0, (50, 7)).astype(dtype)
    rows = np.empty_like(X)
    centring = RunningCentring(np.zeros(7))
    centring.learn(X, rows)
    expected, mean = reference.preprocess_running(X)
    assert np.abs(rows - expected).max() < tolerance
    assert np.abs(centring.mean - mean).max() < 1e-12


def test_cutting_the_stream_changes_no_bit():
    X = np.random.default_rng(1).normal(size=(30, 5))
    whole, parts = np.empty_like(X), np.empty_like(X)
    RunningCentring(np.zeros(5)).learn(X, whole)
    centring = RunningCentring(np.zeros(5))
    for start, stop in [(0, 1), (1, 12), (12, 30)]:
        centring.learn(X[start:stop], parts[start:stop])
    assert np.array_equal(whole, parts)


def test_rows_equal_to_the_mean_stay_zero():
    rows = np.full((1, 3), 9.0)
    RunningCentring(np.zeros(3)).learn(np.array([[1.0, 2.0, 3.0]]), rows)
    assert rows.tolist() == [[0.0, 0.0, 0.0]]
    assert Centring(np.array([1.0, 2.0])).transform(np.array([[1.0, 2.0]])).tolist() == [[0.0, 0.0]]


def test_freezing_keeps_the_mean_of_now():
    centring = RunningCentring(np.zeros(2))
    centring.learn(np.ones((3, 2)), np.empty((3, 2)))
    frozen = centring.freeze()
    centring.learn(np.full((3, 2), 9.0), np.empty((3, 2)))
    assert frozen.mean.tolist() == [1.0, 1.0]


def test_preprocess_names_or_gives_the_map():
    assert isinstance(make_features("none", 3), Identity)
    assert isinstance(make_features("running", 3), RunningCentring)
    assert isinstance(make_features([1.0, 2.0, 3.0], 3), Centring)


@pytest.mark.parametrize(
    "preprocess, message",
    [
        ("centre", "not one of 'running', 'unit', 'none'"),
        ([1.0], "mean of shape"),
        ([1.0, np.nan], "NaN"),
        (object(), "mean vector"),
    ],
)
def test_a_faulty_preprocess_is_refused(preprocess, message):
    with pytest.raises(InvalidInputError, match=message):
        make_features(preprocess, 2)


@pytest.mark.parametrize(
    "dtype, scales", [(np.float32, [1e-44, 1e-38, 1e30, 2e37]), (np.float64, [1e-320, 1e-200, 1e300])]
)
def test_very_short_and_very_long_rows_are_scaled_like_any_other(dtype, scales):
    rows = np.array([[3.0, -4.0, 0.0], [0.0, 0.0, 0.0], [0.0, 2.0, 0.0]], dtype)
    for scale in scales:
        unit, running = Centring(np.zeros(3)), RunningCentring(np.zeros(3))
        scaled = unit.transform(rows * dtype(scale))
        assert np.abs(scaled - [[0.6, -0.8, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).max() < (
            0.1 if scale < 1e-40 else 1e-6
        )
        assert np.array_equal(np.sign(unit.transform(rows * dtype(scale))), np.sign(rows))
        running.learn(rows * dtype(scale), scaled)
        assert np.isfinite(scaled).all()
        assert np.abs(np.linalg.norm(scaled[1:].astype(np.float64), axis=1) - 1.0).max() < 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_at_the_limits_are_scaled_too(dtype):
    rows = np.random.default_rng(0).normal(size=(2000, 33))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[::3] = 0.0
    for length in (1e-30, 1e30):
        scaled = Centring(np.zeros(33)).transform((length * rows).astype(dtype))
        assert np.abs(np.linalg.norm(scaled.astype(np.float64), axis=1) - (rows != 0).any(axis=1)).max() < 1e-6
