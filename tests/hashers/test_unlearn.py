"""Rows that cannot have been learned are not forgotten."""

import numpy as np
import pytest

from onlinehash import HROH, load_hasher
from onlinehash.exceptions import InvalidFeaturesError, InvalidInputError, InvalidLabelsError

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(4, 12))
Y = np.arange(400) % 4
X = CENTRES[Y] + 0.3 * RNG.normal(size=(400, 12))
SETTINGS = {"n_bits": 16, "n_components": 64, "bandwidth": 1.0, "random_state": 0}


def refused(hasher, *args, match, error=InvalidInputError):
    before, codes = hasher.to_bytes(), hasher.transform(X)
    with pytest.raises(error, match=match):
        hasher.unlearn(*args)
    assert hasher.to_bytes() == before
    assert np.array_equal(hasher.transform(X), codes)


@pytest.mark.parametrize(
    "settings", [SETTINGS, {"n_bits": 16, "n_components": 64, "random_state": 0}], ids=["map", "head"]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_learned", [60, 200, 400])
def test_what_cannot_have_been_learned_is_refused_and_changes_nothing(settings, dtype, n_learned):
    rows = X.astype(dtype)
    hasher = HROH(**settings).partial_fit(rows[:n_learned], Y[:n_learned])
    some = rows[:8]
    refused(hasher, some, [9] * 8, match="No row of class 9 was ever learned", error=InvalidLabelsError)
    refused(hasher, some, ["0"] * 8, match="No row of class '0'", error=InvalidLabelsError)
    most = np.concatenate([rows[Y == 0]] * 2)
    refused(hasher, most, [0] * len(most), match="rows of class 0 to unlearn, but only", error=InvalidLabelsError)
    refused(hasher, some, Y[:8], np.full(8, 1e3), match="to unlearn, but only", error=InvalidLabelsError)
    refused(hasher, some, Y[:8], -np.ones(8), match="negative")
    refused(hasher, some[:, 1:], Y[:8], match="features", error=InvalidFeaturesError)
    refused(hasher, -10.0 * some, Y[:8], match="were not learned with these labels")
    refused(hasher, some[:4], np.roll(Y[:4], 1), np.full(4, n_learned / 4 - 1), match="were not learned")
    hasher.partial_fit(rows[:n_learned], Y[:n_learned])
    assert hasher.n_samples_seen_ == 2 * n_learned


def test_the_last_rows_of_a_class_must_be_its_own():
    hasher = HROH(**SETTINGS).partial_fit(X, Y)
    n = int((Y == 0).sum())
    wrong = X[Y == 0].copy()
    wrong[0] = -wrong[0]
    refused(hasher, wrong, [0] * n, match="were not learned")
    hasher.unlearn(X[Y == 0], [0] * n)
    never = HROH(**SETTINGS).partial_fit(X[Y != 0], Y[Y != 0])
    assert np.allclose(hasher.project(X), never.project(X), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("features", ["fourier", "none"])
def test_rows_that_were_learned_are_always_forgotten(features, dtype):
    rng = np.random.default_rng(3)
    rows, weights = (10 * X + 3).astype(dtype), rng.uniform(0.1, 5.0, len(X))
    labels = [sorted({int(label), int(rng.integers(0, 4))}) for label in Y]
    hasher = HROH(16, features=features, n_components=64, random_state=0).partial_fit(rows, labels, weights)
    order = rng.permutation(len(rows))
    for chunk in np.array_split(order, 23):
        hasher.unlearn(rows[chunk], [labels[i] for i in chunk], weights[chunk])
    assert hasher.n_unlearned_ == len(rows)
    hasher.partial_fit(rows, labels, weights).snapshot()


def test_a_hasher_with_its_own_generator_keeps_it():
    generator = np.random.default_rng(0)
    hasher = HROH(16, n_components=64, random_state=generator).partial_fit(X, Y)
    assert hasher.unlearn(X[:9], Y[:9]).random_state is generator
    assert hasher.partial_fit(X[:9], Y[:9]).n_samples_seen_ == 409


def test_the_version_counts_instances_learned_and_unlearned():
    hasher = HROH(8, n_components=32, random_state=0)
    assert hasher.version_ == 0
    hasher.partial_fit(X[:300], Y[:300]).unlearn(X[:20], Y[:20])
    assert hasher.version_ == hasher.snapshot().version == load_hasher(hasher.to_bytes()).version_ == 320
