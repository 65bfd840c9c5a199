"""Places that a command writes to."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from onlinehash._files import whole_file
from onlinehash.cli._kinds import kind_of
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError


def is_stdout(path: Path) -> bool:
    """Tell whether a path means standard output."""
    return str(path) == "-"


def name_of_output(path: Path) -> str:
    """Return what a message calls the place."""
    return "standard output" if is_stdout(path) else str(path)


def check_place(path: Path, *suffixes: str) -> None:
    """Refuse a place that cannot be written to or an unknown extension, before the work and not after it."""
    if is_stdout(path):
        return
    check_folder(path)
    if suffixes and path.suffix.lower() not in suffixes:
        raise FileFormatError(f"{path} has the extension {path.suffix!r}; use one of {', '.join(suffixes)}.")
    if kind_of(path) == "collection":
        raise InvalidInputError(f"{path} is a collection, which is not overwritten; choose another name.")


def check_folder(path: Path) -> None:
    """Refuse a place where no file can be made."""
    if not path.parent.is_dir():
        raise DataNotFoundError(f"There is no folder {path.parent} to write {path.name} to.")
    if not os.access(path.parent, os.W_OK):
        raise InvalidInputError(f"The folder {path.parent} may not be written to.")
    if path.is_dir():
        raise FileFormatError(f"{path} is a folder; name a file.")


@contextmanager
def open_output(path: Path) -> Iterator[IO[bytes]]:
    """Give a file to write to, which takes its place whole; ``-`` is standard output."""
    if is_stdout(path):
        content = io.BytesIO()
        yield content
        sys.stdout.buffer.write(content.getbuffer())
        sys.stdout.buffer.flush()
        return
    with whole_file(path) as file:
        yield file
