"""Figures of results as SVG text, readable in black and white, by the colour-blind, on paper and on dark screens.

A method has the same colour and marker in every figure; its variants have another line style and an open marker.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter, NullLocator
from scipy.optimize import isotonic_regression

from onlinehash.exceptions import InvalidInputError
from onlinehash.experiments import tables
from onlinehash.experiments.results import Result
from onlinehash.experiments.tables import Cells, base_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours of medium lightness, visible on white and on black; the first six are distinct for the colour-blind (after
# Okabe and Ito), and no two methods share one.
_LOOKS = {
    "HCOH": ("#0072B2", "o"),
    "MIHash": ("#D55E00", "s"),
    "OSH": ("#009E73", "^"),
    "AdaptHash": ("#CC79A7", "D"),
    "OKH": ("#C98A00", "v"),
    "SketchHash": ("#3A9BDC", "P"),
    "HMOH": ("#9455D3", "X"),
    "HROH": ("#D81B60", "*"),
    "BSODH": ("#8A8A00", "<"),
    "FROSH": ("#5F8BA8", ">"),
    "FOH": ("#B0642F", "h"),
    "SDOH-HC": ("#00989E", "d"),
    "ITQ": ("#8C7B6B", "p"),
    "LSH": ("#888888", "x"),
}
_OTHERS = tuple(
    (colour, marker) for marker in "dH8" for colour in ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#888888")
)
_VARIANT_LINES = {"as released": ":", "hinge": "--", "asymmetric": "--", "decay": ":"}
_LENGTH_LINES = {"8 bits": ":", "16 bits": "-.", "64 bits": "--"}
_EMPHASISED = ("HCOH", "HROH")

_INK = "#4d4d4e"  # a placeholder, replaced by the colour of the surrounding text
_FONT = 10.5
_SHORT_NAME = 14  # characters of a method, of which three columns fit
_WIDTH = 382.0  # points: the width of a phone; larger screens scale the figure up
_LABEL_STEP = 13.0
_STYLE = (
    ".onlinehash-figure{color:#222;max-width:100%;height:auto}"
    "@media (prefers-color-scheme:dark){.onlinehash-figure{color:#e8e8e8}}"
    ".onlinehash-figure *{stroke-linejoin:round;stroke-linecap:butt}"
)


def map_against_bits(results: Iterable[Result], *, label: str = "mAP") -> str:
    """Draw mAP against the number of bits, one line per method; references are level lines.

    Examples
    --------
    >>> results = [{"config": {"method": "HCOH", "hasher": "hcoh", "n_bits": n_bits},
    ...             "metrics": {"mean_average_precision": 0.5}} for n_bits in (8, 16)]
    >>> map_against_bits(results).startswith("<svg")
    True
    """
    learned, references = tables.separate_references(results)
    levels = {
        method: next(iter(row.values()))
        for method, row in tables.measured(references, "mean_average_precision").items()
    }
    cells = tables.measured(learned, "mean_average_precision")
    return _against_bits(cells, label, f"{label} against the number of bits", levels)


def auc_against_bits(results: Iterable[Result], *, label: str = "area under the mAP curve") -> str:
    """Draw AUC, the mean over the checkpoints of the learning curve, against the number of bits."""
    return _against_bits(tables.areas(results), label, "Area under the learning curve against the number of bits")


def map_against_instances(results: Iterable[Result], *, label: str = "mAP") -> str:
    """Draw learning curves: mAP against the number of instances, one panel per length, all with the same axes."""
    drawn = tables.curves(results)
    lengths = sorted({n_bits for row in drawn.values() for n_bits in row})
    if not lengths:
        raise InvalidInputError("There is no learning curve to draw; set checkpoints in the plan.")
    n_columns = 1 if len(lengths) == 1 else 2
    n_rows = math.ceil(len(lengths) / n_columns)
    spare = n_rows * n_columns > len(lengths) and len(drawn) <= 10
    n_legend_columns = 3 if max(map(len, drawn)) <= _SHORT_NAME else 2
    legend_height = 0.0 if spare else 14.0 * math.ceil(len(drawn) / n_legend_columns) + 12
    figure = _figure(n_rows * (300.0 if n_columns == 1 else 168.0) + legend_height, layout="constrained")
    panels: list[Any] = list(figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False).flat)
    top = _top(max(value for row in drawn.values() for _, values in row.values() for value in values))
    last = max(instances[-1] for row in drawn.values() for instances, _ in row.values())
    for panel, n_bits in zip(panels, lengths, strict=False):
        for place, (method, row) in enumerate(drawn.items()):
            if n_bits not in row:
                continue
            instances, values = row[n_bits]
            step = max(1, len(instances) // 5)
            panel.plot(instances, values, **_look(method) | {"markevery": (place * step // max(1, len(drawn)), step)})
        panel.set_title(f"{n_bits} bits", loc="left", fontsize=_FONT + 0.5, weight="bold", color=_INK, pad=3)
        panel.set_xlim(0, last)
        panel.set_ylim(0, top)
        panel.xaxis.set_major_locator(FixedLocator([0, last / 2, last]))
        panel.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value >= 2000 else f"{value:g}")
        _dress(panel)
    for panel in panels[len(lengths) :]:
        panel.set_axis_off()
    for panel in panels[len(lengths) - n_columns : len(lengths)]:
        panel.tick_params(labelbottom=True)
        first, _, end = panel.get_xticklabels()  # otherwise they overlap with those of the next panel
        first.set_horizontalalignment("left")
        end.set_horizontalalignment("right")
    figure.supxlabel("instances learned from", fontsize=_FONT, color=_INK)
    figure.supylabel(label, fontsize=_FONT, color=_INK)
    handles = [Line2D([], [], label=method, **_look(method)) for method in drawn]
    options: dict[str, Any] = {"handles": handles, "frameon": False, "labelcolor": _INK, "handlelength": 2.8}
    if spare:
        panels[-1].legend(loc="center", fontsize=_FONT, **options)
    else:
        options |= {"ncols": n_legend_columns, "fontsize": _FONT - 1, "columnspacing": 1.2}
        figure.legend(loc="outside upper center", **options)
    return _svg(figure, f"{label} against the number of instances learned from, {', '.join(map(str, lengths))} bits")


def learning_time(results: Iterable[Result]) -> str:
    """Draw the CPU seconds of learning the stream at the length of :func:`timed_length`, as bars on a log scale."""
    cells = tables.learning_seconds(tables.separate_references(results)[0])
    n_bits = timed_length(cells)
    seconds = {method: row[n_bits] for method, row in cells.items() if row.get(n_bits, 0) > 0}
    if not seconds:
        raise InvalidInputError(f"No result has a time of learning at {n_bits} bits.")
    ordered = sorted(seconds, key=lambda method: -seconds[method])
    figure, axes = _named_rows(ordered, inner=16.0 * len(ordered) + 6, above=6.0, right=42.0)
    low = 10.0 ** math.floor(math.log10(min(seconds.values()) * 0.7))
    for place, method in enumerate(ordered):
        colour, filled = _look(method)["color"], method == base_name(method)
        bar = {"color": colour if filled else "none", "edgecolor": colour, "linestyle": "-" if filled else "--"}
        axes.barh(place, seconds[method] - low, left=low, height=0.68, linewidth=1, **bar)
        text: dict[str, Any] = {"va": "center", "fontsize": _FONT - 1, "color": _INK, "annotation_clip": False}
        label = f"{seconds[method]:{'.3g' if seconds[method] < 100 else '.0f'}} s"
        axes.annotate(label, (seconds[method], place), (4, 0), textcoords="offset points", **text)
    axes.set_xscale("log")
    axes.set_xlim(low, max(10 * low, max(seconds.values()) * 1.1))
    axes.set_ylim(-0.6, len(ordered) - 0.4)
    axes.set_xlabel(f"CPU seconds to learn the stream, {n_bits} bits", fontsize=_FONT, color=_INK)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    return _svg(figure, f"CPU seconds to learn the stream at {n_bits} bits")


def map_of_two_streams(
    first: Iterable[Result], second: Iterable[Result], names: tuple[str, str], *, n_bits: int, label: str = "mAP"
) -> str:
    """Draw mAP after one kind of stream and after another, joined by a line, for the methods that have both.

    ``names`` are the names of the two kinds of stream; the second has an open marker.
    """
    sides = [
        tables.measured(tables.separate_references(results)[0], "mean_average_precision") for results in (first, second)
    ]
    methods = [method for method in sides[0] if all(n_bits in side.get(method, {}) for side in sides)]
    if not methods:
        raise InvalidInputError(f"No method has results for both streams at {n_bits} bits.")
    methods.sort(key=lambda method: sides[1][method][n_bits])
    figure, axes = _named_rows(methods, inner=19.0 * len(methods), above=26.0, right=20.0)
    for place, method in enumerate(methods):
        look = _look(method) | {"linestyle": "none", "markersize": 8}
        ends = [side[method][n_bits] for side in sides]
        axes.plot(ends, [place, place], color=look["color"], linewidth=2, zorder=1)
        axes.plot(ends[:1], [place], **look)
        axes.plot(ends[1:], [place], **look | {"markerfacecolor": "white"})
    axes.set_xlim(0, _top(max(side[method][n_bits] for side in sides for method in methods)))
    axes.set_ylim(-0.7, len(methods) - 0.3)
    axes.set_xlabel(f"{label}, {n_bits} bits", fontsize=_FONT, color=_INK)
    mark: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 7, "color": _INK}
    handles = [
        Line2D([], [], label=names[0], **mark),
        Line2D([], [], label=names[1], **mark | {"markerfacecolor": "white"}),
    ]
    style: dict[str, Any] = {"frameon": False, "fontsize": _FONT, "labelcolor": _INK, "borderaxespad": 0.2}
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, **style)
    return _svg(figure, f"{label} after two kinds of stream, {n_bits} bits")


def map_against_parameter(results: Iterable[Result], *, label: str = "mAP") -> str:
    """Draw mAP against the one parameter in which the methods of the results differ."""
    found = tables.study(results, "mean_average_precision")
    if found is None:
        raise InvalidInputError("The results do not differ in exactly one number; this is not a study of a parameter.")
    name = found.parameter.replace("_", " ")
    xs = sorted({x for line in found.lines.values() for x in line})
    logarithmic = xs[0] > 0 and xs[-1] / xs[0] >= 20
    return _lines(found.lines, label, name, f"{label} against {name}", xs, "log" if logarithmic else "linear")


def timed_length(cells: Mapping[str, Mapping[int, float]]) -> int:
    """Return the length at which times are compared: 32 bits if all have it, otherwise the longest that most have."""
    lengths = [n_bits for row in cells.values() for n_bits in row]
    if not lengths:
        raise InvalidInputError("There are no results to draw.")
    return max(set(lengths), key=lambda n_bits: (lengths.count(n_bits), n_bits == 32, n_bits))


def _against_bits(cells: Cells, label: str, title: str, levels: Mapping[str, float] | None = None) -> str:
    if not cells:
        raise InvalidInputError(f"There are no results to draw {label} from.")
    lengths = tables.lengths_of(cells)
    level_lines = {name: dict.fromkeys((lengths[0], lengths[-1]), value) for name, value in (levels or {}).items()}
    return _lines(cells | level_lines, label, "bits", title, lengths, "log", levels=tuple(level_lines))


def _lines(
    lines: Mapping[str, Mapping[Any, float]],
    label: str,
    x_label: str,
    title: str,
    xs: Sequence[float],
    scale: str,
    levels: Sequence[str] = (),
) -> str:
    """Draw lines, each labelled at its end."""
    plot_height = max(240.0, _LABEL_STEP * len(lines) + 8)
    height = plot_height + 58
    right = 5.6 * max(map(len, lines)) + 32
    figure = _figure(height)
    left = 33.0
    width = _WIDTH - left - right
    axes = figure.add_axes((left / _WIDTH, 38 / height, width / _WIDTH, plot_height / height))
    top = _top(max(value for line in lines.values() for value in line.values()))
    ends = {name: line[max(line)] for name, line in lines.items()}
    heights = _apart(ends, _LABEL_STEP / plot_height * top, top)
    for name in sorted(lines, key=lambda name: base_name(name) in _EMPHASISED):  # the emphasised one on top
        line = lines[name]
        look = _level_look(levels.index(name)) if name in levels else _look(name)
        points = sorted(line.items())
        axes.plot([x for x, _ in points], [y for _, y in points], clip_on=False, **look)
        end = (1 + 10 / width, heights[name])
        arrow = {"arrowstyle": "-", "color": look["color"], "linewidth": 0.6, "shrinkA": 3, "shrinkB": 0, "alpha": 0.7}
        places: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "data"}
        axes.annotate("", end, (max(line), ends[name]), **places, arrowprops=arrow, annotation_clip=False)
        transform = axes.get_yaxis_transform()
        axes.plot([1 + 16 / width], [heights[name]], transform=transform, clip_on=False, **look | {"linestyle": "none"})
        text: dict[str, Any] = {"va": "center", "fontsize": _FONT - 0.5, "color": _INK}
        text["weight"] = "bold" if name in _EMPHASISED else "normal"
        axes.text(1 + 24 / width, heights[name], name, transform=transform, **text)
    if scale == "log":
        axes.set_xscale("log", base=2 if x_label == "bits" else 10)
    axes.xaxis.set_major_locator(FixedLocator(_sparse(xs, scale)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylim(0, top)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))  # two decimals are enough
    axes.set_xlabel(x_label, fontsize=_FONT, color=_INK)
    axes.set_title(label, loc="left", fontsize=_FONT, color=_INK, pad=4)
    _dress(axes)
    return _svg(figure, title)


def _named_rows(names: Sequence[str], *, inner: float, above: float, right: float) -> tuple[Figure, Axes]:
    """Return a figure with one named row per method; ``inner`` is the height of the axes, all lengths are in points."""
    height = 36 + inner + above
    left = 5.8 * max(map(len, names)) + 14
    figure = _figure(height)
    axes = figure.add_axes((left / _WIDTH, 36 / height, (_WIDTH - left - right) / _WIDTH, 1 - (36 + above) / height))
    axes.set_yticks(range(len(names)), names)
    _dress(axes, grid="x")
    for tick, method in zip(axes.get_yticklabels(), names, strict=True):
        tick.set_fontweight("bold" if method in _EMPHASISED else "normal")
    return figure, axes


def _look(method: str) -> dict[str, Any]:
    """Return the line style of a method, the same in all figures."""
    row, length = (method, "") if not method.endswith(" bits") else method.rsplit(", ", maxsplit=1)
    base = base_name(row)
    colour, marker = _LOOKS.get(base) or _OTHERS[crc32(base.encode()) % len(_OTHERS)]
    variant = row.removeprefix(base).strip(" ()")
    emphasised = method in _EMPHASISED
    return {
        "color": colour,
        "marker": marker,
        "linestyle": _LENGTH_LINES.get(length) or _VARIANT_LINES.get(variant, "-." if variant else "-"),
        "linewidth": 2.8 if emphasised else 1.3,
        "markersize": 6.5 if emphasised else 5,
        "markerfacecolor": "none" if variant else colour,
        "markeredgecolor": colour,
        "markeredgewidth": 1.0,
    }


def _level_look(place: int) -> dict[str, Any]:
    """Return the line style of a reference: grey, with a marker at its label only."""
    return {
        "color": "#888888",
        "linestyle": ((0, (8, 2)), (0, (4, 2)), (0, (1, 2)))[place % 3],
        "linewidth": 1.1,
        "marker": ("_", "|", "+")[place % 3],
        "markersize": 6,
    }


def _sparse(xs: Sequence[float], scale: str, share: float = 0.12) -> list[float]:
    """Return the ticks whose labels do not overlap, always including the last."""
    places = [math.log(x) for x in xs] if scale == "log" else list(xs)
    kept = [len(xs) - 1]
    for i in reversed(range(len(xs) - 1)):
        if places[kept[-1]] - places[i] >= share * (places[-1] - places[0]):
            kept.append(i)
    return [xs[i] for i in kept]


def _apart(heights: Mapping[str, float], gap: float, top: float) -> dict[str, float]:
    """Move labels as little as needed so that they do not overlap and stay within the axes."""
    names = sorted(heights, key=lambda name: heights[name])
    steps = gap * np.arange(len(names))
    # Labels are at least a gap apart if their heights minus their steps do not decrease.
    level = isotonic_regression(np.array([heights[name] for name in names]) - steps).x
    placed = np.clip(level, gap / 2, max(gap / 2, top - steps[-1] - gap / 2)) + steps
    return dict(zip(names, placed.tolist(), strict=True))


def _top(value: float) -> float:
    """Return a round end of an axis from 0 that is not below the largest value."""
    step = 10.0 ** math.floor(math.log10(max(value, 1e-3)))
    return next(factor * step for factor in (1, 2, 3, 4, 5, 6, 8, 10) if factor * step >= value)


def _figure(height: float, layout: Any = None) -> Figure:
    figure = Figure(figsize=(_WIDTH / 72, height / 72), layout=layout)
    FigureCanvasSVG(figure)
    figure.patch.set_visible(False)
    return figure


def _dress(axes: Axes, grid: Any = "both") -> None:
    axes.patch.set_visible(False)
    axes.grid(axis=grid, color=_INK, alpha=0.16, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    for spine in axes.spines.values():
        spine.set_color(_INK)
        spine.set_linewidth(0.8)
    axes.tick_params(colors=_INK, labelsize=_FONT - 0.5, length=3, width=0.8)


def _svg(figure: Figure, title: str) -> str:
    """Return a figure as one self-contained element that does not affect the page around it."""
    file = io.StringIO()
    # Letters stay text: smaller, selectable, searchable. The salt makes the output deterministic.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*<defs>\s*<style.*?</style>\s*</defs>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # ids such as axes_1 would be duplicated in a page
    text = text.replace(_INK, "currentColor")
    name = escape(title)
    text = text.replace("<svg", f'<svg class="onlinehash-figure" role="img" aria-label="{name}"', 1)
    return text.replace(">", f">\n <title>{name}</title>\n <style>{_STYLE}</style>", 1)
