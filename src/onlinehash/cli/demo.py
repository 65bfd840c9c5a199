"""``onlinehash demo``: the library on real data, in a few seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def run(
    dataset: Annotated[str, typer.Option(help="Data set; see 'onlinehash datasets'.")] = "digits",
    out: Annotated[Path, typer.Option(help="Folder for the figure; created if missing.", file_okay=False)] = Path(
        "demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the hashers.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Measure fewer code lengths and points.")] = False,
) -> None:
    """Learn from a stream of real data with HROH and HCOH, show mAP along the stream, search, and draw a figure."""
    console = Console(highlight=False)
    with console.status("Loading ..."):
        from onlinehash.datasets import load_dataset
        from onlinehash.demo import terminal
        from onlinehash.demo.run import rank_by_features, warm_up

        data = load_dataset(dataset)
        split = data.split(seed=seed)
        warm_up(split)
        baseline = rank_by_features(split)
    terminal.show(console, data, split, baseline, out, seed=seed, quick=quick)
