"""The figure of the demo as SVG: mAP of two methods along the stream, and results of their searches."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

import numpy as np
from numpy.typing import NDArray

from onlinehash.datasets import Dataset, Split
from onlinehash.demo.images import data_url
from onlinehash.demo.run import IMAGE, METHODS, Examples, Learned
from onlinehash.experiments.run import Quality

# The colours of Okabe and Ito, safe for colour-blind readers; dashes work in black and white.
_LOOKS = (("#D55E00", "2 3"), ("#E69F00", "8 3 2 3"), ("#009E73", "6 4"), ("#0072B2", ""), ("#000000", "12 3"))
_RIGHT, _WRONG, _INK, _SOFT, _LINES = "#00795A", "#C14F00", "#222222", "#666666", "#E5E5E5"
_SIZE = (1460, 850)
_CHART = (500, 310)  # pixels of the axes, not of what is written beside them
_LEFT, _TOP, _BELOW = 60, 50, 400  # of the first chart, and from one chart to the next
_SEARCHES, _IMAGE, _PITCH = 710, 52, 76  # left edge, size of an image, and from row to row
_STEP, _GAP = 62, 22  # from item to item, and before the items of a method
_LINE = 18  # from one line of text to the next


def picture(
    data: Dataset, split: Split, results: list[Learned], baseline: Quality, examples: Examples, shown: int
) -> str:
    """Return the figure."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE[0]} {_SIZE[1]}" font-family="sans-serif">',
        "<style>image { image-rendering: pixelated; image-rendering: crisp-edges }</style>",
        f'<rect width="{_SIZE[0]}" height="{_SIZE[1]}" fill="#FFFFFF"/>',
    ]
    for place, method in enumerate(METHODS):
        parts += _chart(_TOP + place * _BELOW, data, split, [one for one in results if one.method == method], baseline)
    return "\n".join([*parts, *_searches(split, examples, shown), "</svg>", ""])


def _chart(top: float, data: Dataset, split: Split, results: list[Learned], baseline: Quality) -> Iterator[str]:
    width, height = _CHART
    bottom, right, last = top + height, _LEFT + width, results[0].curve.instances[-1]

    def x_of(n_instances: int) -> float:
        return round(_LEFT + width * log(n_instances) / log(last), 1)

    def y_of(value: float) -> float:
        return round(bottom - height * value, 1)

    yield _text(
        _LEFT, top - 14, f"{results[0].method} on {data.name}: mAP rises as instances arrive", size=17, bold=True
    )
    for tick in (0, 0.2, 0.4, 0.6, 0.8, 1):
        yield f'<path d="M{_LEFT} {y_of(tick)}H{right}" stroke="{_LINES}"/>'
        yield _text(_LEFT - 8, y_of(tick) + 5, f"{tick:g}", anchor="end")
    for power in range(len(str(last))):
        yield f'<path d="M{x_of(10**power)} {bottom}v5" stroke="{_INK}"/>'
        yield _text(x_of(10**power), bottom + 20, f"{10**power:,}", anchor="middle")
    yield _text(_LEFT + width / 2, bottom + 40, "instances learned from, one at a time", anchor="middle")
    yield _text(20, top + height / 2, "mAP", anchor="middle", turned=True)
    level = y_of(baseline.mean_average_precision)
    text = f"{split.database.X[0].nbytes}-byte vectors, cosine: {baseline.mean_average_precision:.2f}"
    yield f'<path d="M{_LEFT} {level}H{right}" stroke="{_SOFT}"/>{_text(_LEFT + 4, level - 6, text, _SOFT, size=13)}'
    lowest = 0.0  # of the names so far, which stand beside the ends of their curves
    looks = dict(zip((one.n_bits for one in results), _LOOKS, strict=False))
    for one in sorted(results, key=lambda one: -one.curve.values[-1]):
        colour, dashes = looks[one.n_bits]
        curve = zip(one.curve.instances, one.curve.values, strict=True)
        points = "L".join(f"{x_of(n_instances)} {y_of(value)}" for n_instances, value in curve)
        yield f'<path d="M{points}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
        lowest = max(y_of(one.curve.values[-1]) + 5, lowest + _LINE)
        yield _text(right + 8, lowest, f"{one.n_bits} bits: {one.curve.values[-1]:.2f}", colour)


def _searches(split: Split, examples: Examples, n_bits: int) -> Iterator[str]:
    n_items, n_queries = len(split.database.X), len(examples.queries)
    n_found = next(iter(examples.found.values())).ids.shape[1]
    starts = [_SEARCHES + _STEP + _GAP + block * (n_found * _STEP + _GAP) for block in range(len(examples.found))]
    title = f"{n_bits}-bit search in {n_items:,} items: the first query of {n_queries} classes"
    yield _text(_SEARCHES, _TOP - 14, title, size=17, bold=True)
    yield _text(_SEARCHES + _IMAGE / 2, _TOP + 8, "query", anchor="middle")
    for start, method in zip(starts, examples.found, strict=True):
        yield _text(start, _TOP + 8, f"{method}, nearest first")
    for row, query in enumerate(examples.queries):
        y = _TOP + _LINE + row * _PITCH
        yield _image(_SEARCHES, y, split.queries.X[query].reshape(IMAGE), _INK)
        for start, found in zip(starts, examples.found.values(), strict=True):
            for place, (id, distance) in enumerate(zip(found.ids[row], found.distances[row], strict=True)):
                x, same = start + place * _STEP, split.database.y[id] == split.queries.y[query]
                mark, colour, dashes = ("✓", _RIGHT, "") if same else ("✗", _WRONG, "5 3")
                yield _image(x, y, split.database.X[id].reshape(IMAGE), colour, dashes)
                yield _text(x + _IMAGE / 2, y + _IMAGE + 14, f"{mark} {distance}", colour, size=12, anchor="middle")
    bottom = _TOP + _LINE + n_queries * _PITCH + 8
    yield _text(_SEARCHES, bottom, "below an item: ✓ same class, ✗ another; its Hamming distance")


def _image(x: float, y: float, pixels: NDArray[np.floating], colour: str, dashes: str = "") -> str:
    place = f'x="{x}" y="{y}" width="{_IMAGE}" height="{_IMAGE}"'
    frame = f'<rect {place} fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
    return f'<image {place} href="{data_url(1 - pixels)}"/>{frame}'


def _text(
    x: float, y: float, text: str, colour: str = _INK, *, size: int = 14, anchor: str = "start", bold: bool = False,
    turned: bool = False,
) -> str:  # fmt: skip
    look = f'font-size="{size}" fill="{colour}" text-anchor="{anchor}" font-weight="{700 if bold else 400}"'
    turn = f' transform="rotate(-90 {x} {y})"' if turned else ""
    return f'<text x="{x}" y="{y}" {look}{turn}>{text}</text>'
