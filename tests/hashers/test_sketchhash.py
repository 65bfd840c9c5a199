"""SketchHash: the sketch, its hash functions, and the trajectories of the authors' code."""

from pathlib import Path

import numpy as np
import pytest
from tests.reference import sketch as slow

from onlinehash import unpack_signs
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers._principal import FrequentDirections, random_rotation, with_missing_directions
from onlinehash.hashers.sketchhash import SketchHash

GOLDEN = Path(__file__).parents[1] / "golden"
X = np.load(GOLDEN / "inputs.npz")["X"]


def gram(rows):
    return rows.T @ rows


def projector(directions):
    return directions @ directions.T


@pytest.mark.parametrize(
    "name", ["sketch_l16_b10_r8_stateful", "sketch_l16_b10_r8_asreleased", "sketch_l20_b25_r12_asreleased"]
)
def test_follows_the_authors_run(name, monkeypatch):
    golden = np.load(GOLDEN / f"{name}.npz")
    size, batch_size, n_bits = (int(golden[key].item()) for key in ("l", "bs", "nb"))
    forgets = name.endswith("asreleased")
    variant = "as_released" if forgets else "as_described"
    hasher = SketchHash(n_bits, sketch_size=size, batch_size=batch_size, variant=variant, preprocess="none")
    for t in range(len(X) // batch_size):
        hasher.partial_fit(X[t * batch_size : (t + 1) * batch_size])
        assert np.abs(hasher.mean_ - golden["mu"][t]).max() < 1e-15
        weights = hasher.snapshot().weights
        assert np.abs(projector(weights) - projector(golden["Vs"][:, :, t])).max() < 3e-14
        if not forgets:
            assert np.abs(gram(hasher.sketch_) - golden["BtB"][:, :, t]).max() < 5e-13
    assert np.abs(golden["mu"]).max() > 0.01 or forgets

    def as_recorded(self, directions):  # the same directions V up to signs, so the authors' V Rot
        return directions.T @ golden["Vs"][:, :, -1] @ golden["Rot"][:, :, -1]

    monkeypatch.setattr(SketchHash, "_rotation", as_recorded)
    assert np.abs(hasher.snapshot().weights - golden["Ws"][:, :, -1]).max() < 3e-14
    assert np.array_equal(unpack_signs(hasher.transform(X), n_bits) > 0, golden["codes"] > 0)


@pytest.mark.parametrize(("size", "batch_size", "n_features"), [(6, 7, 20), (16, 5, 9), (40, 10, 12), (8, 30, 32)])
def test_sketch_equals_the_slow_twin(size, batch_size, n_features):
    rows = X[:203, :n_features]
    hasher = SketchHash(3, sketch_size=size, batch_size=batch_size, preprocess="none", random_state=0)
    for start in range(0, len(rows), 11):
        hasher.partial_fit(rows[start : start + 11])
    whole = len(rows) - len(rows) % batch_size
    expected, mean = slow.sketch(rows[:whole], size, batch_size)
    assert np.allclose(gram(hasher.sketch_), gram(expected), rtol=0, atol=1e-12)
    assert np.allclose(hasher.mean_, mean, rtol=0, atol=1e-15)
    # A snapshot learns from the rows that wait as from a shorter batch.
    expected, mean = slow.sketch(rows, size, batch_size)
    V = np.linalg.svd(expected, full_matrices=False)[2][:3].T
    encoder = hasher.snapshot()
    assert np.allclose(projector(encoder.weights), projector(V), rtol=0, atol=1e-10)
    assert np.allclose(encoder.intercept, -mean @ encoder.weights, rtol=0, atol=1e-15)


def test_wide_and_tall_sketches_lose_no_more_than_the_bound():
    rng = np.random.default_rng(0)
    for n_features in (10, 100):
        A = rng.normal(size=(500, n_features)) * 0.9 ** np.arange(n_features)
        sketch = FrequentDirections(20, n_features)
        sketch.append(A)
        lost = np.linalg.eigvalsh(gram(A) - gram(sketch.rows))
        assert lost.min() > -1e-10
        assert lost.max() <= 2 * np.linalg.norm(A) ** 2 / 20


def test_a_large_enough_sketch_is_exact():
    hasher = SketchHash(8, sketch_size=64, batch_size=20, preprocess="none", random_state=0).partial_fit(X)
    centred = X - X.mean(axis=0)
    assert np.allclose(gram(hasher.sketch_), gram(centred), rtol=0, atol=1e-11)


def test_shrinks_no_more_than_once_a_batch(monkeypatch):
    count = []
    shrink = FrequentDirections.shrink
    monkeypatch.setattr(FrequentDirections, "shrink", lambda self: (count.append(1), shrink(self)))
    SketchHash(8, sketch_size=100, batch_size=25, random_state=0).partial_fit(X)
    assert len(count) == 16 - 3  # 25, 51 and 77 rows; the fourth batch is the first without room


def test_hash_functions_are_orthonormal_even_before_the_stream_determines_them():
    rows = X.copy()
    rows[:, 5] = 3.0  # a constant feature, and only two rows
    for n_rows in (1, 2, 400):
        weights = SketchHash(32, sketch_size=40, random_state=0).partial_fit(rows[:n_rows]).snapshot().weights
        assert np.allclose(gram(weights), np.eye(32), atol=1e-12)


def test_codes_do_not_depend_on_the_signs_of_singular_vectors():
    directions = np.linalg.qr(np.random.default_rng(0).normal(size=(10, 4)))[0]
    flipped = directions * [1, -1, -1, 1]
    weights = [V @ random_rotation(V, 0, 1) for V in (directions, flipped)]
    assert np.allclose(*weights, atol=1e-12)
    assert np.allclose(gram(random_rotation(directions, 0, 1)), np.eye(4), atol=1e-12)


def test_missing_directions_are_added_to_those_there_are():
    known = np.linalg.qr(np.random.default_rng(0).normal(size=(10, 4)))[0]
    full = with_missing_directions(known, 9, seed=0)
    assert np.array_equal(full[:, :4], known)
    assert np.allclose(gram(full), np.eye(9), atol=1e-14)


def test_rotation_is_drawn_anew_for_every_batch():
    hasher = SketchHash(8, sketch_size=16, batch_size=10, random_state=0)
    first = hasher.partial_fit(X[:200]).snapshot()
    again = hasher.snapshot()
    later = hasher.partial_fit(X[200:210]).snapshot()
    assert np.array_equal(first.weights, again.weights)
    assert np.abs(first.weights - later.weights).max() > 0.1


def test_as_released_knows_only_the_last_batch():
    hasher = SketchHash(8, sketch_size=16, batch_size=10, variant="as_released", preprocess="none", random_state=0)
    hasher.partial_fit(X)
    known = np.linalg.svd(X[-10:] - X[-10:].mean(axis=0), full_matrices=False)[2][:8].T
    assert np.allclose(projector(hasher.snapshot().weights), projector(known), atol=1e-12)
    before = hasher.snapshot()
    hasher.partial_fit(X[:3])  # less than a batch: left out
    assert np.array_equal(hasher.snapshot().weights, before.weights)


@pytest.mark.parametrize("n_bits", [64, 128])
def test_long_codes_need_no_long_batches(n_bits):
    rows = np.random.default_rng(0).normal(size=(300, 130)).astype(np.float32)
    codes = SketchHash(n_bits, random_state=0).partial_fit(rows).transform(rows)
    assert codes.shape == (300, n_bits // 8)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"sketch_size": 7}, "sketch_size=7 is odd.*Use 8"),
        ({"sketch_size": 6}, "sketch_size=6 is less than n_bits=8.*at least 8"),
        ({"sketch_size": 0}, "sketch_size=0 is not positive"),
        ({"batch_size": 0}, "batch_size=0 is not positive"),
        ({"n_bits": 33}, "n_bits=33 is more than n_features=32"),
        ({"variant": "released"}, "variant='released' is not one of"),
        ({"variant": "as_released", "batch_size": 7}, "batch_size=7 is less than n_bits=8.*variant='as_described'"),
    ],
)
def test_refuses_settings_that_cannot_work(params, told):
    with pytest.raises(InvalidInputError, match=told):
        SketchHash(**{"n_bits": 8, **params}).partial_fit(X)
