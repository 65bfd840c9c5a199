"""PostgresCodes: the codes of a collection in PostgreSQL, one table per generation, and their search."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.stores import postgres_schema as schema
from onlinehash.collection.stores.label_texts import texts_of
from onlinehash.collection.stores.postgres_filters import condition
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
from onlinehash.encoders import Encoder
from onlinehash.exceptions import DamagedError
from onlinehash.indexes.engines.postgres_client import (
    CodeScan,
    LockNotAvailable,
    UndefinedTable,
    code_from,
    from_bits,
    to_bytes,
)
from onlinehash.types import Codes, QueryValues

FETCH = 50_000
_DROP_WAIT = "500ms"  # for those who search a table that is dropped; new ones wait as long
_KINDS = {"INTEGER": "bigint", "TEXT": 'text COLLATE "C"'}  # the order of "C" is that of Python
_FIXED = ("id_type", "vector_dtype")  # settings that never change


class PostgresCodes(PostgresSchema):
    """Read, write and search generations: encoders, and the codes they made."""

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
        found = self._query(f"SELECT value, checksum FROM {self._schema}.settings WHERE name = %s", name)
        value = self._parsed(name, *found[0]) if found else default
        if name in _FIXED and value is not None and not self._is_writing:
            self._known[name] = value
        return value

    def _parsed(self, name: str, value: str, checksum: int) -> Any:
        """Return the value of a setting from what is stored."""
        self._demand_intact(checksum == schema.checksum(name, value), f"the setting {name!r}")
        return json.loads(value)

    def _demand_intact(self, intact: bool, what: str) -> None:
        if not intact:
            problem = f"{what} is not what was stored"
            raise DamagedError(f"{self.place} is damaged: {problem}. Restore it from a backup.", problem)

    def put_setting(self, name: str, value: Any) -> None:
        """Write a setting."""
        self._settings[name] = value

    def count(self) -> int:
        """Return the number of items."""
        return int(self.setting("n_items", 0))

    def _kind(self) -> str | None:
        """Return what ids are to PostgreSQL; None before the first, when there are no tables of items."""
        kind = self.setting("id_type")
        return None if kind is None else _KINDS[kind]

    def _listed(self) -> str:
        """Return what several ids are to PostgreSQL."""
        return "text[]" if self.setting("id_type") == "TEXT" else "bigint[]"

    def position(self) -> Position:
        """Return where the store stands."""
        sql = f"""SELECT value, checksum, number FROM (SELECT true) one
                  LEFT JOIN {self._schema}.settings ON name = 'seq' LEFT JOIN {self._schema}.generations ON current"""
        ((value, checksum, number),) = self._query(sql)
        return Position(self._parsed("seq", value, checksum) if value else 0, number or 0)

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
        sql = f"SELECT number, current, encoder, cursor FROM {self._schema}.generations ORDER BY number"
        return [GenerationRow(*row) for row in self._query(sql)]

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
            f"onlinehash_{self._name}",
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
        sql = f"SELECT {columns}, code FROM {tables} WHERE items.seq > %s ORDER BY items.seq LIMIT {FETCH}"
        if not number:
            sql = f"SELECT {columns}, NULL FROM {items} WHERE seq > %s ORDER BY seq LIMIT {FETCH}"
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
            ids = list(dict.fromkeys(id for (id,) in deleted))
            return Changes(coded.ids, list(coded.seqs), coded.codes, list(coded.labels), ids)

    def put_codes(self, number: int, after: int, rows: Rows, codes: Codes) -> None:
        """Write the codes of instances that :meth:`vectors` returned after a sequence number."""
        self._put_codes(number, after, rows.seqs[-1], codes)
        self._write(f"UPDATE {self._schema}.generations SET cursor = %s WHERE number = %s", rows.seqs[-1], number)

    def _put_codes(self, number: int, after: int, last: int, codes: Codes) -> None:
        """Write codes beside the labels of their items; one statement is faster than one per code."""
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
        return self._scanned(CodeScan.search, number, among, queries, k)

    def search_asymmetric(self, number: int, queries: QueryValues, k: int, among: Among) -> Answers:
        """Return the k nearest items of every query that keeps its real values, by asymmetric distance."""
        return self._scanned(CodeScan.search_asymmetric, number, among, queries, k)

    def range_search(self, number: int, queries: Codes, radius: int, among: Among, limit: int | None = None) -> Answers:
        """Return all items at most ``radius`` away from every query, or the nearest ``limit`` of each."""
        return self._scanned(CodeScan.range_search, number, among, queries, radius, limit)

    def _scanned(
        self, search: Callable[..., Answers], number: int, among: Among, queries: NDArray[Any], *how: Any
    ) -> Answers:
        where, values = ["true"], dict[str, Any]()
        if among.labels is not None:
            where.append("labels && %(labels)s::text[]")
            values["labels"] = texts_of(among.labels)
        if among.ids is not None:
            where.append(f"id = ANY(%(ids)s::{self._listed()})")
            values["ids"] = among.ids
        if among.where is not None:
            passes, given = condition(among.where)
            where.append(f"id IN (SELECT id FROM {self._schema}.items WHERE {passes})")
            values |= given
        n_bits, passes = self._bits(number), " AND ".join(where)
        scan = CodeScan(self._table(number), n_bits, self._pgvector, passes, values, self._approximate, "seq")
        moment = self.reading() if len(queries) > 1 else nullcontext()  # a query is one statement, which sees one
        with self._errors(), moment, self._connection() as connection, _generation():
            return search(scan, connection, queries, *how)

    def _of(self, number: int, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask about the table of a generation."""
        with self._errors(), self._connection() as connection, connection.cursor(binary=True) as cursor, _generation():
            return cursor.execute(sql.format(table=self._table(number)), values).fetchall()

    def codes_of(self, number: int, ids: Sequence[Any]) -> CodedItems:
        """Return the items of ids that have a code in a generation, in that order."""
        sql = f"""SELECT items.id, items.seq, items.labels, code FROM {self._schema}.items
                  JOIN {{table}} codes ON codes.id = items.id AND codes.seq = items.seq
                  WHERE items.id = ANY(%s::{self._listed()})"""
        found = {row[0]: row for row in self._of(number, sql, list(ids))}
        rows = [found[id] for id in ids if id in found]
        coded, seqs, labels, codes = ([row[column] for row in rows] for column in range(4))
        return CodedItems(coded, seqs, from_bits(codes), labels)

    def coded(self, number: int, seqs: Sequence[int]) -> list[bool]:
        """Return which sequence numbers have a code in a generation."""
        # By the items, which have an index of sequence numbers; the codes have one of ids.
        sql = f"""SELECT items.seq FROM {self._schema}.items
                  JOIN {{table}} codes ON codes.id = items.id AND codes.seq = items.seq
                  WHERE items.seq = ANY(%s::bigint[])"""
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


@contextmanager
def _generation() -> Iterator[None]:
    """Say that a generation is gone, if its table is."""
    try:
        yield
    except UndefinedTable:
        raise GenerationGone from None


# One label is its JSON, several are a list in JSON: both become a list of texts.
_LABELS = """CASE WHEN labels LIKE '[%%' THEN ARRAY(SELECT label::text FROM json_array_elements(labels::json) label)
                  WHEN labels IS NOT NULL THEN ARRAY[labels] END"""
