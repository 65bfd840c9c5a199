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
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from benchmarks.gpu_checks import check_collection, check_hashers, check_indexes
from benchmarks.gpu_report import Report, free, timed
from benchmarks.gpu_search import search_speed, tie_speed
from onlinehash import HROH, load_dataset, mean_average_precision
from onlinehash.exceptions import DataNotFoundError
from onlinehash.experiments.results import versions

_PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "torch", "cupy-cuda13x", "cupy-cuda12x")


def machine(report: Report, options: argparse.Namespace) -> None:
    """Name the card and the versions, and measure its memory and its products."""
    import cupy
    import torch

    found = {"python": platform.python_version(), "card": torch.cuda.get_device_name(), **versions(_PACKAGES)}
    assert report.content["machine"] in ({}, found), f"--onto has results of another machine: {found}"
    report.content["machine"] = found
    print(found)
    n_bytes = 1 << 32
    source, target = cupy.ones(n_bytes // 8), cupy.empty(n_bytes // 8)
    copies = timed(lambda: cupy.copyto(target, source))
    report.row("copy of 4 GiB", "TB/s read and written", [2 * n_bytes / s / 1e12 for s in copies])
    if options.quick:
        return
    a = torch.randn(8192, 8192, dtype=torch.float64, device="cuda")
    products = timed(lambda: a.T @ a)
    report.row("float64 product of 8192 x 8192", "TFLOP/s", [2 * 8192**3 / s / 1e12 for s in products])


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
        seconds = timed(partial(hasher.partial_fit, there[:n_rows], labels[:n_rows]), 4.0, 10)
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
        encoded = timed(partial(encoder.encode, there[:n_rows]), 2.0, 10)
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
    parser.add_argument("--quick", action="store_true", help="fewer checks and sizes")
    parser.add_argument("--onto", type=Path, help="results of the same card and versions, to replace rows of")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    report, begin = Report(options.out / "gpu.json", options.onto), time.perf_counter()
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
