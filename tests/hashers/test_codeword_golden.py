"""HMOH and OSH against the trajectories of their authors' code."""

from pathlib import Path

import numpy as np
import pytest

from onlinehash import HMOH, OSH, unpack_signs
from onlinehash.codebooks import hadamard_matrix
from onlinehash.features import Anchors, squared_distances

GOLDEN = Path(__file__).parents[1] / "golden"
INPUTS = np.load(GOLDEN / "inputs.npz")
X, Y = INPUTS["X"], INPUTS["Y"].ravel().astype(int)


def follow(hasher, X, golden, tolerance):
    """Learn up to every recorded step and compare the weights there."""
    done = 0
    for k, step in enumerate(golden["steps"].ravel().astype(int)):
        hasher.partial_fit(X[done:step], Y[done:step])
        done = step
        assert np.abs(hasher.weights_ - golden["W_steps"][:, :, k]).max() < tolerance
    return hasher


def test_hmoh_follows_the_authors_run():
    golden = np.load(GOLDEN / "hmoh_16_16.npz")
    words = {label: hadamard_matrix(16)[label - 1] for label in range(1, 11)}  # rows in order, as released
    hasher = HMOH(16, learning_rate=0.1, codebook=words, preprocess="none")
    follow(hasher, X.astype(np.float32), golden, 1e-6)
    assert np.array_equal(hasher._mistakes, golden["mistakes"].ravel())
    assert np.abs(hasher._sum - golden["Wsum_steps"][:, :, -1]).max() < 1e-5 * np.abs(hasher._sum).max()
    average = hasher.snapshot().weights
    assert np.abs(average - golden["W_avg"]).max() < 1e-4 * np.abs(golden["W_avg"]).max()
    codes = unpack_signs(hasher.transform(X.astype(np.float32)), 16)
    assert np.array_equal(codes > 0, golden["codes"] > 0)


@pytest.mark.parametrize(
    "name",
    [
        "osh_8_boost1_stateful",
        "osh_8_boost0_stateful",
        "osh_16_boost0_stateful",
        "osh_8_boost1_asreleased",
        "osh_8_boost0_asreleased",
        "osh_16_boost1_asreleased",
    ],
)
def test_osh_follows_the_authors_run(name):
    golden = np.load(GOLDEN / f"{name}.npz")
    _, n_bits, loss, variant = name.split("_")
    candidates = 2 * INPUTS[f"ECOCs_{n_bits}"] - 1
    order = list(dict.fromkeys(Y.tolist()))
    hasher = OSH(
        int(n_bits),
        learning_rate=0.1,
        loss="boosting" if loss == "boost1" else "hinge",
        variant="as_released" if variant == "asreleased" else "as_described",
        codebook={label: candidates[i] for i, label in enumerate(order)},
        preprocess="none",
        init=INPUTS[f"W0_{n_bits}"],
    )
    follow(hasher, X, golden, 1e-12)
    assert np.array_equal(unpack_signs(hasher.transform(X), int(n_bits)) > 0, golden["codes"] > 0)


def test_anchor_similarities_equal_the_authors():
    golden = np.load(GOLDEN / "kernel_map_hmoh.npz")
    raw = INPUTS["Xraw"]
    width = squared_distances(raw[200:300], raw[:30]).mean() / 6
    assert width == pytest.approx(golden["eta"].item(), rel=1e-12)
    assert np.abs(Anchors(raw[:30], 2 * width).transform(raw) - golden["K"]).max() < 1e-12
    golden = np.load(GOLDEN / "kernel_map_okh.npz")
    sigma = squared_distances(X[200:300], X[:30]).mean()
    assert sigma == pytest.approx(golden["sigma"].item(), rel=1e-12)
    similar = Anchors(X[:30], 2 * sigma**2, constant=True).transform(X)
    assert np.abs(similar - golden["KX"].T).max() < 1e-12
