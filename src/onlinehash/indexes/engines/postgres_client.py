"""What an index and a collection in PostgreSQL share: connections, translated errors, and the SQL of distances.

A code is a ``bit(n)`` whose i-th bit is the i-th of the code. Distances come from pgvector's operator where the
extension is installed, and from ``bit_count`` where it is not.
"""

from __future__ import annotations

import os
import selectors
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash.codes import unpack_bits
from onlinehash.codes.asymmetric import byte_tables
from onlinehash.exceptions import FileFormatError, InvalidInputError, StorageError, needs_extra
from onlinehash.types import Codes, QueryValues

with needs_extra("psycopg", "postgres"):
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

Connection = psycopg.Connection[tuple[Any, ...]]
PostgresError = psycopg.Error
LockNotAvailable = psycopg.errors.LockNotAvailable
UndefinedTable = psycopg.errors.UndefinedTable
InvalidParameterValue = psycopg.errors.InvalidParameterValue
Values = Mapping[str, Any]
Answer = tuple[list[Any], list[Any], list[Any]]
"""Ids, distances and places in the order of ties of what was found for a query."""

_OLDEST = 140000  # version 14: the first with bit_count
_PATIENCE = 10  # seconds to connect
_NO_CODES = np.empty((0, 0), np.uint8)
_WIDEST = 1000  # largest number of candidates of pgvector
_MOST = 1 << 62  # rows; a larger LIMIT is refused

REVERSED: NDArray[np.uint8] = np.packbits(unpack_bits(np.arange(256, dtype=np.uint8)[:, np.newaxis], 8), axis=1)[:, 0]
"""Bytes by value, with their bits in reverse order."""


def place_of(url: str) -> str:
    """Return a URL without user and password."""
    given = _parts(url)
    name = given.get("dbname") or given.get("user") or ""
    return f"{given.get('host') or 'localhost'}:{given.get('port') or 5432}/{name}"


def _parts(url: str) -> dict[str, Any]:
    try:
        return dict(conninfo_to_dict(url))
    except psycopg.Error as error:
        raise InvalidInputError(
            f"This is no URL of PostgreSQL: {str(error).strip()}. Use postgresql://user:password@host:port/database."
        ) from None


def connect(url: str, *, readonly: bool = False) -> Connection:
    """Open a connection in autocommit mode."""
    given = {"connect_timeout": _PATIENCE, **_parts(url)}
    given["application_name"] = f"onlinehash, process {os.getpid()} on {socket.gethostname()}"[:63]
    place = place_of(url)
    try:
        connection = psycopg.connect(**given, autocommit=True)
    except psycopg.Error as error:
        raise StorageError(f"Cannot connect to {place}: {_said(error)}.") from error
    try:
        if connection.info.server_version < _OLDEST:
            raise StorageError(
                f"{place} runs PostgreSQL {connection.info.server_version // 10000}; 14 or later is needed."
            )
        if connection.info.parameter_status("server_encoding") != "UTF8":
            raise StorageError(f"The encoding of the database {place} is not UTF8; use one whose is.")
        with errors(place):
            # A generic plan would look up the tables of asymmetric queries again for every row.
            # Keys in filters are quoted as the standard says.
            connection.execute("SET plan_cache_mode = force_custom_plan; SET standard_conforming_strings = on")
            if readonly:
                connection.execute("SET default_transaction_read_only = on")
    except BaseException:
        connection.close()
        raise
    return connection


def is_alive(connection: Connection) -> bool:
    """Return whether an idle connection is alive: it has nothing to read."""
    if connection.closed:
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(connection.pgconn.socket, selectors.EVENT_READ)
        return not selector.select(0)


def is_idle(connection: Connection) -> bool:
    """Return whether a connection is alive and not in a transaction."""
    return connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


_UNSURE = "A change that was under way is applied whole or not at all; check before you repeat it."


@contextmanager
def errors(place: str, lost: str = _UNSURE) -> Iterator[None]:
    """Translate errors of PostgreSQL, and say what a lost connection means."""
    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate or ""
        said = _said(error)
        if isinstance(error, psycopg.DataError) or state.startswith("54"):
            raise InvalidInputError(f"{place} cannot hold this: {said}.") from error
        if state in ("XX001", "XX002"):
            raise FileFormatError(f"{place} is damaged: {said}. Restore it from a backup.") from error
        if state == "42501":
            raise StorageError(f"{place} does not allow this: {said}. Ask its owner, or use another user.") from error
        if state == "25006":
            raise StorageError(f"{place} cannot be written to: {said}. Open it with readonly=True.") from error
        if state.startswith("53"):
            raise StorageError(
                f"{place} cannot be written: {said}. Nothing of this call was stored; make room and try again."
            ) from error
        if isinstance(error, psycopg.OperationalError) and (not state or state.startswith(("08", "57P"))):
            raise StorageError(f"{place} has lost its server: {said}. {lost}") from error
        raise StorageError(f"{place}: {said}.") from error


def _said(error: psycopg.Error) -> str:
    text = (error.diag.message_primary or str(error)).strip()
    return " ".join(text.split()).rstrip(".") or type(error).__name__


# ---------------------------------------------------------------------- codes


def to_bytes(codes: Codes) -> bytes:
    """Return concatenated codes, most significant bit first, as PostgreSQL stores them."""
    return REVERSED[codes].tobytes()


def from_bits(found: Sequence[bytes]) -> Codes:
    """Return codes from values of ``bit(n)`` in binary format: four bytes of length, then the bits."""
    return REVERSED[np.frombuffer(b"".join(found), np.uint8).reshape(len(found), -1)[:, 4:]] if found else _NO_CODES


