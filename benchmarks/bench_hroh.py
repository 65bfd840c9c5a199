"""HROH against the machine's own products (sums, codes), an update against a new factor, a stream against HCOH."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row, compare, interleaved
from onlinehash import HCOH, HROH, Encoder
from onlinehash.hashers._ridge import Members, RidgeStatistics

Array = NDArray[Any]
N, D, N_COMPONENTS = 20_000, 784, 2048
BLOCK = 1024
HCOH_D = 4096


def unit_rows(rng: np.random.Generator, n_rows: int, n_features: int) -> Array:
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X


def learn(hasher: Any, X: Array, y: Array) -> None:
    hasher.partial_fit(X, y)


def codes(rng: np.random.Generator) -> list[Row]:
    """Compare the codes of rows of features with the two products that they need."""
    rows = []
    X = rng.standard_normal((4 * BLOCK, N_COMPONENTS), dtype=np.float32)
    for n_classes, n_bits in ((10, 32), (100, 64), (1000, 128)):
        W = rng.standard_normal((N_COMPONENTS, n_classes), dtype=np.float32)
        words = rng.choice(np.array([-1, 1], np.int8), (n_classes, n_bits))
        encoder = Encoder(W.copy(), np.zeros(n_classes, np.float32), codewords=words, sharpness=4.0)
        signs = words.astype(np.float32)
        products = partial(lambda W, signs: X @ W @ signs, W, signs)
        seconds = interleaved({"codes": partial(encoder.encode, X), "products": products}, rounds=9)
        what = f"codes of {len(X)} x {N_COMPONENTS} features, {n_classes} classes, {n_bits} bits"
        rows.append(compare(what, seconds, "products", "codes", "at least 0.8"))
    return rows


def run() -> list[Row]:
    rng = np.random.default_rng(0)
    rows = []
    with threadpool_limits(1):
        Z = rng.standard_normal((BLOCK, N_COMPONENTS))
        members = Members(np.arange(BLOCK), rng.integers(0, 10, BLOCK), np.ones(BLOCK), np.ones(BLOCK))
        statistics = RidgeStatistics(N_COMPONENTS)
        # The sums are symmetric: half of the operations of a product of two arrays.
        other = Z.copy()
        seconds = interleaved(
            {"sums": partial(statistics.add, Z, members), "dgemm": partial(np.matmul, Z.T, other)}, 15
        )
        what = f"sums of {BLOCK} rows of {N_COMPONENTS} features, share of the dgemm rate"
        rows.append(compare(what, seconds, "dgemm", "sums", "at least 0.95", 0.5))
        rows += codes(rng)

        X, y = unit_rows(rng, N, D), rng.integers(0, 10, N)
        wide, labels = unit_rows(rng, N, HCOH_D), rng.integers(0, 10, N)
        hcoh = f"HCOH, {HCOH_D} features"
        streams = {
            "HROH": lambda: learn(HROH(32, random_state=0), X, y),
            hcoh: lambda: learn(HCOH(32, random_state=0), wide, labels),
        }
        what = f"learning {N} x {D}, map to {D + N_COMPONENTS + 1} features included"
        seconds = interleaved(streams, rounds=5)
        rows.append(compare(f"{what}, one core", seconds, "HROH", hcoh, "-"))
    seconds = interleaved(streams, rounds=5, clock=perf_counter)
    rows.append(compare(f"{what}, time on the wall, all cores", seconds, "HROH", hcoh, "at most 8"))
    return rows
