"""Tables of numbers as text: a row a line, commas between, a header line or none."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from onlinehash._validation import is_number
from onlinehash.exceptions import FileFormatError, InvalidInputError
from onlinehash.types import Features, Labels


def read_csv(path: Path, label_column: str | None = None) -> tuple[Features, Labels | None]:
    """Read all rows, with one column taken out as labels.

    Parameters
    ----------
    path : Path
    label_column : str, optional
        A name in the header, or a number counted from 1; -1 is the last.
    """
    first = _first_row(path)
    column = None if label_column is None else _find_column(path, first, label_column)
    features = [i for i in range(len(first)) if i != column]
    if not features:
        raise FileFormatError(f"{path} has no column but the labels.")
    has_header = label_column in first or not all(is_number(first[i]) for i in features)
    X = _load(path, has_header, features, np.float64)
    if column is None:
        return X, None
    return X, _integers_or_text(_load(path, has_header, [column], np.str_)[:, 0])


def read_lines(path: Path) -> Labels:
    """Read a value a line; in a .csv file, text above nothing but integers is a header."""
    with path.open(encoding="utf-8-sig") as file:
        lines = [line.strip().strip('"') for line in file]
    while lines and not lines[-1]:
        lines.pop()
    is_csv = path.suffix.lower() == ".csv"
    for number, line in enumerate(lines, 1):
        if not line or (is_csv and "," in line):
            raise FileFormatError(f"{path} has {line!r} in line {number}; every line holds one value.")
    values = _integers_or_text(lines)
    below = _integers_or_text(lines[1:])
    return below if is_csv and values.dtype.kind == "U" and len(below) and below.dtype.kind == "i" else values


def _integers_or_text(texts: Sequence[str] | NDArray[np.str_]) -> Labels:
    values = np.asarray(texts, np.str_)
    try:
        return values.astype(np.int64)
    except (ValueError, OverflowError):
        return values


def _first_row(path: Path) -> list[str]:
    with _open(path) as file:
        try:
            row = next((row for row in csv.reader(file) if row), [])
        except (csv.Error, UnicodeDecodeError) as error:
            raise FileFormatError(f"{path} is not a csv file: {error}.") from error
    if not row:
        raise FileFormatError(f"{path} is empty.")
    return [field.strip() for field in row]


def _find_column(path: Path, header: list[str], wanted: str) -> int:
    if wanted in header:
        return header.index(wanted)
    try:
        number = int(wanted)
    except ValueError:
        raise InvalidInputError(f"{path} has no column {wanted!r}; its first line is {', '.join(header)}.") from None
    if number == 0 or abs(number) > len(header):
        raise InvalidInputError(f"{path} has no column {number}; count from 1 to {len(header)}, or -1 for the last.")
    return number - 1 if number > 0 else len(header) + number


def _load(path: Path, has_header: bool, columns: list[int], dtype: Any) -> NDArray[Any]:
    with _open(path) as file:
        if has_header:
            next(csv.reader(file))
        rest = file.readlines()
    if not any(line.strip() for line in rest):
        raise FileFormatError(f"{path} has no rows.")
    try:
        return np.loadtxt(rest, dtype, comments=None, delimiter=",", usecols=columns, ndmin=2, quotechar='"')
    except ValueError as error:
        raise FileFormatError(f"{path} is not a table of numbers: {error}") from error


def _open(path: Path) -> TextIO:
    return path.open(encoding="utf-8-sig", newline="")
