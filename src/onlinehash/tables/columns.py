"""Column roles: which columns of a table are the ids, vectors, labels and payloads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from onlinehash.exceptions import InvalidInputError

USUAL = {
    "id": ("id", "ids", "_id", "key", "keys"),
    "vectors": ("vectors", "vector", "features", "embedding", "embeddings"),
    "labels": ("labels", "label"),
    "payload": ("payload",),
}
"""Names by which columns, and fields of messages, are found, in upper or lower case."""

_SHOWN = 8  # names that a list shows one by one
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
    id, labels, payload : str, optional
        Name of the column; if there is no such name, its number: 1 is the first, -1 the last. For ``.npy``, path of the
        file. By default "id", "ids", "_id", "key" or "keys"; "labels" or "label"; "payload"; in ``.npz`` also "y". A
        payload that is text is read as JSON where it can be.
    vectors : str, optional
        One column of lists; or several columns of numbers, by a pattern (``"f*"``) or a range (``"x0:x383"``, both
        ends included). By default "vectors", "features" or "embeddings", or the singular; in ``.npz`` also "X".
    ignore : sequence of str
        Columns to leave out: names, numbers, patterns or ranges.
    header : bool, optional
        Whether the first line of a CSV file names the columns. By default it does unless it is all numbers.

    Examples
    --------
    >>> columns = Columns(labels="kind", ignore=["title"])
    >>> print(columns.layout("a.csv", ["id", "kind", "title", "x0", "x1", "x2"]))
    id: id; labels: kind; vectors: x0, x1, x2; payload: none; not used: title
    """

    id: str | None = None
    vectors: str | None = None
    labels: str | None = None
    payload: str | None = None
    ignore: Sequence[str] = ()
    header: bool | None = None

    def layout(
        self,
        place: Any,
        names: Sequence[str],
        *,
        lists: Collection[str] = (),
        numbers: Collection[str] | None = None,
        customary: Mapping[str, str] | None = None,
        optional: bool = False,
    ) -> Layout:
        """Return the role of each column; ``place`` is named in errors.

        ``lists`` and ``numbers`` are the columns that hold such values (without ``numbers``, any may hold them), and
        ``customary`` names mean a role in this format only. With ``optional``, a column asked for may be missing.
        """
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise InvalidInputError(f"{place} has two columns {twice!r}; rename one of them.")
        ignored = {name for wanted in self.ignore for name in select(wanted, names, place)}
        left = [name for name in names if name not in ignored]
        custom = {role: name for role, name in (customary or {}).items() if name in left}
        roles: dict[str, str | None] = {}
        for role in ("id", "labels", "payload"):
            given: str | None = getattr(self, role)
            if given is None:
                roles[role] = find_column(role, left, place) or custom.get(role)
            else:
                roles[role] = given if optional and given not in names else _select_one(given, names, place)
        left = [name for name in left if name not in roles.values()]
        if self.vectors is not None:
            vectors = [name for name in select(self.vectors, names, place) if name in left]
        elif found := (
            find_column("vectors", left, place)
            or custom.get("vectors")
            or _only([name for name in left if name in lists], "vectors", place)
        ):
            vectors = [found]
        else:
            vectors = [name for name in left if numbers is None or name in numbers]
            unnamed = next((name for name in vectors if _UNNAMED.fullmatch(name)), None)
            if unnamed is not None:
                raise InvalidInputError(
                    f"{place} has a column without a name, as pandas writes its index. Use id={unnamed!r} if it holds "
                    f"the ids, or ignore={unnamed!r} to leave it out."
                )
        used = {*roles.values(), *vectors}
        return Layout(vectors=tuple(vectors), unused=tuple(name for name in names if name not in used), **roles)


@dataclass(frozen=True)
class Layout:
    """The role of each column of a file.

    Parameters
    ----------
    id, labels, payload : str or None
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
    payload: str | None
    vectors: tuple[str, ...]
    unused: tuple[str, ...] = ()

    def __str__(self) -> str:
        roles = {"id": self.id, "labels": self.labels, "vectors": None, "payload": self.payload}
        shown = {role: _listed([] if name is None else [name]) for role, name in roles.items()}
        shown |= {"vectors": _listed(self.vectors)} | ({"id": "row number"} if self.id is None else {})
        if self.unused:
            shown["not used"] = _listed(self.unused)
        return "; ".join(f"{role}: {names}" for role, names in shown.items())


def select(wanted: str, names: Sequence[str], place: Any) -> list[str]:
    """Return the columns that a name, a number, a pattern or a range means."""
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
    """Return the column that a name means, or a number counted from 1 or from the end."""
    if wanted in names:
        return wanted
    if re.fullmatch("-?[1-9][0-9]{0,8}", wanted) and abs(int(wanted)) <= len(names):
        number = int(wanted)
        return names[number - 1 if number > 0 else number]
    raise InvalidInputError(f"{place} has no column {wanted!r}, but {_listed(names)}.")


def _listed(names: Sequence[str]) -> str:
    """Return a few names, or the first and the last of many."""
    if len(names) > _SHOWN:
        return f"{names[0]} to {names[-1]} ({len(names)} columns)"
    return ", ".join(name or "''" for name in names) or "none"
