"""Check and measure everything that runs on a GPU, in one program: ``python benchmarks/bench_gpu.py --out FOLDER``.

Every section prints as it goes, and what it found is saved after each, so that a failure or the end of the time loses
nothing else. It needs PyTorch, CuPy and this library, and no other extra. Times are on the wall, with the transfer of
the results; each is the median of several runs.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from onlinehash import HCOH, HROH, Collection, FlatIndex, load_dataset, mean_average_precision
from onlinehash.checks import index_checks
from onlinehash.exceptions import DataNotFoundError, InvalidInputError

_PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "torch", "cupy-cuda13x", "cupy-cuda12x")
_GOLDEN = 0x9E3779B97F4A7C15

Row = dict[str, Any]


class Report:
    """What was found so far, on the screen and in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = {"machine": {}, "rows": [], "checks": {}, "failures": {}}

    def section(self, name: str) -> None:
        """Announce a section."""
        print(f"\n== {name}", flush=True)

    def row(self, what: str, meaning: str, values: list[float], bar: str = "") -> None:
        """Keep measured values, in the form of the other benchmarks."""
        row = {"what": what, "ratio": median(values), "low": min(values), "high": max(values), "meaning": meaning}
        self.content["rows"].append(row | {"bar": bar or "none", "seconds": {}})
        print(f"{what}: {meaning} = {median(values):.4g} ({min(values):.4g} to {max(values):.4g}); {bar}", flush=True)

    def check(self, what: str, call: Callable[[], object]) -> None:
        """Run a check and keep "passed", what it returned, or its failure."""
        start = time.perf_counter()
        try:
            result = call()
            told = "passed" if result is None else str(result)
        except Exception as error:
            traceback.print_exc()
            told = f"FAILED: {type(error).__name__}: {error}"
        self.content["checks"][what] = told
        print(f"{what}: {told} [{time.perf_counter() - start:.2f} s]", flush=True)

    def fail(self, name: str) -> None:
        """Keep the error that ended a section."""
        traceback.print_exc()
        self.content["failures"][name] = traceback.format_exc()
        sys.stderr.flush()

    def save(self) -> None:
        """Write what was found so far."""
        self.path.write_text(json.dumps(self.content, indent=1) + "\n")


def timed(call: Callable[[], object], limit: float = 3.0, most: int = 20) -> list[float]:
    """Return seconds of several runs, after two to warm up, within a limit of seconds."""
    import cupy

    for _ in range(2):
        call()
    seconds: list[float] = []
    begin = time.perf_counter()
    while len(seconds) < most and (not seconds or time.perf_counter() - begin < limit):
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        call()
        cupy.cuda.Device().synchronize()
        seconds.append(time.perf_counter() - start)
    return seconds


def free() -> None:
    """Give unused memory back to the GPU."""
    import cupy
    import torch

    cupy.get_default_memory_pool().free_all_blocks()
    torch.cuda.empty_cache()


def codes_of(xp: Any, first: int, n_codes: int) -> Any:
    """Return random codes of 64 bits, the same on the host and on a GPU."""
    x = xp.arange(first + 1, first + n_codes + 1, dtype=xp.uint64) * xp.uint64(_GOLDEN)
    x = (x ^ (x >> xp.uint64(30))) * xp.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> xp.uint64(27))) * xp.uint64(0x94D049BB133111EB)
    x ^= x >> xp.uint64(31)
    return x.view(xp.uint8).reshape(n_codes, 8)


def queries_of(n_queries: int) -> Any:
    return codes_of(np, 10**12, n_queries)


# ---------------------------------------------------------------------- what holds


