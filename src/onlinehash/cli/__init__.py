"""The command line: one command a file.

Results go to standard output, everything else to standard error. A command ends with 0 when all is well, 1 with one
``error:`` line when its input is at fault, 2 when it was called the wrong way.
"""

from __future__ import annotations

import io
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from onlinehash import __version__
from onlinehash.cli import (
    collection,
    compare,
    datasets,
    demo,
    encode,
    evaluate,
    learn,
    report,
    reproduce,
    scale,
    search,
    serve,
)
from onlinehash.cli._interrupt import keep_interrupts
from onlinehash.cli.compile import run as compile_all
from onlinehash.exceptions import OnlineHashError


class _OneLineErrors(TyperGroup):
    """Turn an error that a user can mend into one line; a bug keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except OnlineHashError as error:
            message = str(error)
        except BrokenPipeError:  # the reader has gone, as in `onlinehash search ... | head`
            raise
        except OSError as error:
            message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        typer.echo(f"error: {' '.join(message.split())}", err=True)
        raise typer.Exit(1)


app = typer.Typer(
    name="onlinehash",
    help="Learn short binary codes from a stream of labelled vectors, and search them.",
    cls=_OneLineErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.run)
app.command("learn")(learn.run)
app.command("encode")(encode.run)
app.command("search")(search.run)
app.command("evaluate")(evaluate.run)
app.command("reproduce")(reproduce.run)
app.command("report")(report.run)
app.command("compare", cls=compare.ListOptions)(compare.run)
app.command("datasets")(datasets.run)
app.add_typer(collection.app, name="collection")
app.add_typer(scale.app, name="scale")
app.command("serve")(serve.run)
app.command("compile")(compile_all)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"onlinehash {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without block characters shows '?' instead of failing
    keep_interrupts()
    app(prog_name="onlinehash")
