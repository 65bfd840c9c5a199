"""Exact top-10 of codes that do not repeat, by multi-index hashing and by our scan, one query at a time.

Codes are cut into parts of 16 bits. A table per part gives the rows by the value of that part. A code at distance d
from the query has, in one of m parts, at most d / m other bits, so tables are looked up at growing radius until no
other row can be among the nearest. The part with the fewest rows at its next radius is looked up first. That is better
than all parts in turn, because the parts of learned codes are not uniform. A query that has looked at a sixteenth of
all rows gives up, and is scanned; that scan is not counted here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, product
from typing import Any

import numpy as np

from benchmarks.measure import Row, compare, interleaved
from onlinehash import FlatIndex, load_dataset, make_hasher
from onlinehash._kernel import kernel
from onlinehash.codes.kernels import popcount
from onlinehash.types import Codes

N, MANY, K, N_QUERIES = 1_000_000, 8_000_000, 10, 50
WIDTH, RADIUS = 16, 3  # bits of a part, and the largest radius in one
GIVE_UP = 16  # a look at this part of all rows takes longer than the scan
CHUNK = 100_000  # rows that are encoded together
NOISE = 0.5  # of the standard deviation of the features: less, and codes repeat


@kernel()
def fill_parts(parts: Any, starts: Any, rows: Any) -> None:
    """Sort rows by every part; ``starts[j, v]`` is where those with value ``v`` begin."""
    for j in range(parts.shape[1]):
        for i in range(parts.shape[0]):
            starts[j, parts[i, j] + 1] += 1
        for value in range(1, starts.shape[1]):
            starts[j, value] += starts[j, value - 1]
        free = starts[j].copy()
        for i in range(parts.shape[0]):
            rows[j, free[parts[i, j]]] = i
            free[parts[i, j]] += 1


@kernel()
def collect(
    query: Any, words: Any, starts: Any, rows: Any, flips: Any, bounds: Any, k: int, most: int, found: Any, near: Any
) -> int:
    """Write rows and distances that hold the k nearest; return how many, or -1 after ``most`` rows and look-ups.

    ``flips`` are all changes of a part, those of radius ``r`` from ``bounds[r]`` on.
    """
    n_parts = starts.shape[0]
    low = np.uint64((1 << 16) - 1)
    at_distance = np.zeros(64 * words.shape[1] + 1, np.int64)
    values, costs = np.empty(n_parts, np.uint64), np.empty(n_parts, np.int64)
    radii = np.zeros(n_parts, np.int64)  # the next one of every part
    for j in range(n_parts):
        values[j] = (query[j >> 2] >> np.uint64(16 * (j & 3))) & low
        costs[j] = starts[j, values[j] + np.uint64(1)] - starts[j, values[j]]
    n_found, n_seen, n_near, reach = 0, 0, 0, 0
    while True:
        j = int(np.argmin(costs))
        r = radii[j]
        n_seen += costs[j]
        if n_seen > most:
            return -1
        for f in range(bounds[r], bounds[r + 1]):
            value = values[j] ^ flips[f]
            for p in range(starts[j, value], starts[j, value + np.uint64(1)]):
                row = rows[j, p]
                distance, is_new = 0, True
                for w in range(words.shape[1]):
                    other = words[row, w] ^ query[w]
                    distance += popcount(other)
                    for i in range(4):
                        is_new &= popcount((other >> np.uint64(16 * i)) & low) >= radii[4 * w + i]
                if is_new:
                    at_distance[distance] += 1
                    found[n_found], near[n_found] = row, distance
                    n_found += 1
        n_near += at_distance[reach]
        if n_near >= k:
            return n_found
        reach += 1  # every row up to here has been found
        radii[j] += 1
        costs[j] = most
        if r + 2 < bounds.shape[0]:
            costs[j] = 4 * (bounds[r + 2] - bounds[r + 1])  # a look-up takes as long as some rows
            for f in range(bounds[r + 1], bounds[r + 2]):
                value = values[j] ^ flips[f]
                costs[j] += starts[j, value + np.uint64(1)] - starts[j, value]


class MultiIndex:
    """The tables of codes that do not change."""

    def __init__(self, codes: Codes) -> None:
        parts = codes.view(np.uint16)
        self.words = codes.view(np.uint64)
        self.starts = np.zeros((parts.shape[1], (1 << WIDTH) + 1), np.int32)
        self.rows = np.empty(parts.shape[::-1], np.int32)
        fill_parts(parts, self.starts, self.rows)
        changes = np.arange(1 << WIDTH, dtype=np.uint64)
        sizes = np.bitwise_count(changes)
        self.flips = changes[np.argsort(sizes, kind="stable")]
        self.bounds = np.searchsorted(np.sort(sizes), np.arange(RADIUS + 2))
        self.most = len(codes) // GIVE_UP
        self.found, self.near = np.empty((2, self.most + 1), np.int32)

    def search(self, query: Codes, k: int) -> tuple[Any, Any] | None:
        """Return rows and distances of the k nearest, or None if it gives up."""
        tables = (self.words, self.starts, self.rows, self.flips, self.bounds)
        n_found = collect(query.view(np.uint64)[0], *tables, k, self.most, self.found, self.near)
        if n_found < 0:
            return None
        found, near = self.found[:n_found], self.near[:n_found]
        first = np.flatnonzero(near <= np.partition(near, k - 1)[k - 1])
        first = first[np.lexsort((found[first], near[first]))[:k]]
        return found[first], near[first]


def learned_codes(name: str, method: str, n_bits: int, n_rows: int = N) -> tuple[Codes, Codes]:
    """Return the distinct codes of rows with noise, and queries."""
    split, rng = load_dataset(name).split(), np.random.default_rng(0)
    encoder = make_hasher(method, n_bits=n_bits, random_state=0).partial_fit(*split.stream).snapshot()
    X = np.asarray(split.database.X, np.float32)
    scale, parts = np.float32(NOISE * X.std()), []
    for _ in range(n_rows // CHUNK):
        chosen = X[rng.integers(0, len(X), CHUNK)]
        parts.append(encoder.encode(chosen + scale * rng.standard_normal(chosen.shape, np.float32)))
    distinct = np.unique(np.concatenate(parts).view(f"V{n_bits // 8}"))
    codes = np.ascontiguousarray(rng.permutation(distinct)).view(np.uint8).reshape(len(distinct), -1)
    return codes, encoder.encode(np.asarray(split.queries.X[:N_QUERIES], np.float32))


def random_codes(n_bits: int) -> tuple[Codes, Codes]:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (N + N_QUERIES, n_bits // 8), dtype=np.uint8)
    return codes[:N], codes[N:]


def run() -> list[Row]:
    rows = [measured(f"random codes of {n_bits} bits", *random_codes(n_bits)) for n_bits in (64, 128)]
    cases = [*product(("mnist", "clinc150"), ("hcoh", "hroh"), (64, 128), (N,)), ("clinc150", "hcoh", 64, MANY)]
    for name, method, n_bits, n_rows in cases:
        what = f"codes of {method.upper()} for {name}, {n_bits} bits"
        rows.append(measured(what, *learned_codes(name, method, n_bits, n_rows)))
    return rows


def measured(what: str, codes: Codes, queries: Codes) -> Row:
    tables, scan = MultiIndex(codes), FlatIndex(8 * codes.shape[1])
    scan.upsert(codes)
    n_without = 0
    for i in range(len(queries)):
        found, expected = tables.search(queries[i : i + 1], K), scan.search(queries[i : i + 1], K)
        n_without += found is None
        if found is not None and not np.array_equal(found, (expected.ids[0], expected.distances[0])):
            raise RuntimeError("multi-index hashing and the scan do not find the same items")

    def one_by_one(search: Callable[..., object]) -> Callable[[], object]:
        rows = cycle(range(len(queries)))

        def call() -> object:
            i = next(rows)
            return search(queries[i : i + 1], K)

        return call

    seconds = interleaved({"multi-index": one_by_one(tables.search), "scan": one_by_one(scan.search)}, 4 * N_QUERIES)
    gave_up = f", gave up {n_without} of {len(queries)} times" if n_without else ""
    return compare(f"{len(codes)} distinct {what}{gave_up}", seconds, "multi-index", "scan", "-")
