"""FilteredItems: the items of a SQLite file whose payloads pass a filter, and the indexes of payloads."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.filters import AllOf, Compare, FieldPath, Filter, conjuncts, paths_of
from onlinehash.collection.stores.seq_sets import common_seqs
from onlinehash.collection.stores.sqlite_codes import NOT_RETIRED
from onlinehash.collection.stores.sqlite_columns import Moment, PayloadColumns
from onlinehash.collection.stores.sqlite_filters import condition, indexes_of

_FEW = 10_000  # items
_NEW = 1000  # items, up to which SQLite reads their payloads
_NARROW = 20_000  # items that an index finds, up to which it is read
_SEQS = "group_concat(seq)"  # as one row: a thread that fetches many waits for the interpreter at each


class FilteredItems(PayloadColumns):
    """Ask columns in memory, or else SQLite, which items pass a filter."""

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items, or of those that pass a filter."""
        return super().count() if where is None else int(self._passing("count(*)", where)[0][0])

    def passing(self, where: Filter, after: int = 0) -> NDArray[np.int64]:
        """Return the sequence numbers, sorted, of items that pass a filter and came after a sequence number.

        Items that are gone may be among them.
        """
        with self.reading():
            moment = self._moment()
            if after and moment.seq - after <= _NEW:
                return self._passing_seqs(where, "items NOT INDEXED", after)  # an index would find the older ones too
            sets, rest = self._from_columns(where, moment)
            found = common_seqs(sets) if sets else self._narrowed(where)
            if found is None or (sets and rest and len(found) > _NARROW):
                return self._passing_seqs(where, "items", after)
            if sets and rest and len(found):
                found = self._passing_among(tuple(rest), found)
            return found[np.searchsorted(found, after, "right") :]

    def known_passing(self, where: Filter, seq: int, n_changes: int) -> NDArray[np.int64] | None:
        """Return what passed a filter at a moment, if columns in memory are of that moment; else None."""
        sets, rest = self._from_columns(where, Moment(seq, n_changes))
        return None if rest else common_seqs(sets)

    def _passing_seqs(self, where: Filter, table: str, after: int) -> NDArray[np.int64]:
        passes, values = condition(where)
        return self._seqs(self._query(f"SELECT {_SEQS} FROM {table} WHERE ({passes}) AND seq > ?", *values, after))

    def _from_columns(self, where: Filter, moment: Moment) -> tuple[list[NDArray[Any]], list[Filter]]:
        """Return sets of sequence numbers that columns in memory give, and the parts of a filter for which none do."""
        groups, rest = dict[Any, list[Compare]](), list[Filter]()
        for part in conjuncts(where):
            if isinstance(part, Compare) and part.type in ("number", "string"):
                one_of = part.values if part.operator == "in" else None
                groups.setdefault((part.path, part.type, one_of), []).append(part)
            else:
                rest.append(part)
        sets = list[NDArray[Any]]()
        for parts in groups.values():
            found = self._from_column(parts, moment)
            if found is None:
                rest += parts
            else:
                sets.append(found)
        return sets, rest

    @staticmethod
    def _seqs(found: list[tuple[Any, ...]]) -> NDArray[np.int64]:
        text = found[0][0]
        return common_seqs([np.fromstring(text or "", np.int64, sep=",")])

    def _narrowed(self, where: Filter) -> NDArray[np.int64] | None:
        """Return what passes a filter by several indexes, where any of them tells that few items do; else None.

        SQLite itself would use one, perhaps that of most items, and read the payloads of all it finds there.
        """
        parts = conjuncts(where)
        indexed = self._indexed()
        by_path: dict[FieldPath, list[Filter]] = {}
        for part in parts:
            if isinstance(part, Compare) and part.path in indexed:
                by_path.setdefault(part.path, []).append(part)
        if len(by_path) < 2:
            return None
        seqs, done = None, list[Filter]()
        for some in by_path.values():
            passes, values = condition(AllOf(tuple(some)))
            few = f"SELECT {_SEQS} FROM (SELECT seq FROM items WHERE {passes}{NOT_RETIRED} LIMIT {_NARROW})"
            found = self._seqs(self._query(few, *values))
            if len(found) < _NARROW:
                seqs = found if seqs is None else np.intersect1d(seqs, found, assume_unique=True)
                done += some
        rest = tuple(part for part in parts if part not in done)
        if seqs is None or not len(seqs) or not rest:
            return seqs
        return self._passing_among(rest, seqs)

    def _passing_among(self, parts: tuple[Filter, ...], seqs: NDArray[np.int64]) -> NDArray[np.int64]:
        passes, values = condition(AllOf(parts))
        given = "json_each(?) given CROSS JOIN items ON items.seq = given.value"
        return self._seqs(
            self._query(f"SELECT {_SEQS} FROM {given} WHERE {passes}", json.dumps(seqs.tolist()), *values)
        )

    def _passing(self, columns: str, where: Filter, rest: str = "", *values: Any) -> list[tuple[Any, ...]]:
        """Return columns of the items that pass a filter."""
        passes, given = condition(where)
        return self._query(f"SELECT {columns} FROM items WHERE ({passes}){NOT_RETIRED} {rest}", *given, *values)

    def _are_few(self, where: Filter) -> bool:
        """Return whether few items pass a filter, if an index may tell that quickly."""
        if paths_of(where).isdisjoint(self._indexed()):
            return False
        passes, values = condition(where)
        counted = f"SELECT count(*) FROM (SELECT 1 FROM items WHERE {passes} LIMIT {_FEW})"
        return bool(self._query(counted, *values)[0][0] < _FEW)

    # ------------------------------------------------------------------ indexes

    def create_index(self, path: FieldPath) -> None:
        """Make filters by a path fast, or listing by label."""
        for table, statement in indexes_of(path).values():
            if table != "ids" or self._has_ids():
                self._writer.execute(statement)

    def drop_index(self, path: FieldPath) -> None:
        """Drop the index of a path, or of labels."""
        for name in indexes_of(path):
            self._writer.execute(f"DROP INDEX IF EXISTS {name}")

    def _indexes(self) -> dict[str, tuple[str, str]]:
        """Return the tables and the statements that have made the indexes there should be, by name."""
        made = {name: index for path in self._indexed() for name, index in indexes_of(path).items()}
        return {name: index for name, index in made.items() if index[0] != "ids" or self._has_ids()}
