"""``onlinehash reproduce``: run plans and show their tables."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from onlinehash.cli import report as report_command
from onlinehash.cli._files import check_output
from onlinehash.cli._screen import note, progress_bar
from onlinehash.exceptions import DataNotFoundError, OnlineHashError, counted


def run(
    plans: Annotated[
        list[Path] | None, typer.Argument(metavar="PLAN...", help="Plans: .toml files, see experiments/.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Run every method on a small data set, with a report, in less than a minute."),
    ] = False,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder for results, one .jsonl file per plan.",
            show_default="'results' beside the plan; 'quick-results' with --quick",
        ),
    ] = None,
    stale: Annotated[
        bool, typer.Option("--stale", help="Repeat stale runs too: their source changed, or is unknown.")
    ] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes.", show_default="one per core")] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="HTML", help="Write text, figures and tables to this .html file.", show_default="only with --quick"
        ),
    ] = None,
) -> None:
    """Run what is missing of plans and show their tables.

    Every run is one line of the plan's .jsonl file. Ctrl-C stops at any time: finished runs are kept.

    A run is stale if the source of its hasher, its data set or the runner changed since. Stale runs stay in the tables;
    on a terminal, the command offers to repeat them.
    """
    from onlinehash.experiments import load_plan, read_results, reproduce, tables
    from onlinehash.experiments.report import QUICK_PLAN, read_chapter
    from onlinehash.experiments.results import is_stale

    if quick == bool(plans):
        raise typer.BadParameter("give plans, or --quick alone.")
    places = [(path, results or path.parent / "results", f"onlinehash reproduce {path}") for path in plans or ()]
    if quick:
        folder = results or Path("quick-results")
        report = report or folder / "report.html"
        folder.mkdir(parents=True, exist_ok=True)
        places = [(QUICK_PLAN, folder, "onlinehash reproduce --quick")]
    if report is not None:
        check_output(report, ".html", ".htm")
    chapters = []
    for path, folder, command in places:
        if not path.is_file():
            raise DataNotFoundError(f"There is no plan {path}.")
        plan = load_plan(path)
        results_path = folder / f"{plan.name}.jsonl"
        done = read_results(results_path, plan.runs)
        n_missing, n_stale = len(plan.runs) - len(done), sum(map(is_stale, done))
        note(f"{plan.title}: {counted(len(plan.runs), 'run')}, {n_missing} missing, {n_stale} stale.")
        repeat = stale or (n_stale > 0 and _confirmed(n_stale))
        if n_stale and not repeat:
            note(f"Stale runs in the tables: {n_stale}. Repeat them with --stale.")
        with progress_bar(plan.name) as progress:
            n_workers = min(workers or os.cpu_count() or 1, max(1, n_missing + repeat * n_stale))
            try:
                reproduce(plan.runs, results_path, stale=repeat, n_workers=n_workers, progress=progress)
            except OnlineHashError as error:
                raise type(error)(f"{path}: {error}") from error
            except KeyboardInterrupt:
                typer.echo("Stopped. Finished runs are kept; run the same command again to do the others.", err=True)
                raise typer.Exit(130) from None
        chapter = read_chapter(plan, folder, command)
        chapters.append(chapter)
        for name, part in tables.groups(chapter.results).items():
            learned, references = tables.separate_references(part)
            if not learned:  # nothing has a number of bits to show them at: each at its own size
                learned, references = references, []
            for measure, title in (tables.MEASURES | tables.UNSEEN).items():
                theirs = tables.printed(part[0]["config"]["dataset"], measure) if tables.as_in_the_paper(part) else {}
                if cells := tables.measured(learned, measure):
                    typer.echo(f"\n{title}, {name}{' (in brackets: printed)' if theirs else ''}\n")
                    of_references, seeds = tables.measured(references, measure), tables.spread(part, measure)
                    typer.echo(tables.markdown(cells, theirs, of_references, seeds))
    if report is not None:
        report_command.write(report, chapters)


def _confirmed(n_stale: int) -> bool:
    """Ask whether to repeat stale runs; without a terminal, the answer is no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return typer.confirm(f"Repeat the stale runs ({n_stale})?", err=True)
