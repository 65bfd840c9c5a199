"""HCOH: exact blocks against a plain NumPy loop and against the machine's own matrix product."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row, compare, interleaved
from onlinehash import HCOH

N, D = 20_000, 4096
SIDE = 2048
Array = NDArray[Any]
LOOP_ROWS = 2000  # of the plain loop, scaled up: it is linear in the rows


def learn(n_bits: int, preprocess: str, X: Array, y: Array) -> None:
    HCOH(n_bits, preprocess=preprocess, random_state=0).partial_fit(X, y)


def plain_loop(X: Array, T: Array, W: Array, rate: np.float32) -> None:
    W = W.copy()
    for x, t in zip(X, T, strict=True):
        f = np.tanh(x @ W)
        W -= rate * np.outer(x, (f - t) * (1 - f * f))


def run() -> list[Row]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D), dtype=np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.integers(0, 10, N)
    A = rng.standard_normal((SIDE, SIDE), dtype=np.float32)
    rows = []
    with threadpool_limits(1):
        for n_bits, bar in ((32, "at least 0.45"), (128, "at least 0.65")):
            T = rng.choice(np.array([-1, 1], np.float32), (N, n_bits))
            W = rng.standard_normal((D, n_bits), dtype=np.float32)
            seconds = interleaved(
                {
                    "onlinehash": partial(learn, n_bits, "none", X, y),
                    "onlinehash, running mean": partial(learn, n_bits, "running", X, y),
                    "NumPy loop": partial(plain_loop, X[:LOOP_ROWS], T[:LOOP_ROWS], W, np.float32(0.2)),
                    "sgemm": partial(np.matmul, A, A),
                },
                rounds=7,
            )
            what = f"HCOH, {N} x {D}, {n_bits} bits"
            useful = 4 * N * D * n_bits / (2 * SIDE**3)
            rows.append(compare(what, seconds, "NumPy loop", "onlinehash", "at least 8", N / LOOP_ROWS))
            for ours in ("onlinehash", "onlinehash, running mean"):
                share = compare(f"{what}, share of the sgemm rate", seconds, "sgemm", ours, bar, useful)
                rows.append(share)
    return rows
