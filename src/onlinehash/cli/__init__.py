"""The command line: one command per file.

Results go to standard output, everything else to standard error. A command ends with 0 when all is well, 1 with one
``error:`` line when its input is at fault, 2 when it was called the wrong way, 130 after Ctrl-C.
"""

from __future__ import annotations

import io
import logging
import sys
import traceback
from copy import copy
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
    ingest,
    learn,
    report,
    reproduce,
    scale,
    search,
    serve,
)
from onlinehash.cli._interrupt import keep_interrupts
from onlinehash.cli._screen import loudness, printable
from onlinehash.cli._wording import in_options
from onlinehash.cli.compile import run as compile_all
from onlinehash.exceptions import OnlineHashError


class _Program(TyperGroup):
    """Give every command the same options, and turn whatever goes wrong into one line."""

    def make_context(self, *given: Any, **named: Any) -> Any:
        _add_common_options(self)
        return super().make_context(*given, **named)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, _CalledWrongly, BrokenPipeError):
            raise  # the last is a reader that has gone, as in `onlinehash search ... | head`
        except KeyboardInterrupt:
            message, code = "interrupted.", 130
        except Exception as error:
            message, code = f"error: {_message(error, ctx.meta.get(_COMMAND))}", 1
            if loudness.verbose:
                typer.echo(traceback.format_exc(), err=True)
        typer.echo(printable(" ".join(message.split())), err=True)
        raise typer.Exit(code)


_CalledWrongly: Any = typer.BadParameter.__mro__[2]  # what it has in common with its siblings
_COMMAND = "onlinehash.command"


def _message(error: Exception, command: Any) -> str:
    """Return what went wrong in one sentence; a bug is named as one."""
    if isinstance(error, OnlineHashError):
        return in_options(str(error), command)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    if isinstance(error, UnicodeError):
        return f"a file or an argument is not UTF-8 text: {error}."
    too_large = isinstance(error, ValueError) and ("Maximum allowed" in str(error) or "too big" in str(error))
    if too_large or isinstance(error, MemoryError | OverflowError):
        return f"a number or a file is too large for this machine ({error}); use fewer bits or smaller values."
    return f"{type(error).__name__}: {error} (a bug in onlinehash; run again with --verbose to see where)"


def _add_common_options(group: Any) -> None:
    """Give a group and all its commands --help, --quiet and --verbose, and flags no type in the help."""
    common = typer.main.get_command(_common).params
    for param in common:
        param.expose_value = False
    for command in (group, *group.commands.values()):
        if hasattr(command, "commands") and command is not group:
            _add_common_options(command)
            continue
        names = {param.name for param in command.params}
        command.params += [copy(param) for param in common if param.name not in names]
        for param in command.params:
            if getattr(param, "is_flag", False):
                param.metavar = ""


def _set_quiet(ctx: typer.Context, wanted: bool) -> None:
    loudness.quiet = wanted or (ctx.parent is not None and loudness.quiet)


def _set_verbose(ctx: typer.Context, wanted: bool) -> None:
    loudness.verbose = wanted or (ctx.parent is not None and loudness.verbose)
    if loudness.verbose:
        logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    ctx.meta[_COMMAND] = ctx.command


def _import(modules: list[str] | None) -> None:
    from onlinehash.experiments.custom import load_module

    for module in modules or ():
        load_module(module)


def _show_help(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        typer.echo(ctx.get_help())
        raise typer.Exit


_common = typer.Typer(add_completion=False)


@_common.command(add_help_option=False)
def _options_of_all(
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but results, warnings and errors.", callback=_set_quiet)
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Show the log, and where an error comes from.", callback=_set_verbose),
    ] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="Import this module first, which registers hashers of your own; repeatable.",
            callback=_import,
            show_default=False,
        ),
    ] = None,
    show_help: Annotated[
        bool,
        typer.Option("--help", "-h", help="Show this message and exit.", callback=_show_help, is_eager=True),
    ] = False,
) -> None:
    pass


app = typer.Typer(
    name="onlinehash",
    help="Learn short binary codes from a stream of labelled vectors, and search them.",
    cls=_Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.run)
app.command("ingest")(ingest.run)
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
