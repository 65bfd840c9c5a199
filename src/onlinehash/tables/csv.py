"""CSV, with a header line or without: the vector is one column of JSON lists, or all numbers that are nothing else."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import whole_file
from onlinehash._validation import is_number
from onlinehash.exceptions import FileFormatError, InvalidInputError
from onlinehash.tables.columns import USUAL, Columns, Layout, select
from onlinehash.tables.rows import Chunk, Row, Sheet, gather, json_or_text, vector_of

_LONGEST = 1 << 24  # characters of a field; a quote never closed reads no more than that


def layout(path: Path, columns: Columns) -> Layout:
    """Return the role of each column."""
    return _head(path, columns)[0]


def read(path: Path, columns: Columns, batch_size: int) -> Iterator[Chunk]:
    """Yield the rows of a file."""
    found, names, has_header = _head(path, columns)
    rows = _rows(path, found, names, has_header)
    yield from gather(rows, path, found, batch_size, path.stat().st_size, is_text=True)


def _rows(path: Path, found: Layout, names: list[str], has_header: bool) -> Iterator[Row]:
    beside = {role: names.index(name) for role in USUAL if isinstance(name := getattr(found, role), str)}
    numbers = [names.index(name) for name in found.vectors]
    width: int | None = None
    is_list = False
    for place, done, fields in islice(records(path), int(has_header), None):
        try:
            if len(fields) != len(names):
                what = "header" if has_header else "first line"
                raise FileFormatError(f"{len(fields)} fields; the {what} has {len(names)}.")
            if width is None:
                is_list = len(numbers) == 1 and fields[numbers[0]].lstrip().startswith("[")
            if is_list:
                value = json_or_text(fields[numbers[0]])
                vector = vector_of(None if isinstance(value, str) else value, names[numbers[0]], width)
            else:
                vector = _numbers(fields, names, numbers)
        except FileFormatError as error:
            raise FileFormatError(f"{path}, line {place}: {error}") from error
        width = len(vector)
        yield place, done, vector, {role: value_of(role, fields[i]) for role, i in beside.items()}


def records(path: Path, *, strict: bool = False) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the fields of all rows that are not empty, each with its line and the bytes read up to its end."""
    with path.open("rb") as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST))  # of the process: there is no other
        table = csv.reader(file, strict=strict)
        try:
            for fields in table:
                if fields:
                    yield table.line_num, raw.tell(), fields
        except UnicodeDecodeError as error:
            raise FileFormatError(
                f"{path} is not a CSV file: it is no UTF-8 text after line {table.line_num}."
            ) from error
        except csv.Error as error:
            raise FileFormatError(f"{path}, line {table.line_num}: {error}.") from error


def _head(path: Path, columns: Columns) -> tuple[Layout, list[str], bool]:
    """Return the layout of a table, the names of all its columns, and whether its first line says them."""
    line = next(records(path), None)
    if line is None:
        raise FileFormatError(f"{path} is empty.")
    first = [field.strip() for field in line[2]]
    other = next((mark for mark in ";\t" if mark in first[0]), None)
    if len(first) == 1 and other is not None:
        raise FileFormatError(f"{path} has {other!r} between its fields; write it with commas.")
    numbered = [str(i) for i in range(1, len(first) + 1)]
    has_header = _has_header(path, columns, first, numbered) if columns.header is None else columns.header
    names = first if has_header else numbered
    found = columns.layout(path, names)
    if not found.vectors:
        raise FileFormatError(f"{path} has no column of numbers; its columns are {', '.join(names)}.")
    return found, names, has_header


def _has_header(path: Path, columns: Columns, first: list[str], numbered: list[str]) -> bool:
    """Return whether the first line names the columns: whether those that hold numbers have something else there."""
    given = [columns.id, columns.labels, columns.payload, columns.vectors, *columns.ignore]
    if any(name in first and not is_number(name) for name in given if name is not None):
        return True
    apart: set[str] = set()
    for name in given:
        if name is not None and name != columns.vectors:
            with suppress(InvalidInputError):
                apart.update(select(name, numbered, path))
    fields = [field for field, number in zip(first, numbered, strict=True) if number not in apart]
    if not all(map(is_number, fields)):
        return not (len(fields) == 1 and fields[0].startswith("["))
    if len(first) > 2 and first == [str(i) for i in range(len(first))]:  # how pandas names columns that have no names
        raise InvalidInputError(
            f"The first line of {path} is 0,1,2 and so on: names or numbers? Use header=True or header=False."
        )
    return False


def _numbers(fields: list[str], names: list[str], places: list[int]) -> NDArray[np.float64]:
    try:
        return np.array([float(fields[i]) for i in places])
    except ValueError:
        wrong = next(i for i in places if not is_number(fields[i]))
        raise FileFormatError(
            f"{fields[wrong]!r} in column {names[wrong]!r} is not a number; use ignore={names[wrong]!r} if the column "
            "is not part of the vector."
        ) from None


def value_of(role: str, text: str | None) -> Any:
    """Return what a field means: nothing if empty, labels that are a JSON list, a payload of JSON or text."""
    if role == "id":
        return text
    if not text:
        return None
    return json_or_text(text) if role == "payload" or text.startswith("[") else text


def write(path: Path, sheet: Sheet) -> None:
    """Write a header, and one line per row: id, labels, payload, and one column per number of the vector."""
    with whole_file(path) as file:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["id", "labels", "payload", *(f"x{i}" for i in range(sheet.first.vectors.shape[1]))])
        for id, numbers, labels, payload in sheet.rows():
            shown = json.dumps(labels) if isinstance(labels, (list, tuple)) else labels
            table.writerow([id, shown, None if payload is None else json.dumps(payload), *numbers])
        text.detach()
