"""Arrays that a user gives: features, labels, codes and keys, from .npy, .npz and .csv files, never from pickles."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.cli._csv import read_csv, read_lines
from onlinehash.codes import pack_bits
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidCodesError, InvalidInputError
from onlinehash.types import Codes, Labels


def read_array(path: Path, *names: str) -> NDArray[Any]:
    """Read one array; .npy files stay on disk, so that they may be larger than memory.

    Parameters
    ----------
    path : Path
    *names : str
        Names under which a .npz file may hold it, best first; an only array needs no name.
    """
    suffix = _suffix_of(path, ".npy", ".npz", ".csv", ".bits")
    if suffix == ".csv":
        return read_csv(path)[0]
    if suffix == ".bits":
        return _read_bits(path)
    if suffix == ".npz":
        return _read_npz(path, names)
    return _read_npy(path)


def read_labelled(
    path: Path, labels: Path | None = None, label_column: str | None = None
) -> tuple[NDArray[Any], Labels | None]:
    """Read features, and their labels from another file, a column of a .csv file or array ``y`` of a .npz file."""
    if label_column is not None:
        if _suffix_of(path) != ".csv" or labels is not None:
            raise InvalidInputError("--label-column is for a .csv file that holds its own labels.")
        return read_csv(path, label_column)
    X = read_array(path, "X")
    return X, labels_inside(path) if labels is None else read_column(labels, "y")


def labels_inside(path: Path) -> Labels | None:
    """Return array ``y`` of a .npz file that has one."""
    inside = path.suffix.lower() == ".npz" and "y" in _names_in(path)
    return _read_npz(path, ("y",)) if inside else None


def read_column(path: Path, name: str) -> NDArray[Any]:
    """Read one value a row: .npy, the named array of .npz, a .csv of one column, or the lines of a .txt file."""
    suffix = _suffix_of(path, ".npy", ".npz", ".csv", ".txt")
    if suffix in {".csv", ".txt"}:
        try:
            return read_lines(path)
        except UnicodeDecodeError as error:
            raise FileFormatError(f"{path} is not a text file.") from error
    return read_array(path, name)


def as_codes(array: NDArray[Any], path: Path) -> Codes:
    """Return packed codes as they are, and those of a text file as bytes; anything else is refused."""
    if array.dtype == np.uint8:
        return array
    if path.suffix.lower() == ".csv" and ((array >= 0) & (array <= 255) & (array % 1 == 0)).all():
        return array.astype(np.uint8)
    raise InvalidCodesError(
        f"{path} holds {array.dtype} numbers, but packed codes are bytes (uint8). If these are features, pass --model."
    )


def _suffix_of(path: Path, *known: str) -> str:
    if not path.is_file():
        raise DataNotFoundError(f"There is no file {path}.")
    suffix = path.suffix.lower()
    if known and suffix not in known:
        raise FileFormatError(f"{path} has the extension {suffix!r}; use one of {', '.join(known)}.")
    return suffix


def _read_npy(path: Path) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise _unreadable(path) from error
    if not isinstance(array, np.ndarray):
        raise FileFormatError(f"{path} is an .npz archive; give it that extension.")
    return array


def _read_npz(path: Path, names: tuple[str, ...]) -> NDArray[Any]:
    present = _names_in(path)
    name = next((name for name in names if name in present), present[0] if len(present) == 1 else None)
    if name is None:
        raise FileFormatError(f"{path} holds no array {' or '.join(names)}, but {', '.join(present) or 'nothing'}.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return np.asarray(archive[name])
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _unreadable(path) from error


def _names_in(path: Path) -> list[str]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return list(archive.files)
    except (ValueError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise _unreadable(path) from error


def _unreadable(path: Path) -> FileFormatError:
    return FileFormatError(
        f"{path} is damaged, or holds Python objects (a pickle), which are never read; "
        "write it with numpy from an array of numbers or of text."
    )


def _read_bits(path: Path) -> Codes:
    lines = path.read_text("ascii", errors="replace").split()
    if not lines or len(set(map(len, lines))) > 1 or set("".join(lines)) - {"0", "1"}:
        raise FileFormatError(f"{path} is not a text of codes: lines of 0 and 1, all of one length.")
    return pack_bits([list(map(int, line)) for line in lines])
