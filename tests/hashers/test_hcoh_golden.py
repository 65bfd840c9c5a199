"""HCOH against the trajectories of its authors' code."""

from pathlib import Path

import numpy as np
import pytest

from onlinehash import HCOH, unpack_signs

GOLDEN = Path(__file__).parents[1] / "golden"
INPUTS = np.load(GOLDEN / "inputs.npz")

DOUBLE = ["hcoh_eq16", "hcoh_eq16_nt4", "hcoh_ne8_double", "hcoh_ne12_double", "hcoh_ne8_nt2_double"]
SINGLE = ["hcoh_ne8", "hcoh_ne12", "hcoh_ne24", "hcoh_ne8_nt2"]


@pytest.mark.parametrize("name", DOUBLE + SINGLE)
def test_weights_and_codes_follow_the_authors_run(name):
    golden = np.load(GOLDEN / f"{name}.npz")
    dtype, tolerance = (np.float64, 1e-12) if name in DOUBLE else (np.float32, 5e-6)
    X, y = INPUTS["X"].astype(dtype), INPUTS["Y"].ravel().astype(int)
    targets = golden["targets"]
    n_bits = targets.shape[1]
    hasher = HCOH(
        n_bits,
        learning_rate=golden["eta"].item(),
        batch_size=int(golden["n_t"].item()),
        codebook={int(label): targets[y == label][0] for label in np.unique(y)},
        preprocess="none",
        init=golden["W0"],
    )
    done = 0
    for k, step in enumerate(golden["steps"].ravel().astype(int)):
        hasher.partial_fit(X[done:step], y[done:step])
        done = step
        assert np.abs(hasher.weights_ - golden["W_steps"][:, :, k]).max() < tolerance
    assert done == len(X)
    assert hasher.weights_.dtype == dtype
    assert np.abs(hasher.weights_ - golden["Wfinal"]).max() < tolerance
    assert np.array_equal(unpack_signs(hasher.transform(X), n_bits) > 0, golden["codes"] > 0)
