"""The figure of the demo: mAP of two methods along the stream, and results of their searches."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, cast

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from onlinehash.datasets import Dataset, Split
from onlinehash.demo.run import IMAGE, METHODS, Examples, Learned
from onlinehash.experiments.run import Quality

# The colours of Okabe and Ito, safe for colour-blind readers; markers work in black and white.
_LOOKS = (("#D55E00", "v"), ("#E69F00", "s"), ("#009E73", "^"), ("#0072B2", "o"), ("#000000", "D"))
_RIGHT, _WRONG, _INK = "#009E73", "#D55E00", "#222222"

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
    figure = Figure(figsize=(14, 8.6), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    left, right = cast(Any, figure.subfigures(1, 2, width_ratios=(1, 1.16)))
    left.suptitle(f"mAP on {data.name} rises as instances arrive", weight="bold", color=_INK)
    for ax, method in zip(left.subplots(len(METHODS), 1), METHODS, strict=True):
        _curves(ax, split, [learned for learned in results if learned.method == method], baseline)
    searched = f"{shown}-bit search in {len(split.database.X):,} items: ✓ same class; Hamming distance"
    right.suptitle(searched, weight="bold", color=_INK)
    _searches(right, split, examples)
    figure.savefig(file, format="png", dpi=130)


def _curves(ax: Axes, split: Split, results: list[Learned], baseline: Quality) -> None:
    value = baseline.mean_average_precision
    ax.axhline(value, color="#777777", linewidth=1)
    ax.text(1.0, value + 0.012, f"{split.database.X[0].nbytes}-byte vectors, cosine: {value:.2f}", fontsize=8.5)
    for learned, (colour, marker) in zip(results, _LOOKS, strict=False):
        label = f"{learned.n_bits} bits: {learned.curve.values[-1]:.2f}"
        ax.plot(learned.curve.instances, learned.curve.values, color=colour, marker=marker, markersize=4, label=label)
    ax.legend(loc="lower right", frameon=False)
    ax.set(xscale="log", ylim=(0, 1), xlabel="instances learned from, one at a time", ylabel="mAP")
    ax.set_title(results[0].method, loc="left", fontsize=11.5, weight="bold", color=_INK)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.grid(color="#E5E5E5", linewidth=0.7)
    ax.spines[["top", "right"]].set_visible(False)


def _searches(figure: Any, split: Split, examples: Examples) -> None:
    """Draw a row per query: its image, then those of the items that each method found, nearest first."""
    n_found = next(iter(examples.found.values())).ids.shape[1]
    grid = figure.subplots(len(examples.queries), 1 + len(examples.found) * n_found)
    for row, query in zip(range(len(grid)), examples.queries, strict=True):
        label = split.queries.y[query]
        _image(grid[row, 0], split.queries.X[query], _INK, "")
        for block, found in enumerate(examples.found.values()):
            for place, (id, distance) in enumerate(zip(found.ids[row], found.distances[row], strict=True)):
                mark, colour = ("✓", _RIGHT) if split.database.y[id] == label else ("✗", _WRONG)
                _image(grid[row, 1 + block * n_found + place], split.database.X[id], colour, f"{mark} {distance}")
    for column, title in enumerate(["query", *examples.found]):
        grid[0, max(0, 1 + (column - 1) * n_found)].set_title(title, loc="left", fontsize=9.5)


def _image(ax: Axes, features: Any, colour: str, text: str) -> None:
    ax.imshow(features.reshape(IMAGE), cmap="gray_r", interpolation="nearest")
    ax.set_xlabel(text, color=colour, fontsize=8, labelpad=2)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(color=colour, linewidth=2)
