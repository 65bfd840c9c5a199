"""Exact top-100 of a million codes against faiss IndexBinaryFlat."""

from __future__ import annotations

from functools import partial

import faiss
import numpy as np

from benchmarks.measure import Row, compare, interleaved
from onlinehash import FlatIndex

N, K = 1_000_000, 100


def run() -> list[Row]:
    rng = np.random.default_rng(0)
    faiss.omp_set_num_threads(1)
    rows = []
    for n_bits, bar in ((64, "at most 0.65"), (128, "at most 1.05"), (32, "-")):
        codes = rng.integers(0, 256, (N, n_bits // 8), dtype=np.uint8)
        ours, theirs = FlatIndex(n_bits), faiss.IndexBinaryFlat(n_bits)
        ours.upsert(codes)
        theirs.add(codes)
        for n_queries in (1, 16):
            queries = rng.integers(0, 256, (n_queries, n_bits // 8), dtype=np.uint8)
            if not np.array_equal(ours.search(queries, K).distances, theirs.search(queries, K)[0]):
                raise RuntimeError("the two indexes do not find the same distances")
            seconds = interleaved(
                {
                    "onlinehash": partial(ours.search, queries, K),
                    "faiss": partial(theirs.search, queries, K),
                },
                rounds=40 if n_queries == 1 else 15,
            )
            what = f"top {K} of {N} codes of {n_bits} bits, {n_queries} queries"
            rows.append(compare(what, seconds, "onlinehash", "faiss", bar))
    return rows
