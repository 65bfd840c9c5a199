"""Tables of results: mean over seeds, beside what the paper prints."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import mean

from onlinehash.experiments.results import Result

_LENGTHS = (8, 16, 32, 64, 128)

Cells = dict[str, dict[int, float]]
"""Method, then number of bits, then value."""


def printed(dataset: str, measure: str) -> Cells:
    """Return what the paper prints; nothing for data it does not use.

    Examples
    --------
    >>> printed("mnist", "mean_average_precision")["HCOH"][32]
    0.756
    """
    tables = tomllib.loads((Path(__file__).parent / "printed.toml").read_text())
    rows = tables.get(dataset, {}).get(measure, {})
    return {method: dict(zip(_LENGTHS, values, strict=False)) for method, values in rows.items()}


def measured(results: Iterable[Result], measure: str) -> Cells:
    """Return the mean over seeds of a measure."""
    values: defaultdict[str, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        config = result["config"]
        values[config["method"]][config["n_bits"]].append(result["metrics"][measure])
    return {method: {n_bits: mean(seeds) for n_bits, seeds in row.items()} for method, row in values.items()}


def markdown(ours: Cells, theirs: Cells) -> str:
    """Return a table with a printed value in brackets after ours; printed rows stand beside the released variant."""
    lengths = sorted({n_bits for row in ours.values() for n_bits in row})
    lines = [
        "| method | " + " | ".join(f"{n_bits} bits" for n_bits in lengths) + " |",
        "|---|" + "---|" * len(lengths),
    ]
    for method, row in ours.items():
        released = f"{method} (as released)"
        base = method.removesuffix(" (as released)")
        beside = {} if released in ours else theirs.get(base, {})
        cells = [_cell(row.get(n_bits), beside.get(n_bits)) for n_bits in lengths]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(ours: float | None, theirs: float | None) -> str:
    if ours is None:
        return "-"
    value = f"{ours:.3f}".removeprefix("0")
    return value if theirs is None else value + f" ({theirs:.3f})".replace("(0", "(")
