"""``onlinehash runbook``: inserts, deletes, relabels, drift and searches, on a collection and on others."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from onlinehash.cli._files import refuse_folder
from onlinehash.cli._options import Bits, Json, Method, Settings, hasher_from_options, hasher_parameters
from onlinehash.cli._screen import note, print_json, print_rows
from onlinehash.exceptions import UnknownNameError, counted

_COLUMNS = ("engine", "step", "items", "precision@k", "median ms", "p99 ms", "CPU s of changes", "bytes per item")


def run(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Runbook: a .toml file, see experiments/runbooks.",
            show_default="a small one, on digits",
        ),
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="collection|faiss-flat|faiss-ivf|river",
            help="What to run it on; repeatable.",
            show_default="collection",
        ),
    ] = None,
    method: Method = None,
    bits: Bits = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Run a runbook and show quality, latency and cost of every search step.

    A collection learns from the labels of the items; the others rank the vectors themselves and do not see labels.
    All get the same items, deletes and queries. CPU seconds of changes include learning, training and refreshes since
    the search before.
    """
    from onlinehash.experiments.runbook import ENGINES, SMALL_RUNBOOK, CollectionEngine, load_runbook, run_runbook

    if file is not None:
        refuse_folder(file)
    runbook = load_runbook(file or SMALL_RUNBOOK)
    names = engine or ["collection"]
    for name in names:
        if name not in ("collection", *ENGINES):
            raise UnknownNameError.among("engine", name, ("collection", *ENGINES))
    hasher = hasher_from_options(method, hasher_parameters(bits, settings), n_bits=32, random_state=runbook.seed)
    note(f"{runbook.title}: {counted(len(runbook.steps), 'step')} on {runbook.dataset}, k={runbook.k}.")
    found = []
    for name in names:
        made = CollectionEngine(hasher) if name == "collection" else ENGINES[name]()
        title = f"collection ({hasher.name}, {hasher.n_bits} bits)" if name == "collection" else name
        for measured in run_runbook(runbook, made):
            found.append((title, measured))
            note(f"{title}, step {measured.step}: {measured.after}: precision {measured.precision:.3f}")
    if json:
        print_json([{"engine": title, **asdict(measured)} for title, measured in found])
        return
    rows = []
    for title, at in found:
        costs = (f"{value:.2f}" for value in (at.median_ms, at.slow_ms, at.change_seconds))
        rows.append((title, at.step, at.n_items, f"{at.precision:.3f}", *costs, f"{at.bytes_per_item:g}"))
    print_rows(_COLUMNS, rows)
