"""Places that a command writes to."""

from __future__ import annotations

import os
from pathlib import Path

from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError


def check_place(path: Path, *suffixes: str) -> None:
    """Refuse a place that cannot be written to or an unknown extension, before the work and not after it."""
    if not path.parent.is_dir():
        raise DataNotFoundError(f"There is no folder {path.parent} to write {path.name} to.")
    if not os.access(path.parent, os.W_OK):
        raise InvalidInputError(f"The folder {path.parent} may not be written to.")
    if path.is_dir():
        raise FileFormatError(f"{path} is a folder; name a file.")
    if suffixes and path.suffix.lower() not in suffixes:
        raise FileFormatError(f"{path} has the extension {path.suffix!r}; use one of {', '.join(suffixes)}.")
