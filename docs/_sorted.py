"""Figure of the page of HROH: what a stream sorted by class costs each method."""

from __future__ import annotations

from _parts import INK, LINES, SOFT, svg_frame, svg_text

from onlinehash.experiments.results import Result
from onlinehash.experiments.tables import measured, separate_references

N_BITS, STEP, LEFT, RIGHT, TOP = 32, 24, 150, 610, 92


def figure(shuffled: list[Result], by_class: list[Result]) -> str:
    """Draw mAP after a shuffled stream and after a sorted one, joined by a line, for the methods that have both."""
    sides = [
        {method: row[N_BITS] for method, row in cells.items() if N_BITS in row}
        for cells in (measured(separate_references(side)[0], "mean_average_precision") for side in (shuffled, by_class))
    ]
    methods = sorted(sides[0].keys() & sides[1].keys(), key=lambda method: -sides[1][method])
    bottom = TOP + STEP * len(methods)
    title = f"mAP after a shuffled stream and after one class after another, {N_BITS} bits"
    parts = [
        *svg_frame(640, bottom + 46, title),
        svg_text(20, 30, title, INK, weight="600"),
        f'<circle cx="26" cy="52" r="5" fill="{SOFT}"/>',
        svg_text(38, 56, "shuffled", SOFT),
        f'<circle cx="116" cy="52" r="5" fill="#ffffff" stroke="{SOFT}" stroke-width="2"/>',
        svg_text(128, 56, "class after class", SOFT),
    ]
    for tenths in range(0, 11, 2):
        parts.append(f'<path d="M{_x(tenths / 10)} {TOP - 14}V{bottom - 8}" stroke="{LINES}"/>')
        parts.append(svg_text(_x(tenths / 10), bottom + 12, f"{tenths / 10:g}", SOFT, anchor="middle"))
    for place, method in enumerate(methods):
        y, ends = TOP + STEP * place, [_x(side[method]) for side in sides]
        ours = method.startswith("HROH")
        colour = "#d81b60" if ours else SOFT
        parts += [
            svg_text(LEFT - 14, y + 4, method, INK, anchor="end", weight="600" if ours else "400"),
            f'<path d="M{ends[0]} {y}H{ends[1]}" stroke="{colour}" stroke-width="2"/>',
            f'<circle cx="{ends[0]}" cy="{y}" r="5" fill="{colour}"/>',
            f'<circle cx="{ends[1]}" cy="{y}" r="5" fill="#ffffff" stroke="{colour}" stroke-width="2"/>',
        ]
    return "\n".join([*parts, svg_text((LEFT + RIGHT) / 2, bottom + 34, "mAP", SOFT, anchor="middle"), "</svg>"]) + "\n"


def _x(value: float) -> float:
    return round(LEFT + value * (RIGHT - LEFT), 1)
