"""Column roles: which columns of a table are the ids, vectors, documents, labels and payloads; and rows of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onlinehash.exceptions import InvalidInputError

USUAL = {
    "id": ("id", "ids", "_id", "key", "keys"),
    "vectors": ("vectors", "vector", "features", "embedding", "embeddings"),
    "labels": ("labels", "label"),
    "payload": ("payload",),
}
"""Names by which columns, and fields of messages, are found, in upper or lower case."""

_MAX_SHOWN = 8  # names that a list shows one by one
_INTEGER = re.compile("-?(0|[1-9][0-9]*)")
_UNNAMED = re.compile(r"|Unnamed: \d+|__index_level_\d+__")  # how pandas writes an index: to CSV, from CSV, to Parquet
_LEAVE_OUT = "leave out all but one with ignore=."


def find_column(role: str, names: Iterable[str], place: Any, way_out: str = _LEAVE_OUT) -> str | None:
    """Return the one name that is usual for a role, or None."""
    return _only([name for name in names if name.lower() in USUAL[role]], role, place, way_out)


def _only(found: list[str], role: str, place: Any, way_out: str = _LEAVE_OUT) -> str | None:
    if len(found) > 1:
        what = "ids" if role == "id" else role
        raise InvalidInputError(f"{place} has the columns {', '.join(found)}, and each may be the {what}; {way_out}")
    return found[0] if found else None


@dataclass(frozen=True)
class Columns:
    """What the user says about the columns of a file; the rest is found by the usual names.

    Parameters
    ----------
    id, labels : str, optional
        Name of the column. For ``.npy``, path of the file. By default "id", "ids", "_id", "key" or "keys"; "labels" or
        "label"; in ``.npz`` also "y".
    payload : str or sequence of str, optional
        One column, by default "payload", whose values are the payloads; text is read as JSON where it can be. Or
        several, by their names, a pattern or a range: a payload is then a dictionary of their values by name.
    vectors : str, optional
        One column of lists; or several columns of numbers, by a pattern (``"f*"``) or a range (``"x0:x383"``, both
        ends included). By default "vectors", "features" or "embeddings", or the singular; in ``.npz`` also "X".
    documents : str, optional
        Column of text or paths to embed; there are no vectors then.
    ignore : sequence of str
        Columns to leave out: names, patterns or ranges.
    header : bool, optional
        Whether the first line of a CSV file names the columns; if not, their names are 1, 2, 3 and so on. By default
        it does, and must not be all numbers.

    Examples
    --------
    >>> columns = Columns(labels="kind", ignore=["title"])
    >>> print(columns.layout("a.csv", ["id", "kind", "title", "x0", "x1", "x2"]))
    id: id; labels: kind; vectors: x0, x1, x2; payload: none; not used: title
    """

    id: str | None = None
    vectors: str | None = None
    labels: str | None = None
    payload: str | Sequence[str] | None = None
    ignore: Sequence[str] = ()
    header: bool | None = None
    documents: str | None = None

    def layout(
        self,
        place: Any,
        names: Sequence[str],
        *,
        lists: Collection[str] = (),
        numbers: Collection[str] | None = None,
        customary: Mapping[str, str] = MappingProxyType({}),
        optional: bool = False,
    ) -> Layout:
        """Return the role of each column; ``place`` is named in errors.

        ``lists`` and ``numbers`` are the columns that hold such values (without ``numbers``, any may hold them), and
        ``customary`` names mean a role in this format only. With ``optional``, a column asked for may be missing.
        """
        for name, count in Counter(names).items():
            if count > 1:
                raise InvalidInputError(f"{place} has two columns {name!r}; rename one of them.")
        ignored = {name for wanted in self.ignore for name in select(wanted, names, place)}
        left = [name for name in names if name not in ignored]
        roles: dict[str, Any] = {}
        for role in ("id", "labels", "payload"):
            given = getattr(self, role)
            if given is None:
                roles[role] = find_column(role, left, place) or customary.get(role)
            elif role == "payload" and (not isinstance(given, str) or (given not in names and set(given) & set("*?:"))):
                patterns = [given] if isinstance(given, str) else given
                roles[role] = tuple(dict.fromkeys(name for one in patterns for name in select(one, names, place)))
            else:
                roles[role] = given if optional and given not in names else _select_one(given, names, place)
        roles["documents"] = None if self.documents is None else _select_one(self.documents, names, place)
        taken = {roles["id"], roles["labels"], *_as_tuple(roles["payload"]), roles["documents"]}
        left = [name for name in left if name not in taken]
        vectors: list[str] = []
        if self.vectors is not None:
            vectors = [name for name in select(self.vectors, names, place) if name in left]
        elif roles["documents"] is None:
            found = find_column("vectors", left, place) or customary.get("vectors")
            found = found or _only([name for name in left if name in lists], "vectors", place)
            vectors = [found] if found else [name for name in left if numbers is None or name in numbers]
            for name in vectors:
                if _UNNAMED.fullmatch(name) and not found:
                    raise InvalidInputError(
                        f"{place} has a column without a name, as pandas writes its index. Use id={name!r} if it holds "
                        f"the ids, or ignore={name!r} to leave it out."
                    )
        used = {*taken, *vectors}
        return Layout(vectors=tuple(vectors), unused=tuple(name for name in names if name not in used), **roles)


@dataclass(frozen=True)
class Layout:
    """The role of each column of a file.

    Parameters
    ----------
    id, labels, documents : str or None
    payload : str, tuple of str, or None
        One column of payloads, or several whose values a payload has by name.
    vectors : tuple of str
        One column of lists, or several of numbers.
    unused : tuple of str

    Examples
    --------
    >>> str(Layout("id", None, None, ("x", "y")))
    'id: id; labels: none; vectors: x, y; payload: none'
    """

    id: str | None
    labels: str | None
    payload: str | tuple[str, ...] | None
    vectors: tuple[str, ...]
    unused: tuple[str, ...] = ()
    documents: str | None = None

    @property
    def names(self) -> list[str]:
        """All columns that are used."""
        one = (self.id, self.labels, self.documents)
        return list(dict.fromkeys([*(name for name in one if name is not None), *self.payload_names, *self.vectors]))

    @property
    def payload_names(self) -> tuple[str, ...]:
        """The columns of the payload."""
        return _as_tuple(self.payload)

    def payloads(self, values: Mapping[str | None, list[Any]]) -> list[Any] | None:
        """Return the payload of each row, from the values of each column."""
        if isinstance(self.payload, tuple):
            columns = [values[name] for name in self.payload]
            return [dict(zip(self.payload, row, strict=True)) for row in zip(*columns, strict=True)]
        return values.get(self.payload)

    def __str__(self) -> str:
        shown = {
            "id": "row number" if self.id is None else _listed([self.id]),
            "labels": _listed(_as_tuple(self.labels)),
        }
        if self.documents is None:
            shown["vectors"] = _listed(self.vectors)
        else:
            shown["documents"] = self.documents
        shown["payload"] = _listed(self.payload_names)
        if self.unused:
            shown["not used"] = _listed(self.unused)
        return "; ".join(f"{role}: {names}" for role, names in shown.items())


def _as_tuple(names: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return () if names is None else (names,) if isinstance(names, str) else names


def select(wanted: str, names: Sequence[str], place: Any) -> list[str]:
    """Return the columns that a name, a pattern or a range means."""
    if wanted not in names:
        if found := [name for name in names if fnmatchcase(name, wanted)]:
            return found
        first, colon, last = wanted.partition(":")
        if colon:
            start, stop = (names.index(_select_one(end, names, place)) for end in (first, last))
            if start > stop:
                raise InvalidInputError(f"{place} has column {last!r} before {first!r}; turn {wanted!r} around.")
            return list(names[start : stop + 1])
    return [_select_one(wanted, names, place)]


def _select_one(wanted: str, names: Sequence[str], place: Any) -> str:
    if wanted in names:
        return wanted
    raise InvalidInputError(f"{place} has no column {wanted!r}, but {_listed(names)}.")


def _listed(names: Sequence[str]) -> str:
    """Return a few names, or the first and the last of many."""
    if len(names) > _MAX_SHOWN:
        return f"{names[0]} to {names[-1]} ({len(names)} columns)"
    return ", ".join(name or "''" for name in names) or "none"


# ---------------------------------------------------------------------- rows

_LISTS = ("ids", "labels", "payloads", "documents")  # of a chunk, beside its vectors


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a table.

    Parameters
    ----------
    ids : list, or None if the table has none
    vectors : ndarray of shape (n_rows, n_features)
        Without features where there are documents.
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
    documents : list, or None if the table has vectors

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
    documents: list[Any] | None = None

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, rows: slice) -> Self:
        parts: dict[str, Any] = {name: None if (some := getattr(self, name)) is None else some[rows] for name in _LISTS}
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
    for name in _LISTS:
        some = [getattr(chunk, name) for chunk in chunks]
        filled = [[None] * len(chunk) if part is None else part for chunk, part in zip(chunks, some, strict=True)]
        columns[name] = None if all(part is None for part in some) else [value for part in filled for value in part]
    vectors = np.concatenate([chunk.vectors for chunk in chunks]) if len(chunks) > 1 else chunks[0].vectors
    return replace(chunks[-1], vectors=vectors, places=[i for chunk in chunks for i in chunk.places], **columns)


def integers_as_text(values: Iterable[Any]) -> list[Any]:
    """Return integers as text, and anything else as it is."""
    return [str(value) if type(value) is int else value for value in values]


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
