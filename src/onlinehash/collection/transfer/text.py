"""CSV and JSON lines: a line an item, read and written one after the other."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import whole_file
from onlinehash._validation import is_number
from onlinehash.collection.transfer.chunks import Chunk, Columns, Sheet, vector_of
from onlinehash.exceptions import FileFormatError, InvalidInputError

PLACE = "line"
_BESIDES = ("key", "labels", "payload")


class _Gathering:
    """Rows that become a chunk."""

    def __init__(self, path: Path, total: int, *, is_text: bool) -> None:
        self._path, self._total, self._is_text = path, total, is_text
        self._is_first = True
        self._clear()

    def __len__(self) -> int:
        return len(self._places)

    def _clear(self) -> None:
        self._features: list[NDArray[Any]] = []
        self._places: list[int] = []
        self._columns: dict[str, list[Any]] = {role: [] for role in _BESIDES}
        self._has: set[str] = set()

    def put(self, place: int, features: NDArray[Any], values: dict[str, Any]) -> None:
        """Take one row."""
        self._features.append(features)
        self._places.append(place)
        for role in _BESIDES:
            self._columns[role].append(values.get(role))
        self._has.update(values)

    def chunk(self, done: int, columns: Columns) -> Chunk:
        """Return the rows taken, and begin anew; a column that was asked for must be in some of the first ones."""
        for role in _BESIDES if self._is_first else ():
            name = getattr(columns, role)
            if name is not None and role not in self._has:
                raise InvalidInputError(f"{self._path} has no {name!r} in its first {len(self)} rows.")
        self._is_first = False
        keys, labels, payload = (self._columns[role] if role in self._has else None for role in _BESIDES)
        features = np.array(self._features)
        chunk = Chunk(features, keys, labels, payload, self._places, done, self._total, self._is_text)
        self._clear()
        return chunk


# ---------------------------------------------------------------------- JSON lines


def read_jsonl(path: Path, columns: Columns, batch: int) -> Iterator[Chunk]:
    """Yield the objects of a file, one a line."""
    rows = _Gathering(path, path.stat().st_size, is_text=False)
    width: int | None = None
    done = 0
    with path.open("rb") as file:
        for place, line in enumerate(file, 1):
            done += len(line)
            if not line.strip():
                continue
            try:
                entry = _object(line, first=place == 1)
                name = _name(columns, "vector", entry)
                if name is None:
                    expected = columns.vector or "vector"
                    raise FileFormatError(f"there is no {expected!r}, but {', '.join(entry) or 'nothing'}.")
                features = vector_of(entry[name], width, name)
                found = {role: _name(columns, role, entry) for role in _BESIDES}
            except ValueError as error:
                raise FileFormatError(f"{path}, line {place}: {error}") from error
            width = len(features)
            rows.put(place, features, {role: entry[name] for role, name in found.items() if name is not None})
            if len(rows) == batch:
                yield rows.chunk(done, columns)
    if len(rows):
        yield rows.chunk(done, columns)


def _name(columns: Columns, role: str, entry: dict[str, Any]) -> str | None:
    """Return the name of a field; an object may go without one that others have."""
    names = (getattr(columns, role),) if getattr(columns, role) else Columns.USUAL[role]
    return next((name for name in names if name in entry), None)


def _object(line: bytes, *, first: bool) -> dict[str, Any]:
    try:
        entry = json.loads(line.decode("utf-8-sig" if first else "utf-8"))
    except ValueError as error:
        raise FileFormatError(f"not JSON: {error}.") from error
    if not isinstance(entry, dict):
        raise FileFormatError('not a JSON object, like {"key": 1, "vector": [0.5, 2.0], "label": 7}.')
    return entry


def write_jsonl(path: Path, sheet: Sheet) -> None:
    """Write an object a line: key, vector, labels, payload."""
    with whole_file(path) as file:
        for rows in sheet:
            for key, numbers, labels, payload in zip(
                rows.keys, _shortest(rows.features), rows.labels, rows.payloads, strict=True
            ):
                rest = f', "labels": {labels}' if labels is not None else ""
                rest += f', "payload": {payload}' if payload is not None else ""
                line = f'{{"key": {json.dumps(key)}, "vector": [{", ".join(numbers)}]{rest}}}\n'
                file.write(line.encode())


def _shortest(features: NDArray[Any]) -> Iterator[list[str]]:
    """Yield the numbers of each row as the shortest text that reads back the same."""
    for row in features:
        yield row.astype(str).tolist()


# ---------------------------------------------------------------------- CSV


def read_csv(path: Path, columns: Columns, batch: int) -> Iterator[Chunk]:
    """Yield the rows of a table with a header.

    Without a column of vectors, written as JSON lists, all columns that are nothing else are the numbers of the vector.
    """
    rows = _Gathering(path, path.stat().st_size, is_text=True)
    with path.open("rb") as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
        table = csv.reader(file)
        try:
            header = [name.strip() for name in next(table, [])]
            found = {role: columns.find(role, header, path) for role in (*_BESIDES, "vector")}
            places = {role: header.index(name) for role, name in found.items() if name is not None}
            numbers = [i for i in range(len(header)) if i not in places.values()]
            if "vector" not in places and not numbers:
                raise FileFormatError(f"{path} has no column of numbers; its first line names the columns.")
            width: int | None = None
            for fields in table:
                if not fields:
                    continue
                if len(fields) != len(header):
                    raise FileFormatError(f"{len(fields)} fields; the header has {len(header)}.")
                if "vector" in places:
                    features = _listed(fields[places["vector"]], width, header[places["vector"]])
                else:
                    features = _numbers(fields, header, numbers)
                width = len(features)
                values = {role: _value(role, fields[i]) for role, i in places.items() if role != "vector"}
                rows.put(table.line_num, features, values)
                if len(rows) == batch:
                    yield rows.chunk(raw.tell(), columns)
        except UnicodeDecodeError as error:
            raise FileFormatError(f"{path}, after line {table.line_num}: not UTF-8 text.") from error
        except (csv.Error, FileFormatError) as error:
            message = str(error)
            place = "" if message.startswith(str(path)) else f"{path}, line {table.line_num}: "
            raise FileFormatError(f"{place}{message.rstrip('.')}.") from error
        if len(rows):
            yield rows.chunk(raw.tell(), columns)


def _numbers(fields: list[str], header: list[str], places: list[int]) -> NDArray[np.float64]:
    try:
        return np.array([float(fields[i]) for i in places])
    except ValueError:
        wrong = next(i for i in places if not is_number(fields[i]))
        raise FileFormatError(f"{fields[wrong]!r} in column {header[wrong]!r} is not a number.") from None


def _listed(text: str, width: int | None, name: str) -> NDArray[Any]:
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    return vector_of(values, width, name)


def _value(role: str, text: str) -> Any:
    """Return what a field means: nothing if empty, labels that are a JSON list, a payload of JSON or text."""
    if role == "key":
        return text
    if not text:
        return None
    if role == "payload" or text.startswith("["):
        try:
            return json.loads(text)
        except ValueError:
            pass
    return text


def write_csv(path: Path, sheet: Sheet) -> None:
    """Write a table: key, labels, payload, and a column a number of the vector."""
    with whole_file(path) as file:
        header: list[Any] = ["key", "labels", "payload", *(f"x{i}" for i in range(sheet.n_features))]
        file.write(_lines([header]))
        for rows in sheet:
            columns = zip(rows.keys, rows.labels, rows.payloads, _shortest(rows.features), strict=True)
            file.write(
                _lines([key, _label_field(labels), payload, *numbers] for key, labels, payload, numbers in columns)
            )


def _lines(rows: Iterable[list[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _label_field(labels: str | None) -> Any:
    """Return one label as it is, several as the JSON list they are."""
    return labels if labels is None or labels.startswith("[") else json.loads(labels)
