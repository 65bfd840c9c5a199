"""The figure of the demo: mAP of two methods along the stream, and results of their searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any, cast

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle

from onlinehash.datasets import Dataset, Split
from onlinehash.demo.run import IMAGE, METHODS, Examples, Learned
from onlinehash.experiments.run import Quality

# The colours of Okabe and Ito, safe for colour-blind readers; line styles and markers work in black and white.
_LOOKS = (
    ("#D55E00", ":", "v"),
    ("#E69F00", "-.", "s"),
    ("#009E73", "--", "^"),
    ("#0072B2", "-", "o"),
    ("#000000", (0, (6, 1.5)), "D"),
)
_RIGHT, _WRONG, _INK = "#009E73", "#D55E00", "#222222"
_SIZE, _PITCH = 0.84, 1.16  # of the pictures in the searches, and from row to row
_SPACE = 0.4  # before the items of a method

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def paint(
    file: IO[bytes],
    data: Dataset,
    split: Split,
    results: list[Learned],
    baseline: Quality,
    examples: Examples,
    shown: int,
) -> None:
    """Write the figure as PNG."""
    figure = Figure(figsize=(14, 8.6), layout=ConstrainedLayoutEngine(h_pad=0.1), facecolor="white")
    FigureCanvasAgg(figure)
    left, right = cast(Any, figure.subfigures(1, 2, width_ratios=(1, 1.16), wspace=0.03))
    for ax, method in zip(left.subplots(len(METHODS), 1), METHODS, strict=True):
        _curves(ax, data, split, [learned for learned in results if learned.method == method], baseline)
    _searches(right.subplots(), split, examples, shown)
    figure.savefig(file, format="png", dpi=130)


def _curves(ax: Axes, data: Dataset, split: Split, results: list[Learned], baseline: Quality) -> None:
    last = results[0].curve.instances[-1]
    value = baseline.mean_average_precision
    text = f"{split.database.X[0].nbytes}-byte vectors, cosine: {value:.2f}"
    ax.axhline(value, color="#777777", linewidth=1)
    ax.text(1.0, value + 0.012, text, color="#666666", fontsize=8.5)
    for learned, (colour, style, marker) in zip(results, _LOOKS, strict=False):
        x, y = learned.curve.instances, learned.curve.values
        text = f"{learned.n_bits} bits: {y[-1]:.2f}"
        ax.plot(x, y, color=colour, linestyle=style, marker=marker, markersize=4, linewidth=1.8, label=text)
    ax.legend(loc="lower right", frameon=False)
    ax.set_xscale("log")
    ax.set_xlim(0.9, last * 1.05)
    ax.set_ylim(0, 1)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set_xlabel("instances learned from, one at a time")
    ax.set_ylabel("mAP")
    ax.grid(color="#E5E5E5", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    _title(ax, f"{results[0].method} on {data.name}: mAP rises as instances arrive")


def _searches(ax: Axes, split: Split, examples: Examples, n_bits: int) -> None:
    n_found = next(iter(examples.found.values())).ids.shape[1]
    for row, query in enumerate(examples.queries):
        label, y = split.queries.y[query], row * _PITCH
        _cell(ax, 0, y, split.queries.X[query], (_INK, "-"))
        for block, matches in enumerate(examples.found.values()):
            start = 1 + _SPACE + block * (n_found + _SPACE)
            for place, (id, distance) in enumerate(zip(matches.ids[row], matches.distances[row], strict=True)):
                found, x = split.database.y[id], start + place
                mark, *look = ("✓", _RIGHT, "-") if found == label else ("✗", _WRONG, "--")
                _cell(ax, x, y, split.database.X[id], look)
                text = f"{mark} {distance}"
                ax.text(x + _SIZE / 2, y + _SIZE + 0.05, text, color=look[0], ha="center", va="top", fontsize=8)
    ax.text(_SIZE / 2, -0.1, "query", ha="center", fontsize=9.5)
    for block, method in enumerate(examples.found):
        start = 1 + _SPACE + block * (n_found + _SPACE)
        ax.text(start, -0.1, f"{method}, nearest first", fontsize=9.5)
    bottom = len(examples.queries) * _PITCH
    ax.text(0, bottom, "below an item: ✓ same class, ✗ another; its Hamming distance", va="top", fontsize=9.5)
    ax.set_xlim(-0.03, 1 + len(examples.found) * (n_found + _SPACE))
    ax.set_ylim(bottom + 0.3, -0.35)
    ax.set_aspect("equal")
    ax.set_axis_off()
    _title(
        ax,
        f"{n_bits}-bit search in {len(split.database.X):,} items: the first query of {len(examples.queries)} classes",
    )


def _cell(ax: Axes, x: float, y: float, features: Any, look: Sequence[str]) -> None:
    extent = (x, x + _SIZE, y + _SIZE, y)
    ax.imshow(features.reshape(IMAGE), cmap="gray_r", extent=extent, interpolation="nearest")
    frame = Rectangle((x, y), _SIZE, _SIZE, fill=False, edgecolor=look[0], linestyle=look[1], linewidth=2)
    ax.add_patch(frame)


def _title(ax: Axes, text: str) -> None:
    ax.set_title(text, loc="left", fontsize=11.5, weight="bold", color=_INK)
