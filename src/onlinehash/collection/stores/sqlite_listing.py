"""ListedItems: the items of a SQLite file in order of id or arrival, by label and payload."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from onlinehash.collection.filters import Filter
from onlinehash.collection.stores.label_texts import DISTINCT, LABELS, MERGED, texts_of
from onlinehash.collection.stores.protocol import Place, Rows
from onlinehash.collection.stores.sqlite_codes import NOT_RETIRED
from onlinehash.collection.stores.sqlite_filters import condition
from onlinehash.collection.stores.sqlite_payloads import FilteredItems
from onlinehash.collection.stores.sqlite_rows import SAVED
from onlinehash.collection.types import Label
from onlinehash.exceptions import DamagedError, FileFormatError

ROW = "ids.id, ids.seq, batch, items.labels, checksums, vectors, payload"
_ITEM = "id, seq, batch, labels, checksums, vectors, payload"
_FEW = 10_000  # items
_GIVEN = "(SELECT value FROM json_each(?))"
# In a list of labels, each stands between ", " and ","; no text inside a label does, as its quotes are escaped.
_HOLDS = "instr(', ' || substr({0}.labels, 2, length({0}.labels) - 2) || ',', ', ' || value || ',')"


class ListedItems(FilteredItems):
    """Ask SQLite for the next items in an order.

    In order of id, the table of ids is read, which has no vectors; in order of arrival, that of the items. Both have
    an index of labels, if wanted.
    """

    def listed(self, place: Place, limit: int, labels: Sequence[Label] | None, where: Filter | None) -> Rows:
        """Return the next items, of those that have any of the labels and pass a filter."""
        with self.reading():
            if not self._has_ids():
                return self._rows([])
            texts = None if labels is None else self._texts(labels)
            if texts is not None and 1 < len(texts) <= MERGED and where is None:
                return self._rows(self._merged(place, limit, texts))
            table = "ids" if place.order == "id" else "items"
            parts, values = ["true"], list[Any]()
            if labels is not None:
                part, given = self._having(table, labels, texts)
                parts.append(part)
                values += given
            if place.after is not None:
                parts.append(f"{table}.{place.column} {place.sign} ?")
                values.append(place.after)
            few = where is not None and self._are_few(where)
            if where is not None:
                part, given = condition(where)
                parts.append(part)
                values += given
            columns = _ITEM
            if place.order == "id":
                columns = ROW
                # SQLite leaves a CROSS JOIN in this order, and reads on until enough pass.
                join = "JOIN" if few else "LEFT JOIN" if where is None else "CROSS JOIN"
                tables = f"ids {join} items ON items.seq = ids.seq AND items.id = ids.id"
            else:
                # Without an index of payloads, which would find all that pass before any is put in order.
                tables = "items NOT INDEXED" if where is not None and not few and labels is None else "items"
                parts.append(NOT_RETIRED.removeprefix(" AND "))
            passes = " AND ".join(f"({part})" for part in parts)
            found = f"FROM {tables} WHERE {passes} ORDER BY {table}.{place.column} {place.direction} LIMIT ?"
            with self._naming(f"SELECT {table}.id {found}", *values, limit):
                return self._rows(self._query(f"SELECT {columns} {found}", *values, limit))

    @contextmanager
    def _naming(self, ids: str, *values: Any) -> Iterator[None]:
        """Name the first of some items, given by a query, that cannot be read, if they cannot all be read."""
        try:
            yield
        except DamagedError:
            raise
        except FileFormatError:
            for (id,) in self._query(ids, *values):
                try:
                    self._query("SELECT * FROM ids LEFT JOIN items USING (seq) WHERE ids.id = ?", id)
                except FileFormatError as error:
                    raise self._damage(f"item {id!r} cannot be read", SAVED) from error
            raise

    def _merged(self, place: Place, limit: int, texts: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the next rows of few labels: SQLite merges what each has, in order, and stops."""
        table, living = ("ids", "") if place.order == "id" else ("items", NOT_RETIRED)
        after, given = ("", []) if place.after is None else (f" AND {place.column} {place.sign} ?", [place.after])
        each = f"SELECT {place.column} AS place FROM {table} WHERE labels = ?{after}{living}"
        found = f"{' UNION ALL '.join([each] * len(texts))} ORDER BY 1 {place.direction} LIMIT ?"
        values = [value for text in texts for value in (text, *given)]
        if place.order == "id":
            columns, join = ROW, "CROSS JOIN ids ON ids.id = place LEFT JOIN items USING (seq)"
        else:
            columns, join = _ITEM, "CROSS JOIN items ON items.seq = place"
        return self._query(f"SELECT {columns} FROM ({found}) {join} ORDER BY place {place.direction}", *values, limit)

    # ------------------------------------------------------------------ labels

    def _texts(self, labels: Sequence[Label]) -> list[str] | None:
        """Return the texts that stand for items with any of the labels; None without an index, or if they are many."""
        if (LABELS,) not in self._indexed():
            return None
        # One look into the index per text, not one row per item.
        found = self._query(
            f"""WITH RECURSIVE known(labels) AS (
                    SELECT min(labels) FROM ids WHERE labels >= '[' AND labels < '\\'
                    UNION ALL
                    SELECT (SELECT min(labels) FROM ids WHERE labels > known.labels AND labels < '\\') FROM known
                    WHERE known.labels IS NOT NULL LIMIT {DISTINCT})
                SELECT labels, EXISTS (SELECT 1 FROM json_each(?) WHERE {_HOLDS.format("known")})
                FROM known WHERE labels IS NOT NULL""",
            json.dumps(texts_of(labels)),
        )
        if len(found) >= DISTINCT - 1:
            return None
        return texts_of(labels) + [text for text, has_any in found if has_any]

    def _having(self, table: str, labels: Sequence[Label], texts: Sequence[str] | None) -> tuple[str, list[Any]]:
        """Return the condition that an item has any of the labels, and its values."""
        if texts is None:
            plain = json.dumps(texts_of(labels))
            among = f"SELECT 1 FROM json_each(?) WHERE {_HOLDS.format(table)}"
            return f"+{table}.labels IN {_GIVEN} OR {table}.labels LIKE '[%' AND EXISTS ({among})", [plain, plain]
        if len(texts) == 1:
            return f"{table}.labels = ?", [texts[0]]
        given = json.dumps(texts)
        counted = f"SELECT count(*) FROM (SELECT 1 FROM ids WHERE labels IN {_GIVEN} LIMIT {_FEW})"
        plus = "" if self._query(counted, given)[0][0] < _FEW else "+"
        return f"{plus}{table}.labels IN {_GIVEN}", [given]  # with a plus, SQLite reads in order until enough pass

    def count(self, where: Filter | None = None, labels: Sequence[Label] | None = None) -> int:
        """Return the number of items, or of those that have any of the labels and pass a filter."""
        if labels is None:
            return super().count(where)
        with self.reading():
            if not self._has_ids():
                return 0
            table = "ids" if where is None else "items"
            having, values = self._having(table, labels, self._texts(labels))
            if where is None:
                return int(self._query(f"SELECT count(*) FROM ids WHERE {having}", *values)[0][0])
            return int(self._passing("count(*)", where, f"AND ({having})", *values)[0][0])
