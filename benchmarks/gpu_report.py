"""What the benchmarks of a GPU share: a report, a clock, and random codes."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

_GOLDEN = 0x9E3779B97F4A7C15


class Report:
    """What was found so far, on the screen and in a file."""

    def __init__(self, path: Path, onto: Path | None = None) -> None:
        self.path = path
        self.content: dict[str, Any] = {"machine": {}, "rows": [], "checks": {}, "failures": {}}
        if onto is not None:
            self.content |= json.loads(onto.read_text())

    def section(self, name: str) -> None:
        """Announce a section."""
        print(f"\n== {name}", flush=True)

    def row(self, what: str, meaning: str, values: list[float], bar: str = "") -> None:
        """Keep measured values, in the form of the other benchmarks."""
        row = {"what": what, "ratio": median(values), "low": min(values), "high": max(values), "meaning": meaning}
        rows = self.content["rows"]
        at = next((i for i, old in enumerate(rows) if (old["what"], old["meaning"]) == (what, meaning)), len(rows))
        rows[at : at + 1] = [row | {"bar": bar or "none", "seconds": {}}]
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
