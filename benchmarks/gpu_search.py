"""Measure the search of codes on a GPU."""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks.gpu_report import Report, codes_of, queries_of, timed
from onlinehash import FlatIndex
from onlinehash.types import SearchResult


def search_speed(report: Report, options: argparse.Namespace) -> None:
    """Search 10 million, 100 million and 1 billion codes."""
    import cupy

    from onlinehash.indexes.engines import GpuIndex

    index, chunk = GpuIndex(64), 50_000_000
    for n_items in options.sizes:
        start = time.perf_counter()
        while len(index) < n_items:
            index.upsert(codes_of(cupy, len(index), min(chunk, n_items - len(index))))
        print(f"{n_items} items after {time.perf_counter() - start:.1f} s more, {index!r}", flush=True)
        if n_items <= 10**7:
            flat = FlatIndex(64)
            flat.upsert(codes_of(np, 0, n_items))
            report.check(f"answers of FlatIndex on {n_items} items", partial(_same_answers, index, flat))
            for n_queries in (1, 256):
                queries = queries_of(n_queries)
                seconds = timed(partial(flat.search, queries, 10), 2.0)
                what = f"{n_items} codes, {n_queries} queries, k=10: FlatIndex, CPU"
                report.row(what, "ms per query", [1000 * s / n_queries for s in seconds])
            _time_faiss(report, flat)
        report.check(f"one scan against stages on {n_items} items", lambda: _compare_with_stages(index))
        for n_queries in (1, 16, 256):
            for k in (10, 100):
                _time_search(report, index, n_queries, k, limit=0.5 if options.quick else 2.0)
        if options.quick:
            continue
        index._tensor = False
        for n_queries in (16, 256):
            _time_search(report, index, n_queries, 10, " by counting bits", 1.5)
        index._tensor = True
    seconds = timed(lambda: index.search(np.zeros((1, 64)), 10, asymmetric=True), 1.0)
    report.row(f"{len(index)} codes, 1 asymmetric query, k=10", "ms per query", [1000 * s for s in seconds])
    seconds = timed(lambda: index.range_search(queries_of(1), 12), 1.0)
    report.row(f"{len(index)} codes, 1 query, radius 12", "ms per query", [1000 * s for s in seconds])


def _time_faiss(report: Report, flat: FlatIndex) -> None:
    """Search the same codes by the flat index of faiss, on the GPU where its build has one, where it is installed."""
    try:
        import faiss
    except ImportError:
        print("faiss is not installed")
        return
    codes = np.ascontiguousarray(flat.codes)
    index: Any = faiss.IndexBinaryFlat(flat.n_bits)
    where = f"CPU, {faiss.omp_get_max_threads()} threads"
    if hasattr(faiss, "GpuIndexBinaryFlat"):
        index, where = faiss.GpuIndexBinaryFlat(faiss.StandardGpuResources(), flat.n_bits), "GPU"
    index.add(codes)
    for n_queries in (1, 256):
        queries = queries_of(n_queries)
        assert np.array_equal(index.search(queries, 10)[0], flat.search(queries, 10).distances)
        seconds = timed(partial(index.search, queries, 10), 2.0)
        what = f"{len(flat)} codes, {n_queries} queries, k=10: faiss {faiss.__version__}, {where}"
        report.row(what, "ms per query", [1000 * s / n_queries for s in seconds])


def _same_answers(index: Any, flat: FlatIndex) -> None:
    for k in (10, 100):
        expected = flat.search(queries_of(16), k)
        _assert_same(index.search(queries_of(16), k), expected)
        for q, query in enumerate(queries_of(16)):
            _assert_same(index.search(query[None], k), SearchResult(expected.ids[[q]], expected.distances[[q]]))


def _compare_with_stages(index: Any) -> str:
    from onlinehash.indexes.engines import gpu

    most, seconds = gpu.MAX_SINGLE_K, {"one scan": 0.0, "stages": 0.0}
    for query in queries_of(40):
        found = {}
        for name in seconds:
            gpu.MAX_SINGLE_K = most if name == "one scan" else 0
            start = time.perf_counter()
            found[name] = index.search(query[None], 10)
            seconds[name] += time.perf_counter() - start
        gpu.MAX_SINGLE_K = most
        _assert_same(*found.values())
    return f"equal answers to 40 queries; ms: { ({name: 1000 * s / 40 for name, s in seconds.items()}) }"


def _assert_same(found: SearchResult[Any], expected: SearchResult[Any]) -> None:
    assert np.array_equal(found.distances, expected.distances)
    assert np.array_equal(found.ids, expected.ids)


def _time_search(report: Report, index: Any, n_queries: int, k: int, how: str = "", limit: float = 2.0) -> None:
    bars = {(1, 10): "<= 2.5 at 1 billion", (256, 10): "<= 0.7 at 1 billion"}
    queries = queries_of(n_queries)
    seconds = timed(lambda: index.search(queries, k), limit)
    what = f"{len(index)} codes, {n_queries} queries, k={k}{how}"
    report.row(
        what, "ms per query", [1000 * s / n_queries for s in seconds], "" if how else bars.get((n_queries, k), "")
    )
    if n_queries == 1 and k == 10:
        report.row(what, "TB/s read", [8 * len(index) / s / 1e12 for s in seconds], "75 % of the copy's at 1 billion")


def tie_speed(report: Report, options: argparse.Namespace) -> None:
    """Search 100 million codes that repeat, as learned codes do, in order of their ids and not."""
    import cupy

    from onlinehash.indexes.engines import GpuIndex

    n_items = 100_000_000
    few = codes_of(cupy, 0, 1000)
    index = GpuIndex(64)
    rng = cupy.random.RandomState(0)
    index.upsert(few[rng.randint(0, 1000, n_items)])
    queries = cupy.asnumpy(few[:256])
    for how in ("ids rise", "ids do not rise"):
        for n_queries in (1, 256):
            some = queries[:n_queries]
            seconds = timed(partial(index.search, some, 10), 2.0)
            what = f"{n_items} codes, 1000 distinct, {how}, {n_queries} queries, k=10"
            report.row(what, "ms per query", [1000 * s / n_queries for s in seconds])
        index._ordered = False  # as after deletions
