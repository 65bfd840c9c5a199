"""The figure of the demo: mAP of two methods along the stream."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from onlinehash.datasets import Dataset, Split
from onlinehash.demo.run import METHODS, Learned
from onlinehash.experiments.run import Quality

# The colours of Okabe and Ito, safe for colour-blind readers; line styles and markers work in black and white.
_LOOKS = (
    ("#D55E00", ":", "v"),
    ("#E69F00", "-.", "s"),
    ("#009E73", "--", "^"),
    ("#0072B2", "-", "o"),
    ("#000000", (0, (6, 1.5)), "D"),
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def paint(file: IO[bytes], data: Dataset, split: Split, results: list[Learned], baseline: Quality) -> None:
    """Write the figure as PNG."""
    figure = Figure(figsize=(14, 5), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    for ax, method in zip(figure.subplots(1, len(METHODS), sharey=True), METHODS, strict=True):
        _curves(ax, data, split, [learned for learned in results if learned.method == method], baseline)
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
    title = f"{results[0].method} on {data.name}: mAP rises as instances arrive"
    ax.set_title(title, loc="left", fontsize=11.5, weight="bold", color="#222222")
