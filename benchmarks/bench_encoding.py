"""Encoding (centre, project, take signs, pack) against the matrix product alone."""

from __future__ import annotations

from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row, compare, interleaved
from onlinehash import Encoder
from onlinehash.features import Centring


def run() -> list[Row]:
    rng = np.random.default_rng(0)
    rows = []
    with threadpool_limits(1):
        for d in (784, 4096):
            X = rng.standard_normal((20_000, d), dtype=np.float32)
            for n_bits in (32, 128):
                W = rng.standard_normal((d, n_bits), dtype=np.float32)
                plain = Encoder(W.copy())
                centred = Encoder(W.copy(), features=Centring(np.zeros(d)))
                seconds = interleaved(
                    {
                        "GEMM": partial(np.matmul, X, W),
                        "encode": partial(plain.encode, X),
                        "encode, centred": partial(centred.encode, X),
                    },
                    rounds=15,
                )
                what = f"20000 x {d}, {n_bits} bits"
                rows.append(compare(what, seconds, "encode", "GEMM", "at most 1.3"))
                rows.append(compare(what, seconds, "encode, centred", "GEMM", "at most 1.3"))
    return rows
