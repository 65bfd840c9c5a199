"""Exact top-100 of a million codes against faiss IndexBinaryFlat, and against a plain read of the codes.

The codes are random: none repeats, and no structure shortens a search. Both indexes hold their own copy, so that each
finds the other's in the cache. A single query is limited by the memory: no exact scan is faster than the plain read.
Several threads are limited by what else runs on the cores: beside them, a loop that needs no memory runs on as many.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import Any

import faiss
import numpy as np
from numba import config, njit

from benchmarks.measure import Row, compare, interleaved
from onlinehash import FlatIndex

N, K = 1_000_000, 100
ROUNDS = {1: 40, 16: 15, 256: 3}


@njit(cache=True)
def read(words: Any) -> Any:
    """Read every word once."""
    total = words[0]
    for i in range(words.shape[0]):
        total ^= words[i]
    return total


@njit(cache=True, nogil=True)
def spin(n: int) -> int:
    """Compute something that needs no memory, in steps that wait for each other."""
    state = 1
    for _ in range(n):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
    return state


def run() -> list[Row]:
    rng = np.random.default_rng(0)
    faiss.omp_set_num_threads(1)
    n_cores = vars(config)["NUMBA_NUM_THREADS"]
    rows = []
    for n_bits, bar in ((64, "at most 0.45"), (128, "at most 0.65"), (256, "at most 0.65"), (32, "-")):
        codes = rng.integers(0, 256, (N, n_bits // 8), dtype=np.uint8)
        ours, theirs = FlatIndex(n_bits), faiss.IndexBinaryFlat(n_bits)
        ours.upsert(codes)
        theirs.add(codes)
        for n_queries, rounds in ROUNDS.items():
            queries = rng.integers(0, 256, (n_queries, n_bits // 8), dtype=np.uint8)
            if not np.array_equal(ours.search(queries, K).distances, theirs.search(queries, K)[0]):
                raise RuntimeError("the two indexes do not find the same distances")
            calls: dict[str, Any] = {
                "onlinehash": partial(on_threads, 1, ours, queries),
                "faiss": partial(theirs.search, queries, K),
            }
            if n_queries == 1:
                calls["reading the codes"] = partial(read, ours.codes.reshape(-1).view(np.uint64))
            seconds = interleaved(calls, rounds)
            what = f"top {K} of {N} codes of {n_bits} bits, {n_queries} queries"
            rows.append(compare(what, seconds, "onlinehash", "faiss", bar))
            if n_queries == 1:
                rows.append(compare(what, seconds, "reading the codes", "faiss", "-"))
            elif n_bits == 64:
                several = f"{n_cores} threads"
                threads: dict[str, Any] = {
                    "1 thread": partial(on_threads, 1, ours, queries),
                    several: partial(on_threads, n_cores, ours, queries),
                }
                with ThreadPoolExecutor(n_cores - 1 or 1) as pool:
                    for name, n in (("a loop on 1 thread", 1), (f"a loop on {several}", n_cores)):
                        threads[name] = partial(spin_on_threads, pool, n, n_queries * 100_000)
                    seconds = interleaved(threads, rounds, perf_counter)
                rows.append(compare(what, seconds, "1 thread", several, "at least 1.8 on 2 cores"))
                rows.append(compare(what, seconds, "a loop on 1 thread", f"a loop on {several}", "-"))
    return rows


def on_threads(n: int, index: FlatIndex, queries: Any) -> None:
    """Search on that number of threads."""
    n_threads = vars(config)["NUMBA_NUM_THREADS"]
    vars(config)["NUMBA_NUM_THREADS"] = n
    index.search(queries, K)
    vars(config)["NUMBA_NUM_THREADS"] = n_threads


def spin_on_threads(pool: ThreadPoolExecutor, n: int, n_steps: int) -> None:
    """Do the same number of steps on that number of threads, of which this is one, as in a search."""
    others = [pool.submit(spin, n_steps // n) for _ in range(n - 1)]
    spin(n_steps // n)
    for other in others:
        other.result()
