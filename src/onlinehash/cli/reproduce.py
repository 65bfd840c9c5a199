"""``onlinehash reproduce``: plans, run and shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from onlinehash.cli import report as report_command


def run(
    plans: Annotated[
        list[Path] | None, typer.Argument(metavar="PLAN...", help="Plans: .toml files, see experiments/.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Every method on a small data set, with a report, in less than a minute.")
    ] = False,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder for results; each plan gets its own in it.",
            show_default="'results' beside the plan; 'quick-results' with --quick",
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes.", show_default="one a core")] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="HTML", help="Write text, figures and tables to this .html file.", show_default="only with --quick"
        ),
    ] = None,
) -> None:
    """Do the runs of plans that have no result yet, and show their tables.

    Every run leaves one JSON file. Stop at any time, by Ctrl-C: what is done is not done again.
    """
    if quick == bool(plans):
        raise typer.BadParameter("give plans, or --quick alone.")
    try:
        _reproduce(plans or [], quick, results, workers or os.cpu_count() or 1, report)
    except KeyboardInterrupt:
        typer.echo("Stopped. Finished runs are kept; give the same command again to do the others.", err=True)
        raise typer.Exit(130) from None


def _reproduce(plans: list[Path], quick: bool, results: Path | None, workers: int, report: Path | None) -> None:
    from onlinehash.cli._screen import note, progress_bar
    from onlinehash.cli._writing import check_place
    from onlinehash.exceptions import DataNotFoundError, OnlineHashError
    from onlinehash.experiments import load_plan, open_runs, reproduce
    from onlinehash.experiments.report import QUICK_PLAN, read_chapter
    from onlinehash.experiments.tables import apart_from_bounds, as_in_the_paper, groups, markdown, measured, printed

    places = [(path, results or path.parent / "results", f"onlinehash reproduce {path}") for path in plans]
    if quick:
        folder = results or Path("quick-results")
        report = report or folder / "report.html"
        folder.mkdir(parents=True, exist_ok=True)
        places = [(QUICK_PLAN, folder, "onlinehash reproduce --quick")]
    if report is not None:
        check_place(report, ".html", ".htm")
    chapters = []
    for path, folder, command in places:
        if not path.is_file():
            raise DataNotFoundError(f"There is no plan {path}.")
        plan = load_plan(path)
        missing = open_runs(plan.runs, folder / plan.name)
        note(f"{plan.title}: {len(plan.runs)} runs, {len(missing)} to do.")
        with progress_bar(plan.name) as progress:
            n_workers = min(workers, max(1, len(missing)))
            try:
                reproduce(missing, folder / plan.name, n_workers=n_workers, progress=progress)
            except OnlineHashError as error:
                raise type(error)(f"{path}: {error}") from error
        chapter = read_chapter(plan, folder, command)
        chapters.append(chapter)
        for name, part in groups(chapter.results).items():
            learned, bounds = apart_from_bounds(part)
            for measure, title in (("mean_average_precision", "mAP"), ("precision", "precision")):
                theirs = printed(part[0]["config"]["dataset"], measure) if as_in_the_paper(part) else {}
                typer.echo(f"\n{title}, {name}{' (in brackets: printed)' if theirs else ''}\n")
                typer.echo(markdown(measured(learned, measure), theirs, measured(bounds, measure)))
    if report is not None:
        report_command.write(report, chapters)
