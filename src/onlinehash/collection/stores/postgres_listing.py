"""PostgresListing: the items in PostgreSQL in order of id or arrival, by label and payload."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from onlinehash.collection.filters import Filter
from onlinehash.collection.stores.label_texts import DISTINCT, LABELS, MERGED, texts_of
from onlinehash.collection.stores.postgres_filters import LABELS_START, PREFIX, condition
from onlinehash.collection.stores.postgres_payloads import PostgresPayloads
from onlinehash.collection.stores.protocol import Place, Rows
from onlinehash.collection.types import Label

COLUMNS = "id, seq, vectors, labels, payload, checksum, payload_checksum"
# In a list of labels, each stands between ", " and ","; no text inside a label does, as its quotes are escaped.
_HOLDS = """EXISTS (SELECT 1 FROM unnest(%(plain)s::text[]) given
                    WHERE strpos(', ' || substr({0}, 2, length({0}) - 2) || ',', ', ' || given || ',') > 0)"""


class PostgresListing(PostgresPayloads):
    """Ask PostgreSQL for the next items in an order.

    Parameters
    ----------
    name, url, readonly, create
        As for :class:`PostgresStore`.
    """

    @abstractmethod
    def _rows(self, found: list[tuple[Any, ...]]) -> Rows:
        """Return rows of items, verified."""

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
                if texts is not None and 1 < len(texts) <= MERGED and where is None:
                    each = [
                        f"(SELECT * FROM {table} WHERE {_one_text(i)} AND {after} {in_order})"
                        for i in range(len(texts))
                    ]
                    table, parts = f"({' UNION ALL '.join(each)}) merged", []
                    values |= _text_values(texts)
                else:
                    parts.append(_having(texts))
                    values |= {"plain": texts_of(labels), "texts": texts, **_text_values(texts or [])}
            if where is not None:
                part, given = condition(where)
                parts.append(part)
                values |= given
            passes = " AND ".join(f"({part})" for part in parts) or "true"
            return self._rows(self._named(f"SELECT {COLUMNS} FROM {table} WHERE {passes} {in_order}", values))

    def count(self, where: Filter | None = None, labels: Sequence[Label] | None = None) -> int:
        """Return the number of items, or of those that have any of the labels and pass a filter."""
        if labels is None:
            return super().count(where)
        with self.reading():
            if self._kind() is None:
                return 0
            texts = self._texts(labels)
            passes, values = ("true", {}) if where is None else condition(where)
            values |= {"plain": texts_of(labels), "texts": texts, **_text_values(texts or [])}
            sql = f"SELECT count(*) FROM {self._schema}.items WHERE ({passes}) AND ({_having(texts)})"
            return int(self._named(sql, values)[0][0])

    def _texts(self, labels: Sequence[Label]) -> list[str] | None:
        """Return the texts that stand for items with any of the labels; None without an index, or if they are many."""
        if LABELS not in self.setting("indexes", []):
            return None
        # One look into the index per text, not one row per item.
        first = f"SELECT min({LABELS_START}) FROM {self._schema}.items WHERE {LABELS_START}"
        found = self._named(
            f"""WITH RECURSIVE known(labels) AS (
                    ({first} >= '[' AND {LABELS_START} < '\\')
                    UNION ALL
                    SELECT ({first} > known.labels AND {LABELS_START} < '\\') FROM known
                    WHERE known.labels IS NOT NULL)
                SELECT labels, {_HOLDS.format("labels")} FROM (SELECT labels FROM known LIMIT {DISTINCT}) found
                WHERE labels IS NOT NULL""",
            {"plain": texts_of(labels)},
        )
        if len(found) >= DISTINCT - 1 or any(len(text) >= PREFIX for text, _ in found):
            return None
        return texts_of(labels) + [text for text, has_any in found if has_any]

    def _named(self, sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Ask with values by name."""
        with self._errors(), self._connection() as connection, connection.cursor(binary=True) as cursor:
            return cursor.execute(sql, values).fetchall()


def _having(texts: list[str] | None) -> str:
    """Return the condition that an item has any of the labels."""
    if texts is None:
        return f"labels = ANY(%(plain)s::text[]) OR labels LIKE '[%%' AND {_HOLDS.format('labels')}"
    return _one_text(0) if len(texts) == 1 else "labels = ANY(%(texts)s::text[])"


def _one_text(i: int) -> str:
    return f"{LABELS_START} = %(start_{i})s AND labels = %(text_{i})s"


def _text_values(texts: Sequence[str]) -> dict[str, Any]:
    few = texts[:MERGED]
    return {f"start_{i}": text[:PREFIX] for i, text in enumerate(few)} | {
        f"text_{i}": text for i, text in enumerate(few)
    }
