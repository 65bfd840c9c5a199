"""The picture of the demo: how quality rises, what searches find, what codes look like."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from onlinehash.cli._demo_run import Examples, Length, image_shape
from onlinehash.codes import unpack_signs
from onlinehash.datasets import Dataset, Split
from onlinehash.experiments.run import Quality

# Okabe and Ito's colours, told apart by the colour-blind; line style and marker tell the same in black and white.
_LOOKS = (
    ("#D55E00", ":", "v"),
    ("#E69F00", "-.", "s"),
    ("#009E73", "--", "^"),
    ("#0072B2", "-", "o"),
    ("#000000", (0, (6, 1.5)), "D"),
)
_RIGHT, _WRONG, _INK = "#009E73", "#D55E00", "#222222"
_ITEMS_A_CLASS = 12
_FLIPPED, _GAP = 2, 3  # in the image of codes, beside bits 0 and 1
_SIZE, _PITCH = 0.84, 1.16  # of the pictures in the searches, and from row to row

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def paint(
    file: IO[bytes],
    data: Dataset,
    split: Split,
    lengths: list[Length],
    baseline: Quality | None,
    examples: Examples,
    shown: int,
) -> None:
    """Write the picture as PNG."""
    figure = Figure(figsize=(13, 8.6), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    halves: Any = figure.subfigures(1, 2, width_ratios=(1.08, 1), wspace=0.03)
    left, right = halves
    upper, lower = left.subplots(2, 1, height_ratios=(1.05, 1))
    _curves(upper, data, split, lengths, baseline)
    _codes(lower, data, split, next(length for length in lengths if length.n_bits == shown))
    _searches(right.subplots(), data, split, examples, shown)
    figure.savefig(file, format="png", dpi=130)


def _curves(ax: Axes, data: Dataset, split: Split, lengths: list[Length], baseline: Quality | None) -> None:
    last = lengths[0].curve.instances[-1]
    if baseline is not None:
        value = baseline.mean_average_precision
        text = f"{split.database.X[0].nbytes}-byte features, cosine: {value:.2f}"
        ax.axhline(value, color="#777777", linewidth=1)
        ax.text(1.0, value + 0.012, text, color="#666666", fontsize=8.5)
    heights = _apart([length.curve.values[-1] for length in lengths], 0.055)
    for length, height, (colour, style, marker) in zip(lengths, heights, _LOOKS, strict=False):
        x, y = length.curve.instances, length.curve.values
        ax.plot(x, y, color=colour, linestyle=style, marker=marker, markersize=4, linewidth=1.8)
        text = f"{length.n_bits} bits: {y[-1]:.2f}"
        ax.annotate(text, (last * 1.15, height), color=colour, fontsize=10, va="center", annotation_clip=False)
    ax.set_xscale("log")
    ax.set_xlim(0.9, last * 1.05)
    ax.set_ylim(0, 1)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set_xlabel("instances learned from, one at a time")
    ax.set_ylabel("mAP" if split.map_at is None else f"mAP@{split.map_at}")
    ax.grid(color="#E5E5E5", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    _title(ax, f"mAP rises as instances arrive: HCOH on {data.name}")


def _apart(heights: list[float], gap: float) -> list[float]:
    """Move labels up and down, as little as it takes, until they do not overlap."""
    placed = np.array(heights)
    order = np.argsort(placed, kind="stable")
    for _ in range(100):
        for low, high in pairwise(order.tolist()):
            overlap = gap - (placed[high] - placed[low])
            if overlap > 0:
                placed[low] -= overlap / 2
                placed[high] += overlap / 2
    return [float(height) for height in placed]


def _codes(ax: Axes, data: Dataset, split: Split, length: Length) -> None:
    """Draw the codes of items, class by class, below the codeword that they were taught."""
    assert length.hasher is not None
    encoder, n_bits = length.hasher.snapshot(), length.n_bits
    words = dict(zip(length.hasher.classes_.tolist(), length.hasher.codewords_, strict=True))
    classes = sorted(words)[:10]
    blocks: list[Any] = []
    for label in classes:
        rows = np.flatnonzero(split.database.y == label)[-_ITEMS_A_CLASS:]
        signs = unpack_signs(encoder.encode(split.database.X[rows]), n_bits)
        word = (words[label] > 0).astype(int)
        codes = np.where(signs == words[label], word, _FLIPPED)
        blocks += [np.tile(word, (3, 1)), np.full((1, n_bits), _GAP), codes, np.full((3, n_bits), _GAP)]
    centres = np.cumsum([len(block) for block in blocks])[2::4] - (_ITEMS_A_CLASS + 4) / 2 - 0.5
    image = np.vstack(blocks[:-1]).T
    colours = ListedColormap(["#FFFFFF", _INK, "#E69F00", "#D3DCE6"])
    ax.imshow(image, cmap=colours, vmin=0, vmax=3, aspect="auto", interpolation="nearest")
    names = [_broken(data.class_names[label]) for label in classes]
    ax.set_xticks(centres, names, fontsize=10 if max(map(len, names)) < 4 else 6.5)
    ax.set_yticks([0, n_bits - 1], ["bit 1", f"bit {n_bits}"])
    ax.tick_params(length=0)
    ax.set_xlabel("class: its codeword, then items; orange bits differ from the codeword")
    _title(ax, f"Codes gather at codewords: {_ITEMS_A_CLASS} items of each class, {n_bits} bits")


def _searches(ax: Axes, data: Dataset, split: Split, examples: Examples, n_bits: int) -> None:
    n_found = examples.found.keys.shape[1]
    for row, (query, matches) in enumerate(zip(examples.queries, examples.found, strict=True)):
        label, y = split.queries.y[query], row * _PITCH
        _cell(ax, 0, y, data, split.queries.X[query], label, (_INK, "-"))
        for place, (key, distance) in enumerate(zip(matches.keys, matches.distances, strict=True)):
            found, x = split.database.y[key], 1.2 + place
            mark, *look = ("✓", _RIGHT, "-") if found == label else ("✗", _WRONG, "--")
            _cell(ax, x, y, data, split.database.X[key], found, look)
            text = f"{mark} {distance}"
            ax.text(x + _SIZE / 2, y + _SIZE + 0.05, text, color=look[0], ha="center", va="top", fontsize=8)
    ax.text(_SIZE / 2, -0.1, "query", ha="center", fontsize=9.5)
    ax.text(1.2, -0.1, "nearest first, with Hamming distance; ✓ same class, ✗ another", fontsize=9.5)
    ax.set_xlim(-0.03, n_found + 1.1)
    ax.set_ylim(len(examples.queries) * _PITCH, -0.35)
    ax.set_aspect("equal")
    ax.set_axis_off()
    _title(
        ax,
        f"{n_bits}-bit search in {len(split.database.X):,} items: the first query of {len(examples.queries)} classes",
    )


def _cell(ax: Axes, x: float, y: float, data: Dataset, features: Any, label: int, look: Sequence[str]) -> None:
    shape = image_shape(data)
    if shape is None:
        name = _broken(data.class_names[label])
        ax.text(x + _SIZE / 2, y + _SIZE / 2, name, ha="center", va="center", fontsize=6, clip_on=True)
    else:
        extent = (x, x + _SIZE, y + _SIZE, y)
        ax.imshow(features.reshape(shape), cmap="gray_r", extent=extent, interpolation="nearest")
    frame = Rectangle((x, y), _SIZE, _SIZE, fill=False, edgecolor=look[0], linestyle=look[1], linewidth=2)
    ax.add_patch(frame)


def _broken(name: str) -> str:
    """Break a long name into short lines."""
    return name.strip("/").replace("_", "\n").replace("/", "\n")


def _title(ax: Axes, text: str) -> None:
    ax.set_title(text, loc="left", fontsize=11.5, weight="bold", color=_INK)
