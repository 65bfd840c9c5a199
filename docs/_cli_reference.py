"""The reference page of the command line, generated from the commands."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import typer

from onlinehash.cli import app

_KINDS = {int: "integer", float: "number", str: "text", Path: "path"}


def cli_page() -> str:
    """List all commands with their arguments and options."""
    lines = [
        "# Command line",
        "",
        "All commands with their arguments and options, as `onlinehash COMMAND --help` shows them.",
        "Results go to standard output, everything else to standard error.",
        "The exit status is 0 on success, 1 with one `error:` line if the input is at fault,",
        "2 if the arguments are wrong, and 130 after Ctrl-C.",
        "",
        "Every command has `--help` (`-h`), `--quiet` (`-q`: only results, warnings and errors),",
        "`--verbose` (`-v`: the log, and tracebacks of errors) and `--import MODULE` (imported first).",
        "`onlinehash --install-completion` installs shell completion. `python docs/generate.py` writes this page.",
    ]
    for names, command in _commands(("onlinehash",), typer.main.get_command(app)):
        heading = f"{'#' * max(2, len(names))} {' '.join(names)}"
        lines += ["", heading, "", *_text(command.help), "", *_usage(names, command)]
        lines += _table(command)
    return "\n".join(lines) + "\n"


def _commands(names: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield a command and those below it, in the order of the help."""
    yield names, command
    for name, below in getattr(command, "commands", {}).items():
        yield from _commands((*names, name), below)


def _text(text: str) -> list[str]:
    """Return help as paragraphs of one line each."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n")]
    return "\n\n".join(paragraphs).splitlines()


def _usage(names: tuple[str, ...], command: Any) -> list[str]:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    words = [*names, "[OPTIONS]"]
    words += [_name(param) if param.required else f"[{_name(param)}]" for param in arguments]
    if hasattr(command, "commands"):
        words.append("COMMAND ...")
    return ["```", " ".join(words), "```"]


def _table(command: Any) -> list[str]:
    kinds = get_type_hints(inspect.unwrap(command.callback)) if command.callback is not None else {}
    rows = [_row(param, kinds.get(param.name)) for param in command.params if param.name in kinds and not param.hidden]
    return ["", "| | takes | default | |", "|---|---|---|---|", *rows] if rows else []


def _row(param: Any, kind: Any) -> str:
    takes = "" if param.param_type_name == "argument" or _is_flag(kind) else _takes(param, kind)
    return f"| `{_name(param)}` | {takes} | {_default(param, kind)} | {param.help} |"


def _name(param: Any) -> str:
    if param.param_type_name == "argument":
        name = str(param.metavar or param.name.upper()).removesuffix("...")
        return f"{name}..." if param.nargs == -1 else name
    return ", ".join([*param.opts, *param.secondary_opts])


def _takes(param: Any, kind: Any) -> str:
    """Return the values that an option takes."""
    if param.metavar:
        return " or ".join(f"`{word}`" for word in param.metavar.split("|"))
    return _KINDS[_plain(kind)]


def _default(param: Any, kind: Any) -> str:
    if param.required:
        return "required"
    if isinstance(param.show_default, str):
        return param.show_default if " " in param.show_default else f"`{param.show_default}`"
    shown = param.show_default and not _is_flag(kind) and isinstance(param.default, (int, float, str, Path))
    return f"`{param.default}`" if shown else ""


def _plain(kind: Any) -> Any:
    """Return the type of one value, of lists and of what may be missing too."""
    inner = [arg for arg in get_args(kind) if arg is not NoneType]
    return _plain(inner[0]) if inner else kind


def _is_flag(kind: Any) -> bool:
    return _plain(kind) is bool
