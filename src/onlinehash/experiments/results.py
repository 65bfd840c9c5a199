"""Results: one JSON-lines file per plan.

The first lines are environments: a number, then the machine, the versions and the commit. Every other line is one run:
its configuration, what was measured, the number of its environment, and its epoch. Runs are sorted by data set, method,
number of bits and seed.

A result counts for a run if the configurations are equal; that of a run with files of the user has their digests. It is
stale if its epoch is before :data:`EPOCH`.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from onlinehash._internal.files import whole_file
from onlinehash.exceptions import FileFormatError
from onlinehash.experiments.plan import KEY, Run

_PACKAGES = ("onlinehash", "numpy", "scipy", "numba", "scikit-learn")
_FIELDS = {"config", "metrics", "curve", "seconds", "environment"}

EPOCH = 1
"""Number of times that results became obsolete; raise it when a change of the library changes measured values."""

Result = dict[str, Any]


def read_results(path: Path, runs: Iterable[Run]) -> list[Result]:
    """Return the results of the runs that have one.

    Examples
    --------
    >>> read_results(Path("no-such-file.jsonl"), [Run("HCOH", "hcoh", "digits", "online", n_bits=16, seed=0)])
    []
    """
    stored = _read(path)
    found = ((run, stored.get(run.key)) for run in runs)
    return [result for run, result in found if result is not None and result["config"] == run.config()]


def add_results(path: Path, results: Iterable[Result]) -> None:
    """Add results to a file, which is replaced atomically; a result replaces that of the same run."""
    stored = _read(path) | {result_key(result): result for result in results}
    ordered = [stored[key] for key in sorted(stored)]
    environments: list[dict[str, str]] = []
    for result in ordered:
        if result["environment"] not in environments:
            environments.append(result["environment"])
    lines = [{"environment": number, **about} for number, about in enumerate(environments)]
    lines += ({**result, "environment": environments.index(result["environment"])} for result in ordered)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.writelines(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


def is_stale(result: Result) -> bool:
    """Return whether measured values may have changed since a result was made."""
    return bool(result.get("epoch", 0) < EPOCH)


def _read(path: Path) -> dict[tuple[Any, ...], Result]:
    """Return the results in a file by key; none if there is no file."""
    environments: dict[int, dict[str, str]] = {}
    results: dict[tuple[Any, ...], Result] = {}
    for number, line in enumerate(path.read_bytes().splitlines() if path.is_file() else (), start=1):
        try:
            record = json.loads(line)
            if "config" not in record:
                environments[record.pop("environment")] = record
                continue
            if not record.keys() >= _FIELDS:
                raise ValueError(f"it has no {', '.join(sorted(_FIELDS - record.keys()))}")
            if result_key(record) in results:
                raise ValueError("an earlier line has the same run")
            record["environment"] = environments[record["environment"]]
            results[result_key(record)] = record
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"there is no {error}" if isinstance(error, KeyError) else error
            raise FileFormatError(
                f"{path}, line {number} is damaged: {why}. Restore the file, or delete the line and run the plan again."
            ) from error
    return results


def result_key(result: Result) -> tuple[Any, ...]:
    """Return what identifies the run of a result, as :attr:`Run.key` does."""
    return tuple(result["config"][name] for name in KEY)


@cache
def environment() -> dict[str, str]:
    """Return versions, commit and machine."""
    found = {"python": platform.python_version(), "processor": processor(), **versions(_PACKAGES)}
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    with suppress(OSError, subprocess.CalledProcessError):  # an installed package has no history
        found["commit"] = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return found


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def processor() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return platform.processor() or platform.machine()
