"""PayloadColumns: values at paths in the payloads of a SQLite file, sorted, in memory, once a filter asks for them."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, Thread
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.filters import PAYLOAD_CHANGES, Compare
from onlinehash.collection.stores.payload_runs import LIMIT, Run, read_run
from onlinehash.collection.stores.sqlite_codes import CodeTables
from onlinehash.exceptions import FileFormatError

Key = tuple[tuple[str, ...], str]

_log = logging.getLogger(__name__)
_AT_ONCE = 10_000  # sequence numbers that are read while a filter waits
_MOST = 1 << 29  # bytes of all columns
_MORE = 10_000  # bytes that a column counts as besides
_LEAST = 16  # bytes per item of a column that may be too large
_PAUSE = 4  # times as long as a column took to read, before it is read again
_STEPS = 1 << 20  # of SQLite between two looks whether the file is being closed


class Moment(NamedTuple):
    """A state of the store: its last sequence number, and how often payloads have changed without a new one."""

    seq: int
    n_changes: int


class Column(NamedTuple):
    """The values of one type at a path: a run of all items, and runs of those that came since.

    Sequence numbers of deleted items may stay. Without runs, the values are not kept in memory.
    """

    runs: tuple[Run, ...]
    afters: tuple[int, ...]  # the sequence number after which a run starts
    moment: Moment

    @property
    def n_bytes(self) -> int:
        """Bytes of memory, and some for what is around them."""
        return _MORE + sum(run.n_bytes for run in self.runs)

    def holds(self, moment: Moment) -> bool:
        """Return whether it is still valid at a later moment; without runs, until there are twice as many items."""
        return self.moment.n_changes == moment.n_changes and (bool(self.runs) or moment.seq <= 2 * self.moment.seq)


class PayloadColumns(CodeTables):
    """Answer comparisons of numbers and strings from memory.

    The first comparison at a path starts a thread that reads the column, from the index of the path if there is one.
    Until that is done, SQLite answers. Items that came since are read when the column is asked again, few at once and
    many by the thread, as is everything after a change of payloads.
    """

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self._columns: OrderedDict[Key, Column] = OrderedDict()
        self._n_bytes = 0  # of all columns
        self._wanted: dict[Key, None] = {}  # to read, in this order; a thread does while there are any
        self._not_before: dict[Key, float] = {}
        self._columns_lock = Lock()
        super().__init__(path, readonly=readonly)

    def _moment(self) -> Moment:
        return Moment(self.position().seq, int(self.setting(PAYLOAD_CHANGES, 0)))

    def _from_column(self, parts: Sequence[Compare], moment: Moment) -> NDArray[Any] | None:
        """Return the sequence numbers that pass, in no order; None if SQLite has to be asked.

        Parameters
        ----------
        parts : several Compare
            All of one path and type: one with ``in``, or several orders.
        moment : Moment
            Of the snapshot that this thread reads, if it does; if not, nothing is read.
        """
        first = parts[0]
        given = first.values if first.operator == "in" else tuple(part.values[0] for part in parts)
        if first.type == "number" and any(abs(value) >= LIMIT for value in given):
            return None
        column = self._column((first.path, first.type), moment)
        if column is None:
            return None
        values = [self._as_read(value) if isinstance(value, float) else value for value in given]
        if first.operator == "in":
            found = [some for run in column.runs for some in run.one_of(dict.fromkeys(values))]
        else:
            bounds = list(zip((part.operator for part in parts), values, strict=True))
            found = [run.between(bounds) for run in column.runs]
        return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.int32), *found])

    def _as_read(self, value: float) -> float:
        """Return what SQLite makes of the digits of a float, which may be another one."""
        return float(self._query("SELECT json_extract(?, '$')", repr(value))[0][0])

    def _column(self, key: Key, moment: Moment) -> Column | None:
        """Return a column of this moment, if it can be had at once."""
        with self._columns_lock:
            known = self._columns.get(key)
            if known is not None:
                self._columns.move_to_end(key)
        if known is not None and (known.moment.n_changes > moment.n_changes or known.moment.seq > moment.seq):
            return None  # another thread has seen more
        if known is not None and known.holds(moment) and (known.moment == moment or not known.runs):
            return known if known.runs else None
        if self._active.connection is None:
            return None
        known = known if known is not None and known.holds(moment) else None
        column = self._read_column(key, known, moment, _AT_ONCE)
        if column is None or self._is_due(column):
            self._want(key)
        if column is not None:
            self._keep(key, column)
        return column if column is not None and column.runs else None

    def _read_column(self, key: Key, known: Column | None, moment: Moment, most: int) -> Column | None:
        """Return a column of this moment; None if there is more to read than ``most`` sequence numbers.

        What came since the known one becomes a run of its own, together with those before that were no longer.
        """
        runs, afters, start = ([], [], 0) if known is None else ([*known.runs], [*known.afters], known.moment.seq)
        while runs and start - afters[-1] <= moment.seq - start and moment.seq - afters[-1] <= _AT_ONCE:
            runs.pop()
            start = afters.pop()
        if moment.seq - start > most:
            return None
        path, type_ = key
        run = read_run(self._query, path, type_, start, not start and path in self._indexed())
        return Column((), (), moment) if run is None else Column((*runs, run), (*afters, start), moment)

    def _is_due(self, column: Column) -> bool:
        """Return whether so many items came since the first run that all should be read again."""
        return len(column.runs) > 1 and column.moment.seq - column.afters[1] > max(_AT_ONCE, self.count() // 4)

    def _keep(self, key: Key, column: Column) -> None:
        with self._columns_lock:
            if key in self._columns:
                self._n_bytes -= self._columns.pop(key).n_bytes
            self._columns[key] = column
            self._n_bytes += column.n_bytes
            while self._n_bytes > _MOST:
                self._n_bytes -= self._columns.popitem(last=False)[1].n_bytes

    # ------------------------------------------------------------------ in the background

    def _want(self, key: Key) -> None:
        with self._columns_lock:
            if key in self._wanted or time.monotonic() < self._not_before.get(key, 0.0):
                return
            self._wanted[key] = None
            if len(self._wanted) == 1:
                try:
                    Thread(target=self._read_wanted, args=(key,), name="onlinehash-columns", daemon=True).start()
                except RuntimeError:  # there are too many threads, or the interpreter exits: SQLite answers
                    del self._wanted[key]

    def _read_wanted(self, key: Key) -> None:
        while True:
            start = time.monotonic()
            try:
                self._read_behind(key)
            except Exception as error:  # SQLite answers, or says the same to those who ask
                _log.info("The column %s was not read: %s", key, error)
            with self._columns_lock:
                now = time.monotonic()
                self._not_before = {some: end for some, end in self._not_before.items() if end > now}
                self._not_before[key] = now + _PAUSE * (now - start)
                del self._wanted[key]
                if not self._wanted:
                    return
                key = next(iter(self._wanted))

    def _read_behind(self, key: Key) -> None:
        with self.reading():
            moment, known = self._moment(), self._columns.get(key)
            if known is not None and (not known.holds(moment) or self._is_due(known)):
                known = None
            connection, column = self._active.connection, None
            assert connection is not None
            connection.set_progress_handler(lambda: self._users.closed, _STEPS)
            try:
                if _LEAST * self.count() <= _MOST:
                    column = self._read_column(key, known, moment, moment.seq)
            except FileFormatError as error:  # also if a text gets too long for SQLite
                _log.info("The column %s cannot be read: %s", key, error)
            finally:
                connection.set_progress_handler(None, 0)
        if column is None or column.n_bytes > _MOST:
            column = Column((), (), moment)
        self._keep(key, column)
