"""Figure of decisions: the error of the labels that a collection gives, and how many rows get one, by promise."""

from __future__ import annotations

import json
import re
from math import log

from _parts import INK, LINES, ROOT, SOFT, svg_frame, svg_text

RESULTS = ROOT / "benchmarks" / "results" / "decisions.json"
SHOWN = {"clinc150": ("CLINC150", "#d81b60"), "mnist": ("MNIST", "#1e63b5"), "cifar10": ("CIFAR-10", "#b26a00")}
LEFT, RIGHT, TOP, BOTTOM = 70, 600, 76, 300
LOWEST, HIGHEST, ALL = 0.003, 0.15, 0.999


def measured(dataset: str) -> dict[float, tuple[float, float]]:
    """Return the share of rows that get a label, and the error of these, by promise, up to the first that all get."""
    values: dict[float, list[float]] = {}
    for row in json.loads(RESULTS.read_text())["rows"]:
        if found := re.fullmatch(rf"classify, {dataset}, ([0-9.]+) % promised", row["what"]):
            values.setdefault(float(found[1]) / 100, []).append(row["ratio"])
    points: dict[float, tuple[float, float]] = {}
    for promise, (ratio, coverage) in values.items():
        points[promise] = coverage, ratio * promise
        if coverage > ALL:
            break
    return points


def figure() -> str:
    """Draw the error against the share of rows, with a line for every promise."""
    title = "The error that was promised, and the error there was"
    parts = [
        *svg_frame(660, 350, title),
        svg_text(20, 28, title, INK, weight="600"),
        svg_text(
            20, 48, "error of the labels given to new rows; the lines are what was promised, a dot for each", SOFT
        ),
        svg_text((LEFT + RIGHT) / 2, 340, "rows that get a label", SOFT, anchor="middle"),
    ]
    lines = {name: measured(name) for name in SHOWN}
    for promise in sorted({promise for line in lines.values() for promise in line}):
        parts.append(f'<path d="M{LEFT} {_y(promise)}H{RIGHT}" stroke="{LINES}"/>')
        parts.append(svg_text(LEFT - 8, _y(promise) + 4, f"{100 * promise:g} %", SOFT, anchor="end"))
    shares = (0.2, 0.4, 0.6, 0.8, 1.0)
    parts += [svg_text(_x(share), BOTTOM + 20, f"{100 * share:.0f} %", SOFT, anchor="middle") for share in shares]
    for place, (name, (shown, colour)) in enumerate(SHOWN.items()):
        points = [(_x(coverage), _y(error)) for coverage, error in lines[name].values()]
        path = "L".join(f"{x} {y}" for x, y in points)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2.4"/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>' for x, y in points]
        parts.append(svg_text(LEFT + 100 * place, TOP + 2, shown, colour, weight="600"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(share: float) -> float:
    return round(LEFT + share * (RIGHT - LEFT), 1)


def _y(error: float) -> float:
    part = log(max(error, LOWEST) / LOWEST) / log(HIGHEST / LOWEST)
    return round(BOTTOM - part * (BOTTOM - TOP), 1)
