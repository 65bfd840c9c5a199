"""Files that commands read and write; ``-`` is standard input or output."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from onlinehash._files import kind_of, whole_file
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError, OnlineHashError

_STDIN = "standard input"
_USES = {
    "collection": "onlinehash collection search {0} ..., or onlinehash collection export {0} codes.npz --codes",
    "hasher": "onlinehash encode {0} ..., or onlinehash search ITEMS QUERIES --model {0}",
    "encoder": "onlinehash encode {0} ..., or onlinehash search ITEMS QUERIES --model {0}",
    "index": "onlinehash search {0} QUERIES",
}
_BEGINNINGS = {b"{": ".jsonl", b"\x93NUMPY": ".npy", b"PK": ".npz", b"PAR1": ".parquet"}


def refuse_other_kinds(path: Path, *wanted: str) -> None:
    """Raise if the file is one of ours, but of another kind, and name the command that takes it."""
    kind = kind_of(path) if path.is_file() else None
    if kind is None or kind in wanted:
        return
    article = "an" if kind[0] in "aeiou" else "a"
    raise FileFormatError(f"{path} is {article} {kind}; use: {_USES[kind].format(path)}")


@contextmanager
def open_input(path: Path) -> Iterator[Path]:
    """Yield the path; for ``-``, that of a temporary copy of standard input.

    The first bytes of standard input determine its format: JSON lines, a NumPy file, Parquet, or else CSV.
    """
    if not is_standard(path):
        yield path
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "stdin"
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        with copy.open("rb") as file:
            head = file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
        ending = next((ending for start, ending in _BEGINNINGS.items() if head.startswith(start)), ".csv")
        copy = copy.rename(copy.with_suffix(ending))
        try:
            yield copy
        except OnlineHashError as error:
            raise type(error)(str(error).replace(str(copy), _STDIN)) from error


@contextmanager
def open_output(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that replaces the path when it is complete; ``-`` is standard output."""
    if is_standard(path):
        content = io.BytesIO()
        yield content
        sys.stdout.buffer.write(content.getbuffer())
        sys.stdout.buffer.flush()
        return
    with whole_file(path) as file:
        yield file


def is_standard(path: Path) -> bool:
    """Return whether a path means standard input or output."""
    return str(path) == "-"


def name_of(path: Path, standard: str = _STDIN) -> str:
    """Return the name of a file in messages."""
    return standard if is_standard(path) else str(path)


def name_of_output(path: Path) -> str:
    """Return the name of a file that is written in messages."""
    return name_of(path, "standard output")


def check_inputs(*paths: Path | None) -> None:
    """Raise, before any work is done, if a file that was named does not exist or is a folder."""
    for path in paths:
        if path is None or is_standard(path):
            continue
        refuse_folder(path)
        if not path.exists():
            raise DataNotFoundError(f"There is no file {path}.")


def check_output(path: Path, *suffixes: str) -> None:
    """Raise, before any work is done, if the path cannot be written to or has another extension."""
    if is_standard(path):
        return
    check_folder(path)
    if suffixes and path.suffix.lower() not in suffixes:
        raise FileFormatError(f"{path} has the extension {path.suffix!r}; use one of {', '.join(suffixes)}.")
    if path.is_file() and kind_of(path) == "collection":
        raise InvalidInputError(f"{path} is a collection, which is not overwritten; choose another name.")


def check_folder(path: Path) -> None:
    """Raise if no file can be created at the path."""
    if not path.parent.is_dir():
        raise DataNotFoundError(f"There is no folder {path.parent} to write {path.name} to.")
    if not os.access(path.parent, os.W_OK):
        raise InvalidInputError(f"The folder {path.parent} is not writable.")
    refuse_folder(path)


def refuse_folder(path: Path) -> None:
    """Raise if the path is that of a folder."""
    if path.is_dir():
        raise FileFormatError(f"{path} is a folder; name a file.")
