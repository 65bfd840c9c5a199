"""What the command line draws: tables, progress bars and notes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from onlinehash.types import Progress as Callback


def note(text: str) -> None:
    """Say something that is not a result: one line on standard error."""
    typer.echo(text, err=True)


def on_terminal() -> bool:
    """Return whether a person reads the results."""
    return sys.stdout.isatty()


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table on a terminal, and lines of tab-separated fields in a pipe."""
    if on_terminal():
        Console().print(make_table(columns, rows))
        return
    typer.echo("\t".join(columns))
    for row in rows:
        typer.echo("\t".join(map(str, row)))


def make_table(columns: Sequence[str], rows: Iterable[Sequence[object]] = ()) -> Table:
    """Return a table with its numbers to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for i, column in enumerate(columns):
        numeric = bool(cells) and all(row[i].isdecimal() for row in cells)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*row)
    return table


@contextmanager
def progress_bar(title: str) -> Iterator[Callback]:
    """Give a callback that moves a bar on a terminal, and does nothing elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(), expand=False
    ) as bars:
        task = bars.add_task(title, total=None, visible=False)  # until there is something to show

        def move(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total, visible=True)

        yield move
