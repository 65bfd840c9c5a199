"""Encoding with HROH: codes from class scores against one plain projection per bit."""

from __future__ import annotations

from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row, compare, interleaved
from onlinehash import HROH, Encoder

N, D = 4000, 384
CASES = {
    (10, 8): "-",
    (10, 64): "at most 1",
    (100, 64): "-",
    (200, 64): "at most 3",
    (1000, 64): "-",
    (4000, 64): "-",
}  # with their bars


def linear(encoder: Encoder) -> Encoder:
    """Return the encoder that combines the codewords before it projects; it has no scores and no sharpness."""
    assert encoder.codewords is not None and encoder.intercept is not None
    words = encoder.codewords.astype(encoder.weights.dtype)
    return Encoder(encoder.weights @ words, encoder.intercept @ words, encoder.features)


def run() -> list[Row]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D), dtype=np.float32)
    rows = []
    with threadpool_limits(1):
        for (n_classes, n_bits), bar in CASES.items():
            y = np.arange(N) % n_classes
            hasher = HROH(n_bits, assignment="arrival", alpha=0.1, random_state=0).partial_fit(X, y)
            encoder = hasher.snapshot()
            encoders = {"default": encoder, "linear": linear(encoder)}
            seconds = interleaved({name: partial(each.encode, X) for name, each in encoders.items()}, rounds=15)
            what = f"encoding {N} x {D}, {n_bits} bits, {n_classes} classes"
            rows.append(compare(what, seconds, "default", "linear", bar))
    return rows
