"""The command line.

Results go to standard output, everything else to standard error. A command ends with 0 on success, 1 with one
``error:`` line if its input is at fault, 2 if it was called with wrong arguments, 130 after Ctrl-C.
"""

from __future__ import annotations

import io
import logging
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from onlinehash import __version__
from onlinehash.cli import collection, experiments, ingest, models, search, serve
from onlinehash.cli import compile as compile_kernels
from onlinehash.cli._errors import keep_interrupts, message_of
from onlinehash.cli._screen import loudness, printable

_COMMANDS: dict[str, Any] = {  # in the order of the help: a function, or a Typer app of several commands
    "demo": experiments.demo,
    "ingest": ingest.ingest,
    "learn": models.learn,
    "encode": models.encode,
    "onnx": models.onnx,
    "search": search.search,
    "evaluate": search.evaluate,
    "reproduce": experiments.reproduce,
    "report": experiments.report,
    "compare": experiments.compare,
    "datasets": experiments.datasets,
    "collection": collection.app,
    "scale": models.scale_app,
    "serve": serve.run,
    "compile": compile_kernels.run,
}
_COMMAND = "onlinehash.command"
_UsageError: Any = typer.BadParameter.__mro__[2]  # the base class of errors about arguments


class _Program(TyperGroup):
    """The program: every command has the same common options, and an error is printed as one line."""

    def make_context(self, *given: Any, **named: Any) -> Any:
        _add_common_options(self)
        with _errors_in_one_line({}):  # of --import
            return super().make_context(*given, **named)

    def invoke(self, ctx: Any) -> Any:
        with _errors_in_one_line(ctx.meta):
            return super().invoke(ctx)


@contextmanager
def _errors_in_one_line(meta: Mapping[str, Any]) -> Iterator[None]:
    """Print an error as one line, in terms of the command that ``meta`` holds, and exit."""
    try:
        yield
        return
    except (typer.Exit, typer.Abort, _UsageError, BrokenPipeError):
        raise  # the last is a closed pipe, as in `onlinehash search ... | head`
    except KeyboardInterrupt:
        message, code = "interrupted.", 130
    except Exception as error:
        message, code = f"error: {message_of(error, meta.get(_COMMAND))}", 1
        if loudness.verbose:
            typer.echo(traceback.format_exc(), err=True)
    typer.echo(printable(" ".join(message.split())), err=True)
    raise typer.Exit(code)


def _add_common_options(group: Any) -> None:
    """Add the common options to a group and to all its commands; in the help, hide the type of flags, and wrap text."""
    common = typer.main.get_command(_common).params
    for param in common:
        param.expose_value = False
    for command in (group, *group.commands.values()):
        if hasattr(command, "commands") and command is not group:
            _add_common_options(command)
            continue
        paragraphs = (command.help or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)  # lines fit the terminal
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
    for module in modules or ():
        from onlinehash.experiments.custom import load_module

        load_module(module)


def _show_help(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        typer.echo(ctx.get_help())
        raise typer.Exit


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"onlinehash {__version__}")
        raise typer.Exit


_common = typer.Typer(add_completion=False)


@_common.command(add_help_option=False)
def _common_options(
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only results, warnings and errors.", callback=_set_quiet)
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the log, and tracebacks of errors.", callback=_set_verbose)
    ] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="Import this module first, which registers hashers of your own; repeatable.",
            callback=_import,
        ),
    ] = None,
    show_help: Annotated[
        bool, typer.Option("--help", "-h", help="Show this message and exit.", callback=_show_help, is_eager=True)
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


@app.callback()
def _program_options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


for _name, _command in _COMMANDS.items():
    if isinstance(_command, typer.Typer):
        app.add_typer(_command, name=_name)
    else:
        app.command(_name)(_command)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without block characters shows '?' instead of failing
    keep_interrupts()
    app(prog_name="onlinehash")
