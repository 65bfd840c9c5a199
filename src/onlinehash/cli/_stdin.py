"""Standard input as a file: ``-``."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from onlinehash.exceptions import OnlineHashError

NAME = "standard input"
_BEGINNINGS = {b"{": ".jsonl", b"\x93NUMPY": ".npy", b"PK": ".npz", b"PAR1": ".parquet"}


@contextmanager
def open_input(path: Path) -> Iterator[Path]:
    """Give the path, or for ``-`` that of a temporary file with what comes on standard input.

    The first bytes tell what it is: JSON lines, a NumPy file, Parquet, or else CSV.
    """
    if str(path) != "-":
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
            raise type(error)(str(error).replace(str(copy), NAME)) from error


def name_of(path: Path) -> str:
    """Return what a message calls the file."""
    return NAME if str(path) == "-" else str(path)
