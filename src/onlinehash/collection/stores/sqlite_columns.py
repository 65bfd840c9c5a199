"""PayloadColumns: the values of a path in all payloads, sorted, in memory, once several filters have asked for it."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.filters import Compare
from onlinehash.collection.stores.sqlite_filters import typed_value

Query = Callable[..., list[tuple[Any, ...]]]
Key = tuple[tuple[str, ...], str]

_AT_A_TIME = 100_000  # rows
_LARGEST = 1 << 53  # up to which a float holds every integer
_LONGEST = 200  # characters of a text
_MOST_TEXT = 1 << 26  # characters of all
_MOST = 8  # columns
_NEW = 10_000  # items that came since a column was read, or an eighth of it, if that is more


class Moment(NamedTuple):
    """A state of the store: its last sequence number, and how often payloads have changed without a new one."""

    seq: int
    n_changes: int


class Column(NamedTuple):
    """The values of one type at a path, rising, and the sequence numbers of their items.

    Texts are numbered in their order. Sequence numbers of items that are gone may stay.
    """

    values: NDArray[Any]
    seqs: NDArray[np.int64]
    texts: list[str] | None
    moment: Moment

    def passing(self, operator: str, values: list[Any]) -> NDArray[np.int64]:
        """Return the sequence numbers, in no order, of values that compare so with those given."""
        if operator == "in":
            found = [self.seqs[self._place(value, bisect_left) : self._place(value, bisect_right)] for value in values]
            return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.int64), *found])
        place = self._place(values[0], bisect_left if operator in ("<", ">=") else bisect_right)
        return self.seqs[:place] if operator[0] == "<" else self.seqs[place:]

    def _place(self, value: Any, bisect: Callable[..., int]) -> int:
        if self.texts is None:
            return bisect(self.values, value)
        return int(np.searchsorted(self.values, bisect(self.texts, value)))


class PayloadColumns:
    """Answer comparisons of numbers and texts from memory, where SQLite would read the payloads of all items.

    The first comparison at a path is left to SQLite. A second one reads the column, in about the time of two. It holds
    until payloads change; items that came since are left to SQLite.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[Key, Column | Moment] = OrderedDict()  # a moment: it has no column
        self._asked: Counter[Key] = Counter()
        self._lock = Lock()

    def passing(self, where: Compare, moment: Moment, query: Query) -> tuple[NDArray[np.int64], int] | None:
        """Return items that pass, in no order, and up to which sequence number they came; None if SQLite must say.

        Parameters
        ----------
        where : Compare
        moment : Moment
            Of the snapshot that is read.
        query : callable
            Asks SQLite about the snapshot.
        """
        if where.type not in ("number", "string"):
            return None
        if any(isinstance(value, int) and abs(value) > _LARGEST for value in where.values):
            return None
        with self._lock:
            column = self._column((where.path, where.type), moment, query)
        if column is None:
            return None
        # SQLite may read digits as another float than Python does.
        floats = [value for value in where.values if isinstance(value, float)]
        read = {value: query("SELECT json_extract(?, '$')", repr(value))[0][0] for value in floats}
        return column.passing(where.operator, [read.get(value, value) for value in where.values]), column.moment.seq

    def _column(self, key: Key, moment: Moment, query: Query) -> Column | None:
        known = self._known.get(key)
        if known is not None:
            since, size = (known, 0) if isinstance(known, Moment) else (known.moment, len(known.seqs))
            if since.seq > moment.seq:
                return None
            if since.n_changes == moment.n_changes and moment.seq - since.seq <= max(_NEW, size // 8):
                self._known.move_to_end(key)
                return None if isinstance(known, Moment) else known
            if since.n_changes != moment.n_changes:
                del self._known[key]
                self._asked[key] = 0
        self._asked[key] += 1
        if self._asked[key] < 2:
            return None
        column = _read(key, moment, query)
        self._known[key] = moment if column is None else column
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        return column


def _read(key: Key, moment: Moment, query: Query) -> Column | None:
    """Return a column; None if it would take much memory, or if floats do not hold its integers."""
    path, type_ = key
    is_text = type_ == "string"
    listed = f"json_group_array(substr(v, 1, {_LONGEST + 1}))" if is_text else "group_concat(v)"
    own = "FILTER (WHERE typeof(v) = 'text')" if is_text else "FILTER (WHERE typeof(v) = 'integer')"
    value = f"SELECT seq, {typed_value(path, type_)} AS v FROM items WHERE seq > ?"
    read = f"""SELECT max(seq), group_concat(seq) {own}, {listed} {own}, sum(typeof(v) = 'real')
               FROM ({value} ORDER BY seq LIMIT ?)"""
    read_reals = f"SELECT * FROM ({value} AND seq <= ?) WHERE typeof(v) = 'real'"
    seqs: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    values: list[NDArray[Any]] = [np.empty(0, np.int32 if is_text else np.float64)]
    texts, n_characters, after = list[str](), 0, 0
    while (found := query(read, after, _AT_A_TIME)[0])[0] is not None:
        last, found_seqs, found_values, n_reals = found
        if found_seqs is not None:
            seqs.append(np.fromstring(found_seqs, np.int64, sep=","))
            if is_text:
                texts += json.loads(found_values)
                n_characters += len(found_values)
            else:
                integers = np.fromstring(found_values, np.int64, sep=",")
                if integers.max() > _LARGEST or integers.min() < -_LARGEST:
                    return None
                values.append(integers)
        if n_reals:
            reals: NDArray[np.float64] = np.array(query(read_reals, after, last))
            seqs.append(reals[:, 0].astype(np.int64))
            values.append(reals[:, 1])
        if n_characters > _MOST_TEXT:
            return None
        after = last
    distinct = sorted(set(texts))
    if is_text:
        if max(map(len, distinct), default=0) > _LONGEST:
            return None
        numbers = dict(zip(distinct, range(len(distinct)), strict=True))
        values.append(np.fromiter(map(numbers.__getitem__, texts), np.int32, len(texts)))
    joined = np.concatenate(values)
    order = np.argsort(joined, kind="stable")
    return Column(joined[order], np.concatenate(seqs)[order], distinct if is_text else None, moment)
