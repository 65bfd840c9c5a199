from pathlib import Path

import numpy as np
import pytest
from tests.reference import mihash as reference

from onlinehash import MIHash, pack_signs, unpack_signs
from onlinehash.hashers.mihash import mutual_information, share_a_label

GOLDEN = Path(__file__).parents[1] / "golden"
INPUTS = np.load(GOLDEN / "inputs.npz")
X, Y = INPUTS["X"], INPUTS["Y"].ravel().astype(int)


def with_reservoir(rows, **params):
    """A hasher that has seen nothing but holds the given rows in its reservoir."""
    hasher = MIHash(preprocess="none", random_state=0, **params)
    hasher._prepare(X.shape[1], np.dtype(np.float64), 0)
    hasher._head = None
    hasher._open(X[rows], Y[rows])
    hasher._head_size = lambda: 0  # they are no rows of the stream
    hasher.n_features_in_, hasher.n_samples_seen_ = X.shape[1], 0
    return hasher


@pytest.mark.parametrize("name", ["mihash_fixedres_8_bins8", "mihash_fixedres_8_bins16", "mihash_fixedres_16_bins16"])
def test_gradient_and_first_steps_equal_the_authors_run(name):
    golden = np.load(GOLDEN / f"{name}.npz")
    n_bits, n_bins = int(name.split("_")[2]), int(name.split("bins")[1])
    W0 = INPUTS[f"W0_{n_bits}"]
    hasher = with_reservoir(
        np.arange(300, 400), n_bits=n_bits, n_bins=n_bins, reservoir_size=1000, init=W0, trigger_interval=10**9
    )
    hasher._offer = lambda n_rows: np.full(n_rows, -1)  # a fixed reservoir, as in the recorded run
    hasher._learn(X[:1], Y[:1], None)
    assert np.abs((W0 - hasher._weights) - golden["grad1"]).max() < 1e-14
    done = 1
    for k, step in enumerate(golden["steps"].ravel().astype(int)):
        if step > 50:
            break
        if step > done:
            hasher._learn(X[done:step], Y[done:step], None)
            done = step
        assert np.abs(hasher._weights - golden["W_steps"][:, :, k]).max() < 1e-9
    assert done > 1


def test_the_full_loop_follows_the_authors_run():
    golden = np.load(GOLDEN / "mihash_fullloop_16.npz")
    keys = golden["rand_seq"].ravel()
    hasher = MIHash(16, reservoir_size=60, trigger_interval=20, preprocess="none", init=INPUTS["W0_16"], random_state=0)
    hasher._prepare(X.shape[1], np.dtype(np.float64), 0)
    hasher._head = None
    hasher._uniforms = lambda first, n: keys[first : first + n]
    initial = np.arange(399, 393, -1)
    hasher._open(X[initial], Y[initial])
    hasher._head_size = lambda: 0  # they are no rows of the stream
    hasher._uniforms = lambda first, n: keys[len(initial) :][first : first + n]
    done = 0
    for k, step in enumerate(golden["steps"].ravel().astype(int)):
        hasher._learn(X[done:step], Y[done:step], None)
        done = step
        if step <= 50:
            assert np.abs(hasher._weights - golden["W_steps"][:, :, k]).max() < 1e-9
    hasher._learn(X[done:], Y[done:], None)
    held = golden["residx"].ravel().astype(int) - 1
    assert hasher._reservoir.size == len(held) == 60
    assert np.array_equal(hasher._items, X[held])
    assert np.array_equal(hasher._item_labels[:, 0], hasher._number(Y[held].tolist()))


def test_mutual_information_equals_the_authors():
    golden = np.load(GOLDEN / "mihash_fixedres_8_bins16.npz")
    same = Y[:, None] == Y
    before = mutual_information(pack_signs(X @ INPUTS["W0_8"]), same, 8)
    assert before == pytest.approx(golden["mi0"].item(), abs=1e-12)
    after = mutual_information(pack_signs(np.where(golden["codes"] > 0, 1, -1)), same, 8)
    assert after == pytest.approx(golden["mi1"].item(), abs=1e-12)


