"""The demo on a terminal: a table that fills while the hashers learn, searches, and the path of the figure."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from onlinehash._internal.files import write_bytes
from onlinehash.datasets import Dataset, Split, load_dataset
from onlinehash.demo import run
from onlinehash.demo.picture import picture
from onlinehash.demo.run import N_COMPONENTS, Examples, Learned
from onlinehash.experiments.run import Quality

_SHOWN = 32  # bits of the codes in the examples
_FOUND = 5  # items per search
_SPARKS = "▁▂▃▄▅▆▇█"


def show(console: Console, out: Path, *, seed: int, quick: bool) -> None:
    """Learn, print the table and some searches, and write the figure to a folder."""
    data = load_dataset("digits")
    split = data.split(seed=seed)
    baseline = run.rank_by_features(split)
    console.print(
        f"[bold]HROH and HCOH on {data.name}[/]: {data.description}\n"
        f"{len(split.stream.X)} labelled instances arrive one by one; then {len(split.queries.X)} unseen queries "
        f"search {len(split.database.X)} items. HROH has {N_COMPONENTS} random features here, by default 2048.\n"
    )
    lengths = (8, _SHOWN) if quick else run.LENGTHS
    results = [Learned(method, n_bits) for method in run.METHODS for n_bits in lengths]
    points = run.instance_counts(len(split.stream.X), 6 if quick else 24)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for learned in results:
            for _ in run.learn(learned, split, points, seed):
                live.update(_table(results, split, baseline), refresh=True)
    console.print(_table(results, split, baseline))
    shown = [learned for learned in results if learned.n_bits == _SHOWN]
    encoders = {learned.method: learned.hasher.snapshot() for learned in shown if learned.hasher is not None}
    examples = run.search_examples(encoders, split, n_queries=10, k=_FOUND)
    console.print(f"\n[bold]Searching with {_SHOWN} bits[/] (label, right or wrong, Hamming distance)\n")
    _print_examples(console, data, split, examples)
    out.mkdir(parents=True, exist_ok=True)
    file = out / "demo.svg"
    write_bytes(file, picture(data, split, results, baseline, examples, shown=_SHOWN).encode())
    console.print(f"Picture, for a browser: {file}", soft_wrap=True)


def _table(results: list[Learned], split: Split, baseline: Quality) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("method")
    table.add_column("bits", justify="right")
    table.add_column("mAP as instances arrive", min_width=29)
    for name in ("mAP", f"P@{split.precision_at}", "bytes"):
        table.add_column(name, justify="right")
    for learned in results:
        quality, n_bits = learned.quality, learned.n_bits
        measured = [f"{quality.mean_average_precision:.3f}", f"{quality.precision:.3f}"] if quality else ["", ""]
        rise = "".join(_SPARKS[min(int(value * len(_SPARKS)), len(_SPARKS) - 1)] for value in learned.curve.values)
        table.add_row(learned.method, str(n_bits), rise, *measured, str((n_bits + 7) // 8))
    size = str(split.database.X[0].nbytes)
    values = (f"{baseline.mean_average_precision:.3f}", f"{baseline.precision:.3f}")
    table.add_row("-", "", "the vectors, exact cosine", *values, size, style="dim")
    return table


def _print_examples(console: Console, data: Dataset, split: Split, examples: Examples) -> None:
    for row, method in product(range(min(3, len(examples.queries))), examples.found):
        label, matches = split.queries.y[examples.queries[row]], examples.found[method][row]
        found = split.database.y[matches.ids]
        texts = [
            f"{data.class_names[other]} {'✓' if other == label else '✗'} {distance}"
            for other, distance in zip(found, matches.distances, strict=True)
        ]
        console.print(f"[bold]{method}[/], {data.class_names[label]}: {', '.join(texts)}", soft_wrap=True)
    console.print()
