"""Figures of results, readable in black and white, by the colour-blind, on paper and on dark screens.

A method has the same colour and marker in every figure; its variants have another line style and an open marker.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

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
_STYLE = (
    ".onlinehash-figure{color:#222;max-width:100%;height:auto}"
    "@media (prefers-color-scheme:dark){.onlinehash-figure{color:#e8e8e8}}"
    ".onlinehash-figure *{stroke-linejoin:round;stroke-linecap:butt}"
)


class Drawing(NamedTuple):
    """A figure and its title."""

    figure: Figure
    title: str

    def svg(self) -> str:
        """Return one self-contained element that does not affect the page around it."""
        file = io.StringIO()
        # Letters stay text: smaller, selectable, searchable. The salt makes the output deterministic.
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": self.title}):
            self.figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
        text = file.getvalue()
        text = text[text.index("<svg") :]
        text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        text = re.sub(r"\s*<defs>\s*<style.*?</style>\s*</defs>", "", text, count=1, flags=re.DOTALL)
        text = re.sub(r'<g id="[^"]*"', "<g", text)  # ids such as axes_1 would be duplicated in a page
        text = text.replace(_INK, "currentColor")
        name = escape(self.title)
        text = text.replace("<svg", f'<svg class="onlinehash-figure" role="img" aria-label="{name}"', 1)
        return text.replace(">", f">\n <title>{name}</title>\n <style>{_STYLE}</style>", 1)


def map_against_bits(results: Iterable[Result], *, label: str = "mAP") -> Drawing:
    """Draw mAP against the number of bits, one line per method; references are level lines.

    Examples
    --------
    >>> results = [{"config": {"method": "HCOH", "hasher": "hcoh", "n_bits": n_bits},
    ...             "metrics": {"mean_average_precision": 0.5}} for n_bits in (8, 16)]
    >>> map_against_bits(results).svg().startswith("<svg")
    True
    """
    learned, references = tables.separate_references(results)
    levels = {
        method: next(iter(row.values()))
        for method, row in tables.measured(references, "mean_average_precision").items()
    }
    cells = tables.measured(learned, "mean_average_precision")
    return _against_bits(cells, label, f"{label} against the number of bits", levels)


def auc_against_bits(results: Iterable[Result], *, label: str = "area under the mAP curve") -> Drawing:
    """Draw AUC, the mean over the checkpoints of the learning curve, against the number of bits."""
    return _against_bits(tables.areas(results), label, "Area under the learning curve against the number of bits")


def map_against_instances(results: Iterable[Result], *, label: str = "mAP") -> Drawing:
    """Draw learning curves: mAP against the number of instances, one panel per length, all with the same axes."""
    drawn = tables.curves(results)
    lengths = sorted({n_bits for row in drawn.values() for n_bits in row})
    n_columns = 1 if len(lengths) == 1 else 2
    n_rows = math.ceil(len(lengths) / n_columns)
    looks = {method: _look(method) for method in drawn}
    figure = _figure(n_rows * (300.0 if n_columns == 1 else 168.0), looks)
    panels: list[Any] = list(figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False).flat)
    top = _top(max(value for row in drawn.values() for _, values in row.values() for value in values))
    last = max(instances[-1] for row in drawn.values() for instances, _ in row.values())
    for panel, n_bits in zip(panels, lengths, strict=False):
        for place, (method, row) in enumerate(drawn.items()):
            if n_bits not in row:
                continue
            instances, values = row[n_bits]
            step = max(1, len(instances) // 5)
            panel.plot(instances, values, **looks[method] | {"markevery": (place * step // max(1, len(drawn)), step)})
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
    return Drawing(figure, f"{label} against the number of instances learned from, {', '.join(map(str, lengths))} bits")


def map_against_parameter(found: tables.Study, *, label: str = "mAP") -> Drawing:
    """Draw mAP against the parameter of a study."""
    name = found.parameter.replace("_", " ")
    xs = sorted({x for line in found.lines.values() for x in line})
    logarithmic = xs[0] > 0 and xs[-1] / xs[0] >= 20
    return _lines(found.lines, label, name, f"{label} against {name}", xs, "log" if logarithmic else "linear")


def _against_bits(cells: Cells, label: str, title: str, levels: Mapping[str, float] | None = None) -> Drawing:
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
) -> Drawing:
    looks = {name: _level_look(levels.index(name)) if name in levels else _look(name) for name in lines}
    figure = _figure(260.0, looks)
    axes = figure.subplots()
    for name in sorted(lines, key=lambda name: base_name(name) in _EMPHASISED):  # the emphasised one on top
        points = sorted(lines[name].items())
        axes.plot([x for x, _ in points], [y for _, y in points], clip_on=False, **looks[name])
    if scale == "log":
        axes.set_xscale("log", base=2 if x_label == "bits" else 10)
    axes.xaxis.set_major_locator(FixedLocator(_sparse(xs, scale)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylim(0, _top(max(value for line in lines.values() for value in line.values())))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))  # two decimals are enough
    axes.set_xlabel(x_label, fontsize=_FONT, color=_INK)
    axes.set_ylabel(label, fontsize=_FONT, color=_INK)
    _dress(axes)
    return Drawing(figure, title)


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


def _top(value: float) -> float:
    """Return a round end of an axis from 0 that is not below the largest value."""
    step = 10.0 ** math.floor(math.log10(max(value, 1e-3)))
    return next(factor * step for factor in (1, 2, 3, 4, 5, 6, 8, 10) if factor * step >= value)


def _figure(height: float, looks: Mapping[str, dict[str, Any]]) -> Figure:
    """Return a figure with a legend of the lines above it."""
    n_columns = 3 if max(map(len, looks)) <= _SHORT_NAME else 2
    height += 14.0 * math.ceil(len(looks) / n_columns) + 12
    figure = Figure(figsize=(_WIDTH / 72, height / 72), layout="constrained")
    FigureCanvasSVG(figure)
    figure.patch.set_visible(False)
    handles = [Line2D([], [], label=name, **look) for name, look in looks.items()]
    style: dict[str, Any] = {"frameon": False, "labelcolor": _INK, "handlelength": 2.8, "columnspacing": 1.2}
    figure.legend(handles=handles, loc="outside upper center", ncols=n_columns, fontsize=_FONT - 1, **style)
    return figure


def _dress(axes: Axes) -> None:
    axes.patch.set_visible(False)
    axes.grid(color=_INK, alpha=0.16, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    for spine in axes.spines.values():
        spine.set_color(_INK)
        spine.set_linewidth(0.8)
    axes.tick_params(colors=_INK, labelsize=_FONT - 0.5, length=3, width=0.8)