def test_mutual_information_equals_the_entropies_one_by_one():
    rng = np.random.default_rng(0)
    for n_bits in (5, 16, 70):
        signs = rng.choice([-1, 1], (60, n_bits))
        labels = rng.integers(0, 4, 60)
        same = labels[:, None] == labels
        got = mutual_information(pack_signs(signs), same, n_bits)
        assert got == pytest.approx(reference.mutual_information(signs, labels), abs=1e-12)


@pytest.mark.parametrize("gradient", ["released", "exact"])
def test_a_block_with_a_changing_reservoir_equals_the_formulas_instance_by_instance(gradient):
    hasher = with_reservoir(
        np.arange(300, 310), n_bits=8, reservoir_size=14, gradient=gradient, trigger_interval=10**9, learning_rate=0.1
    )
    items, labels, W = X[300:310].copy(), Y[300:310].copy(), hasher._weights.copy()
    places = hasher._offer(40)
    hasher._reservoir.keys[:10], hasher._reservoir.size = hasher._uniforms(0, 10), 10
    for x, y, place in zip(X[:40], Y[:40], places, strict=True):
        W = W - 0.1 * reference.gradient(x, W, items, labels == y, exact=gradient == "exact")
        if place >= 0:
            if place == len(items):
                items, labels = np.vstack([items, x]), np.append(labels, y)
            items[place], labels[place] = x, y
    hasher._learn(X[:40], Y[:40], None)
    assert np.abs(hasher._weights - W).max() < 1e-9
    assert np.array_equal(hasher._items[: len(items)], items)


def test_the_exact_gradient_is_that_of_the_mutual_information():
    rng = np.random.default_rng(0)
    W, x, items = rng.normal(size=(5, 4)), rng.normal(size=5), rng.normal(size=(40, 5))
    near = rng.random(40) < 0.3

    def minus_information(W_query):
        """Only the query's soft bits move, as the method differentiates them."""
        phi, phi_items = reference.soft_bits(x, W_query, 1.0), reference.soft_bits(items, W, 1.0)
        D = (4 - (2 * phi_items - 1) @ (2 * phi - 1)) / 2
        pulse = np.maximum(0, 1 - np.abs(D[:, None] - np.arange(5)))

        def entropy(rows):
            p = pulse[rows].sum(axis=0) / rows.sum()
            return -(p[p > 0] * np.log2(p[p > 0])).sum()

        share = near.mean()
        return -(entropy(np.ones(40, bool)) - share * entropy(near) - (1 - share) * entropy(~near))

    g = reference.gradient(x, W, items, near, slope=1.0, n_bins=4, exact=True)
    numeric = np.zeros_like(W)
    for i in np.ndindex(*W.shape):
        step = np.zeros_like(W)
        step[i] = 1e-6
        numeric[i] = (minus_information(W + step) - minus_information(W - step)) / 2e-6
    # The method's 1 + log2 drops the constant 1/ln 2 of the derivative of p log2 p, which sums to nothing.
    assert np.allclose(g, numeric, rtol=1e-4, atol=1e-6)


def test_hash_functions_in_use_change_only_when_information_grows():
    stubborn = MIHash(8, reservoir_size=50, trigger_threshold=1e9, preprocess="none", random_state=0).fit(X, Y)
    assert stubborn.n_updates_ == 0
    start = MIHash(8, reservoir_size=50, preprocess="none", random_state=0)
    start._prepare(X.shape[1], np.dtype(np.float64), 0)
    assert np.array_equal(stubborn.snapshot().weights, start._weights)
    eager = MIHash(8, reservoir_size=50, preprocess="none", random_state=0).fit(X, Y)
    assert eager.n_updates_ > 0
    assert not np.array_equal(eager.snapshot().weights, start._weights)


def test_neighbours_of_rows_with_several_labels_share_one():
    left, right = np.array([[0, 3], [-1, -1]]), np.array([[3, -1], [1, 2], [0, -1]])
    assert share_a_label(left, right).tolist() == [[True, False, True], [False, False, False]]
    labels = [[y, 100 + y % 2] for y in Y.tolist()]
    hasher = MIHash(8, reservoir_size=50, preprocess="none", random_state=0).partial_fit(X, labels)
    assert set(hasher.classes_) == set(Y) | {100, 101}
    assert unpack_signs(hasher.transform(X), 8).shape == (400, 8)
