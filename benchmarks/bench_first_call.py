"""First calls in a new process, nothing compiled yet, beside what numba takes to compile a loop that does nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import onlinehash
from benchmarks.measure import Row

ROUNDS = 3
_DATA = """
import numpy as np
from onlinehash import HCOH, FlatIndex
rng = np.random.default_rng(0)
X, y = rng.standard_normal((1000, 64), dtype=np.float32), rng.integers(0, 10, 1000)
codes = rng.integers(0, 256, (20_000, 8), dtype=np.uint8)
hasher, index = HCOH(64, random_state=0), FlatIndex(64)
"""
_CALLS = {  # what is imported and made before, and the call
    "numba": ("import numba\n@numba.njit\ndef loop(n):\n    for i in range(n):\n        pass\n", "loop(9)"),
    "partial_fit": (_DATA, "hasher.partial_fit(X, y)"),
    "search": (_DATA, "index.upsert(codes); index.search(codes[:1], 10)"),
    "demo": (
        "from pathlib import Path",
        "from onlinehash.demo import terminal\n"
        "terminal.show = lambda *given, **named: None\n"
        "from onlinehash.cli.experiments import demo\n"
        "demo(Path('demo'), 0, False)",
    ),
}
_BARS = {"numba": None, "partial_fit": 4, "search": 4, "demo": 6}
_NAMES = {
    "numba": "a loop that does nothing, compiled by numba",
    "partial_fit": "first HCOH.partial_fit, 64 bits",
    "search": "first upsert and search of a FlatIndex, 20000 codes of 64 bits",
    "demo": "onlinehash demo until it draws, imports included",
}


def seconds_of(name: str, package: Path) -> float:
    """Return the CPU seconds of the call in a new process, with the uncompiled package and an empty cache."""
    before, call = _CALLS[name]
    start = "0.0" if name == "demo" else "process_time()"
    code = f"from time import process_time\n{before}\nstart = {start}\n{call}\nprint()\nprint(process_time() - start)"
    with TemporaryDirectory() as empty:
        variables = {
            "PYTHONPATH": str(package),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CACHE_DIR": empty,
            "OPENBLAS_NUM_THREADS": "1",
        }
        line, env = [sys.executable, "-c", code], os.environ | variables
        called = subprocess.run(line, env=env, cwd=empty, check=True, capture_output=True, text=True)
    return float(called.stdout.split()[-1])


def run() -> list[Row]:
    with TemporaryDirectory() as folder:
        source = Path(onlinehash.__file__).parent
        shutil.copytree(source, Path(folder) / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        rounds = [{name: seconds_of(name, Path(folder)) for name in _CALLS} for _ in range(ROUNDS)]
    rows = []
    for name, bar in _BARS.items():
        seconds = [one[name] / (bar or 1) for one in rounds]
        rows.append(Row.of(_NAMES[name], seconds, f"CPU seconds / {bar or 1}", "at most 1" if bar else "-"))
    return rows
