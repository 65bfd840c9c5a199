"""Output of commands: messages, tables, JSON and progress bars."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import shorten
from types import SimpleNamespace
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from onlinehash.types import Progress as Callback

_SHOWN_CHARACTERS = 80  # of a document
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


loudness = SimpleNamespace(quiet=False, verbose=False)
"""Whether ``--quiet`` and ``--verbose`` were given."""


def note(text: str) -> None:
    """Print a line on standard error, unless ``--quiet``."""
    if not loudness.quiet:
        _print_above(text)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    _print_above(f"warning: {text}")


def _print_above(text: str) -> None:
    """Print a line above a bar or a spinner, which takes the place of ``sys.stderr``; ``err=True`` writes into it."""
    typer.echo(printable(text), file=sys.stderr)


def printable(value: object) -> str:
    r"""Return a value as text, with escapes for tabs, line breaks and what standard output cannot encode.

    Examples
    --------
    >>> printable("café\tau lait\n")
    'café\\tau lait\\n'
    """
    text = _CONTROL.sub(lambda match: repr(match[0])[1:-1], str(value))
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def number(value: float) -> str:
    """Return a distance rounded to four digits.

    Examples
    --------
    >>> number(7), number(0.038176), number(-2e-16)
    ('7', '0.0382', '0')
    """
    return f"{round(value, 4) + 0.0:g}"


def print_json(value: Any) -> None:
    """Print JSON on one line, with escapes only for what standard output cannot encode."""
    typer.echo(json.dumps(value, ensure_ascii=not (sys.stdout.encoding or "utf-8").lower().startswith("utf")))


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns on a terminal, and tab-separated lines elsewhere."""
    cells = [list(columns), *([printable(cell) for cell in row] for row in rows)]
    if sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        cells = [["  ".join(map(str.ljust, row, widths)).rstrip()] for row in cells]
    for row in cells:
        typer.echo("\t".join(row))


def print_with_documents(
    columns: Sequence[str], rows: Sequence[Sequence[object]], documents: Sequence[Any] | None
) -> None:
    """Print rows as :func:`print_rows` does, with the beginning of the document of each if there are documents."""
    if documents is not None:
        begins = [shorten(str(text or "-"), _SHOWN_CHARACTERS, placeholder=" ...") for text in documents]
        columns, rows = (*columns, "document"), [(*row, begin) for row, begin in zip(rows, begins, strict=True)]
    print_rows(columns, rows)


@contextmanager
def progress_bar(title: str) -> Iterator[Callback]:
    """Yield a progress callback, which moves a bar on a terminal and does nothing elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    is_hidden = loudness.quiet or not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=is_hidden) as bars:
        task = bars.add_task(title, total=None, visible=False)

        def move(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total, visible=True)

        yield move
