"""Exact top-100 of a million codes against faiss IndexBinaryFlat, and against a plain read of the codes.

The codes are random: none repeats, and no structure shortens a search. Both indexes hold their own copy, so that each
finds the other's in the cache. A single query is limited by the memory: no exact scan is faster than the plain read.
Several queries are limited by the bits to count, and several threads by what the cores do at a time: beside them, as
many bits are counted in a tile of codes that never leaves the first-level cache, on as many threads.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from time import perf_counter
from typing import Any

import faiss
import numpy as np
from numba import config, njit

from benchmarks.measure import Row, compare, interleaved
from onlinehash import FlatIndex
from onlinehash.codes.kernels import TILE, popcount

N, K = 1_000_000, 100
ROUNDS = {1: 40, 16: 15, 256: 7}


@njit(cache=True)
def read(words: Any) -> Any:
    """Read every word once."""
    total = words[0]
    for i in range(words.shape[0]):
        total ^= words[i]
    return total


@njit(cache=True, nogil=True)
def count_bits(tile: Any, n_times: int, out: Any) -> None:
    """Write the distances of a tile from one query after another."""
    for i in range(n_times):
        query = np.uint64(i) * np.uint64(0x9E3779B97F4A7C15)
        for row in range(tile.shape[0]):
            out[row] = popcount(tile[row] ^ query)


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
            else:
                n_tiles = n_queries * ours.codes.size // (8 * TILE)
                calls["counting bits"] = partial(count_on_threads, 1, n_tiles)
            seconds = interleaved(calls, rounds)
            what = f"top {K} of {N} codes of {n_bits} bits, {n_queries} queries"
            rows.append(compare(what, seconds, "onlinehash", "faiss", bar))
            rows.append(
                compare(what, seconds, "reading the codes" if n_queries == 1 else "counting bits", "faiss", "-")
            )
            if n_queries > 1 and n_bits == 64:
                several = f"{n_cores} threads"
                threads: dict[str, Any] = {
                    "1 thread": partial(on_threads, 1, ours, queries),
                    several: partial(on_threads, n_cores, ours, queries),
                }
                for n in (1, n_cores):
                    threads[f"counting on {n}"] = partial(count_on_threads, n, n_tiles)
                seconds = interleaved(threads, rounds, perf_counter)
                rows.append(compare(what, seconds, "1 thread", several, "at least 1.8 on 2 cores"))
                rows.append(compare(what, seconds, "counting on 1", f"counting on {n_cores}", "-"))
    return rows


def on_threads(n: int, index: FlatIndex, queries: Any) -> None:
    """Search on that number of threads."""
    n_threads = vars(config)["NUMBA_NUM_THREADS"]
    vars(config)["NUMBA_NUM_THREADS"] = n
    index.search(queries, K)
    vars(config)["NUMBA_NUM_THREADS"] = n_threads


def count_on_threads(n: int, n_tiles: int) -> None:
    """Count the bits of that number of tiles on that number of threads, of which this is one, as in a search."""
    tiles, out = np.arange(n * TILE, dtype=np.uint64).reshape(n, TILE), np.empty((n, TILE), np.uint8)
    others = [_pool().submit(count_bits, tiles[i], n_tiles // n, out[i]) for i in range(1, n)]
    count_bits(tiles[0], n_tiles // n, out[0])
    for other in others:
        other.result()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor()
