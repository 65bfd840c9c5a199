"""Run: the values at a path in the payloads of many items, sorted, and how they are read from SQLite."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.filters import FieldPath
from onlinehash.collection.stores.sqlite_filters import type_of, value_of

Query = Callable[..., list[tuple[Any, ...]]]

LIMIT = 1 << 53
"""Numbers of this size or more, of either sign, may be inexact in a run; do not compare with them."""

_LONGEST = 200  # characters of a text
_PIECE = 1 << 16  # characters that are parsed at a time: no other thread runs meanwhile
# A float is read exactly as an integer times a power of two: SQLite writes fewer digits than that takes.
_HALF_POWER = " ".join(f"WHEN abs(v) >= {2.0 ** (53 - 8 * i)!r} THEN {4 * i}" for i in range(16))


class Run(NamedTuple):
    """Values of one type, distinct and rising; the i-th has the sequence numbers from the i-th start to the next."""

    values: _Texts | NDArray[np.float64]
    starts: NDArray[np.int32]
    seqs: NDArray[Any]

    @property
    def n_bytes(self) -> int:
        """Bytes of memory."""
        return int(self.values.nbytes + self.starts.nbytes + self.seqs.nbytes)

    def one_of(self, values: Iterable[Any]) -> list[NDArray[Any]]:
        """Return the sequence numbers of each of some distinct values."""
        return [self.seqs[self._start(value, bisect_left) : self._start(value, bisect_right)] for value in values]

    def between(self, bounds: Sequence[tuple[str, Any]]) -> NDArray[Any]:
        """Return the sequence numbers, in no order, of values within all bounds, such as ``("<", 20)``."""
        start, end = 0, len(self.seqs)
        for operator, value in bounds:
            place = self._start(value, bisect_left if operator in ("<", ">=") else bisect_right)
            start, end = (start, min(end, place)) if operator[0] == "<" else (max(start, place), end)
        return self.seqs[start:end]

    def _start(self, value: Any, bisect: Callable[..., int]) -> int:
        return int(self.starts[bisect(self.values, value.encode() if isinstance(value, str) else value)])


class _Texts(Sequence[bytes]):
    """Texts one after another as UTF-8, which has the order of their code points; a damaged one may not be UTF-8."""

    def __init__(self, content: bytes, ends: NDArray[Any]) -> None:
        self._content, self._ends = content, ends
        self.nbytes = len(content) + ends.nbytes

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, place: Any) -> Any:
        start = self._ends[place - 1] if place else 0
        return self._content[start : self._ends[place]]


def read_run(query: Query, path: FieldPath, type_: str, after: int, indexed: bool) -> Run | None:
    """Return the values of a type, of items after a sequence number; None if a run cannot hold them.

    SQLite joins what it finds to long texts: a thread that fetches many rows waits for the interpreter at each.

    Parameters
    ----------
    query : callable
        Asks SQLite.
    path : tuple of str
    type_ : "number" or "string"
    after : int
    indexed : bool
        Read from the index of the path, instead of the payloads.
    """
    items, values = ("items WHERE", ()) if indexed else ("items NOT INDEXED WHERE seq > ? AND", (after,))
    read = _numbers if type_ == "number" else _texts
    return read(lambda sql: query(sql, *values), items, type_of(path), value_of(path))


def _numbers(query: Query, items: str, type_: str, value: str) -> Run | None:
    # LIMIT keeps SQLite from computing a value wherever it is mentioned.
    found = f"SELECT seq, {value} AS v FROM {items} {type_} IN ('integer', 'real') LIMIT -1"
    power = f"CASE WHEN typeof(v) = 'integer' OR v = 0 THEN 0 {_HALF_POWER} END"
    joined = f"""SELECT group_concat(seq), group_concat(CAST(v * (1 << p) * (1 << p) AS INTEGER)), group_concat(p),
                 max(p), count(*) FROM (SELECT seq, v, {power} AS p FROM ({found}) LIMIT -1)"""
    seqs, scaled, powers, largest, n_found = query(joined)[0]
    listed, values = _parsed(seqs), _parsed(scaled).astype(np.float64)
    if len(values) != n_found:  # some are too close to 0
        return None
    if largest:
        values = np.ldexp(values, -2 * _parsed(powers))
    order = np.argsort(values, kind="stable")
    values = values[order]
    firsts = np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])
    return Run(values[firsts], np.append(firsts, len(values)).astype(np.int32), _narrow(listed[order]))


def _texts(query: Query, items: str, type_: str, value: str) -> Run | None:
    found = f"SELECT {value} AS v, group_concat(seq) AS seqs, count(*) AS n FROM {items} {type_} = 'text' GROUP BY 1"
    short = f"substr(v, 1, {_LONGEST + 1})"
    joined = f"""SELECT CAST(group_concat({short}, '') AS BLOB), group_concat(length(CAST({short} AS BLOB))),
                 group_concat(n), group_concat(seqs), max(length(v)) FROM ({found})"""
    content, lengths, counts, seqs, longest = query(joined)[0]
    if (longest or 0) > _LONGEST:
        return None
    starts = np.append(0, np.cumsum(_parsed(counts)))
    return Run(_Texts(content or b"", np.cumsum(_parsed(lengths))), starts.astype(np.int32), _narrow(_parsed(seqs)))


def _parsed(text: str | None) -> NDArray[np.int64]:
    """Return integers that are joined by commas."""
    ends, text = [0], text or ""
    while ends[-1] < len(text):
        end = text.find(",", ends[-1] + _PIECE)
        ends.append(len(text) if end < 0 else end + 1)
    parts = [np.fromstring(text[start:end].rstrip(","), np.int64, sep=",") for start, end in pairwise(ends)]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _narrow(seqs: NDArray[np.int64]) -> NDArray[Any]:
    return seqs.astype(np.int32) if not len(seqs) or seqs.max() < 1 << 31 else seqs
