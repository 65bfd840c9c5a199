"""How every benchmark measures: competitors interleaved in one run, CPU time, medians of ratios."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np

from onlinehash.encoders import Encoder
from onlinehash.experiments.results import processor, versions
from onlinehash.types import Codes, Features

FOLDER = Path(__file__).parent
_PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "faiss-cpu")


def folder_on_disk() -> TemporaryDirectory[str]:
    """Return a temporary folder on the disk of this clone, where ``/tmp`` may be in memory; git ignores it."""
    place = FOLDER.parent / "build"
    place.mkdir(exist_ok=True)
    return TemporaryDirectory(dir=place)


@dataclass(frozen=True)
class Row:
    """One claim and what was measured for it.

    Parameters
    ----------
    what : str
    ratio : float
        Median over rounds of ours / theirs or theirs / ours, as ``meaning`` says.
    low, high : float
        Smallest and largest ratio of a round.
    meaning : str
    bar : str
        What we hold ourselves to.
    seconds : dict
        Median CPU seconds of each competitor: no claim, for orientation only.
    """

    what: str
    ratio: float
    low: float
    high: float
    meaning: str
    bar: str
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, what: str, values: Sequence[float], meaning: str, bar: str, seconds: Mapping[str, float] = {}) -> Row:
        """Return the row of the median of values."""
        return cls(what, median(values), min(values), max(values), meaning, bar, dict(seconds))


def interleaved(
    competitors: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = process_time
) -> dict[str, list[float]]:
    """Run all competitors in turn, ``rounds`` times after one round to warm up; return CPU seconds by name.

    With another clock, such as that on the wall, where competitors use several cores.
    """
    for call in competitors.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in competitors}
    for _ in range(rounds):
        for name, call in competitors.items():
            start = clock()
            call()
            seconds[name].append(clock() - start)
    return seconds


def compare(what: str, seconds: Mapping[str, list[float]], top: str, bottom: str, bar: str, scale: float = 1.0) -> Row:
    """Return the row of ``scale`` times the ratio of two competitors' times, round by round."""
    ratios = [scale * a / b for a, b in zip(seconds[top], seconds[bottom], strict=True)]
    medians = {name: median(values) for name, values in seconds.items()}
    return Row.of(what, ratios, f"{top} / {bottom}", bar, medians)


def tiled_codes(encoder: Encoder, X: Features, n_items: int, rng: np.random.Generator) -> Codes:
    """Return the codes of rows that are repeated with small Gaussian noise, a tenth of the length of a row."""
    scale = np.float32(0.1 * np.linalg.norm(X, axis=1).mean() / np.sqrt(X.shape[1]))
    parts = (X[: n_items - start] for start in range(0, n_items, len(X)))
    noisy = (part + scale * rng.standard_normal(part.shape, np.float32) for part in parts)
    return np.concatenate([encoder.encode(part) for part in noisy])


def machine() -> dict[str, str]:
    """Return what the numbers were measured on."""
    return {"processor": processor(), "python": platform.python_version(), **versions(_PACKAGES)}


def save(name: str, rows: list[Row], only: str | None = None) -> None:
    """Write the rows of one benchmark to ``results/<name>.json``; those of other parts stay, if only one was run."""
    path = FOLDER / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    kept = json.loads(path.read_text())["rows"] if only and path.exists() else []
    kept = [row for row in kept if not row["what"].startswith(f"{only}, ")]
    command = f"python -m benchmarks {name}"
    content = {"command": command, "machine": machine(), "rows": kept + [asdict(row) for row in rows]}
    path.write_text(json.dumps(content, indent=1) + "\n")


def page() -> str:
    """Return README.md with all saved rows in it, a table a benchmark."""
    parts = []
    for path in sorted((FOLDER / "results").glob("*.json")):
        parts += ["", f"### {path.stem}", "", "| measured | ratio (range) | bar |", "|---|---|---|"]
        for row in (Row(**fields) for fields in json.loads(path.read_text())["rows"]):
            spread = f"**{row.ratio:.3g}** ({row.low:.3g} to {row.high:.3g})"
            parts.append(f"| {row.what}: {row.meaning} | {spread} | {row.bar} |")
    head, _, rest = (FOLDER / "README.md").read_text().partition("<!-- results -->\n")
    return "\n".join([f"{head}<!-- results -->", *parts, "", f"<!-- end -->{rest.partition('<!-- end -->')[2]}"])
