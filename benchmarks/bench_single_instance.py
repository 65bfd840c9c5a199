"""HCOH: one instance a call. The only benchmark with an absolute bar, 100 microseconds."""

from __future__ import annotations

import numpy as np

from benchmarks.measure import Row, compare, interleaved
from onlinehash import HCOH

CALLS = 1000
BUDGET = 100e-6


def run() -> list[Row]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((CALLS, 784), dtype=np.float32)
    y = rng.integers(0, 10, CALLS)
    hasher = HCOH(32, random_state=0).partial_fit(X, y)

    def calls() -> None:
        for i in range(CALLS):
            hasher.partial_fit(X[i : i + 1], y[i : i + 1])

    seconds = interleaved({"partial_fit": calls}, rounds=9)
    seconds["100 microseconds"] = [CALLS * BUDGET] * 9
    return [compare("a call with one row, d=784, 32 bits", seconds, "partial_fit", "100 microseconds", "at most 1")]
