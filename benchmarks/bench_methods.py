"""The other methods: against direct NumPy transcriptions of their formulas, and HMOH against HCOH."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row, compare, interleaved
from onlinehash import HCOH, HMOH, OSH, MIHash, SketchHash

Array = NDArray[Any]
N, D, N_BITS, R = 20_000, 784, 32, 1000
FEW = 300  # instances of the transcriptions, scaled up: they are linear in the instances


def osh_transcribed(X: Array, C: Array, W: Array, rate: float) -> None:
    W = W.copy()
    for x, c in zip(X, C, strict=True):
        achieved = 0.0
        for k in range(N_BITS):
            w = W[:, k]
            w += rate * np.exp(-achieved) * np.exp(-c[k] * (w @ x)) * c[k] * x
            achieved += c[k] * (w @ x)


def mihash_transcribed(X: Array, y: Array, W: Array, items: Array, labels: Array, slope: float, n_bins: int) -> None:
    """Learn against a full reservoir, with a decision every 100 instances; the reservoir's changes are left out."""
    W, in_use = W.copy(), W.copy()
    width = N_BITS / n_bins
    centres = width * np.arange(n_bins + 1)
    for t, (x, label) in enumerate(zip(X, y, strict=True), start=1):
        phi = 1 / (1 + np.exp(-np.clip(slope * (x @ W), -42, 42)))
        phi_items = 1 / (1 + np.exp(-np.clip(slope * (items @ W), -42, 42)))
        near = labels == label
        share = near.mean()
        offset = ((N_BITS - (2 * phi_items - 1) @ (2 * phi - 1)) / 2)[:, None] - centres
        inside = (offset > -width) & (offset <= width)
        pulse = np.where(inside, 1 - np.abs(offset) / width, 0)
        slopes = np.where(inside, np.where(offset <= 0, 1 / width, -1 / width), 0)
        d_near = slopes[near].T @ (-phi_items[near] / 2) / near.sum()
        d_far = slopes[~near].T @ (-phi_items[~near] / 2) / (~near).sum()
        g = one_plus_log2(pulse.mean(axis=0)) @ (share * d_near + (1 - share) * d_far)
        g -= share * one_plus_log2(pulse[near].mean(axis=0)) @ d_near
        g -= (1 - share) * one_plus_log2(pulse[~near].mean(axis=0)) @ d_far
        W -= np.outer(x, slope * phi * (1 - phi) * g)
        if t % 100 == 0 and information(items, labels, W) > information(items, labels, in_use):
            in_use = W.copy()


def one_plus_log2(p: Array) -> Array:
    return np.asarray(1 + np.log2(np.where(p > 0, p, 1)))


def information(items: Array, labels: Array, W: Array) -> float:
    signs = np.where(items @ W >= 0, 1, -1).astype(np.float32)
    distances = np.minimum((N_BITS - signs @ signs.T) / 2, N_BITS - 1).astype(np.int64)
    near = labels[:, None] == labels
    rows = np.arange(len(items))[:, None] * N_BITS
    counts = [np.bincount((rows + distances)[mask], minlength=rows.size * N_BITS) for mask in (near, ~near)]
    near_count, far_count = (count.reshape(-1, N_BITS) for count in counts)

    def entropy(count: Array) -> Array:
        p = count / np.maximum(count.sum(axis=1, keepdims=True), 1)
        return np.asarray(-(p * np.log2(np.where(p > 0, p, 1))).sum(axis=1))

    share = near.mean(axis=1)
    gain = entropy(near_count + far_count) - share * entropy(near_count) - (1 - share) * entropy(far_count)
    return float(np.maximum(gain, 0).mean())


def run() -> list[Row]:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((10, D))
    y = rng.integers(0, 10, N)
    X = (centres[y] + 2 * rng.standard_normal((N, D))).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    W = rng.standard_normal((D, N_BITS)).astype(np.float32)
    C = rng.choice(np.array([-1, 1], np.float32), (10, N_BITS))[y]
    settings: dict[str, Any] = {"preprocess": "none", "random_state": 0}
    filled = MIHash(N_BITS, reservoir_size=R, **settings).partial_fit(X[:2000], y[:2000])
    mi_instances = slice(2000, 4000)
    with threadpool_limits(1):
        seconds = interleaved(
            {
                "OSH": lambda: OSH(N_BITS, **settings).partial_fit(X, y),
                "OSH transcribed": partial(osh_transcribed, X[:FEW], C[:FEW], W, 0.1),
                "HCOH": lambda: HCOH(N_BITS, **settings).partial_fit(X, y),
                "HMOH": lambda: HMOH(N_BITS, **settings).partial_fit(X, y),
                "MIHash": lambda: filled.partial_fit(X[mi_instances], y[mi_instances]),
                "MIHash transcribed": partial(mihash_transcribed, X[:FEW], y[:FEW], W, X[-R:], y[-R:], 10.0, 16),
                "SketchHash": lambda: SketchHash(N_BITS, **settings).partial_fit(X, y),
            },
            rounds=5,
        )
    what = f"d={D}, {N_BITS} bits"
    mi_scale = 2000 / FEW
    return [
        compare(f"OSH, boosting, {what}", seconds, "OSH transcribed", "OSH", "at least 20", N / FEW),
        compare(f"MIHash, reservoir {R}, {what}", seconds, "MIHash transcribed", "MIHash", "at least 18", mi_scale),
        compare(f"HMOH, {what}", seconds, "HMOH", "HCOH", "at most 1.5"),
        compare(f"SketchHash, {what}", seconds, "SketchHash", "HCOH", "-"),
    ]
