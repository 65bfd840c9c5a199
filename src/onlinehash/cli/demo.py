"""``onlinehash demo``: what the library does, on real data, in a few seconds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from onlinehash.cli._demo_run import Examples, Length
    from onlinehash.datasets import Dataset, Split
    from onlinehash.experiments.run import Quality

_LENGTHS = (8, 16, 32, 64, 128)
_SHOWN = 32  # bits of the codes in the examples
_SPARKS = "▁▂▃▄▅▆▇█"


def run(
    dataset: Annotated[str, typer.Option(help="Data set; see 'onlinehash datasets'.")] = "digits",
    out: Annotated[Path, typer.Option(help="Folder for the picture; made if need be.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Of the split and of the hashers.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer lengths and points.")] = False,
) -> None:
    """Learn from a stream of real data, watch mAP rise, search, and draw it all."""
    console = Console(highlight=False)
    with console.status("Loading ..."):
        from onlinehash.cli import _demo_run as work
        from onlinehash.datasets import load_dataset

        data = load_dataset(dataset)
        split = data.split(seed=seed)
        work.warm_up(split)
        baseline = work.rank_by_features(split)
    console.print(
        f"[bold]HCOH on {data.name}[/]: {data.description}\n"
        f"{len(split.stream.X)} labelled instances arrive one by one; then {len(split.queries.X)} queries, which were "
        f"never seen, search {len(split.database.X)} items.\n"
    )
    lengths = [work.Length(n_bits) for n_bits in ((8, _SHOWN) if quick else _LENGTHS)]
    points = work.instance_counts(len(split.stream.X), 6 if quick else 12 if len(split.database.X) > 20_000 else 24)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for length in lengths:
            for _ in work.learn_at(length, split, points, seed):
                live.update(_table(lengths, split, baseline), refresh=True)
    console.print(_table(lengths, split, baseline))
    shown = next(length for length in lengths if length.n_bits == _SHOWN)
    console.print(_rise(shown), soft_wrap=True)

    assert shown.hasher is not None
    examples = work.search_examples(shown.hasher.snapshot(), split, n_queries=10, k=8)
    console.print(f"\n[bold]Searching with {_SHOWN} bits[/] (label, right or wrong, Hamming distance)\n")
    _print_examples(console, data, split, examples)
    console.print(f"Picture: {_save_picture(out, data, split, lengths, baseline, examples)}", soft_wrap=True)


def _table(lengths: list[Length], split: Split, baseline: Quality | None) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("bits", justify="right")
    table.add_column("mAP as instances arrive", min_width=29)
    cut = "" if split.map_at is None else f"@{split.map_at}"
    for name in (f"mAP{cut}", f"P@{split.precision_at}", "learning, µs", "bytes"):
        table.add_column(name, justify="right")
    for length in lengths:
        measured = (
            [f"{length.quality.mean_average_precision:.3f}", f"{length.quality.precision:.3f}"]
            if length.quality
            else ["", ""]
        )
        speed = "" if length.microseconds is None else f"{length.microseconds:.1f}"
        table.add_row(
            str(length.n_bits), _sparkline(length.curve.values), *measured, speed, str((length.n_bits + 7) // 8)
        )
    if baseline is not None:
        size = str(split.database.X[0].nbytes)
        values = (f"{baseline.mean_average_precision:.3f}", f"{baseline.precision:.3f}")
        table.add_row("", "the features, exact cosine", *values, "-", size, style="dim")
    return table


def _sparkline(values: list[float]) -> str:
    return "".join(_SPARKS[min(int(value * len(_SPARKS)), len(_SPARKS) - 1)] for value in values)


def _rise(length: Length) -> str:
    """Say the curve in words: at every power of ten, and at the end."""
    curve = dict(zip(length.curve.instances, length.curve.values, strict=True))
    last = length.curve.instances[-1]
    steps = [n for n in curve if n == last or str(n).strip("0") == "1"]
    return f"\n{length.n_bits} bits: mAP " + ", ".join(f"{curve[n]:.2f} after {n}" for n in steps) + "."


def _print_examples(console: Console, data: Dataset, split: Split, examples: Examples) -> None:
    from onlinehash.cli._demo_run import image_shape
    from onlinehash.cli._pixels import draw

    shape = image_shape(data)
    for query, matches in list(zip(examples.queries, examples.found, strict=True))[:4]:
        label = split.queries.y[query]
        names = [f"{data.class_names[label]}"]
        for key, distance in zip(matches.keys, matches.distances, strict=True):
            found = split.database.y[key]
            names.append(f"{data.class_names[found]} {'✓' if found == label else '✗'} {distance}")
        if shape is None:
            console.print(f"{names[0]}: {', '.join(names[1:])}\n", soft_wrap=True)
            continue
        rows = [split.queries.X[query], *split.database.X[matches.keys]]
        pictures = [draw(row.reshape(shape), grey=console.color_system is not None) for row in rows]
        width = len(pictures[0][0]) + 3
        fitting = max(2, min(len(pictures), 80 // width))
        for lines in zip(*pictures[:fitting], strict=True):
            console.print(Text("   ").join(lines), soft_wrap=True)
        console.print("".join(f"{name:{width}}" for name in names[:fitting]).rstrip() + "\n", soft_wrap=True)


def _save_picture(
    out: Path, data: Dataset, split: Split, lengths: list[Length], baseline: Quality | None, examples: Examples
) -> Path:
    from onlinehash._files import whole_file
    from onlinehash.cli._demo_picture import paint

    out.mkdir(parents=True, exist_ok=True)
    path = out / "hcoh.png"
    with whole_file(path) as file:
        paint(file, data, split, lengths, baseline, examples, shown=_SHOWN)
    return path
