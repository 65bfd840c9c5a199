"""CSV and JSON lines: one item per line, read and written one after the other."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import whole_file
from onlinehash._validation import is_number
from onlinehash.collection.transfer.chunks import Chunk, Columns, Layout, Sheet, select, vector_of
from onlinehash.exceptions import FileFormatError, InvalidInputError

PLACE = "line"
_BESIDES = ("id", "labels", "payload")


class _Gathering:
    """Rows that become a chunk."""

    def __init__(self, path: Path, total: int, *, is_text: bool) -> None:
        self._path, self._total, self._is_text = path, total, is_text
        self._is_first = True
        self._clear()

    def __len__(self) -> int:
        return len(self._places)

    def _clear(self) -> None:
        self._vectors: list[NDArray[Any]] = []
        self._places: list[int] = []
        self._columns: dict[str, list[Any]] = {role: [] for role in _BESIDES}
        self._has: set[str] = set()

    def put(self, place: int, vectors: NDArray[Any], values: dict[str, Any]) -> None:
        """Take one row."""
        self._vectors.append(vectors)
        self._places.append(place)
        for role in _BESIDES:
            self._columns[role].append(values.get(role))
        self._has.update(values)

    def chunk(self, done: int, layout: Layout) -> Chunk:
        """Return the rows taken, and start again; a column that was asked for must be in some of the first ones."""
        for role in _BESIDES if self._is_first else ():
            name = getattr(layout, role)
            if name is not None and role not in self._has:
                raise InvalidInputError(f"{self._path} has no {name!r} in its first {len(self)} rows.")
        self._is_first = False
        ids, labels, payload = (self._columns[role] if role in self._has else None for role in _BESIDES)
        features = np.array(self._vectors)
        chunk = Chunk(features, ids, labels, payload, self._places, done, self._total, self._is_text)
        self._clear()
        return chunk


# ---------------------------------------------------------------------- JSON lines


def jsonl_layout(path: Path, columns: Columns) -> Layout:
    """Return which fields are what, as the first object has them; later ones may have more, or go without some."""
    with path.open("rb") as file:
        place, line = next(((i, line) for i, line in enumerate(file, 1) if line.strip()), (1, b""))
    if not line:
        raise FileFormatError(f"{path} is empty.")
    entry = _object(path, place, line)
    lists = [name for name, value in entry.items() if _is_list_of_numbers(value)]
    numbers = [name for name, value in entry.items() if _is_number(value)]
    layout = columns.layout(path, list(entry), lists=lists, numbers=numbers, optional=True)
    if not layout.vectors:
        raise FileFormatError(
            f"{path}, line {place}: there is no {columns.vectors or 'vectors'!r}, but {', '.join(entry) or 'nothing'}."
        )
    return layout


def read_jsonl(path: Path, columns: Columns, batch: int) -> Iterator[Chunk]:
    """Yield the objects of a file, one per line."""
    layout = jsonl_layout(path, columns)
    rows = _Gathering(path, path.stat().st_size, is_text=False)
    ignored = set(layout.unused)
    width: int | None = None
    done = 0
    with path.open("rb") as file:
        for place, line in enumerate(file, 1):
            done += len(line)
            if not line.strip():
                continue
            entry = _object(path, place, line)
            found = {role: _name(layout, columns, role, entry.keys() - ignored) for role in _BESIDES}
            try:
                features = _vector(entry, layout.vectors, width)
            except FileFormatError as error:
                raise FileFormatError(f"{path}, line {place}: {error}") from error
            width = len(features)
            rows.put(place, features, {role: entry[name] for role, name in found.items() if name in entry})
            if len(rows) == batch:
                yield rows.chunk(done, layout)
    if len(rows):
        yield rows.chunk(done, layout)


def _name(layout: Layout, columns: Columns, role: str, present: Collection[str]) -> str | None:
    """Return the name of a field: that of the first object, or where that has none, a usual one."""
    name: str | None = getattr(layout, role)
    return name if name is not None else next(iter(columns.usual(role, present)), None)


def _vector(entry: dict[str, Any], names: tuple[str, ...], width: int | None) -> NDArray[Any]:
    missing = next((name for name in names if name not in entry), None)
    if missing is not None:
        raise FileFormatError(f"there is no {missing!r}, but {', '.join(entry) or 'nothing'}.")
    if len(names) == 1 and isinstance(entry[names[0]], list):
        return vector_of(entry[names[0]], width, names[0])
    wrong = next((name for name in names if not _is_number(entry[name])), None)
    if wrong is not None:
        what = "a list of numbers" if len(names) == 1 else "a number"
        raise FileFormatError(f"{wrong!r} is not {what}.")
    return vector_of([entry[name] for name in names], width, names[0])


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_list_of_numbers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_number, value))


def _object(path: Path, place: int, line: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line.decode("utf-8-sig" if place == 1 else "utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}, line {place}: not JSON: {error}.") from error
    if not isinstance(entry, dict):
        raise FileFormatError(
            f'{path}, line {place}: not a JSON object, like {{"id": 1, "vectors": [0.5, 2.0], "label": 7}}.'
        )
    return entry


def write_jsonl(path: Path, sheet: Sheet) -> None:
    """Write one object per line: id, vectors, labels, payload."""
    with whole_file(path) as file:
        for rows in sheet:
            for id, numbers, labels, payload in zip(
                rows.ids, _shortest(rows.vectors), rows.labels, rows.payloads, strict=True
            ):
                rest = f', "labels": {labels}' if labels is not None else ""
                rest += f', "payload": {payload}' if payload is not None else ""
                line = f'{{"id": {json.dumps(id)}, "vectors": [{", ".join(numbers)}]{rest}}}\n'
                file.write(line.encode())


def _shortest(vectors: NDArray[Any]) -> Iterator[list[str]]:
    """Yield the numbers of each row as the shortest text that reads back the same."""
    for row in vectors:
        yield row.astype(str).tolist()


# ---------------------------------------------------------------------- CSV


def csv_layout(path: Path, columns: Columns) -> Layout:
    """Return which columns of a table are what."""
    return _head(path, columns)[0]


def read_csv(path: Path, columns: Columns, batch: int) -> Iterator[Chunk]:
    """Yield the rows of a table, with a header line or without.

    The vector is one column of JSON lists, or all columns of numbers that are nothing else.
    """
    layout, names, has_header = _head(path, columns)
    places = {role: names.index(name) for role in _BESIDES if (name := getattr(layout, role)) is not None}
    numbers = [names.index(name) for name in layout.vectors]
    rows = _Gathering(path, path.stat().st_size, is_text=True)
    with path.open("rb") as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
        table = csv.reader(file)
        try:
            filled = (fields for fields in table if fields)
            if has_header:
                next(filled)
            width: int | None = None
            for fields in filled:
                if len(fields) != len(names):
                    what = "header" if has_header else "first line"
                    raise FileFormatError(f"{len(fields)} fields; the {what} has {len(names)}.")
                if width is None:
                    is_list = len(numbers) == 1 and fields[numbers[0]].lstrip().startswith("[")
                if is_list:
                    features = _listed(fields[numbers[0]], width, names[numbers[0]])
                else:
                    features = _numbers(fields, names, numbers)
                width = len(features)
                values = {role: _value(role, fields[i]) for role, i in places.items()}
                rows.put(table.line_num, features, values)
                if len(rows) == batch:
                    yield rows.chunk(raw.tell(), layout)
        except UnicodeDecodeError as error:
            raise FileFormatError(f"{path}, after line {table.line_num}: not UTF-8 text.") from error
        except (csv.Error, FileFormatError) as error:
            raise FileFormatError(f"{path}, line {table.line_num}: {str(error).rstrip('.')}.") from error
        if len(rows):
            yield rows.chunk(raw.tell(), layout)


def _head(path: Path, columns: Columns) -> tuple[Layout, list[str], bool]:
    """Return the layout of a table, the names of all its columns, and whether its first line says them."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = [field.strip() for field in next((row for row in csv.reader(file) if row), [])]
    except (csv.Error, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path} is not a CSV file: {error}.") from error
    if not first:
        raise FileFormatError(f"{path} is empty.")
    other = next((mark for mark in ";\t" if mark in first[0]), None)
    if len(first) == 1 and other is not None:
        raise FileFormatError(f"{path} has {other!r} between its fields; write it with commas.")
    numbered = [str(i) for i in range(1, len(first) + 1)]
    has_header = _has_header(path, columns, first, numbered) if columns.header is None else columns.header
    names = first if has_header else numbered
    layout = columns.layout(path, names)
    if not layout.vectors:
        raise FileFormatError(f"{path} has no column of numbers; its columns are {', '.join(names)}.")
    return layout, names, has_header


def _has_header(path: Path, columns: Columns, first: list[str], numbered: list[str]) -> bool:
    """Tell whether the first line names the columns: whether those that hold numbers have something else there."""
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


def _listed(text: str, width: int | None, name: str) -> NDArray[Any]:
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    return vector_of(values, width, name)


def _value(role: str, text: str) -> Any:
    """Return what a field means: nothing if empty, labels that are a JSON list, a payload of JSON or text."""
    if role == "id":
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
    """Write a table: id, labels, payload, and one column per number of the vector."""
    with whole_file(path) as file:
        header: list[Any] = ["id", "labels", "payload", *(f"x{i}" for i in range(sheet.n_features))]
        file.write(_lines([header]))
        for rows in sheet:
            columns = zip(rows.ids, rows.labels, rows.payloads, _shortest(rows.vectors), strict=True)
            file.write(
                _lines([id, _label_field(labels), payload, *numbers] for id, labels, payload, numbers in columns)
            )


def _lines(rows: Iterable[list[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _label_field(labels: str | None) -> Any:
    """Return one label as it is, several as the JSON list they are."""
    return labels if labels is None or labels.startswith("[") else json.loads(labels)