def machine(report: Report, options: argparse.Namespace) -> None:
    """Name the card and the versions, and measure its memory and its products."""
    import cupy
    import torch

    found = {"python": platform.python_version(), "card": torch.cuda.get_device_name()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    report.content["machine"] = found
    print(found)
    n_bytes = 1 << 32
    source, target = cupy.ones(n_bytes // 8), cupy.empty(n_bytes // 8)
    copies = timed(lambda: cupy.copyto(target, source))
    report.row("copy of 4 GiB", "TB/s read and written", [2 * n_bytes / s / 1e12 for s in copies])
    a = torch.randn(8192, 8192, dtype=torch.float64, device="cuda")
    products = timed(lambda: a.T @ a)
    report.row("float64 product of 8192 x 8192", "TFLOP/s", [2 * 8192**3 / s / 1e12 for s in products])


def check_indexes(report: Report, options: argparse.Namespace) -> None:
    """Compare GpuIndex with FlatIndex."""
    from onlinehash.indexes.engines import GpuIndex

    for check in index_checks():
        report.check(check.__name__, lambda check=check: check(GpuIndex))  # type: ignore[misc]
    for n_bits in (8, 16, 64, 100, 128, 256):
        for tensor in (True, False):
            report.check(
                f"changes and searches of {n_bits} bits, tensor cores {tensor}",
                lambda n_bits=n_bits, tensor=tensor: _compare(n_bits, tensor=tensor),  # type: ignore[misc]
            )


def _compare(n_bits: int, *, tensor: bool) -> None:
    import cupy
    import torch

    from onlinehash.indexes.engines import GpuIndex

    rng = np.random.default_rng(n_bits)
    index, flat = GpuIndex(n_bits), FlatIndex(n_bits)
    index._tensor = tensor
    there = (np.asarray, cupy.asarray, lambda codes: torch.asarray(codes, device="cuda"))
    n_bytes, mask = -(-n_bits // 8), 255 >> (-n_bits % 8)
    for step in range(40):
        size = int(rng.integers(1, 20_000))
        codes = rng.integers(0, 4 if step % 2 else 256, (size, n_bytes), dtype=np.uint8)
        codes[:, -1] &= mask
        ids = None if step % 4 == 0 else rng.choice(10**5, size, replace=False)
        doomed: Any = rng.permutation(flat.ids)[: size // 2] if step % 3 == 2 else []
        index.upsert(there[step % 3](codes), ids)
        flat.upsert(codes, ids)
        for each in (index, flat):
            each.delete(doomed)
        queries = codes[: int(rng.integers(1, 40))].copy()
        for k in (1, 10, 3000):
            found, expected = index.search(there[step % 3](queries), k), flat.search(queries, k)
            assert np.array_equal(found.distances, expected.distances), (step, k)
            assert np.array_equal(found.ids, expected.ids), (step, k)
        near, expected_near = (each.range_search(queries, n_bits // 4) for each in (index, flat))
        for one, other in zip(near, expected_near, strict=True):
            assert np.array_equal(one.ids, other.ids), step
            assert np.array_equal(one.distances, other.distances), step


def check_hashers(report: Report, options: argparse.Namespace) -> None:
    """Compare HROH and encoders on the GPU with those on the CPU."""
    import cupy
    import torch

    rng = np.random.default_rng(0)
    centres = rng.standard_normal((50, 784))
    y = rng.integers(0, 50, 25_000)
    X = centres[y] + 2.0 * rng.standard_normal((25_000, 784))
    host = HROH(64, random_state=0).partial_fit(X[:20_000], y[:20_000])
    expected, encoder = host._sums.complete(), host.snapshot()
    puts = {"torch": lambda a: torch.asarray(a, device="cuda"), "cupy": cupy.asarray}

    def compare(name: str, put: Callable[[Any], Any]) -> str:
        there = HROH(64, random_state=0)
        for start in range(0, 20_000, 3000):
            stop = min(start + 3000, 20_000)
            there.partial_fit(put(X[start:stop]), put(y[start:stop]))
        sums = there._sums.statistics
        gram = np.abs(np.tril(sums.gram) - np.tril(expected.gram)).max() / np.abs(expected.gram).max()
        classes = np.abs(sums.sums - expected.sums).max() / np.abs(expected.sums).max()
        assert max(gram, classes) < 1e-9, (gram, classes)
        theirs = there.snapshot()
        there_codes: Any = theirs.encode(put(X[20_000:]))
        assert type(there_codes).__module__.startswith(name)
        plain = there_codes.get() if name == "cupy" else there_codes.cpu().numpy()
        same = float((np.unpackbits(plain ^ theirs.encode(X[20_000:])) == 0).mean())
        learned = float((np.unpackbits(plain ^ encoder.encode(X[20_000:])) == 0).mean())
        single = HROH(64, random_state=0).partial_fit(X[:5000].astype(np.float32), y[:5000]).snapshot()
        rows = X[20_000:].astype(np.float32)
        codes: Any = single.encode(put(rows))
        plain = codes.get() if name == "cupy" else codes.cpu().numpy()
        in_single = float((np.unpackbits(plain ^ single.encode(rows)) == 0).mean())
        score = there.score(put(X[20_000:]), put(y[20_000:]))
        again = HROH.load(there.to_bytes()).partial_fit(X[20_000:], y[20_000:])
        there.partial_fit(put(X[20_000:]), put(y[20_000:])).unlearn(put(X[20_000:]), put(y[20_000:]))
        left = np.abs(np.tril(there._sums.statistics.gram) - np.tril(expected.gram)).max() / np.abs(expected.gram).max()
        assert left < 1e-9, left
        assert again.n_samples_seen_ == 25_000
        return (
            f"sums differ by {gram:.1e} and {classes:.1e}; equal bits: one encoder on both sides {same:.7f}, "
            f"learned on each {learned:.7f}, in single precision {in_single:.7f}; score {score:.4f}, "
            f"on the CPU {host.score(X[20_000:], y[20_000:]):.4f}"
        )

    for name, put in puts.items():
        report.check(f"HROH and its encoder, {name}", lambda name=name, put=put: compare(name, put))  # type: ignore[misc]
    for options_of in ({"features": "anchors", "n_components": 300}, {"preprocess": "running"}, {"decay": 0.999}):
        report.check(
            f"HROH with {options_of}",
            lambda o=options_of: _same_codes(HROH(16, random_state=0, **o), X, y, puts["torch"]),  # type: ignore[misc]
        )
    report.check("half precision", lambda: _learn_half(X, y))
    report.check("refused by other methods", lambda: _refused(X, y))
    report.check("a search of tensors that stay on the GPU", lambda: _pipeline(encoder, X))


def _same_codes(hasher: HROH, X: Any, y: Any, put: Callable[[Any], Any]) -> str:
    there = HROH(**hasher.get_params()).partial_fit(put(X[:4000]), y[:4000]).snapshot()
    here = hasher.partial_fit(X[:4000], y[:4000]).snapshot()
    codes: Any = there.encode(put(X[4000:6000]))
    same = float((np.unpackbits(codes.cpu().numpy() ^ here.encode(X[4000:6000])) == 0).mean())
    assert same > 0.9999, same
    return f"equal bits {same:.7f}"


def _learn_half(X: Any, y: Any) -> str:
    import torch

    rows = torch.asarray(X, device="cuda").bfloat16()
    hasher = HROH(32, random_state=0).partial_fit(rows[:4000], torch.asarray(y[:4000], device="cuda"))
    return f"score {hasher.score(rows[4000:6000], y[4000:6000]):.4f}, codes {hasher.transform(rows[:2]).dtype}"


def _refused(X: Any, y: Any) -> str:
    import torch

    rows = torch.asarray(X[:10], device="cuda")
    told = []
    for call in (
        lambda: HCOH(16).partial_fit(rows, y[:10]),
        lambda: FlatIndex(16).search(torch.zeros((1, 2), dtype=torch.uint8, device="cuda"), 1),
        lambda: HROH(16).partial_fit(torch.full((3, 4), float("nan"), device="cuda"), [0, 1, 2]),
    ):
        try:
            call()
        except InvalidInputError as error:
            told.append(str(error))
    assert len(told) == 3, told
    return " | ".join(told)


def _pipeline(encoder: Any, X: Any) -> None:
    import torch

    from onlinehash.indexes.engines import GpuIndex

    index, flat = GpuIndex(64), FlatIndex(64)
    rows = torch.asarray(X, device="cuda")
    codes = encoder.encode(rows)
    index.upsert(codes)
    flat.upsert(codes.cpu().numpy())
    found, expected = index.search(codes[:100], 10), flat.search(codes[:100].cpu().numpy(), 10)
    assert np.array_equal(found.ids, expected.ids)
    values = encoder.encode_asymmetric(rows[:5])
    found, expected = index.search(values, 10, asymmetric=True), flat.search(values.cpu().numpy(), 10, asymmetric=True)
    assert np.array_equal(found.ids, expected.ids)
    assert np.array_equal(found.distances, expected.distances)


def check_collection(report: Report, options: argparse.Namespace) -> None:
    """Compare a collection searched on the GPU with one in memory."""

    def compare() -> str:
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((3000, 32)), rng.integers(0, 5, 3000)
        with tempfile.TemporaryDirectory() as folder:
            results = []
            for search in ("gpu", "memory"):
                hasher = HROH(32, n_components=128, random_state=0)
                with Collection.open(f"{folder}/{search}.oh", hasher, search=search) as items:
                    for start in range(0, 2500, 250):
                        items.upsert(range(start, start + 250), X[start : start + 250], y[start : start + 250])
                    items.delete(range(100, 300))
                    items.upsert(range(500), X[2500:], y[2500:])
                    items.refresh()
                    found = [items.search(X[:50], 10, **more).ids for more in ({}, {"labels": 2}, {"asymmetric": True})]
                    results.append((found, items.stats().index))
            same = np.mean([a == b for a, b in zip(*(found for found, _ in results), strict=True)])
            return f"equal answers {same:.3f}; engines {[kind for _, kind in results]}"

    report.check("a collection with search='gpu'", compare)


# ---------------------------------------------------------------------- how fast


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
        if n_items == options.sizes[0]:
            flat = FlatIndex(64)
            flat.upsert(codes_of(np, 0, n_items))
            report.check(f"answers of FlatIndex on {n_items} items", lambda flat=flat: _same_answers(index, flat))  # type: ignore[misc]
            seconds = timed(lambda flat=flat: flat.search(queries_of(1), 10), 2.0)  # type: ignore[misc]
            report.row(f"{n_items} codes, 1 query, k=10: FlatIndex, CPU", "ms per query", [1000 * s for s in seconds])
        for n_queries in (1, 16, 256):
            for k in (10, 100):
                _time_search(report, index, n_queries, k)
        index._tensor = False
        for n_queries in (16, 256):
            _time_search(report, index, n_queries, 10, " by counting bits", 1.5)
        index._tensor = True
    _time_kernels(report, index)
    seconds = timed(lambda: index.search(np.zeros((1, 64)), 10, asymmetric=True), 1.0)
    report.row(f"{len(index)} codes, 1 asymmetric query, k=10", "ms per query", [1000 * s for s in seconds])
    seconds = timed(lambda: index.range_search(queries_of(1), 12), 1.0)
    report.row(f"{len(index)} codes, 1 query, radius 12", "ms per query", [1000 * s for s in seconds])


def _same_answers(index: Any, flat: FlatIndex) -> None:
    for n_queries in (1, 16):
        for k in (10, 100):
            found, expected = (each.search(queries_of(n_queries), k) for each in (index, flat))
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


def _time_kernels(report: Report, index: Any) -> None:
    """Time the scans alone, at bounds that few items keep, with several numbers of blocks."""
    import cupy

    from onlinehash.indexes.engines import gpu_kernels

    default = gpu_kernels._BLOCKS
    for n_queries, tensor, limit in ((1, False, 0.3), (16, True, 0.3), (256, True, 0.5)):
        words = index._as_words(queries_of(n_queries))
        bounds, limits = cupy.full(n_queries, 8, np.int32), cupy.zeros(n_queries, np.int64)
        keys, count = cupy.empty(1 << 20, np.uint64), cupy.zeros(1, np.uint64)
        for blocks in (2, 4, 5, 8, 10, 16, 32):
            gpu_kernels._BLOCKS = blocks
            seconds = timed(
                lambda words=words, bounds=bounds, limits=limits, keys=keys, count=count, tensor=tensor: (  # type: ignore[misc]
                    gpu_kernels.scan(
                        index._words, 0, len(index), words, (bounds, limits, 0, keys, len(keys), count), tensor=tensor
                    )
                ),
                limit,
            )
            name = "tensor cores" if tensor else "counting bits"
            print(
                f"  kernel, {len(index)} codes, {n_queries} queries, {name}, {blocks} blocks per multiprocessor: "
                f"{1000 * median(seconds):.3f} ms, {8 * len(index) / median(seconds) / 1e12:.2f} TB/s",
                flush=True,
            )
            report.content.setdefault("kernels", []).append(
                [len(index), n_queries, name, blocks, 1000 * median(seconds)]
            )
    gpu_kernels._BLOCKS = default


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
            seconds = timed(lambda some=some: index.search(some, 10), 2.0)  # type: ignore[misc]
            what = f"{n_items} codes, 1000 distinct, {how}, {n_queries} queries, k=10"
            report.row(what, "ms per query", [1000 * s / n_queries for s in seconds])
        index._ordered = False  # as after deletions


def learn_speed(report: Report, options: argparse.Namespace) -> None:
    """Learn, take snapshots and encode, on the GPU and on the CPU."""
    import torch

    bars = {2048: ">= 2 million", 16384: ">= 60 000"}
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((100, 784)).astype(np.float32)
    y = rng.integers(0, 100, 1 << 18)
    X = centres[y] + 2.0 * rng.standard_normal((1 << 18, 784), np.float32)
    there, labels = torch.asarray(X, device="cuda"), torch.asarray(y, device="cuda")
    for n_components, n_host in ((2048, 8192), (8192, 2048), (16384, 1024)):
        hasher = HROH(64, n_components=n_components, random_state=0)
        n_rows = 1 << 18 if n_components == 2048 else 1 << 16
        hasher.partial_fit(there[:n_rows], labels[:n_rows])
        seconds = timed(lambda h=hasher, n=n_rows: h.partial_fit(there[:n], labels[:n]), 4.0, 10)  # type: ignore[misc]
        what = f"HROH, 784 features, {n_components} components"
        report.row(what, "rows learned per second, GPU", [n_rows / s for s in seconds], bars.get(n_components, ""))
        seconds = []
        for _ in range(4):
            hasher.partial_fit(there[:64], labels[:64])
            torch.cuda.synchronize()
            start = time.perf_counter()
            encoder = hasher.snapshot()
            seconds.append(time.perf_counter() - start)
        report.row(what, "seconds for a snapshot, GPU", seconds[1:])
        encoded = timed(lambda e=encoder, n=n_rows: e.encode(there[:n]), 2.0, 10)  # type: ignore[misc]
        report.row(what, "rows encoded per second, GPU", [n_rows / s for s in encoded])
        del hasher
        free()
        host = HROH(64, n_components=n_components, random_state=0).partial_fit(X[:1024], y[:1024])
        start = time.perf_counter()
        host.partial_fit(X[:n_host], y[:n_host])
        report.row(what, "rows learned per second, CPU", [n_host / (time.perf_counter() - start)])
        start = time.perf_counter()
        encoder.encode(X[:4096])
        report.row(what, "rows encoded per second, CPU", [4096 / (time.perf_counter() - start)])
        if n_components == 2048:
            start = time.perf_counter()
            host.snapshot()
            report.row(what, "seconds for a snapshot, CPU", [time.perf_counter() - start])
        del host
        report.save()


def mnist(report: Report, options: argparse.Namespace) -> None:
    """Measure the mAP of MNIST at 16 bits among items never learned from."""
    import torch

    try:
        split = load_dataset("mnist").split()
    except DataNotFoundError as error:
        print(f"left out: {error}")
        return
    stream, queries = split.stream, split.queries
    unseen, labels = split.database.X[len(stream.X) :], split.database.y[len(stream.X) :]
    for n_components in (2048, 16384):
        start = time.perf_counter()
        hasher = HROH(16, n_components=n_components, random_state=0).partial_fit(_on_gpu(stream.X), stream.y)
        torch.cuda.synchronize()
        learned = time.perf_counter()
        encoder = hasher.snapshot()
        solved = time.perf_counter()
        found: list[Any] = [encoder.encode(_on_gpu(X)) for X in (queries.X, unseen)]
        codes = [each.cpu().numpy() for each in found]
        print(f"{len(stream.X)} rows learned in {learned - start:.2f} s, snapshot in {solved - learned:.2f} s")
        value = mean_average_precision(codes[0], queries.y, codes[1], labels)
        what = f"MNIST, 16 bits, {n_components} components, {len(unseen)} items never learned from"
        report.row(what, "mAP", [float(value)], ">= .96" if n_components == 16384 else "")
        del hasher
        free()


def _on_gpu(X: Any) -> Any:
    import torch

    return torch.asarray(np.asarray(X, np.float64), device="cuda")


SECTIONS = {
    "machine": machine,
    "check_indexes": check_indexes,
    "check_hashers": check_hashers,
    "check_collection": check_collection,
    "learn_speed": learn_speed,
    "search_speed": search_speed,
    "tie_speed": tie_speed,
    "mnist": mnist,
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder for gpu.json")
    parser.add_argument("--only", default="", help="sections, with commas between them")
    parser.add_argument("--minutes", type=float, default=8.0, help="no section is begun after these")
    parser.add_argument(
        "--sizes", type=lambda text: [int(float(x)) for x in text.split(",")], default=[10**7, 10**8, 10**9]
    )
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    report, begin = Report(options.out / "gpu.json"), time.perf_counter()
    for name in options.only.split(",") if options.only else SECTIONS:
        if time.perf_counter() - begin > 60 * options.minutes:
            report.content["failures"][name] = "not begun: no time was left"
            continue
        report.section(name)
        start = time.perf_counter()
        try:
            SECTIONS[name](report, options)
        except Exception:
            report.fail(name)
        try:
            free()
        except Exception:
            traceback.print_exc()
        print(f"== {name} took {time.perf_counter() - start:.1f} s", flush=True)
        report.save()
    print("\nFailures:", json.dumps(report.content["failures"])[:3000])
    print("Checks that did not pass:", [n for n, told in report.content["checks"].items() if told.startswith("FAILED")])


if __name__ == "__main__":
    main()
