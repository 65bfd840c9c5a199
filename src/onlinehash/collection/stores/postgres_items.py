"""PostgresItems: the items in PostgreSQL in order of id or arrival, by label and payload, and their indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.filters import FieldPath, Filter
from onlinehash.collection.stores import postgres_schema as schema
from onlinehash.collection.stores.blobs import from_blobs
from onlinehash.collection.stores.label_texts import DISTINCT, LABELS, MERGED, texts_of
from onlinehash.collection.stores.postgres_codes import PostgresCodes
from onlinehash.collection.stores.postgres_filters import LABELS_START, PREFIX, condition, indexes_of
from onlinehash.collection.stores.protocol import Place, Rows
from onlinehash.collection.types import Label

COLUMNS = "id, seq, vectors, labels, payload, checksum, payload_checksum"
# In a list of labels, each stands between ", " and ","; no text inside a label does, as its quotes are escaped.
_HOLDS = """EXISTS (SELECT 1 FROM unnest(%(plain)s::text[]) given
                    WHERE strpos(', ' || substr(labels, 2, length(labels) - 2) || ',', ', ' || given || ',') > 0)"""


class PostgresItems(PostgresCodes):
    """Ask PostgreSQL which items pass a filter, and for the next items in an order."""

    def _rows(self, found: list[tuple[Any, ...]], what: str = "the item with id") -> Rows:
        """Return rows of items, verified."""
        for id, seq, vectors, labels, payload, checksum, payload_checksum in found:
            intact = checksum == schema.checksum(seq, id, labels, content=vectors)
            if payload_checksum is not None:
                intact = intact and payload_checksum == schema.checksum(id, payload)
            self._demand_intact(intact, f"{what} {id!r}")
        ids, seqs, blobs, texts, payloads = ([row[column] for row in found] for column in range(5))
        return Rows(ids, seqs, from_blobs(blobs, self.setting("vector_dtype", "float32")), texts, payloads)

    def listed(self, place: Place, limit: int, labels: Sequence[Label] | None, where: Filter | None) -> Rows:
        """Return the next items, of those that have any of the labels and pass a filter."""
        with self.reading():
            if self._kind() is None:
                return self._rows([])
            after = "true" if place.after is None else f"{place.column} {place.sign} %(after)s"
            values: dict[str, Any] = {"after": place.after, "limit": limit}
            parts, in_order = [after], f"ORDER BY {place.column} {place.direction} LIMIT %(limit)s"
            table = f"{self._schema}.items"
            if labels is not None:
                texts = self._texts(labels)
                values |= _label_values(labels, texts)
                if texts is not None and 1 < len(texts) <= MERGED and where is None:
                    each = [
                        f"(SELECT * FROM {table} WHERE {_one_text(i)} AND {after} {in_order})"
                        for i in range(len(texts))
                    ]
                    table, parts = f"({' UNION ALL '.join(each)}) merged", ["true"]
                else:
                    parts.append(_having(texts))
            if where is not None:
                part, given = condition(where)
                parts.append(part)
                values |= given
            passes = " AND ".join(f"({part})" for part in parts)
            return self._rows(self._query(f"SELECT {COLUMNS} FROM {table} WHERE {passes} {in_order}", **values))

    def count(self, where: Filter | None = None, labels: Sequence[Label] | None = None) -> int:
        """Return the number of items, or of those that have any of the labels and pass a filter."""
        if where is None and labels is None:
            return super().count()
        if labels is None:
            found = self._passing("count(*)", where)
        else:
            with self.reading():
                texts = self._texts(labels)
                found = self._passing("count(*)", where, f"AND ({_having(texts)})", **_label_values(labels, texts))
        return sum(n for (n,) in found)

    def passing(self, where: Filter, after: int = 0) -> NDArray[np.int64]:
        """Return the sequence numbers, sorted, of items that pass a filter and came after a sequence number."""
        found = self._passing("array_agg(seq)", where, "AND seq > %(after)s", after=after)
        return np.sort(np.array(found[0][0] or [], np.int64)) if found else np.empty(0, np.int64)

    def _passing(self, columns: str, where: Filter | None, rest: str = "", **values: Any) -> list[tuple[Any, ...]]:
        """Return columns of the items that pass a filter, if any; nothing if there are no items yet."""
        if self._kind() is None:
            return []
        passes, given = ("true", {}) if where is None else condition(where)
        return self._query(f"SELECT {columns} FROM {self._schema}.items WHERE ({passes}) {rest}", **given, **values)

    def _texts(self, labels: Sequence[Label]) -> list[str] | None:
        """Return the texts that stand for items with any of the labels; None without an index, or if they are many."""
        if self._kind() is None or LABELS not in self.setting("indexes", []):
            return None
        # One look into the index per text, not one row per item.
        first = f"SELECT min({LABELS_START}) FROM {self._schema}.items WHERE {LABELS_START}"
        found = self._query(
            f"""WITH RECURSIVE known(labels) AS (
                    ({first} >= '[' AND {LABELS_START} < '\\')
                    UNION ALL
                    SELECT ({first} > known.labels AND {LABELS_START} < '\\') FROM known
                    WHERE known.labels IS NOT NULL)
                SELECT labels, {_HOLDS} FROM (SELECT labels FROM known LIMIT {DISTINCT}) found
                WHERE labels IS NOT NULL""",
            plain=texts_of(labels),
        )
        if len(found) >= DISTINCT - 1 or any(len(text) >= PREFIX for text, _ in found):
            return None
        return texts_of(labels) + [text for text, has_any in found if has_any]

    # ------------------------------------------------------------------ indexes

    def create_index(self, path: FieldPath) -> None:
        """Make filters by a path fast; before the first item, once there is one."""
        if self._kind() is not None:
            for name, indexed in indexes_of(path).items():
                self._write(f"CREATE INDEX {name} ON {self._schema}.items ({indexed})")
            self._write(f"ANALYZE {self._schema}.items")

    def drop_index(self, path: FieldPath) -> None:
        """Drop the index of a path."""
        for name in indexes_of(path):
            self._write(f"DROP INDEX IF EXISTS {self._schema}.{name}")


def _having(texts: list[str] | None) -> str:
    """Return the condition that an item has any of the labels."""
    if texts is None:
        return f"labels = ANY(%(plain)s::text[]) OR labels LIKE '[%%' AND {_HOLDS}"
    return _one_text(0) if len(texts) == 1 else "labels = ANY(%(texts)s::text[])"


def _one_text(i: int) -> str:
    return f"{LABELS_START} = left(%(text_{i})s, {PREFIX}) AND labels = %(text_{i})s"


def _label_values(labels: Sequence[Label], texts: list[str] | None) -> dict[str, Any]:
    """Return the values of these conditions."""
    each = {f"text_{i}": text for i, text in enumerate((texts or [])[:MERGED])}
    return {"plain": texts_of(labels), "texts": texts, **each}
