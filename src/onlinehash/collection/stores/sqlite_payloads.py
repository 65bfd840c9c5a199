"""FilteredItems: the items of a SQLite file whose payloads pass a filter, and the indexes of payloads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.filters import FieldPath, Filter, parse_path, paths_of
from onlinehash.collection.stores.sqlite_codes import NOT_RETIRED, CodeTables
from onlinehash.collection.stores.sqlite_filters import condition, create_index, index_name
from onlinehash.collection.types import Id

_FEW = 10_000  # items


class FilteredItems(CodeTables):
    """Ask SQLite which items pass a filter.

    Parameters
    ----------
    path : FieldPath
    readonly : bool
    """

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items, or of those that pass a filter."""
        return super().count() if where is None else int(self._passing("count(*)", where)[0][0])

    def passing(self, where: Filter, after: int = 0) -> NDArray[np.int64]:
        """Return the sequence numbers, sorted, of items that pass a filter and came after a sequence number."""
        text = self._passing("group_concat(seq)", where, "AND seq > ?", after)[0][0]  # one row is fetched at once
        return np.sort(np.fromstring(text, np.int64, sep=",")) if text else np.empty(0, np.int64)

    def _passing(self, columns: str, where: Filter, rest: str = "", *values: Any) -> list[tuple[Any, ...]]:
        """Return columns of the items that pass a filter."""
        passes, given = condition(where)
        return self._query(f"SELECT {columns} FROM items WHERE ({passes}){NOT_RETIRED} {rest}", *given, *values)

    def _passing_ids(self, where: Filter) -> list[Id]:
        return sorted(id for (id,) in self._passing("id", where))

    def _passing_after(self, columns: str, id: Id | None, limit: int, where: Filter) -> list[tuple[Any, ...]]:
        """Return the next rows in order of id: of the few that an index finds, or in that order until enough pass."""
        if not self._has_ids():
            return []
        passes, values = condition(where)
        join = "JOIN" if self._are_few(where) else "CROSS JOIN"  # which SQLite leaves in this order
        after, given = ("true", []) if id is None else ("ids.id > ?", [id])
        return self._query(
            f"""SELECT {columns} FROM ids {join} items ON items.seq = ids.seq AND items.id = ids.id
                WHERE {after} AND ({passes}) ORDER BY ids.id LIMIT ?""",
            *given,
            *values,
            limit,
        )

    def _are_few(self, where: Filter) -> bool:
        """Return whether few items pass a filter, if an index may tell that quickly."""
        if paths_of(where).isdisjoint(map(parse_path, self.setting("indexes", []))):
            return False
        passes, values = condition(where)
        counted = f"SELECT count(*) FROM (SELECT 1 FROM items WHERE {passes} LIMIT {_FEW})"
        return bool(self._query(counted, *values)[0][0] < _FEW)

    # ------------------------------------------------------------------ indexes

    def create_index(self, path: FieldPath) -> None:
        """Make filters by a path fast."""
        self._writer.execute(create_index(path))

    def drop_index(self, path: FieldPath) -> None:
        """Drop the index of a path."""
        self._writer.execute(f"DROP INDEX {index_name(path)}")

    def _indexes(self) -> dict[str, str]:
        """Return the statements that have made the indexes there should be, by name."""
        paths = [parse_path(name) for name in self.setting("indexes", [])]
        return {index_name(path): create_index(path) for path in paths}
