"""Measure the search of codes on a GPU."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from statistics import median
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
        _time_steps(report, index)
        if options.quick:
            continue
        index._tensor = False
        for n_queries in (16, 256):
            _time_search(report, index, n_queries, 10, " by counting bits", 1.5)
        index._tensor = True
    if not options.quick:
        _time_kernels(report, index)
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
    from onlinehash.indexes.engines import gpu_single

    most, seconds = gpu_single.MOST_NEIGHBOURS, {"one scan": 0.0, "stages": 0.0}
    for query in queries_of(40):
        found = {}
        for name in seconds:
            gpu_single.MOST_NEIGHBOURS = most if name == "one scan" else 0
            start = time.perf_counter()
            found[name] = index.search(query[None], 10)
            seconds[name] += time.perf_counter() - start
        gpu_single.MOST_NEIGHBOURS = most
        _assert_same(*found.values())
    return f"equal answers to 40 queries; ms: { ({name: 1000 * s / 40 for name, s in seconds.items()}) }"


def _assert_same(found: SearchResult, expected: SearchResult) -> None:
    assert np.array_equal(found.distances, expected.distances)
    assert np.array_equal(found.ids, expected.ids)


def _time_steps(report: Report, index: Any) -> None:
    """Time the steps of one query: between events on the GPU, and until each call returns on the host."""
    import cupy

    from onlinehash.indexes.engines import gpu_kernels, gpu_single

    words, ids, n_items, room = index._words, index._ids, len(index), gpu_single.Room(index._n_words)
    room.given.view(np.uint8)[:8] = queries_of(1)[0]
    wanted = room.bound, room.limit, ids, room.keys, len(room.keys), room.count

    def steps(mark: Callable[[str], None]) -> None:
        mark("start")
        room.query.set(room.given[None])
        mark("query to the GPU")
        gpu_single.find_bound(words, ids, n_items, 10, room, ordered=True)
        mark("bound from a sample")
        gpu_kernels.scan(words, 0, n_items, room.query, wanted, tensor=False)
        mark("scan")
        gpu_single.take_nearest(room, ids, 10)
        mark("selection")

    there: dict[str, list[float]] = {}
    here: dict[str, list[float]] = {}
    for _ in range(30):
        marks: list[tuple[str, Any, float]] = []

        def mark(name: str, marks: list[tuple[str, Any, float]] = marks) -> None:
            event = cupy.cuda.Event()
            event.record()
            marks.append((name, event, time.perf_counter()))

        steps(mark)
        cupy.cuda.Device().synchronize()
        for (_, before, began), (name, after, ended) in pairwise(marks):
            there.setdefault(name, []).append(float(cupy.cuda.get_elapsed_time(before, after)))
            here.setdefault(name, []).append(1000 * (ended - began))
    print(f"  {n_items} codes, one query: {int(room.out[1])} keys kept, {int(room.out[0])} items as near as the 10th")
    for name, values in there.items():
        print(f"  {name}: {median(values):.3f} ms on the GPU, {median(here[name]):.3f} ms on the host")
    report.content.setdefault("steps", {})[str(n_items)] = {name: median(values) for name, values in there.items()}


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


def _time_kernels(report: Report, index: Any) -> None:
    """Time the scans alone, at bounds that few items keep, with several numbers of blocks."""
    import cupy

    from onlinehash.indexes.engines import gpu_kernels

    report.content["kernels"] = []
    default = gpu_kernels._BLOCKS, gpu_kernels._BLOCKS_WITH_TABLE
    for n_queries, tensor, limit in ((1, False, 0.3), (16, True, 0.3), (256, True, 0.5)):
        words = index._as_words(queries_of(n_queries))
        bounds, limits = cupy.full(n_queries, 8, np.int32), cupy.zeros(n_queries, np.int64)
        keys, count = cupy.empty(1 << 20, np.uint64), cupy.zeros(1, np.uint64)
        for blocks in (4, 16, 32, 128):
            gpu_kernels._BLOCKS = gpu_kernels._BLOCKS_WITH_TABLE = blocks
            wanted = bounds, limits, 0, keys, len(keys), count
            scan = partial(gpu_kernels.scan, index._words, 0, len(index), words, wanted, tensor=tensor)
            seconds = timed(scan, limit)
            name = "tensor cores" if tensor else "counting bits"
            print(
                f"  kernel, {len(index)} codes, {n_queries} queries, {name}, {blocks} blocks per multiprocessor: "
                f"{1000 * median(seconds):.3f} ms, {8 * len(index) / median(seconds) / 1e12:.2f} TB/s",
                flush=True,
            )
            report.content["kernels"].append([len(index), n_queries, name, blocks, 1000 * median(seconds)])
    gpu_kernels._BLOCKS, gpu_kernels._BLOCKS_WITH_TABLE = default


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
