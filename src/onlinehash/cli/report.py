"""``onlinehash report``: results on one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onlinehash.cli._files import check_output, name_of_output, open_output
from onlinehash.cli._screen import note
from onlinehash.exceptions import DataNotFoundError

if TYPE_CHECKING:
    from onlinehash.experiments.report import Chapter


def run(
    plans: Annotated[list[Path], typer.Argument(metavar="PLAN...", help="Plans: .toml files, see experiments/.")],
    results: Annotated[
        Path | None,
        typer.Option(help="Folder of results, one .jsonl file per plan.", show_default="'results' beside the plan"),
    ] = None,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
) -> None:
    """Write the results of plans to one HTML page: text, figures, and tables with the published numbers.

    Nothing is run; `onlinehash reproduce` does that. The page works offline.
    """
    from onlinehash.experiments import load_plan
    from onlinehash.experiments.report import read_chapter

    check_output(out, ".html", ".htm")
    for path in plans:
        if not path.is_file():
            raise DataNotFoundError(f"There is no plan {path}.")
    write(
        out,
        [
            read_chapter(load_plan(path), results or path.parent / "results", f"onlinehash reproduce {path}")
            for path in plans
        ],
    )


def write(out: Path, chapters: list[Chapter]) -> None:
    """Write the page."""
    from onlinehash.experiments.report import render

    page = render(chapters)
    with open_output(out) as file:
        file.write(page.encode())
    note(f"Wrote {name_of_output(out)}: open it in a browser.")
