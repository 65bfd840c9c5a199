"""Rows of a table, a chunk at a time, and the meaning of single values."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onlinehash.exceptions import FileFormatError, InvalidInputError
from onlinehash.tables.columns import Layout

_INTEGER = re.compile("-?(0|[1-9][0-9]*)")
_ROLES = {"ids": "id", "labels": "labels", "payloads": "payload"}  # fields of a chunk beside the vectors

Row = tuple[int, int, NDArray[Any], dict[str, Any]]
"""A row of a text file: its line, the bytes read up to its end, its vector, and its other values by role."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a table.

    Parameters
    ----------
    ids : list, or None if the table has none
    vectors : ndarray of shape (n_rows, n_features)
    labels, payloads : list, or None if the table has none
        One entry per row; None where a row has none. Several labels of a row are a list or a tuple.
    places : sequence of int
        Number of the line or row in the file, counted from 1.
    done, total : int
        How far the file is read, in rows or bytes.
    unit : "row" or "line"
        What ``places`` count.
    is_text : bool
        Whether ids and labels are text that may mean integers.

    Examples
    --------
    >>> chunk = Chunk(["1", "2"], np.eye(2), ["cat", None], None, [2, 3], is_text=True)
    >>> chunk.typed().ids, chunk.n_labelled, chunk[1:].ids
    ([1, 2], 1, ['2'])
    """

    ids: list[Any] | None
    vectors: NDArray[Any]
    labels: list[Any] | None = None
    payloads: list[Any] | None = None
    places: Sequence[int] = ()
    done: int = 0
    total: int = 0
    unit: str = "row"
    is_text: bool = False

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, rows: slice) -> Self:
        parts: dict[str, Any] = {name: None if (some := getattr(self, name)) is None else some[rows] for name in _ROLES}
        return replace(self, vectors=self.vectors[rows], places=self.places[rows], **parts)

    @property
    def n_labelled(self) -> int:
        """Number of rows that have a label."""
        return sum(label is not None and label == label and label != [] for label in self.labels or ())  # noqa: PLR0124

    def typed(self, id_type: str | None = None, label_type: str | None = None) -> Self:
        """Return ids and labels from text as "int" or "str"; by default as integers, if all of them are."""
        if not self.is_text:
            return self
        return replace(self, ids=as_type(self.ids, id_type), labels=as_type(self.labels, label_type))


def as_type(values: list[Any] | None, kind: str | None = None) -> list[Any] | None:
    """Return values from text as "int" or "str"; by default as integers, if all that are text are."""
    if values is None or kind == "str":
        return values
    whole = [_INTEGER.fullmatch(value) is not None if isinstance(value, str) else None for value in values]
    if kind is None and False in whole:
        return values
    return [int(value) if is_whole else value for value, is_whole in zip(values, whole, strict=True)]


def concatenate(chunks: Sequence[Chunk]) -> Chunk:
    """Return all rows of some chunks."""
    columns: dict[str, Any] = {}
    for name in _ROLES:
        some = [getattr(chunk, name) for chunk in chunks]
        filled = [[None] * len(chunk) if part is None else part for chunk, part in zip(chunks, some, strict=True)]
        columns[name] = None if all(part is None for part in some) else [value for part in filled for value in part]
    vectors = np.concatenate([chunk.vectors for chunk in chunks]) if len(chunks) > 1 else chunks[0].vectors
    return replace(chunks[-1], vectors=vectors, places=[i for chunk in chunks for i in chunk.places], **columns)


class Sheet(NamedTuple):
    """Rows on their way into a file: chunks with ids, labels and payloads, and the first of them."""

    first: Chunk
    chunks: Iterator[Chunk]
    n_rows: int
    label_type: str

    def rows(self) -> Iterator[tuple[Any, list[str], Any, Any]]:
        """Yield id, vector, labels and payload; numbers as the shortest text that reads back the same."""
        for chunk in self.chunks:
            numbers = (row.astype(str).tolist() for row in chunk.vectors)
            yield from zip(chunk.ids or (), numbers, chunk.labels or (), chunk.payloads or (), strict=True)


def gather(rows: Iterable[Row], path: Any, layout: Layout, size: int, total: int, *, is_text: bool) -> Iterator[Chunk]:
    """Yield rows as chunks; a column that was asked for must be in some of the first rows."""
    left, asked = iter(rows), {role for role in _ROLES.values() if getattr(layout, role) is not None}
    while some := list(islice(left, size)):
        places, done, vectors, values = zip(*some, strict=True)
        present = {role for each in values for role in each}
        for role in asked - present:
            raise InvalidInputError(f"{path} has no {getattr(layout, role)!r} in its first {len(some)} rows.")
        asked = set()
        ids, labels, payloads = (
            [each.get(role) for each in values] if role in present else None for role in _ROLES.values()
        )
        yield Chunk(ids, np.array(vectors), labels, payloads, list(places), done[-1], total, "line", is_text)


def runs(ids: Sequence[Any], kinds: Sequence[Any] | None = None) -> Iterator[slice]:
    """Yield slices in which no id comes twice, and all rows are of one kind."""
    start, seen = 0, set[Any]()
    for i, id in enumerate(ids):
        key = id if isinstance(id, Hashable) else None
        if key in seen or (kinds is not None and kinds[i] != kinds[start]):
            yield slice(start, i)
            start, seen = i, set()
        seen.add(key)
    if ids:
        yield slice(start, len(ids))


def json_object(content: bytes) -> dict[str, Any]:
    """Return the fields of a JSON object; an error does not say where."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise FileFormatError('not a JSON object, like {"id": 1, "vectors": [0.5, 2.0], "label": 7}.')
    return value


def json_or_text(text: str) -> Any:
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
