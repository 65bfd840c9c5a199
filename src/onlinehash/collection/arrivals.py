"""Arrivals: the ids of items by their sequence numbers, and back, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.indexes.tables import IdTable

Seqs = NDArray[np.int64]

_LEAST = 1024  # rows
_MANY = 10_000  # ids


class Arrivals:
    """Map ids to sequence numbers in O(1), and sequence numbers to ids in O(log n).

    Rows are in order of arrival, so sequence numbers are sorted. The row of an item that was replaced or deleted stays
    until half of all rows are such.

    Examples
    --------
    >>> arrivals = Arrivals()
    >>> arrivals.put(["b", "a"], np.array([1, 2]))
    array([], dtype=int64)
    >>> arrivals.put(["b"], np.array([3]))  # replaces
    array([1])
    >>> arrivals.ids(np.array([3, 2])), arrivals.seqs(["a", "x", "b"]), len(arrivals)
    (['b', 'a'], array([2, 3]), 2)
    """

    def __init__(self) -> None:
        self._size = 0  # rows in use
        self._seqs: Seqs = np.empty(0, np.int64)
        self._ids: NDArray[Any] = np.empty(0, object)
        self._row_of: _Rows | IdTable = _Rows()
        self._gone: set[int] = set()  # sequence numbers of rows that no item has any more

    def __len__(self) -> int:
        return self._size - len(self._gone)

    def put(self, ids: Sequence[Any], seqs: Seqs) -> Seqs:
        """Set the sequence numbers of ids, all above those of before; return the ones that they replace."""
        if not len(ids):
            return np.empty(0, np.int64)
        if not self._size:
            is_text = isinstance(ids[0], str)
            self._seqs, self._ids = np.empty(0, np.int64), np.empty(0, object if is_text else np.int64)
            self._row_of = _Rows() if is_text else IdTable(np.empty(0, np.int64), np.empty(0, np.int32))
        replaced = self._retire(ids)
        size = self._size + len(ids)
        if size > len(self._seqs):
            room = max(_LEAST, size, 3 * self._size // 2)
            self._seqs, self._ids = _grown(self._seqs, room), _grown(self._ids, room)
        self._seqs[self._size : size], self._ids[self._size : size] = seqs, ids
        self._row_of.put(self._keys(ids), np.arange(self._size, size, dtype=np.int32))
        self._size = size
        self._pack()
        return replaced

    def delete(self, ids: Sequence[Any]) -> Seqs:
        """Delete ids; return the sequence numbers of those that were known."""
        gone = self._retire(ids)
        if len(gone):
            self._row_of.drop(self._keys(self.ids(gone)))
            self._pack()
        return gone

    def _retire(self, ids: Sequence[Any]) -> Seqs:
        if isinstance(self._row_of, _Rows) and self._row_of.has_none_of(ids):
            return np.empty(0, np.int64)
        gone = self.seqs(ids)
        if len(gone):
            gone = np.unique(gone)
            self._gone.update(gone.tolist())
        return gone

    def _pack(self) -> None:
        """Drop the rows that no item has, once they are half of all."""
        if 2 * len(self._gone) > max(_LEAST, self._size):
            seqs = self.all_seqs()
            ids = self.ids(seqs)
            self._size, self._gone = 0, set()
            self.put(ids, seqs)

    def seqs(self, ids: Sequence[Any]) -> Seqs:
        """Return the sequence numbers of those ids that are known, in the order given."""
        if not self._size or not len(ids):
            return np.empty(0, np.int64)
        rows = self._row_of.find(self._keys(ids))
        return self._seqs[rows[rows >= 0]]

    def ids(self, seqs: Seqs) -> list[Any]:
        """Return the ids of known sequence numbers."""
        return list(self._ids[np.searchsorted(self._seqs[: self._size], seqs)].tolist())

    def are_known(self, seqs: Seqs) -> NDArray[np.bool_]:
        """Return which sequence numbers an item has."""
        rows = np.searchsorted(self._seqs[: self._size], seqs)
        there = rows < self._size
        there[there] = self._seqs[rows[there]] == np.asarray(seqs)[there]
        return there & ~np.isin(seqs, list(self._gone)) if self._gone else there

    def all_seqs(self) -> Seqs:
        """Return the sequence numbers of all items, sorted."""
        return self._seqs[: self._size][self.are_known(self._seqs[: self._size])]

    def _keys(self, ids: Sequence[Any]) -> Any:
        return ids if self._ids.dtype == object else np.array(ids, np.int64)


class _Rows:
    """The row of every string id; many that come at once are kept by their hashes, in a third of a dict's time."""

    def __init__(self) -> None:
        self._names: Sequence[str] = ()  # the first ids, if they were many
        self._table: IdTable | None = None  # from their hashes to their rows
        self._rows: dict[str, int] = {}  # of the others, and of those of the first that were put again

    def has_none_of(self, ids: Sequence[str]) -> bool:
        if self._rows and not self._rows.keys().isdisjoint(ids):
            return False
        return self._table is None or not (self._find_first(ids) >= 0).any()

    def find(self, ids: Sequence[str]) -> NDArray[np.int32]:
        rows = np.array([self._rows.get(id, -1) for id in ids], np.int32)
        return rows if self._table is None else np.where(rows >= 0, rows, self._find_first(ids))

    def _find_first(self, ids: Sequence[str]) -> NDArray[np.int32]:
        assert self._table is not None
        rows = self._table.find(_hashes(ids))
        for place in np.flatnonzero(rows >= 0).tolist():
            if self._names[int(rows[place])] != ids[place]:
                rows[place] = -1
        return rows

    def put(self, ids: Sequence[str], rows: NDArray[np.int32]) -> None:
        if len(ids) >= _MANY and not len(self._names) and not self._rows:
            table = IdTable(_hashes(ids), rows)
            if len(table) == len(ids):  # else two have the same hash
                self._names, self._table = ids, table
                return
        self._rows.update(zip(ids, rows.tolist(), strict=True))

    def drop(self, ids: Sequence[str]) -> None:
        if self._table is not None:
            first = np.flatnonzero(self._find_first(ids) >= 0).tolist()
            self._table.drop(_hashes([ids[place] for place in first]))
        for id in ids:
            self._rows.pop(id, None)


def _hashes(ids: Sequence[str]) -> NDArray[np.int64]:
    return np.fromiter(map(hash, ids), np.int64, len(ids))


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    grown = np.empty(size, array.dtype)
    grown[: len(array)] = array
    return grown
