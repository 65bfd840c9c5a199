"""The demo on a terminal: a table that fills while the hashers learn, searches, and the path of the figure."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from onlinehash._files import whole_file
from onlinehash.datasets import Dataset, Split
from onlinehash.demo import run
from onlinehash.demo.picture import paint
from onlinehash.demo.race import N_COMPONENTS
from onlinehash.demo.run import Examples, Learned, image_shape
from onlinehash.experiments.run import Quality

_SHOWN = 32  # bits of the codes in the examples
_FOUND = 5  # items per search
_SPARKS = "▁▂▃▄▅▆▇█"
_LARGEST = 16  # pixels per side of an image
_BLOCKS = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}


def show(
    console: Console, data: Dataset, split: Split, baseline: Quality | None, out: Path, *, seed: int, quick: bool
) -> None:
    """Learn, print the table and some searches, and write the figure to a folder."""
    console.print(
        f"[bold]HROH and HCOH on {data.name}[/]: {data.description}\n"
        f"{len(split.stream.X)} labelled instances arrive one by one; then {len(split.queries.X)} unseen queries "
        f"search {len(split.database.X)} items. HROH has {N_COMPONENTS} random features here, by default 2048.\n"
    )
    lengths = (8, _SHOWN) if quick else run.LENGTHS
    results = [Learned(method, n_bits) for method in run.METHODS for n_bits in lengths]
    points = run.instance_counts(len(split.stream.X), 6 if quick else 12 if len(split.database.X) > 20_000 else 24)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for learned in results:
            for _ in run.learn(learned, split, points, seed):
                live.update(_table(results, split, baseline), refresh=True)
    console.print(_table(results, split, baseline))
    console.print()
    shown = [learned for learned in results if learned.n_bits == _SHOWN]
    for learned in shown:
        console.print(_rise(learned), soft_wrap=True)

    encoders = {learned.method: learned.hasher.snapshot() for learned in shown if learned.hasher is not None}
    examples = run.search_examples(encoders, split, n_queries=10, k=_FOUND)
    console.print(f"\n[bold]Searching with {_SHOWN} bits[/] (label, right or wrong, Hamming distance)\n")
    _print_examples(console, data, split, examples)
    out.mkdir(parents=True, exist_ok=True)
    with whole_file(out / "demo.png") as file:
        paint(file, data, split, results, baseline, examples, shown=_SHOWN)
    console.print(f"Picture: {out / 'demo.png'}", soft_wrap=True)


def _table(results: list[Learned], split: Split, baseline: Quality | None) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("method")
    table.add_column("bits", justify="right")
    table.add_column("mAP as instances arrive", min_width=29)
    cut = "" if split.map_at is None else f"@{split.map_at}"
    for name in (f"mAP{cut}", f"P@{split.precision_at}", "learning, µs", "bytes"):
        table.add_column(name, justify="right")
    for learned in results:
        quality, n_bits = learned.quality, learned.n_bits
        measured = [f"{quality.mean_average_precision:.3f}", f"{quality.precision:.3f}"] if quality else ["", ""]
        speed = "" if learned.microseconds is None else f"{learned.microseconds:.1f}"
        rise = "".join(_SPARKS[min(int(value * len(_SPARKS)), len(_SPARKS) - 1)] for value in learned.curve.values)
        table.add_row(learned.method, str(n_bits), rise, *measured, speed, str((n_bits + 7) // 8))
    if baseline is not None:
        size = str(split.database.X[0].nbytes)
        values = (f"{baseline.mean_average_precision:.3f}", f"{baseline.precision:.3f}")
        table.add_row("-", "", "the vectors, exact cosine", *values, "-", size, style="dim")
    return table


def _rise(learned: Learned) -> str:
    """Return mAP at every power of ten and at the end, as text."""
    curve = dict(zip(learned.curve.instances, learned.curve.values, strict=True))
    last = learned.curve.instances[-1]
    steps = ", ".join(f"{curve[n]:.2f} after {n}" for n in curve if n == last or str(n).strip("0") == "1")
    return f"{learned.method}, {learned.n_bits} bits: mAP {steps}."


def _print_examples(console: Console, data: Dataset, split: Split, examples: Examples) -> None:
    shape = image_shape(data)
    for row, method in product(range(min(3, len(examples.queries))), examples.found):
        query, matches = examples.queries[row], examples.found[method][row]
        label = split.queries.y[query]
        names = [f"{data.class_names[label]}"]
        for id, distance in zip(matches.ids, matches.distances, strict=True):
            found = split.database.y[id]
            names.append(f"{data.class_names[found]} {'✓' if found == label else '✗'} {distance}")
        if shape is None:
            console.print(f"{method}, {names[0]}: {', '.join(names[1:])}\n", soft_wrap=True)
            continue
        rows = [split.queries.X[query], *split.database.X[matches.ids]]
        pictures = [draw(row.reshape(shape), grey=console.color_system is not None) for row in rows]
        width = len(pictures[0][0]) + 3
        console.print(f"[bold]{method}[/]")
        fitting = max(2, min(len(pictures), 80 // width))
        for lines in zip(*pictures[:fitting], strict=True):
            console.print(Text("   ").join(lines), soft_wrap=True)
        console.print("".join(f"{name:{width}}" for name in names[:fitting]).rstrip() + "\n", soft_wrap=True)


def draw(image: NDArray[Any], *, grey: bool) -> list[Text]:
    """Return the lines of an image, two pixels per character, in shades of grey or in black and white.

    Examples
    --------
    >>> [line.plain for line in draw(np.array([[1.0, 0.0], [1.0, 1.0]]), grey=False)]
    ['█▄']
    """
    image = _shrink(image / max(float(image.max()), 1e-9))
    if len(image) % 2:
        image = np.vstack([image, np.zeros_like(image[:1])])
    lines = []
    for upper, lower in zip(image[::2], image[1::2], strict=True):
        line = Text()
        for top, bottom in zip(upper.tolist(), lower.tolist(), strict=True):
            if grey:
                line.append("▀", style=f"{_shade(top)} on {_shade(bottom)}")
            else:
                line.append(_BLOCKS[top > 0.4, bottom > 0.4])
        lines.append(line)
    return lines


def _shrink(image: NDArray[Any]) -> NDArray[Any]:
    """Average square blocks of pixels so that the image is small enough."""
    factor = -(-len(image) // _LARGEST)
    height, width = (side // factor for side in image.shape)
    blocks = image[: height * factor, : width * factor].reshape(height, factor, width, factor)
    return np.asarray(blocks.mean(axis=(1, 3)))


def _shade(value: float) -> str:
    level = round(255 * min(max(value, 0.0), 1.0))
    return f"#{level:02x}{level:02x}{level:02x}"
