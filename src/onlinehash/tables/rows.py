"""Rows of a table, a chunk at a time, and the meaning of single values."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onlinehash.exceptions import FileFormatError, InvalidInputError
from onlinehash.tables.columns import Layout

_INTEGER = re.compile("-?(0|[1-9][0-9]*)")
_BESIDE = {"ids": "id", "labels": "labels", "payloads": "payload"}  # fields of a chunk, and their roles


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
    unit : str
        What ``places`` count: "row" or "line".
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
        parts: dict[str, Any] = {
            name: None if (some := getattr(self, name)) is None else some[rows] for name in _BESIDE
        }
        return replace(self, vectors=self.vectors[rows], places=self.places[rows], **parts)

    @property
    def n_labelled(self) -> int:
        """How many rows have a label."""
        return sum(label is not None and label == label and label != [] for label in self.labels or ())  # noqa: PLR0124

    def typed(self, id_type: str | None = None, label_type: str | None = None) -> Self:
        """Return the chunk with ids and labels from text as "int" or "str"; by default as integers, if all of them are.

        A chunk that is not from text is returned as it is.
        """
        if not self.is_text:
            return self
        return replace(self, ids=_as_type(self.ids, id_type), labels=_as_type(self.labels, label_type))

    @classmethod
    def concatenate(cls, chunks: Sequence[Self]) -> Self:
        """Return all rows of some chunks."""
        columns: dict[str, Any] = {
            name: None
            if all(getattr(chunk, name) is None for chunk in chunks)
            else [value for chunk in chunks for value in getattr(chunk, name) or [None] * len(chunk)]
            for name in _BESIDE
        }
        vectors = np.concatenate([chunk.vectors for chunk in chunks]) if len(chunks) > 1 else chunks[0].vectors
        places = [place for chunk in chunks for place in chunk.places]
        return replace(chunks[-1], vectors=vectors, places=places, **columns)


def _as_type(values: list[Any] | None, kind: str | None) -> list[Any] | None:
    if values is None or kind == "str":
        return values
    whole = [_INTEGER.fullmatch(value) is not None if isinstance(value, str) else None for value in values]
    if kind is None and False in whole:
        return values
    return [int(value) if is_whole else value for value, is_whole in zip(values, whole, strict=True)]


@dataclass(frozen=True, eq=False)
class Sheet:
    """All rows of a table on their way into a file.

    Parameters
    ----------
    n_rows, n_features : int
    dtype : dtype of the vectors
    id_type, label_type : "int" or "str"
    chunks : iterable of Chunk
    """

    n_rows: int
    n_features: int
    dtype: np.dtype[Any]
    id_type: str
    label_type: str
    chunks: Iterable[Chunk]

    @classmethod
    def of(cls, chunks: Iterable[Chunk], n_rows: int, label_type: str | None) -> Self:
        """Return the rows of some chunks; widths and types are those of the first."""
        left = iter(chunks)
        first = next(left, None)
        if first is None or not len(first):
            raise InvalidInputError("There are no rows to write.")
        if first.ids is None:
            raise InvalidInputError("The rows have no ids; give each chunk a list of ids.")
        id_type = "int" if isinstance(first.ids[0], int) else "str"
        n_features, dtype = first.vectors.shape[1], first.vectors.dtype
        return cls(n_rows, n_features, dtype, id_type, label_type or "int", chain([first], left))

    def __iter__(self) -> Iterator[Chunk]:
        for chunk in self.chunks:
            blank = [None] * len(chunk)
            yield replace(chunk, labels=chunk.labels or blank, payloads=chunk.payloads or blank)

    def rows(self) -> Iterator[tuple[Any, list[str], Any, Any]]:
        """Yield id, vector, labels and payload; numbers as the shortest text that reads back the same."""
        for chunk in self:
            texts = (row.astype(str).tolist() for row in chunk.vectors)
            yield from zip(chunk.ids or (), texts, chunk.labels or (), chunk.payloads or (), strict=True)


class Row(NamedTuple):
    """A row of a text file: its line, the bytes read up to its end, its vector, and its other values by role."""

    place: int
    done: int
    vector: NDArray[Any]
    values: dict[str, Any]


def gather(
    rows: Iterator[Row], path: Any, layout: Layout, batch_size: int, total: int, *, is_text: bool
) -> Iterator[Chunk]:
    """Yield rows as chunks; a column that was asked for must be in some of the first rows."""
    is_first = True
    while some := list(islice(rows, batch_size)):
        present = {role for row in some for role in row.values}
        for role in _BESIDE.values() if is_first else ():
            if (name := getattr(layout, role)) is not None and role not in present:
                raise InvalidInputError(f"{path} has no {name!r} in its first {len(some)} rows.")
        is_first = False
        columns: dict[str, Any] = {
            name: [row.values.get(role) for row in some] if role in present else None for name, role in _BESIDE.items()
        }
        places, vectors = [row.place for row in some], np.array([row.vector for row in some])
        done = some[-1].done
        yield Chunk(vectors=vectors, places=places, done=done, total=total, unit="line", is_text=is_text, **columns)


def runs(ids: Sequence[Any], kinds: Sequence[Any] | None = None) -> Iterator[slice]:
    """Yield slices in which no id comes twice, and all rows are of one kind.

    Examples
    --------
    >>> list(runs([1, 2, 1, 3]))
    [slice(0, 2, None), slice(2, 4, None)]
    """
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
    """Return what a text means as JSON, or else the text.

    Examples
    --------
    >>> json_or_text('{"n": 1}'), json_or_text("Boot")
    ({'n': 1}, 'Boot')
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def vector_of(value: Any, name: str, width: int | None = None) -> NDArray[Any]:
    """Return one vector, from a list of numbers or from float32 as bytes or base64; an error does not say where.

    Examples
    --------
    >>> vector_of([0.5, 2], "vectors"), vector_of("AAAAPwAAAEA=", "vectors")
    (array([0.5, 2. ]), array([0.5, 2. ], dtype=float32))
    """
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
