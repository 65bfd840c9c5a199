"""The command line.

Results go to standard output, everything else to standard error. A command ends with 0 on success, 1 with one
``error:`` line if its input is at fault, 2 if it was called with wrong arguments, 130 after Ctrl-C.
"""

from __future__ import annotations

import io
import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from onlinehash import __version__
from onlinehash.cli import collection, decisions, evaluate, experiments, ingest, models, serve
from onlinehash.cli import compile as compile_kernels
from onlinehash.cli._errors import keep_interrupts, message_of
from onlinehash.cli._screen import loudness, printable

_COMMANDS: dict[str, Any] = {  # in the order of the help
    "demo": experiments.demo,
    "ingest": ingest.ingest,
    "learn": models.learn,
    "encode": models.encode,
    "onnx": models.onnx,
    "evaluate": evaluate.evaluate,
    "classify": decisions.classify,
    "suspects": decisions.suspects,
    "review": decisions.review,
    "reproduce": experiments.reproduce,
    "compare": experiments.compare,
    "datasets": experiments.datasets,
    "serve": serve.run,
    "compile": compile_kernels.run,
}
_UsageError: Any = typer.BadParameter.__mro__[2]  # the base class of errors about arguments


class _Command(TyperCommand):
    """A command with the options that all have; an error is printed as one line."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [*self.params, *_COMMON, *super().get_params(ctx)[len(self.params) :]]

    def make_context(self, *given: Any, **named: Any) -> Any:
        with self._errors_in_one_line():  # of --import
            return super().make_context(*given, **named)

    def invoke(self, ctx: Any) -> Any:
        with self._errors_in_one_line():
            return super().invoke(ctx)

    @contextmanager
    def _errors_in_one_line(self) -> Iterator[None]:
        try:
            yield
            return
        except (typer.Exit, typer.Abort, _UsageError, BrokenPipeError):
            raise  # the last is a closed pipe, as in `onlinehash collection items ... | head`
        except KeyboardInterrupt:
            message, code = "interrupted.", 130
        except Exception as error:
            message, code = f"error: {message_of(error, self.params)}", 1
            if loudness.verbose:
                typer.echo(traceback.format_exc(), err=True)
        typer.echo(printable(" ".join(message.split())), err=True)
        raise typer.Exit(code)


def _set_quiet(wanted: bool) -> None:
    loudness.quiet = wanted


def _set_verbose(wanted: bool) -> None:
    loudness.verbose = wanted
    if wanted:
        logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")


def _import(modules: list[str] | None) -> None:
    for module in modules or ():
        from onlinehash.experiments.custom import load_module

        load_module(module)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"onlinehash {__version__}")
        raise typer.Exit


def _options_of_all(
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
) -> None:
    pass


_common = typer.Typer(add_completion=False)
_common.command()(_options_of_all)
_COMMON = typer.main.get_command(_common).params
for _param in _COMMON:
    _param.expose_value = False

app = typer.Typer(
    name="onlinehash",
    help="Learn short binary codes from a stream of labelled vectors, and search them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _program_options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def _add(group: typer.Typer, commands: dict[str, Any]) -> None:
    for name, function in commands.items():
        paragraphs = (function.__doc__ or "").split("\n\n")
        text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)  # lines fit the terminal
        group.command(name, help=text, cls=_Command)(function)


_of_collections = typer.Typer(help="Items in one file, which learns from them and is searched.", no_args_is_help=True)
_add(app, _COMMANDS)
_add(_of_collections, collection.COMMANDS)
app.add_typer(_of_collections, name="collection")


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without block characters shows '?' instead of failing
    keep_interrupts()
    app(prog_name="onlinehash")
