"""``onlinehash reproduce``: plans, run and shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def run(
    plans: Annotated[list[Path], typer.Argument(metavar="PLAN...", help="Plans: .toml files, see experiments/.")],
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder for results; each plan gets its own in it.", show_default="'results' beside the plan"
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes.", show_default="one a core")] = None,
) -> None:
    """Do the runs of plans that have no result yet, and show their tables.

    Every run leaves one JSON file. Stop at any time: what is done is not done again.
    """
    from onlinehash.cli._screen import note, progress_bar
    from onlinehash.exceptions import DataNotFoundError
    from onlinehash.experiments import load_plan, open_runs, read_results, reproduce
    from onlinehash.experiments.tables import markdown, measured, printed

    for path in plans:
        if not path.is_file():
            raise DataNotFoundError(f"There is no plan {path}.")
        plan = load_plan(path)
        folder = (results or path.parent / "results") / plan.name
        missing = open_runs(plan.runs, folder)
        note(f"{plan.title}: {len(plan.runs)} runs, {len(missing)} to do.")
        with progress_bar(plan.name) as progress:
            n_workers = min(workers or os.cpu_count() or 1, max(1, len(missing)))
            reproduce(missing, folder, n_workers=n_workers, progress=progress)
        done = read_results(folder, plan.runs)
        for measure, title in (("mean_average_precision", "mAP"), ("precision", "precision")):
            typer.echo(f"\n{title} (in brackets: printed)\n")
            typer.echo(markdown(measured(done, measure), printed(plan.runs[0].dataset, measure)))