def code_from(blob: str, place: str, n_bits: int) -> str:
    """Return SQL for the code at a position, counted from 1, of bytes that :func:`to_bytes` made."""
    width = (n_bits + 7) // 8
    part = f"substr({blob}, (1 + {width} * ({place} - 1))::int, {width})"
    return f"('x' || encode({part}, 'hex'))::varbit::bit({n_bits})"


# ---------------------------------------------------------------------- distances


class Pgvector(NamedTuple):
    """The schema that has the operators of pgvector."""

    schema: str

    def hamming(self, one: str, other: str) -> str:
        """Return SQL for the Hamming distance of two codes."""
        return f'{one} OPERATOR("{self.schema}".<~>) {other}'

    def make_index(self, table: str) -> str:
        """Return SQL that makes an index for approximate search."""
        return f'CREATE INDEX ON {table} USING hnsw (code "{self.schema}".bit_hamming_ops)'


def find_pgvector(connection: Connection) -> Pgvector | None:
    """Return the schema of pgvector in a database, None without version 0.7 or later."""
    found = connection.execute(
        """SELECT nspname FROM pg_operator JOIN pg_namespace spaces ON spaces.oid = oprnamespace
           WHERE oprname = '<~>' AND oprleft = 'bit'::regtype AND oprright = 'bit'::regtype"""
    ).fetchone()
    return None if found is None else Pgvector(found[0])


class CodeScan(NamedTuple):
    """A table with columns ``id`` and ``code``, and a condition on the rows to search, with values by name.

    With ``approximate``, the index of pgvector is used, which may miss some of the nearest; not with a condition, nor
    where it finds fewer than k. ``order`` is the column that orders items at the same distance.
    """

    table: str
    n_bits: int
    pgvector: Pgvector | None = None
    where: str = "true"
    values: Values = MappingProxyType({})
    approximate: bool = False
    order: str = "id"

    def search(self, connection: Connection, queries: Codes, k: int) -> list[Answer]:
        """Return ids, distances and places of the k nearest of every query, ties by ``order``."""
        if self.approximate and self.pgvector is not None and self.where == "true" and k <= _WIDEST:
            distance = self.pgvector.hamming("code", f"%(query)s::bit({self.n_bits})")
            columns = f"id, {self.order} AS place, ({distance})::int AS distance"
            near = f"SELECT {columns} FROM {self.table} ORDER BY {distance} LIMIT {k}"
            sql = f"SELECT id, distance, place FROM ({near}) near ORDER BY distance, place"
            connection.execute(f"SET hnsw.ef_search = {min(_WIDEST, max(100, 2 * k))}")
            found = self._ask(connection, sql, self._texts(queries))
            if all(len(ids) == k for ids, _, _ in found):
                return found
        sql = f"{self._distances(self._hamming())} ORDER BY distance, {self.order} LIMIT {min(k, _MOST)}"
        return self._ask(connection, sql, self._texts(queries))

    def range_search(
        self, connection: Connection, queries: Codes, radius: int, limit: int | None = None
    ) -> list[Answer]:
        """Return ids, distances and places of all items at most ``radius`` away, or of the nearest ``limit``."""
        all_of_them = self._distances(self._hamming())
        most = "ALL" if limit is None else min(limit, _MOST)
        near = f"SELECT * FROM ({all_of_them}) codes WHERE distance <= {radius}"
        sql = f"{near} ORDER BY distance, place LIMIT {most}"
        return self._ask(connection, sql, self._texts(queries))

    def search_asymmetric(self, connection: Connection, queries: QueryValues, k: int) -> list[Answer]:
        """Return ids, asymmetric distances and places of the k nearest of every query, ties by ``order``."""
        sql = f"{self._distances(self._asymmetric())} ORDER BY distance, {self.order} LIMIT {min(k, _MOST)}"
        found = []
        for _, tables in byte_tables(queries):
            found += self._ask(connection, sql, [table[:, REVERSED].ravel().tolist() for table in tables])
        return found

    def _distances(self, distance: str) -> str:
        return f"SELECT id, {distance} AS distance, {self.order} AS place FROM {self.table} WHERE {self.where}"

    def _hamming(self) -> str:
        query = f"%(query)s::bit({self.n_bits})"
        if self.pgvector is None:
            return f"bit_count(code # {query})::int"
        return f"({self.pgvector.hamming('code', query)})::int"

    def _asymmetric(self) -> str:
        """Return SQL for one lookup per byte, summed in single precision in the order of the kernels: bitwise equal."""
        lookups = [
            f"(%(query)s::float4[])[{1 + 256 * byte} + substring(code FROM {1 + 8 * byte} FOR 8)::bit(8)::int]"
            for byte in range((self.n_bits + 7) // 8)
        ]
        fours = len(lookups) - len(lookups) % 4
        groups = [lookups[start : start + 4] for start in range(0, fours, 4)]
        return " + ".join([f"(({a} + {b}) + ({c} + {d}))" for a, b, c, d in groups] + lookups[fours:])

    def _texts(self, queries: Codes) -> list[str]:
        return ["".join(map(str, bits)) for bits in unpack_bits(queries, self.n_bits).tolist()]

    def _ask(self, connection: Connection, sql: str, queries: list[Any]) -> list[Answer]:
        values = [{**self.values, "query": query} for query in queries]
        with connection.cursor(binary=True) as cursor:
            if len(values) == 1:
                return [_answer(cursor.execute(sql, values[0]).fetchall())]
            found = []
            cursor.executemany(sql, values, returning=True)
            for _ in values:
                found.append(_answer(cursor.fetchall()))
                cursor.nextset()
        return found


def _answer(rows: list[tuple[Any, ...]]) -> Answer:
    return [id for id, _, _ in rows], [distance for _, distance, _ in rows], [place for _, _, place in rows]
