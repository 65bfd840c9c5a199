"""PostgresStore: a collection in PostgreSQL, which searches it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.stores import postgres_schema as schema
from onlinehash.collection.stores.blobs import from_blobs, to_blobs
from onlinehash.collection.stores.postgres_server import PostgresSchema
from onlinehash.collection.stores.protocol import (
    TOMBSTONES,
    Among,
    Answers,
    Changes,
    CodedItems,
    GenerationGone,
    GenerationRow,
    Position,
    Rows,
)
from onlinehash.collection.types import Id
from onlinehash.encoders import Encoder
from onlinehash.indexes.engines._postgres import (
    CodeScan,
    Connection,
    LockNotAvailable,
    UndefinedTable,
    code_from,
    from_bits,
    to_bytes,
)
from onlinehash.types import Codes, QueryValues

_FETCH = 50_000
_DROP_WAIT = "500ms"  # for those who search a table that is dropped; new ones wait as long
_KINDS = {"INTEGER": "bigint", "TEXT": 'text COLLATE "C"'}  # the order of "C" is that of Python
_FIXED = ("id_type", "vector_dtype")  # settings that never change


class PostgresStore(PostgresSchema):
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

    def __init__(self, name: str, url: str, *, readonly: bool = False, create: bool = True) -> None:
        self._known: dict[str, Any] = {}  # settings that never change
        self._n_bits: dict[int, int] = {}  # of generations
        super().__init__(name, url, readonly=readonly, create=create)

    # ------------------------------------------------------------------ settings

    def setting(self, name: str, default: Any = None) -> Any:
        """Return a setting."""
        self._demand_open()
        if self._is_writing and name in self._settings:
            return self._settings[name]
        if name in self._known:
            return self._known[name]
        value = self._stored_setting(name, default)
        if name in _FIXED and value is not None and not self._is_writing:
            self._known[name] = value
        return value

    def put_setting(self, name: str, value: Any) -> None:
        """Write a setting."""
        self._settings[name] = value

    # ------------------------------------------------------------------ items

    def count(self) -> int:
        """Return the number of items."""
        return int(self.setting("n_items", 0))

    def size(self) -> int:
        """Return the number of bytes of all tables and their indexes."""
        found = self._query(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class "
            "WHERE relnamespace = %s::regnamespace AND relkind = 'r'",
            self._schema,
        )
        return int(found[0][0])

    def _kind(self) -> str | None:
        """Return what ids are to PostgreSQL; None before the first, when there are no tables of items."""
        kind = self.setting("id_type")
        return None if kind is None else _KINDS[kind]

    def _listed(self) -> str:
        """Return what several ids are to PostgreSQL."""
        return "text[]" if self.setting("id_type") == "TEXT" else "bigint[]"

    def _items(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask about items, if there are any."""
        return [] if self._kind() is None else self._query(sql, *values)

    def seqs(self, ids: Sequence[Id]) -> list[int | None]:
        """Return where items are in the stream; None of unknown ids."""
        sql = f"SELECT id, seq FROM {self._schema}.items WHERE id = ANY(%s::{self._listed()})"
        found = dict(self._items(sql, list(ids)))
        return [found.get(id) for id in ids]

    def ids(self) -> Iterator[Id]:
        """Yield all ids in order."""
        last: Id | None = None
        while found := self._after("id", last, _FETCH):
            yield from (id for (id,) in found)
            last = found[-1][0]

    def label_counts(self) -> dict[str | None, int]:
        """Return how many items have which labels, as JSON; None for those without."""
        counts = dict(self._items(f"SELECT labels, count(*) FROM {self._schema}.items GROUP BY labels"))
        self._demand_intact(all(map(_is_json, counts)), "the label of an item")
        return counts

    def rows(self, ids: Sequence[Id]) -> Rows:
        """Return the items of ids, in that order, without those that are unknown."""
        sql = f"SELECT {_COLUMNS} FROM {self._schema}.items WHERE id = ANY(%s::{self._listed()})"
        found = {row[0]: row for row in self._items(sql, list(ids))}
        return self._rows([found[id] for id in ids if id in found])

    def rows_after(self, id: Id | None, limit: int) -> Rows:
        """Return the next items in order of id."""
        return self._rows(self._after(_COLUMNS, id, limit))

    def _after(self, columns: str, id: Id | None, limit: int) -> list[tuple[Any, ...]]:
        select = f"SELECT {columns} FROM {self._schema}.items"
        if id is None:
            return self._items(f"{select} ORDER BY id LIMIT %s", limit)
        return self._items(f"{select} WHERE id > %s ORDER BY id LIMIT %s", id, limit)

    def _rows(self, found: list[tuple[Any, ...]]) -> Rows:
        for id, seq, vectors, labels, payload, checksum, payload_checksum in found:
            intact = checksum == schema.checksum(seq, id, labels, content=vectors)
            if payload_checksum is not None:
                intact = intact and payload_checksum == schema.checksum(id, payload)
            self._demand_intact(intact, f"the item with id {id!r}")
        ids, seqs, blobs, texts, payloads = ([row[column] for row in found] for column in range(5))
        return Rows(ids, seqs, from_blobs(blobs, self.setting("vector_dtype", "float32")), texts, payloads)

    def put(self, rows: Rows, codes: Mapping[int, Codes]) -> None:
        """Write items and their codes by generation, in place of those with the same ids."""
        if self._kind() is None:
            self.put_setting("id_type", "TEXT" if isinstance(rows.ids[0], str) else "INTEGER")
            for statement in schema.ITEMS.format(schema=self._schema, kind=self._kind()).split(";\n"):
                self._write(statement)
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

    def position(self) -> Position:
        """Return where the store stands."""
        sql = f"""SELECT value, checksum, number FROM (SELECT true) one
                  LEFT JOIN {self._schema}.settings ON name = 'seq' LEFT JOIN {self._schema}.generations ON current"""
        ((value, checksum, number),) = self._query(sql)
        return Position(self._parsed("seq", value, checksum) if value else 0, number or 0)

    def vectors(self, after: int, limit: int) -> Rows:
        """Return the next instances without their payloads."""
        columns = "id, seq, vectors, labels, NULL, checksum, NULL"
        sql = f"SELECT {columns} FROM {self._schema}.items WHERE seq > %s ORDER BY seq LIMIT %s"
        return self._rows(self._items(sql, after, limit))

    def stream(self, after: int, limit: int, *, retired: bool = False, labelled: bool = False) -> Rows:
        """Return the next instances of the stream."""
        tables = [f"{self._schema}.items", *([f"{self._schema}.retired"] if retired else [])]
        condition = "seq > %s AND labels IS NOT NULL" if labelled else "seq > %s"
        parts = [f"(SELECT {_COLUMNS} FROM {table} WHERE {condition} ORDER BY seq LIMIT %s)" for table in tables]
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

    # ------------------------------------------------------------------ generations

    def _table(self, number: int) -> str:
        return f"{self._schema}.codes_{number}"

    def _bits(self, number: int) -> int:
        """Return the length of the codes of a generation."""
        if number not in self._n_bits:
            found = self._query(f"SELECT n_bits FROM {self._schema}.generations WHERE number = %s", number)
            if not found:
                raise GenerationGone
            self._n_bits[number] = found[0][0]
        return self._n_bits[number]

    def generations(self) -> list[GenerationRow]:
        """Return the generations: the one in use, one that is being made, or both."""
        return [
            GenerationRow(*row)
            for row in self._query(
                f"SELECT number, current, encoder, cursor FROM {self._schema}.generations ORDER BY number"
            )
        ]

    def begin_generation(self, encoder: bytes) -> int:
        """Start a generation in place of any that was being made; return its number."""
        self._write(f"DELETE FROM {self._schema}.generations WHERE NOT current")
        n_bits = Encoder.load(encoder).n_bits
        ((number,),) = self._query(
            f"""INSERT INTO {self._schema}.generations (current, n_bits, encoder) VALUES (false, %s, %s)
                RETURNING number""",
            n_bits,
            encoder,
        )
        table = self._table(number)
        self._write(schema.CODES.format(table=table, kind=self._kind(), n_bits=n_bits))
        if self._approximate and self._pgvector is not None:
            self._write(self._pgvector.make_index(table))
        self._sweep()
        return int(number)

    def finish_generation(self, number: int) -> None:
        """Take a generation into use and drop the others."""
        self._write(f"DELETE FROM {self._schema}.generations WHERE number <> %s", number)
        self._write(f"UPDATE {self._schema}.generations SET current = true")
        self._sweep()

    def _sweep(self) -> None:
        """Drop the codes of generations that are gone. A table that somebody reads for long is left for next time."""
        found = self._query(
            f"""SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE 'codes\\_%%'
                AND tablename NOT IN (SELECT 'codes_' || number FROM {self._schema}.generations)""",
            self._schema.strip('"'),
        )
        for (table,) in found:
            try:
                with self._writer.transaction():
                    self._write(f"SET LOCAL lock_timeout = '{_DROP_WAIT}'")
                    self._write(f"DROP TABLE {self._schema}.{table}")
            except LockNotAvailable:
                continue

    def codes(self, number: int) -> CodedItems:
        """Return all items that have a code, in order of arrival."""
        return self._coded(number, 0)

    def _coded(self, number: int, after: int) -> CodedItems:
        """Return the items after a sequence number that have a code; generation 0 has all, and empty codes."""
        items, codes = f"{self._schema}.items", self._table(number)
        columns, tables = "items.id, items.seq, items.labels", f"{items} JOIN {codes} codes USING (seq)"
        sql = f"SELECT {columns}, code FROM {tables} WHERE items.seq > %s ORDER BY items.seq LIMIT {_FETCH}"
        if not number:
            sql = f"SELECT {columns}, NULL FROM {items} WHERE seq > %s ORDER BY seq LIMIT {_FETCH}"
        ids, seqs, labels, parts = list[Any](), list[int](), list[str | None](), list[Codes]()
        with self.reading():
            while found := [] if self._kind() is None else self._of(number, sql, seqs[-1] if seqs else after):
                ids += [row[0] for row in found]
                seqs += [row[1] for row in found]
                labels += [row[2] for row in found]
                parts.append(from_bits([row[3] for row in found]) if number else np.empty((len(found), 0), np.uint8))
        return CodedItems(ids, seqs, np.concatenate(parts) if parts else np.empty((0, 0), np.uint8), labels)

    def changes(self, after: int) -> Changes | None:
        """Return what happened after a sequence number, or None if the store does not reach back that far."""
        with self.reading():
            ((n_deleted, reach),) = self._query(f"SELECT count(*), min(seq) FROM {self._schema}.deleted")
            if n_deleted >= TOMBSTONES and reach > after:
                return None
            deleted = self._query(f"SELECT id FROM {self._schema}.deleted WHERE seq > %s ORDER BY seq", after)
            coded = self._coded(self.position().generation, after)
            return Changes(*coded, list(dict.fromkeys(id for (id,) in deleted)))

    def put_codes(self, number: int, after: int, rows: Rows, codes: Codes) -> None:
        """Write the codes of instances that :meth:`vectors` returned after a sequence number."""
        self._put_codes(number, after, rows.seqs[-1], codes)
        self._write(f"UPDATE {self._schema}.generations SET cursor = %s WHERE number = %s", rows.seqs[-1], number)

    def _put_codes(self, number: int, after: int, last: int, codes: Codes) -> None:
        """Write codes beside the labels of their items; one statement is faster than one a code."""
        code = code_from("%(codes)s::bytea", "row_number() OVER (ORDER BY seq)", self._bits(number))
        self._writer.execute(
            f"""INSERT INTO {self._table(number)} SELECT id, seq, {_LABELS}, {code}
                FROM {self._schema}.items WHERE seq > %(after)s AND seq <= %(last)s
                ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, labels = excluded.labels, code = excluded.code""",
            {"codes": to_bytes(codes), "after": after, "last": last},
        )

    # ------------------------------------------------------------------ searching

    def search(self, number: int, queries: Codes, k: int, among: Among) -> Answers:
        """Return the k nearest items of every query, of the codes of a generation."""
        return self._scanned(number, queries, among, lambda scan, connection: scan.search(connection, queries, k))

    def search_asymmetric(self, number: int, queries: QueryValues, k: int, among: Among) -> Answers:
        """Return the k nearest items of every query that keeps its real values, by asymmetric distance."""
        return self._scanned(
            number, queries, among, lambda scan, connection: scan.search_asymmetric(connection, queries, k)
        )

    def range_search(self, number: int, queries: Codes, radius: int, among: Among) -> Answers:
        """Return all items at most ``radius`` away from every query."""
        return self._scanned(
            number, queries, among, lambda scan, connection: scan.range_search(connection, queries, radius)
        )

    def _scanned(
        self, number: int, queries: NDArray[Any], among: Among, ask: Callable[[CodeScan, Connection], Answers]
    ) -> Answers:
        where, values = ["true"], {}
        if among.labels is not None:
            where.append("labels && %(labels)s::text[]")
            values["labels"] = [json.dumps(label) for label in among.labels]
        if among.ids is not None:
            where.append(f"id = ANY(%(ids)s::{self._listed()})")
            values["ids"] = among.ids
        scan = CodeScan(
            self._table(number),
            self._bits(number),
            self._pgvector,
            " AND ".join(where),
            values,
            self._approximate,
            "seq",
        )
        moment = self.reading() if len(queries) > 1 else nullcontext()  # a query is one statement, which sees one
        with self._errors(), moment, self._connection() as connection:
            try:
                return ask(scan, connection)
            except UndefinedTable:
                raise GenerationGone from None

    def _of(self, number: int, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask about the table of a generation."""
        with self._errors(), self._connection() as connection, connection.cursor(binary=True) as cursor:
            try:
                return cursor.execute(sql.format(table=self._table(number)), values).fetchall()
            except UndefinedTable:
                raise GenerationGone from None

    def coded(self, number: int, seqs: Sequence[int]) -> list[bool]:
        """Return which sequence numbers have a code in a generation."""
        sql = f"SELECT seq FROM {{table}} JOIN {self._schema}.items USING (id, seq) WHERE seq = ANY(%s::bigint[])"
        found = {seq for (seq,) in self._of(number, sql, list(seqs))}
        return [seq in found for seq in seqs]

    def n_coded(self, number: int) -> int:
        """Return how many items have a code in a generation: all, if it is in use."""
        if self.position().generation == number:
            return self.count()
        return int(self._of(number, "SELECT count(*) FROM {table}")[0][0])

    def sample(self, number: int, n_items: int, seed: int) -> list[Any]:
        """Return ids that have a code in a generation, at random, all different."""
        kind = "hashtextextended" if self.setting("id_type") == "TEXT" else "hashint8extended"
        sql = f"SELECT id FROM {{table}} ORDER BY {kind}(id, %s), id LIMIT %s"
        return sorted(id for (id,) in self._of(number, sql, seed, n_items))


_COLUMNS = "id, seq, vectors, labels, payload, checksum, payload_checksum"
# One label is its JSON, several are a list in JSON: both become a list of texts.
_LABELS = """CASE WHEN labels LIKE '[%%' THEN ARRAY(SELECT label::text FROM json_array_elements(labels::json) label)
                  WHEN labels IS NOT NULL THEN ARRAY[labels] END"""


def _is_json(text: str | None) -> bool:
    try:
        json.loads(text or "null")
    except ValueError:
        return False
    return True
