"""Results: one JSON file a run, which says all that made it."""

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

from onlinehash._files import whole_file
from onlinehash.exceptions import FileFormatError
from onlinehash.experiments.plan import Run

_PACKAGES = ("onlinehash", "numpy", "scipy", "numba", "scikit-learn")

Result = dict[str, Any]


def find_result(folder: Path, run: Run) -> Result | None:
    """Return the result of a run if its file is there and was made with the same settings."""
    path = folder / run.file_name
    if not path.is_file():
        return None
    result = read_result(path)
    return result if result["config"] == run.config() else None


def read_result(path: Path) -> Result:
    """Read one result file."""
    try:
        result: Result = json.loads(path.read_text())
        _ = result["config"], result["metrics"]
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"{path} is not a result file.") from error
    return result


def write_result(folder: Path, run: Run, measured: Result) -> None:
    """Write the result of a run, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"config": run.config(), **measured, "made_with": environment()}
    with whole_file(folder / run.file_name) as file:
        file.write((json.dumps(content, indent=1) + "\n").encode())


def read_results(folder: Path, runs: Iterable[Run]) -> list[Result]:
    """Return the results of those runs that have one.

    Examples
    --------
    >>> read_results(Path("no-such-folder"), [Run("HCOH", "hcoh", "digits", "online", n_bits=16, seed=0)])
    []
    """
    return [result for run in runs if (result := find_result(folder, run)) is not None]


@cache
def environment() -> dict[str, str]:
    """Return versions, commit and machine."""
    made_with = {"python": platform.python_version(), "processor": processor()}
    for package in _PACKAGES:
        try:
            made_with[package] = version(package)
        except PackageNotFoundError:
            continue
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    with suppress(OSError, subprocess.CalledProcessError):  # an installed package has no history
        made_with["commit"] = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return made_with


def processor() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return platform.processor() or platform.machine()
