"""CSV, with a header line or without, and JSON lines, one object per line.

The vector is one list (in CSV, written as JSON), or all numbers that are nothing else. Both are read line by line, not
by pyarrow: its readers give every payload the keys of all of them, refuse labels that are sometimes lists, and do not
know the lines of errors.
"""

from __future__ import annotations

import csv
import io
import json
from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.files import whole_file
from onlinehash._internal.validation import is_number
from onlinehash.exceptions import FileFormatError, InvalidInputError
from onlinehash.tables.columns import Chunk, Columns, Layout, find_column

_MAX_FIELD = 1 << 24  # characters of a field of CSV; a quote never closed reads no more than that


class Row(NamedTuple):
    """A line of a file, the bytes read up to its end, and its values by name; None where CSV has nothing."""

    line: int
    done: int
    values: dict[str, Any]


def layout(path: Path, columns: Columns) -> Layout:
    """Return the role of each column, or of each field of the first object; later objects may have other fields."""
    return _open(path, columns)[0]


def read(path: Path, columns: Columns, batch_size: int) -> Iterator[Chunk]:
    """Yield the rows of a file."""
    found, rows, is_csv, total = *_open(path, columns), _is_csv(path), path.stat().st_size
    n_read, width = 0, None
    while some := list(islice(rows, batch_size)):
        here = found if is_csv else _roles_in(some, found, path, n_read)
        vectors: list[NDArray[Any]] = []
        for line, _, entry in some:
            try:
                if found.documents is not None and not entry.get(found.documents):
                    raise FileFormatError(f"there is no {found.documents!r}.")
                vectors.append(_vector(entry, found.vectors, width))
            except FileFormatError as error:
                raise FileFormatError(f"{path}, line {line}: {error}") from error
            width = len(vectors[0])
        names = (here.id, here.labels, here.documents, *here.payload_names)
        values: dict[Any, Any] = {name: [row.values.get(name) for row in some] for name in names if name is not None}
        ids, labels, documents = values.get(here.id), values.get(here.labels), values.get(here.documents)
        lines, payloads = [row.line for row in some], here.payloads(values)
        yield Chunk(ids, np.array(vectors), labels, payloads, lines, some[-1].done, total, "line", is_csv, documents)
        n_read += len(some)


def _roles_in(rows: list[Row], found: Layout, path: Path, n_before: int) -> Layout:
    """Return the roles of the fields of some objects; in the first rows, a field asked for must be there."""
    names = [name for name in dict.fromkeys(name for row in rows for name in row.values) if name not in found.unused]
    roles: dict[str, Any] = {}
    for role in ("id", "labels", "payload"):
        name = getattr(found, role)
        name = find_column(role, names, path) if name is None else name
        roles[role] = name if name in names or isinstance(name, tuple) else None
        if not n_before and name != roles[role]:
            raise InvalidInputError(f"{path} has no {name!r} in its first {len(rows)} rows.")
    return replace(found, **roles)


