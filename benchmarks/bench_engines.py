"""All indexes side by side: adding learned codes, top 10 of one query, and what share of the nearest is found.

The codes are those of HROH, learned from 20 000 rows of MNIST, for 69 000 rows tiled to the size with small Gaussian
noise, a tenth of the length of a row; the queries were not learned from. Time is that on the wall, since Milvus Lite is
a process of its own; faiss and ours use one thread. An engine that has not added all items in ten minutes is stopped,
and said to be.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle
from math import isqrt
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import faiss
import numpy as np

from benchmarks.measure import Row, compare, interleaved, tiled_codes
from onlinehash import HROH, FlatIndex, load_dataset
from onlinehash.checks import recall
from onlinehash.encoders import Encoder
from onlinehash.indexes.engines import FaissIndex, MilvusIndex
from onlinehash.types import Codes, Features

SIZES = (100_000, 1_000_000)
K, N_BITS, BATCH, N_QUERIES, N_PROBES = 10, 64, 10_000, 100, 16
BUDGET = 600.0  # seconds in which an engine has to add all items, or to answer all queries
ORACLE, APPROXIMATE = "FlatIndex", "FaissIndex, lists"


def learned() -> tuple[Encoder, Features, Codes]:
    """Return an encoder, rows to encode, and the codes of other rows to search for."""
    split = load_dataset("mnist").split()
    encoder = HROH(N_BITS, random_state=0).partial_fit(*split.stream).snapshot()
    chosen = np.random.default_rng(0).permutation(len(split.queries.X))[:N_QUERIES]
    return encoder, split.database.X, encoder.encode(split.queries.X[chosen])


@contextmanager
def engines(n_items: int) -> Iterator[tuple[dict[str, Any], Path]]:
    """Give empty indexes by name, and the folder of Milvus."""
    with TemporaryDirectory() as folder, MilvusIndex(N_BITS, str(Path(folder) / "milvus.db")) as milvus:
        indexes = {
            ORACLE: FlatIndex(N_BITS),
            "FaissIndex": FaissIndex(N_BITS),
            APPROXIMATE: FaissIndex(N_BITS, isqrt(n_items), N_PROBES),
            "MilvusIndex": milvus,
        }
        yield indexes, Path(folder)


def filled(indexes: Mapping[str, Any], codes: Codes) -> dict[str, list[float]]:
    """Add the codes to all indexes in turn, batch by batch; return the seconds of each batch."""
    for index in indexes.values():  # to warm up
        index.upsert(codes[:1], [0])
        index.delete([0])
    seconds: dict[str, list[float]] = {name: [] for name in indexes}
    for start in range(0, len(codes), BATCH):
        batch, ids = codes[start : start + BATCH], np.arange(start, min(start + BATCH, len(codes)))
        for name, index in indexes.items():
            if sum(seconds[name]) < BUDGET:
                began = perf_counter()
                index.upsert(batch, ids)
                seconds[name].append(perf_counter() - began)
    return seconds


def adding(what: str, seconds: Mapping[str, list[float]]) -> Iterator[Row]:
    """Yield a row an engine: its time for what it added, over that of our own scan for the same."""
    totals = {name: sum(values) for name, values in seconds.items()}
    n_batches = len(seconds[ORACLE])
    for name, values in seconds.items():
        if len(values) < n_batches:
            share = [len(values) / n_batches]
            yield Row.of(f"{what}, stopped after {BUDGET:.0f} s", share, f"{name}: added / all", "-")
        if name != ORACLE:
            pairs = list(zip(values, seconds[ORACLE], strict=False))  # one that was stopped has fewer
            ratios = [ours / theirs for ours, theirs in pairs]
            ratio = sum(values) / sum(theirs for _, theirs in pairs)
            yield Row(what, ratio, min(ratios), max(ratios), f"{name} / {ORACLE}", "-", totals)


def next_search(index: Any, queries: Codes) -> Callable[[], object]:
    """Return a call that searches for one query after the other."""
    rows = cycle(range(len(queries)))
    return lambda: index.search(queries[(row := next(rows)) : row + 1], K)


def seconds_a_query(index: Any, queries: Codes) -> float:
    index.search(queries[:1], K)
    began = perf_counter()
    index.search(queries[:1], K)
    return perf_counter() - began


def measured(n_items: int, encoder: Encoder, X: Features, queries: Codes) -> list[Row]:
    codes = tiled_codes(encoder, X, n_items, np.random.default_rng(1))
    with engines(n_items) as (indexes, folder):
        spent = filled(indexes, codes)
        kind = f"{n_items} learned codes of {N_BITS} bits"
        rows = list(adding(f"adding {kind}, {BATCH} a call", spent))
        n_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        n_stored = min(n_items, BATCH * len(spent["MilvusIndex"]))
        rows.append(Row.of(f"disk of {kind}", [n_bytes / n_stored], "MilvusIndex: bytes per item", "-"))
        what = f"top {K} of {kind}, {len(np.unique(codes.view(np.uint64)))} distinct"
        ready = {name: index for name, index in indexes.items() if len(spent[name]) == len(spent[ORACLE])}
        for name, index in list(ready.items()):
            once = seconds_a_query(index, queries)
            if 2 * N_QUERIES * once > BUDGET:  # all queries twice: to check the answers, and to measure
                del ready[name]
                rows.append(Row.of(what, [once], f"{name}: seconds a query, too many to measure", "-"))
        oracle = indexes[ORACLE].search(queries, K)
        for name, index in ready.items():
            if name != APPROXIMATE and not np.array_equal(index.search(queries, K).ids, oracle.ids):
                raise RuntimeError(f"{name} does not find the same items")
        calls = {name: next_search(index, queries) for name, index in ready.items()}
        seconds = interleaved(calls, N_QUERIES, perf_counter)
        rows += [compare(f"{what}, one query", seconds, name, ORACLE, "-") for name in ready if name != ORACLE]
        shares = [recall(ready[APPROXIMATE], indexes[ORACLE], query[None], K) for query in queries]
        meaning = f"{APPROXIMATE}: found / nearest"
        rows.append(Row(what, mean(shares), min(shares), max(shares), meaning, "at least 0.95"))
    return rows


def memory_row(call: str) -> Row:
    """Measure by how much a process grows that adds a million codes, all of them different."""
    code = (
        "import sys, numpy as np; from onlinehash import *; from onlinehash.indexes.engines import FaissIndex\n"
        "def resident(): return int(next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmRSS')))\n"
        "codes = np.random.default_rng(0).integers(0, 256, (1_000_000, 8), np.uint8)\n"
        "index = eval(sys.argv[1]); index.upsert(codes[:10_000]); index.delete(index.ids); before = resident()\n"
        "for start in range(0, len(codes), 10_000):\n"
        "    index.upsert(codes[start : start + 10_000], np.arange(start, start + 10_000))\n"
        "print((resident() - before) * 1024 / len(codes))"
    )
    n_bytes = float(subprocess.run([sys.executable, "-c", code, call], check=True, capture_output=True).stdout)
    what = "memory of 1000000 random codes of 64 bits"
    return Row.of(what, [n_bytes], f"{call}: bytes per item", "-")


def run(sizes: tuple[int, ...] = SIZES) -> list[Row]:
    faiss.omp_set_num_threads(1)
    encoder, X, queries = learned()
    rows = [row for n_items in sizes for row in measured(n_items, encoder, X, queries)]
    calls = [f"{name}({N_BITS})" for name in ("FlatIndex", "FaissIndex")]
    return rows + [memory_row(call) for call in (*calls, f"FaissIndex({N_BITS}, n_lists=1000)")]
