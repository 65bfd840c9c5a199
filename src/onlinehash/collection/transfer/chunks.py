"""What goes through a transfer: a few rows at a time, and the names of their columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.stores.protocol import Rows
from onlinehash.exceptions import FileFormatError, InvalidInputError
from onlinehash.types import Progress

_FEW = 8  # names that a list shows one by one


_UNNAMED = re.compile(r"|Unnamed: \d+|__index_level_\d+__")  # how pandas writes an index: to CSV, from CSV, to Parquet


@dataclass(frozen=True)
class Columns:
    """What the user says about the columns of a file; the rest is found by the usual names.

    Parameters
    ----------
    id, labels, payload : str, optional
        Name of the column; if there is no such name, its number: 1 is the first, -1 the last.
    vectors : str, optional
        One column of lists; or several columns of numbers, by a pattern (``"f*"``) or a range (``"x0:x383"``, both
        ends included).
    ignore : sequence of str
        Columns to leave out: names, numbers, patterns or ranges.
    header : bool, optional
        Whether the first line of a CSV file names the columns. By default it does unless it is all numbers.

    Examples
    --------
    >>> columns = Columns(labels="kind", ignore=["title"])
    >>> print(columns.layout(Path("a.csv"), ["id", "kind", "title", "x0", "x1", "x2"]))
    id: id; labels: kind; vectors: x0, x1, x2; payload: none; not used: title
    """

    id: str | None = None
    vectors: str | None = None
    labels: str | None = None
    payload: str | None = None
    ignore: Sequence[str] = ()
    header: bool | None = None

    USUAL: ClassVar[dict[str, tuple[str, ...]]] = {
        "id": ("id", "ids", "_id", "key", "keys"),
        "vectors": ("vectors", "vector", "features", "embedding", "embeddings"),
        "labels": ("labels", "label"),
        "payload": ("payload",),
    }

    def layout(
        self,
        path: Path,
        names: Sequence[str],
        *,
        lists: Collection[str] = (),
        numbers: Collection[str] | None = None,
        optional: bool = False,
    ) -> Layout:
        """Return which columns of a file are what.

        Parameters
        ----------
        path : Path
            Named in errors.
        names : sequence of str
            All columns, in order.
        lists, numbers : collections of str
            Columns of lists of numbers, and of numbers; without ``numbers``, any column may hold them.
        optional : bool, default=False
            Whether some rows go without some columns, so that one that is asked for may not be among the names.
        """
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise InvalidInputError(f"{path} has two columns {twice!r}; rename one of them.")
        ignored = {name for wanted in self.ignore for name in select(wanted, names, path)}
        left = [name for name in names if name not in ignored]
        roles: dict[str, str | None] = {}
        for role in ("id", "labels", "payload"):
            given: str | None = getattr(self, role)
            if given is None:
                roles[role] = self._only(self.usual(role, left), role, path)
            else:
                roles[role] = given if optional and given not in names else select_one(given, names, path)
        left = [name for name in left if name not in roles.values()]
        if self.vectors is None:
            vector = self._found_vector(left, lists, numbers, path)
        else:
            vector = [name for name in select(self.vectors, names, path) if name in left]
        used = {*roles.values(), *vector}
        return Layout(vectors=tuple(vector), unused=tuple(name for name in names if name not in used), **roles)

    def usual(self, role: str, names: Iterable[str]) -> list[str]:
        """Return the names that are usual for a role, in upper or lower case."""
        return [name for name in names if name.lower() in self.USUAL[role]]

    def _found_vector(
        self, names: list[str], lists: Collection[str], numbers: Collection[str] | None, path: Path
    ) -> list[str]:
        usual = self.usual("vectors", names) or [name for name in names if name in lists]
        if usual:
            only = self._only(usual, "vectors", path)
            return [only] if only else []
        found = [name for name in names if numbers is None or name in numbers]
        if any(_UNNAMED.fullmatch(name) for name in found):
            unnamed = next(name for name in found if _UNNAMED.fullmatch(name))
            raise InvalidInputError(
                f"{path} has a column without a name, as pandas writes its index. Use id={unnamed!r} if it holds the "
                f"ids, or ignore={unnamed!r} to leave it out."
            )
        return found

    def _only(self, found: list[str], role: str, path: Path) -> str | None:
        if len(found) > 1:
            what = "ids" if role == "id" else role
            raise InvalidInputError(
                f"{path} has the columns {', '.join(found)}, and each may be the {what}; leave out all but one with "
                "ignore=."
            )
        return found[0] if found else None


@dataclass(frozen=True)
class Layout:
    """Which columns of a file are what.

    Parameters
    ----------
    id, labels, payload : str or None
    vectors : tuple of str
        One column of lists, or several of numbers.
    unused : tuple of str
    """

    id: str | None
    labels: str | None
    payload: str | None
    vectors: tuple[str, ...]
    unused: tuple[str, ...] = ()

    def __str__(self) -> str:
        roles: dict[str, str | tuple[str, ...] | None] = {}
        roles |= {"id": self.id, "labels": self.labels, "vectors": self.vectors, "payload": self.payload}
        if self.unused:
            roles["not used"] = self.unused
        return "; ".join(f"{role}: {_shown(role, names)}" for role, names in roles.items())


def _shown(role: str, names: str | tuple[str, ...] | None) -> str:
    if names is None:
        return "row number" if role == "id" else "none"
    return _listed([names] if isinstance(names, str) else names)


def select(wanted: str, names: Sequence[str], path: Path) -> list[str]:
    """Return the columns that a name, a number, a pattern or a range means.

    Examples
    --------
    >>> names = ["id", "x0", "x1", "x2"]
    >>> select("x*", names, Path("a.csv")), select("x0:x1", names, Path("a.csv")), select("-1", names, Path("a.csv"))
    (['x0', 'x1', 'x2'], ['x0', 'x1'], ['x2'])
    """
    if wanted not in names:
        found = [name for name in names if fnmatchcase(name, wanted)]
        if found:
            return found
        first, colon, last = wanted.partition(":")
        if colon:
            ends = [names.index(select_one(end, names, path)) for end in (first, last)]
            if ends[0] > ends[1]:
                raise InvalidInputError(f"{path} has column {last!r} before {first!r}; turn {wanted!r} around.")
            return list(names[ends[0] : ends[1] + 1])
    return [select_one(wanted, names, path)]


def select_one(wanted: str, names: Sequence[str], path: Path) -> str:
    """Return the column that a name means, or a number counted from 1 or from the end."""
    if wanted in names:
        return wanted
    if re.fullmatch("-?[1-9][0-9]{0,8}", wanted) and abs(int(wanted)) <= len(names):
        number = int(wanted)
        return names[number - 1 if number > 0 else number]
    raise InvalidInputError(f"{path} has no column {wanted!r}, but {_listed(names)}.")


def _listed(names: Sequence[str]) -> str:
    """Return a few names, or the first and the last of many."""
    if not names:
        return "none"
    if len(names) <= _FEW:
        return ", ".join(name or "''" for name in names)
    return f"{names[0]} to {names[-1]} ({len(names)} columns)"


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a file.

    Parameters
    ----------
    vectors : ndarray of shape (n_rows, n_features)
    ids, labels, payload : list, or None if the file has none
    places : sequence of int
        Number of the line or row that each came from, counted from 1.
    done, total : int
        How far the file is read.
    is_text : bool
        Whether ids and labels are text that may mean integers.
    """

    vectors: NDArray[Any]
    ids: list[Any] | None
    labels: list[Any] | None
    payload: list[Any] | None
    places: Sequence[int]
    done: int
    total: int
    is_text: bool = False

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def n_labelled(self) -> int:
        """How many rows have a label."""
        return sum(_is_label(label) for label in self.labels or ())

    def between(self, start: int, stop: int) -> Chunk:
        """Return some of the rows."""
        part = slice(start, stop)
        ids, labels, payload = (None if some is None else some[part] for some in (self.ids, self.labels, self.payload))
        return replace(
            self, vectors=self.vectors[part], ids=ids, labels=labels, payload=payload, places=self.places[part]
        )