def _vector(values: dict[str, Any], names: tuple[str, ...], width: int | None) -> NDArray[Any]:
    """Return the vector of a row: one column of lists, or several of numbers."""
    try:
        given = [values[name] for name in names]
    except KeyError as error:
        raise FileFormatError(f"there is no {error}, but {', '.join(values) or 'nothing'}.") from error
    if all(map(_is_number, given)):
        return np.array(given)
    if len(names) == 1:
        return vector_of(given[0], names[0], width)
    wrong = next(name for name in names if not _is_number(values[name]))
    raise FileFormatError(
        f"{values[wrong] or ''!r} in column {wrong!r} is not a number; use ignore={wrong!r} if the column is not part "
        "of the vector."
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_csv(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


# ---------------------------------------------------------------------- lines


def _open(path: Path, columns: Columns) -> tuple[Layout, Iterator[Row]]:
    """Return the role of each column, and the rows."""
    lines: Iterator[Any] = fields_of(path) if _is_csv(path) else objects_of(path)
    head = next(lines, None)
    if head is None:
        raise FileFormatError(f"{path} is empty.")
    if not _is_csv(path):
        entry = head.values
        lists = [name for name, some in entry.items() if isinstance(some, list) and some and all(map(_is_number, some))]
        numbers = [name for name, value in entry.items() if _is_number(value)]
        found = columns.layout(path, list(entry), lists=lists, numbers=numbers, optional=True)
        if not found.vectors and found.documents is None:
            raise FileFormatError(
                f"{path}, line {head.line}: there is no {columns.vectors or 'vectors'!r}, but "
                f"{', '.join(entry) or 'nothing'}."
            )
        return found, chain([head], lines)
    first = [field.strip() for field in head[2]]
    other = next((mark for mark in ";\t" if mark in first[0]), None)
    if len(first) == 1 and other is not None:
        raise FileFormatError(f"{path} has {other!r} between its fields; write it with commas.")
    if columns.header is None and all(map(is_number, first)):
        raise InvalidInputError(
            f"The first line of {path} is all numbers: names or a row? Use header=True or header=False."
        )
    has_header = columns.header is not False
    names = first if has_header else [str(i) for i in range(1, len(first) + 1)]
    found = columns.layout(path, names)
    if not found.vectors and found.documents is None:
        raise FileFormatError(f"{path} has no column of numbers; its columns are {', '.join(names)}.")
    return found, _named(path, found, names, has_header, lines if has_header else chain([head], lines))


def _named(path: Path, found: Layout, names: list[str], has_header: bool, lines: Iterable[Any]) -> Iterator[Row]:
    """Yield lines of CSV as rows: numbers of the vector, and text that is JSON in payloads and lists of labels."""
    for line, done, fields in lines:
        if len(fields) != len(names):
            what = "header" if has_header else "first line"
            raise FileFormatError(f"{path}, line {line}: {len(fields)} fields; the {what} has {len(names)}.")
        values: dict[str, Any] = {name: field or None for name, field in zip(names, fields, strict=True)}
        for name in found.vectors:
            try:
                values[name] = float(values[name] or "")
            except ValueError:
                parsed = json_or_text(values[name] or "")
                values[name] = None if isinstance(parsed, str) and len(found.vectors) == 1 else parsed  # no base64
        for name in found.payload_names:
            values[name] = values[name] and json_or_text(values[name])
        if found.labels is not None and (values[found.labels] or "").startswith("["):
            values[found.labels] = json_or_text(values[found.labels])
        yield Row(line, done, values)


def fields_of(path: Path) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the fields of all rows of CSV that are not empty, with their line and the bytes read up to its end."""
    with path.open("rb") as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
        csv.field_size_limit(max(csv.field_size_limit(), _MAX_FIELD))  # of the process: there is no other
        table = csv.reader(file)
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


def objects_of(path: Path) -> Iterator[Row]:
    """Yield the objects of JSON lines, with their line and the bytes read up to its end."""
    done = 0
    with path.open("rb") as file:
        for line, content in enumerate(file, 1):
            done += len(content)
            if content.strip():
                try:
                    yield Row(line, done, json_object(content))
                except FileFormatError as error:
                    raise FileFormatError(f"{path}, line {line}: {error}") from error


def json_object(content: bytes) -> dict[str, Any]:
    """Return the fields of a JSON object; an error does not say where."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise FileFormatError('not a JSON object, like {"id": 1, "vectors": [0.5, 2.0], "label": 7}.')
    return value


def json_or_text(text: str | bytes) -> Any:
    """Return what a text means as JSON, or else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def vector_of(value: Any, name: str, width: int | None = None) -> NDArray[Any]:
    """Return one vector, from a list of numbers or from float32 as bytes or base64; an error does not say where."""
    if isinstance(value, str):
        try:
            value = b64decode(value, validate=True)
        except ValueError as error:
            raise FileFormatError(f"{name!r} is not base64 of float32, nor a list of numbers.") from error
    if isinstance(value, bytes):
        if not value or len(value) % 4:
            raise FileFormatError(f"{name!r} has {len(value)} bytes; float32 takes 4 per number.")
        value = np.frombuffer(value, "<f4")
    is_flat = isinstance(value, list) and not any(isinstance(number, list) for number in value)
    row = np.asarray(value) if is_flat or isinstance(value, np.ndarray) else None
    if row is None or row.dtype.kind not in "iuf" or not len(row):
        raise FileFormatError(f"{name!r} is not a list of numbers.")
    if width not in (None, len(row)):
        raise FileFormatError(f"{name!r} has {len(row)} numbers; the first row has {width}.")
    return row


# ---------------------------------------------------------------------- writing


def write(path: Path, first: Chunk, chunks: Iterable[Chunk], n_rows: int, label_type: str) -> None:
    """Write one line per row; in CSV below a header, with one column per number of the vector."""
    with whole_file(path) as file:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        table = csv.writer(text, lineterminator="\n")
        if _is_csv(path):
            table.writerow(["id", "labels", "payload", *(f"x{i}" for i in range(first.vectors.shape[1]))])
        for chunk in chunks:
            rows = zip(chunk.ids or (), chunk.vectors, chunk.labels or (), chunk.payloads or (), strict=True)
            for id, vector, labels, payload in rows:
                numbers = vector.astype(str).tolist()  # the shortest text that reads back the same
                if _is_csv(path):
                    shown = json.dumps(labels) if isinstance(labels, (list, tuple)) else labels
                    table.writerow([id, shown, None if payload is None else json.dumps(payload), *numbers])
                else:
                    rest = f', "labels": {json.dumps(labels)}' if labels is not None else ""
                    rest += f', "payload": {json.dumps(payload)}' if payload is not None else ""
                    text.write(f'{{"id": {json.dumps(id)}, "vectors": [{", ".join(numbers)}]{rest}}}\n')
        text.detach()
