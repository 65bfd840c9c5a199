"""PostgresSchema: a schema in a PostgreSQL database, its connections and transactions, and who may write to it."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from onlinehash.collection.stores import postgres_schema as schema
from onlinehash.collection.stores.versions import check_version
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError, LockedError, StorageError
from onlinehash.indexes.engines._postgres import (
    Connection,
    LockNotAvailable,
    PostgresError,
    connect,
    demand_process,
    errors,
    find_pgvector,
    is_alive,
    place_of,
)

_READERS = 16  # connections for reading at a time; further threads wait for one
_LOCK_WAIT = "1s"  # for a writer that was killed a moment ago, and that the server has not noticed yet
_APPROXIMATE = "approximate=true"


class PostgresSchema:
    """Hold a schema of a database open, for one writer and many readers.

    A thread reads on a connection of its own for as long as it takes; writes share one, in one thread at a time. The
    right to write is an advisory lock of that connection, gone with it. Each writer begins a term: one that has lost
    its connection takes the lock again and goes on, if nobody else has begun a term meanwhile.

    Parameters
    ----------
    name : str
    url : str
    readonly : bool
    create : bool
        Make it if there is none.
    """

    def __init__(self, name: str, url: str, *, readonly: bool = False, create: bool = True) -> None:
        self._url, self._approximate = _without_option(url)
        self.place, self.readonly = f"The collection {name!r} in {place_of(self._url)}", readonly
        self._schema = f'"onlinehash_{name}"'
        self._local = threading.local()
        self._guard = threading.Lock()
        self._connections: set[Connection] = set()
        self._idle: list[Connection] = []
        self._turns = threading.BoundedSemaphore(_READERS)
        self._settings: dict[str, Any] = {}  # written in the transaction under way, and not sent yet
        self._process = os.getpid()
        self._closed = False
        try:
            with self._errors():
                self._open(create)
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------ the schema

    def _open(self, create: bool) -> None:
        with self._connection() as connection:
            self._pgvector = find_pgvector(connection)
        if self._approximate and self._pgvector is None:
            raise InvalidInputError(f"{_APPROXIMATE} needs pgvector 0.7 or later. Run: CREATE EXTENSION vector")
        if self.readonly:
            self._check()
            return
        self._writer = self._locked()
        if not self._exists():
            if not create:
                raise DataNotFoundError(f"{self.place} is not there; pass a hasher to create it.")
            with self._transaction(self._writer, "BEGIN"):
                for statement in schema.TABLES.format(schema=self._schema).split(";\n"):
                    self._writer.execute(statement)
                self._store_setting("schema_version", schema.VERSION)
        self._check()
        self._migrate()
        with self._transaction(self._writer, "BEGIN"):
            self._term = 1 + self._stored_setting("term", 0)
            self._store_setting("term", self._term)

    def _exists(self) -> bool:
        return bool(self._query("SELECT 1 FROM pg_namespace WHERE nspname = %s", self._schema.strip('"')))

    def _has(self, table: str) -> bool:
        return self._query("SELECT to_regclass(%s)", f"{self._schema}.{table}") != [(None,)]

    def _check(self) -> None:
        """Refuse a schema that is not ours, or from a later version."""
        if not self._exists():
            raise DataNotFoundError(f"{self.place} is not there; create it: Collection.open(name, hasher, engine=...).")
        version = self._stored_setting("schema_version", None) if self._has("settings") else None
        if version is None:
            raise FileFormatError(f"{self._schema} is a schema, but not of a collection that onlinehash wrote.")
        check_version(self.place, version, schema.VERSION, readonly=self.readonly)

    def _migrate(self) -> None:
        for version in range(self._stored_setting("schema_version", 0), schema.VERSION):
            with self._transaction(self._writer, "BEGIN"):
                schema.MIGRATIONS[version](self._writer, self._schema)
                self._store_setting("schema_version", version + 1)

    def _stored_setting(self, name: str, default: Any) -> Any:
        """Return a setting as it is stored."""
        found = self._query(f"SELECT value FROM {self._schema}.settings WHERE name = %s", name)
        return json.loads(found[0][0]) if found else default

    def _store_setting(self, name: str, value: Any) -> None:
        self._write(
            f"""INSERT INTO {self._schema}.settings VALUES (%s, %s)
                ON CONFLICT (name) DO UPDATE SET value = excluded.value""",
            name,
            json.dumps(value),
        )

    # ------------------------------------------------------------------ the right to write

    def _locked(self) -> Connection:
        """Return a connection that holds the right to write."""
        connection = self._connect()
        key = int.from_bytes(hashlib.sha256(self._schema.encode()).digest()[:8], "big", signed=True)
        try:
            connection.execute(f"SET lock_timeout = '{_LOCK_WAIT}'")
            connection.execute("SELECT pg_advisory_lock(%s)", (key,))
            connection.execute("RESET lock_timeout")
        except LockNotAvailable:
            holder = connection.execute(
                """SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
                   WHERE locktype = 'advisory' AND granted AND objsubid = 1
                   AND (classid::bigint << 32) + objid::bigint = %s""",
                (key,),
            ).fetchone()
            self._let_go(connection)
            who = f" ({holder[0].removeprefix('onlinehash, ')})" if holder and holder[0] else ""
            raise LockedError(
                f"{self.place} is open for writing already{who}; one writer at a time. Close the other, or open this "
                "one with readonly=True."
            ) from None
        except BaseException:
            self._let_go(connection)
            raise
        return connection

    def _reclaim(self) -> None:
        """Take the right to write again after the connection was lost, unless another has had it meanwhile."""
        self._let_go(self._writer)
        writer = self._locked()
        found = writer.execute(f"SELECT value FROM {self._schema}.settings WHERE name = 'term'").fetchone()
        if found is None or json.loads(found[0]) != self._term:
            self._let_go(writer)
            raise StorageError(f"{self.place} was open for writing elsewhere meanwhile; close it, and open it again.")
        self._writer = writer

    # ------------------------------------------------------------------ connections

    def close(self) -> None:
        """Let go of the server; in a forked process, leave the connections to the process that opened them."""
        if os.getpid() != self._process:
            self._closed = True
            return
        with self._guard:
            self._closed = True
            connections = list(self._connections)
        for connection in connections:
            self._let_go(connection)

    def _connect(self) -> Connection:
        connection = connect(self._url, readonly=self.readonly)
        with self._guard:
            self._connections.add(connection)
        return connection

    def _let_go(self, connection: Connection) -> None:
        with self._guard:
            self._connections.discard(connection)
        connection.close()

    def _demand_open(self) -> None:
        demand_process(self.place, self._process)
        if self._closed:
            raise StorageError(f"{self.place} is closed.")

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """Give the connection of the transaction this thread is in, or else an idle one for reading."""
        self._demand_open()
        active: Connection | None = getattr(self._local, "active", None)
        if active is not None:
            yield active
            return
        with self._turns:
            connection = self._take()
            try:
                yield connection
            finally:
                if self._closed or connection.closed:
                    self._let_go(connection)
                else:
                    self._idle.append(connection)

    def _take(self) -> Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._connect()
            if is_alive(connection):
                return connection
            self._let_go(connection)

    def _errors(self) -> AbstractContextManager[None]:
        return errors(self.place)

    # ------------------------------------------------------------------ transactions

    @contextmanager
    def _transaction(self, connection: Connection, begin: str) -> Iterator[None]:
        """Commit the block as one; what this thread reads meanwhile is what it sees there."""
        connection.execute(begin)
        self._local.active = connection
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if not connection.closed:
                with suppress(PostgresError):
                    connection.execute("ROLLBACK")
            raise
        finally:
            self._local.active = None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Apply all writes of the block, durably, or none."""
        if self.readonly:
            raise StorageError(f"{self.place} is open with readonly=True; open it for writing.")
        self._demand_open()
        with self._errors():
            if not is_alive(self._writer):
                self._reclaim()
            self._settings.clear()
            try:
                with self._transaction(self._writer, "BEGIN"):
                    yield
                    self._put_settings()
            finally:
                self._settings.clear()

    def _put_settings(self) -> None:
        if self._settings:
            self._write(
                f"""INSERT INTO {self._schema}.settings SELECT * FROM unnest(%s::text[], %s::text[])
                    ON CONFLICT (name) DO UPDATE SET value = excluded.value""",
                list(self._settings),
                [json.dumps(value) for value in self._settings.values()],
            )

    @contextmanager
    def reading(self) -> Iterator[None]:
        """See one moment of the store in all reads of the block."""
        if getattr(self._local, "active", None) is not None:
            yield
            return
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
        with self._errors(), self._connection() as connection, self._transaction(connection, begin):
            yield

    @property
    def _is_writing(self) -> bool:
        return not self.readonly and getattr(self._local, "active", None) is self._writer

    def _query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._errors(), self._connection() as connection, connection.cursor(binary=True) as cursor:
            return cursor.execute(sql, values).fetchall()

    def _write(self, sql: str, *values: Any) -> int:
        """Change something, in the transaction of :meth:`writing`; return how many rows."""
        return self._writer.execute(sql, values).rowcount


def _without_option(url: str) -> tuple[str, bool]:
    """Return a URL without what PostgreSQL does not know, and whether it was there."""
    address, _, query = url.partition("?")
    options = query.split("&") if query else []
    kept = [option for option in options if option != _APPROXIMATE]
    return "?".join([address, *(["&".join(kept)] if kept else [])]), kept != options
