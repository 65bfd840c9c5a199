from pathlib import Path

import numpy as np
import pytest

from onlinehash import AdaptHash, unpack_signs
from onlinehash.exceptions import InvalidInputError

GOLDEN = Path(__file__).parents[1] / "golden"
INPUTS = np.load(GOLDEN / "inputs.npz")
X, Y = INPUTS["X"], INPUTS["Y"].ravel().astype(int)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("adapthash_*.npz")), ids=lambda path: path.stem)
def test_weights_follow_the_authors_run(path):
    golden = np.load(path)
    _, n_bits, alpha, rate = path.stem.split("_")
    hasher = AdaptHash(
        int(n_bits),
        alpha=float(alpha[1:]),
        learning_rate=float(rate[1:]),
        regularisation=0.01,
        preprocess="none",
        init=INPUTS[f"W0_{n_bits}"],
    )
    done = 0
    for k, n_pairs in enumerate(golden["steps"].ravel().astype(int)):
        hasher.partial_fit(X[2 * done : 2 * n_pairs], Y[2 * done : 2 * n_pairs])
        done = n_pairs
        assert np.abs(hasher.weights_ - golden["W_steps"][:, :, k]).max() < 5e-9
    assert np.array_equal(unpack_signs(hasher.transform(X), int(n_bits)) > 0, golden["codes"] > 0)


def test_a_pair_without_a_loss_changes_nothing():
    golden = np.load(GOLDEN / "adapthash_8_a0.8_s0.2.npz")
    changed = golden["changed"].ravel().astype(bool)
    hasher = AdaptHash(8, alpha=0.8, learning_rate=0.2, preprocess="none", init=INPUTS["W0_8"])
    before = INPUTS["W0_8"]
    for t in range(50):
        after = hasher.partial_fit(X[2 * t : 2 * t + 2], Y[2 * t : 2 * t + 2]).weights_
        assert np.array_equal(after, before) != changed[t]
        before = after


def test_columns_keep_unit_length():
    hasher = AdaptHash(12, random_state=0).partial_fit(X, Y)
    assert np.allclose(np.linalg.norm(hasher.weights_, axis=0), 1)


@pytest.mark.parametrize("params", [{"alpha": 1.5}, {"alpha": -0.1}, {"regularisation": -1}, {"learning_rate": 0}])
def test_faulty_parameters_are_refused(params):
    with pytest.raises(InvalidInputError, match=next(iter(params))):
        AdaptHash(8, **params).partial_fit(X, Y)
