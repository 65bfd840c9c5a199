"""Full-ranking mAP against a product of signs and a stable sort."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row, compare, interleaved
from onlinehash import mean_average_precision, pack_signs, unpack_signs

N_QUERIES, N_ITEMS, N_BITS = 1000, 59_000, 64
SLOW_QUERIES = 50  # of the plain way, scaled up: it is linear in the queries


def sort_each(Q: np.ndarray, yq: np.ndarray, D: np.ndarray, yd: np.ndarray) -> float:
    ranks = np.arange(1, len(D) + 1)
    scores = []
    for q, label in zip(Q, yq, strict=True):
        relevant = (yd == label)[np.argsort(-(D @ q), kind="stable")]
        scores.append((np.cumsum(relevant) / ranks)[relevant].mean())
    return float(np.mean(scores))


def run() -> list[Row]:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((10, N_BITS))
    yq, yd = rng.integers(0, 10, N_QUERIES), rng.integers(0, 10, N_ITEMS)
    Q = pack_signs(centres[yq] + 2 * rng.standard_normal((N_QUERIES, N_BITS)))
    D = pack_signs(centres[yd] + 2 * rng.standard_normal((N_ITEMS, N_BITS)))
    signs_q, signs_d = unpack_signs(Q, N_BITS).astype(np.float32), unpack_signs(D, N_BITS).astype(np.float32)
    with threadpool_limits(1):
        stable = mean_average_precision(Q[:20], yq[:20], D, yd, ties="stable")
        if abs(stable - sort_each(signs_q[:20], yq[:20], signs_d, yd)) > 1e-9:
            raise RuntimeError("the two ways do not give the same mAP")
        seconds = interleaved(
            {
                "onlinehash": lambda: mean_average_precision(Q, yq, D, yd),
                "onlinehash, stable ties": lambda: mean_average_precision(Q, yq, D, yd, ties="stable"),
                "matmul + stable argsort": lambda: sort_each(signs_q[:SLOW_QUERIES], yq[:SLOW_QUERIES], signs_d, yd),
            },
            rounds=7,
        )
    what, scale = f"mAP of {N_QUERIES} x {N_ITEMS}, {N_BITS} bits", N_QUERIES / SLOW_QUERIES
    return [
        compare(what, seconds, "matmul + stable argsort", "onlinehash", "at least 40", scale),
        compare(what, seconds, "matmul + stable argsort", "onlinehash, stable ties", "-", scale),
    ]
