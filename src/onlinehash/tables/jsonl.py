"""JSON lines: one object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from onlinehash._files import whole_file
from onlinehash.exceptions import FileFormatError
from onlinehash.tables.columns import USUAL, Columns, Layout, find_column
from onlinehash.tables.rows import Chunk, Row, Sheet, gather, json_object, vector_of

_BESIDE = [role for role in USUAL if role != "vectors"]


def layout(path: Path, columns: Columns) -> Layout:
    """Return the role of each field of the first object; later objects may have more fields, or fewer."""
    first = next(entries(path), None)
    if first is None:
        raise FileFormatError(f"{path} is empty.")
    place, _, entry = first
    lists = [name for name, value in entry.items() if isinstance(value, list) and value and all(map(_is_number, value))]
    numbers = [name for name, value in entry.items() if _is_number(value)]
    found = columns.layout(path, list(entry), lists=lists, numbers=numbers, optional=True)
    if not found.vectors:
        raise FileFormatError(
            f"{path}, line {place}: there is no {columns.vectors or 'vectors'!r}, but {', '.join(entry) or 'nothing'}."
        )
    return found


def read(path: Path, columns: Columns, batch_size: int) -> Iterator[Chunk]:
    """Yield the objects of a file."""
    found = layout(path, columns)
    yield from gather(_rows(path, found), path, found, batch_size, path.stat().st_size, is_text=False)


def _rows(path: Path, found: Layout) -> Iterator[Row]:
    width: int | None = None
    for place, done, entry in entries(path):
        others = entry.keys() - found.unused
        names = {
            role: find_column(role, others, path) if (name := getattr(found, role)) is None else name
            for role in _BESIDE
        }
        try:
            vector = _vector(entry, found.vectors, width)
        except FileFormatError as error:
            raise FileFormatError(f"{path}, line {place}: {error}") from error
        width = len(vector)
        yield place, done, vector, {role: entry[name] for role, name in names.items() if name in entry}


def entries(path: Path) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the objects of a file, each with its line and the bytes read up to its end."""
    done = 0
    with path.open("rb") as file:
        for place, line in enumerate(file, 1):
            done += len(line)
            if line.strip():
                try:
                    yield place, done, json_object(line)
                except FileFormatError as error:
                    raise FileFormatError(f"{path}, line {place}: {error}") from error


def _vector(entry: dict[str, Any], names: tuple[str, ...], width: int | None) -> NDArray[Any]:
    missing = next((name for name in names if name not in entry), None)
    if missing is not None:
        raise FileFormatError(f"there is no {missing!r}, but {', '.join(entry) or 'nothing'}.")
    if len(names) == 1 and not _is_number(entry[names[0]]):
        return vector_of(entry[names[0]], names[0], width)
    wrong = next((name for name in names if not _is_number(entry[name])), None)
    if wrong is not None:
        raise FileFormatError(f"{wrong!r} is not a number.")
    return vector_of([entry[name] for name in names], names[0], width)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def write(path: Path, sheet: Sheet) -> None:
    """Write one object per line: id, vectors, labels, payload."""
    with whole_file(path) as file:
        for id, numbers, labels, payload in sheet.rows():
            rest = f', "labels": {json.dumps(labels)}' if labels is not None else ""
            rest += f', "payload": {json.dumps(payload)}' if payload is not None else ""
            file.write(f'{{"id": {json.dumps(id)}, "vectors": [{", ".join(numbers)}]{rest}}}\n'.encode())