@dataclass(frozen=True, eq=False)
class Sheet:
    """All items of a collection, at one moment, on their way out.

    Parameters
    ----------
    n_items, n_features : int
    dtype : dtype of the features
    id_type, label_kind : "int" or "str"
        ``label_kind`` is None where there are no labels.
    chunks : iterator of Rows
    progress : callable
    """

    n_items: int
    n_features: int
    dtype: np.dtype[Any]
    id_type: str
    label_kind: str | None
    chunks: Iterator[Rows]
    progress: Progress

    def __iter__(self) -> Iterator[Rows]:
        done = 0
        for rows in self.chunks:
            yield rows
            done += len(rows)
            self.progress(done, self.n_items)


def _is_label(label: Any) -> bool:
    return label is not None and label == label and label != []  # noqa: PLR0124  NaN is none


def vector_of(values: Any, width: int | None, name: str) -> NDArray[Any]:
    """Return a list as a row of numbers; an error does not say where."""
    row = np.asarray(values) if isinstance(values, list) and not any(isinstance(v, list) for v in values) else None
    if row is None or row.dtype.kind not in "iuf" or not len(row):
        raise FileFormatError(f"{name!r} is not a list of numbers.")
    if width not in (None, len(row)):
        raise FileFormatError(f"{name!r} has {len(row)} numbers; the first row has {width}.")
    return row
