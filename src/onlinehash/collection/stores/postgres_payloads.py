"""PostgresPayloads: the items in PostgreSQL whose payloads pass a filter, and the indexes of payloads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.filters import FieldPath, Filter, parse_path
from onlinehash.collection.stores.postgres_codes import PostgresCodes
from onlinehash.collection.stores.postgres_filters import condition, create_indexes, index_names


class PostgresPayloads(PostgresCodes):
    """Ask PostgreSQL which items pass a filter.

    Parameters
    ----------
    name, url, readonly, create
        As for :class:`PostgresStore`.
    """

    def count(self, where: Filter | None = None) -> int:
        """Return the number of items, or of those that pass a filter."""
        return super().count() if where is None else sum(n for (n,) in self._passing("count(*)", where))

    def passing(self, where: Filter, after: int = 0) -> NDArray[np.int64]:
        """Return the sequence numbers, sorted, of items that pass a filter and came after a sequence number."""
        found = self._passing("array_agg(seq)", where, "AND seq > %(after)s", after=after)
        return np.sort(np.array(found[0][0] or [], np.int64)) if found else np.empty(0, np.int64)

    def known_passing(self, where: Filter, seq: int, n_changes: int) -> None:
        """Return None: nothing is in memory."""

    def _passing(self, columns: str, where: Filter, rest: str = "", **values: Any) -> list[tuple[Any, ...]]:
        """Return columns of the items that pass a filter; nothing if there are no items yet."""
        if self._kind() is None:
            return []
        passes, given = condition(where)
        sql = f"SELECT {columns} FROM {self._schema}.items WHERE ({passes}) {rest}"
        with self._errors(), self._connection() as connection, connection.cursor(binary=True) as cursor:
            return cursor.execute(sql, {**given, **values}).fetchall()

    # ------------------------------------------------------------------ indexes

    def create_index(self, path: FieldPath) -> None:
        """Make filters by a path fast; before the first item, once there is one."""
        if self._kind() is not None:
            for statement in create_indexes(f"{self._schema}.items", path):
                self._write(statement)
            self._write(f"ANALYZE {self._schema}.items")

    def drop_index(self, path: FieldPath) -> None:
        """Drop the index of a path."""
        for name in index_names(path):
            self._write(f"DROP INDEX IF EXISTS {self._schema}.{name}")

    def _create_indexes(self) -> None:
        """Create the indexes that were asked for before there were items."""
        for name in self.setting("indexes", []):
            self.create_index(parse_path(name))
