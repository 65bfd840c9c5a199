"""PostgresStore: a collection in PostgreSQL, which searches it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from onlinehash.collection.filters import Filter, parse_path
from onlinehash.collection.stores import postgres_schema as schema
from onlinehash.collection.stores.blobs import to_blobs
from onlinehash.collection.stores.postgres_codes import FETCH
from onlinehash.collection.stores.postgres_items import COLUMNS
from onlinehash.collection.stores.postgres_migration import PostgresMigration
from onlinehash.collection.stores.protocol import TOMBSTONES, Rows
from onlinehash.collection.types import Id
from onlinehash.exceptions import DamagedError, InvalidInputError
from onlinehash.types import Codes, Progress


class PostgresStore(PostgresMigration):
    """Keep a collection in a schema of a PostgreSQL database, and search it there.

    What was written survives as PostgreSQL is set up to let it. Other processes may read meanwhile.

    Parameters
    ----------
    name : str
        The schema is ``onlinehash_<name>``.
    url : str
        ``"postgresql://user:password@host:port/database"``, with ``?approximate=true`` for a search by pgvector's HNSW
        index, which may miss some of the nearest. A filter, a radius or an asymmetric search is exact nevertheless.
    readonly : bool
        Read what another process writes.
    create : bool
        Make it if there is none.
    """

    # ------------------------------------------------------------------ items

    def size(self) -> int:
        """Return the number of bytes of all tables and their indexes."""
        found = self._query(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class "
            "WHERE relnamespace = %s::regnamespace AND relkind = 'r'",
            self._schema,
        )
        return int(found[0][0])

    def _items(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask about items, if there are any."""
        return [] if self._kind() is None else self._query(sql, *values)

    def seqs(self, ids: Sequence[Id]) -> list[int | None]:
        """Return where items are in the stream; None of unknown ids."""
        sql = f"SELECT id, seq FROM {self._schema}.items WHERE id = ANY(%s::{self._listed()})"
        found = dict(self._items(sql, list(ids)))
        return [found.get(id) for id in ids]

    def ids(self, where: Filter | None = None) -> Iterator[Id]:
        """Yield all ids in order, or those of items that pass a filter."""
        if where is not None:
            yield from (id for (id,) in self._passing("id", where, "ORDER BY id"))
            return
        after, last = "", None
        while found := self._passing("id", None, f"{after} ORDER BY id LIMIT {FETCH}", last=last):
            yield from (id for (id,) in found)
            after, last = "AND id > %(last)s", found[-1][0]

    def label_counts(self, where: Filter | None = None) -> dict[str | None, int]:
        """Return how many items, of those that pass a filter, have which labels, as JSON; None for those without."""
        counts = dict(self._passing("labels, count(*)", where, "GROUP BY labels"))
        self._demand_intact(all(map(_is_json, counts)), "the label of an item")
        return counts

    def rows(self, ids: Sequence[Id]) -> Rows:
        """Return the items of ids, in that order, without those that are unknown."""
        sql = f"SELECT {COLUMNS} FROM {self._schema}.items WHERE id = ANY(%s::{self._listed()})"
        found = {row[0]: row for row in self._items(sql, list(ids))}
        return self._rows([found[id] for id in ids if id in found])

    def put(self, rows: Rows, codes: Mapping[int, Codes]) -> None:
        """Write items and their codes by generation, in place of those with the same ids."""
        if self._kind() is None:
            self.put_setting("id_type", "TEXT" if isinstance(rows.ids[0], str) else "INTEGER")
            self._write(schema.ITEMS.format(schema=self._schema, kind=self._kind()))
            for name in self.setting("indexes", []):
                self.create_index(parse_path(name))
        n_before = self._retire(rows.ids)
        columns = zip(rows.seqs, rows.ids, to_blobs(rows.vectors), rows.labels, rows.payloads, strict=True)
        items = (
            (
                *(seq, id, vectors, labels, payload),
                schema.checksum(seq, id, labels, content=vectors),
                schema.checksum(id, payload),
            )
            for seq, id, vectors, labels, payload in columns
        )
        into = f"COPY {self._schema}.items FROM STDIN (FORMAT BINARY)"
        with self._writer.cursor() as cursor, cursor.copy(into) as copy:
            copy.set_types(["bigint", self._listed().removesuffix("[]"), "bytea", "text", "text", "int4", "int4"])
            for item in items:
                copy.write_row(item)
        for number, some in codes.items():
            self._put_codes(number, rows.seqs[0] - 1, rows.seqs[-1], some)
        self.put_setting("n_items", self.count() + len(rows) - n_before)
        self.put_setting("seq", rows.seqs[-1])
        self._write(f"INSERT INTO {self._schema}.commits VALUES (%s)", rows.seqs[-1])

    def put_payloads(self, ids: Sequence[Id], payloads: Sequence[str | None]) -> None:
        """Write the payloads of known ids."""
        self._write(
            f"""UPDATE {self._schema}.items SET payload = given.payload, payload_checksum = given.checksum
                FROM unnest(%s::{self._listed()}, %s::text[], %s::int[]) given(id, payload, checksum)
                WHERE items.id = given.id""",
            list(ids),
            list(payloads),
            [schema.checksum(*given) for given in zip(ids, payloads, strict=True)],
        )

    def delete(self, ids: Sequence[Id], first_seq: int) -> None:
        """Delete known ids and their codes; the sequence numbers of that start at ``first_seq``."""
        self._retire(ids)
        for (number,) in self._query(f"SELECT number FROM {self._schema}.generations"):
            self._write(f"DELETE FROM {self._table(number)} WHERE id = ANY(%s::{self._listed()})", list(ids))
        self._write(
            f"INSERT INTO {self._schema}.deleted SELECT %s + place - 1, id "
            f"FROM unnest(%s::{self._listed()}) WITH ORDINALITY given(id, place)",
            first_seq,
            list(ids),
        )
        self._write(
            f"""DELETE FROM {self._schema}.deleted
                WHERE seq <= (SELECT seq FROM {self._schema}.deleted ORDER BY seq DESC LIMIT 1 OFFSET {TOMBSTONES})"""
        )
        self.put_setting("n_items", self.count() - len(ids))
        self.put_setting("seq", first_seq + len(ids) - 1)

    def _retire(self, ids: Sequence[Id]) -> int:
        """Take items out, and keep those that the hasher has learned since its last state; return how many."""
        return self._write(
            f"""WITH gone AS (DELETE FROM {self._schema}.items WHERE id = ANY(%s::{self._listed()}) RETURNING *),
                     kept AS (INSERT INTO {self._schema}.retired SELECT * FROM gone
                              WHERE seq > (SELECT learned_to FROM {self._schema}.hasher))
                SELECT seq FROM gone""",
            list(ids),
        )

    # ------------------------------------------------------------------ the stream and the state

    def vectors(self, after: int, limit: int) -> Rows:
        """Return the next instances without their payloads."""
        columns = "id, seq, vectors, labels, NULL, checksum, NULL"
        sql = f"SELECT {columns} FROM {self._schema}.items WHERE seq > %s ORDER BY seq LIMIT %s"
        return self._rows(self._items(sql, after, limit))

    def stream(self, after: int, limit: int, *, retired: bool = False, labelled: bool = False) -> Rows:
        """Return the next instances of the stream."""
        tables = [f"{self._schema}.items", *([f"{self._schema}.retired"] if retired else [])]
        condition = "seq > %s AND labels IS NOT NULL" if labelled else "seq > %s"
        parts = [f"(SELECT {COLUMNS} FROM {table} WHERE {condition} ORDER BY seq LIMIT %s)" for table in tables]
        values = [after, limit] * len(tables)
        sql = f"SELECT * FROM ({' UNION ALL '.join(parts)}) stream ORDER BY seq LIMIT %s"
        return self._rows(self._items(sql, *values, limit))

    def state(self) -> bytes:
        """Return the last state of the hasher."""
        return bytes(self._hasher("state"))

    def state_seq(self) -> int:
        """Return the sequence number up to which that state has learned."""
        return int(self._hasher("learned_to"))

    def _hasher(self, column: str) -> Any:
        found = self._query(f"SELECT {column} FROM {self._schema}.hasher")
        self._demand_intact(bool(found), "the state of the hasher")
        return found[0][0]

    def put_state(self, state: bytes, learned_to: int) -> None:
        """Write the state of the hasher; what was kept of the stream up to there may go."""
        self._write(
            f"""INSERT INTO {self._schema}.hasher VALUES (0, %s, %s)
                ON CONFLICT (id) DO UPDATE SET state = excluded.state, learned_to = excluded.learned_to""",
            state,
            learned_to,
        )
        self._write(f"DELETE FROM {self._schema}.commits WHERE seq <= %s", learned_to)
        if self._kind() is not None:
            self._write(f"DELETE FROM {self._schema}.retired WHERE seq <= %s", learned_to)

    def commits(self, after: int) -> list[int]:
        """Return the last sequence number of every committed batch after a sequence number."""
        found = self._query(f"SELECT seq FROM {self._schema}.commits WHERE seq > %s ORDER BY seq", after)
        return [seq for (seq,) in found]

    # ------------------------------------------------------------------ care

    file = None

    def reopen(self) -> Self:
        """Open the same collection again, on connections of its own."""
        return type(self)(self._name, self._url, readonly=True)

    def structure(self) -> Iterator[str]:
        """Yield what is wrong with the settings and counters; PostgreSQL's own amcheck verifies tables and indexes."""
        for setting in self._query(f"SELECT name, value, checksum FROM {self._schema}.settings ORDER BY name"):
            try:
                self._parsed(*setting)
            except DamagedError as error:
                yield error.problem
        if self._kind() is not None:
            ((n_items,),) = self._query(f"SELECT count(*) FROM {self._schema}.items")
            if n_items != self.count():
                yield f"it has {n_items} of {self.count()} items"

    def backup(self, path: Path, progress: Progress) -> None:
        """Refuse: PostgreSQL has better."""
        raise InvalidInputError(
            f"{self.place} is backed up by PostgreSQL itself. Run: pg_dump --schema=onlinehash_{self._name} ... "
            "To write its items to a file, call export_items."
        )

    def compact(self, progress: Progress) -> None:
        """Refuse: PostgreSQL does it."""
        raise InvalidInputError(
            f"{self.place} is compacted by PostgreSQL itself, in the background. To give space back to the disk, run: "
            f"VACUUM FULL {self._schema}.items"
        )


def _is_json(text: str | None) -> bool:
    try:
        json.loads(text or "null")
    except ValueError:
        return False
    return True
