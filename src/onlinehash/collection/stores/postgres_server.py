"""PostgresSchema: a schema in a PostgreSQL database, its connections and transactions, and who may write to it."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import Any

from onlinehash._validation import check_process
from onlinehash.collection.stores import postgres_schema as schema
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError, LockedError, StorageError
from onlinehash.indexes.engines.postgres_client import (
    Connection,
    InvalidParameterValue,
    LockNotAvailable,
    PostgresError,
    UndefinedTable,
    connect,
    errors,
    find_pgvector,
    is_alive,
    is_idle,
    place_of,
)

_READERS = 16  # connections for reading at a time; further threads wait for one
_LOCK_WAIT = "1s"  # for a writer that was killed a moment ago, and that the server has not noticed yet
_END_WAIT = 1.0  # seconds for the server to end a session whose connection was lost, before it is told to
_KILL_WAIT = 5000  # milliseconds for a session that was told to end
_RECONNECT_WAIT = 10.0  # seconds for the server to come back, where a commit is in doubt
_APPROXIMATE = "approximate=true"
_ROLLED_BACK = "The transaction was rolled back; repeat the call."


class PostgresSchema:
    """Hold a schema of a database open, for one writer and many readers.

    A thread reads on a connection of its own for as long as it takes; writes share one, in one thread at a time. The
    right to write is an advisory lock of that connection, gone with it. Each writer begins a term: one that has lost
    its connection takes the lock again and goes on, if nobody else has begun a term meanwhile.

    Every write transaction stores its own id. If the connection is lost during COMMIT, nothing else is read or written
    before the server has ended that session and it is known whether the id was committed.
    """

    def __init__(self, name: str, url: str, *, readonly: bool = False, create: bool = True) -> None:
        self._url, self._approximate = _without_option(url)
        self.place, self.readonly = f"The collection {name!r} in {place_of(self._url)}", readonly
        self._name, self._schema = name, f'"onlinehash_{name}"'
        self._local = threading.local()
        self._guard = threading.Lock()
        self._connections: set[Connection] = set()
        self._idle: list[Connection] = []
        self._turns = threading.BoundedSemaphore(_READERS)
        self._settings: dict[str, Any] = {}  # written in the transaction under way, and not sent yet
        self._term = 0
        self._session: tuple[Any, ...] | None = None  # of the server, for the connection that writes: pid and start
        self._settling = threading.Lock()
        self._in_doubt: str | None = None  # a transaction whose COMMIT was sent and not answered
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
            with self.writing():
                self._write(schema.TABLES.format(schema=self._schema))
                self._settings["schema_version"] = schema.VERSION
        self._check()
        with self.writing():
            ((self._term,),) = self._query(f"UPDATE {self._schema}.writer SET term = term + 1 RETURNING term")

    def _exists(self) -> bool:
        return bool(self._query("SELECT 1 FROM pg_namespace WHERE nspname = %s", f"onlinehash_{self._name}"))

    def _check(self) -> None:
        """Refuse a schema that is not ours, or of another version."""
        if not self._exists():
            raise DataNotFoundError(f"{self.place} is not there; create it: Collection.open(name, hasher, store=...).")
        found = []
        if self._query("SELECT to_regclass(%s)", f"{self._schema}.settings") != [(None,)]:
            found = self._query(f"SELECT value FROM {self._schema}.settings WHERE name = 'schema_version'")
        if not found or not found[0][0].isdecimal():
            raise FileFormatError(f"{self._schema} is a schema, but not of a collection that onlinehash wrote.")
        version = int(found[0][0])
        if version < schema.VERSION:
            way_out = "Export the items with the version that wrote it, and add them to a new collection."
        else:
            way_out = "Upgrade onlinehash."
        if version != schema.VERSION:
            raise FileFormatError(f"{self.place} has schema {version}; this version reads {schema.VERSION}. {way_out}")

    # ------------------------------------------------------------------ the right to write

    def _locked(self) -> Connection:
        """Return a connection that holds the right to write."""
        connection = self._connect()
        id = int.from_bytes(hashlib.sha256(self._schema.encode()).digest()[:8], "big", signed=True)
        try:
            self._end_session(connection)
            connection.execute(f"SET lock_timeout = '{_LOCK_WAIT}'")
            connection.execute("SELECT pg_advisory_lock(%s)", (id,))
            connection.execute("RESET lock_timeout")
            self._session = connection.execute(
                "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
            ).fetchone()
        except LockNotAvailable:
            holder = connection.execute(
                """SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
                   WHERE locktype = 'advisory' AND granted AND objsubid = 1
                   AND (classid::bigint << 32) + objid::bigint = %s""",
                (id,),
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
        if writer.execute(f"SELECT term FROM {self._schema}.writer").fetchone() != (self._term,):
            self._let_go(writer)
            raise StorageError(f"{self.place} was open for writing elsewhere meanwhile; close it, and open it again.")
        self._writer = writer

    def _end_session(self, connection: Connection) -> None:
        """Make sure that the server has ended the session of the last connection that wrote."""
        if self._session is None:
            return
        session = "FROM pg_stat_activity WHERE pid = %s AND backend_start = %s"
        deadline = time.monotonic() + _END_WAIT
        while connection.execute(f"SELECT 1 {session}", self._session).fetchone():
            if time.monotonic() > deadline:
                ended = connection.execute(f"SELECT pg_terminate_backend(pid, {_KILL_WAIT}) {session}", self._session)
                if ended.fetchone() == (False,):
                    raise StorageError(f"{self.place} does not end session {self._session[0]}, which wrote; end it.")
            time.sleep(0.01)

    # ------------------------------------------------------------------ commits in doubt

    def _settle(self) -> None:
        """Find out about a commit that is in doubt, if there is one."""
        if self._in_doubt is not None:
            with self._settling:
                if self._in_doubt is not None:
                    self._find_out(self._in_doubt)

    def _find_out(self, transaction: str, patience: float = 0.0) -> bool:
        """Return whether a transaction in doubt was committed; from then on that does not change."""
        deadline = time.monotonic() + patience
        while True:
            try:
                with errors(self.place, "Try again."), closing(connect(self._url)) as connection:
                    self._end_session(connection)
                    committed = self._is_committed(connection, transaction)
                self._in_doubt = None
                return committed
            except StorageError as error:
                if time.monotonic() > deadline:
                    raise StorageError(
                        f"{error} The connection was lost during COMMIT: whether the change was stored is not known "
                        "before the server is back. Read then, before you repeat the call."
                    ) from error
            time.sleep(0.1)

    def _is_committed(self, connection: Connection, transaction: str) -> bool:
        """Return whether a transaction whose session has ended was committed."""
        try:
            found = connection.execute(f"SELECT term, commit::text FROM {self._schema}.writer").fetchone()
        except UndefinedTable:  # it was to create the schema
            return False
        term, last = found or (None, None)
        if term == self._term or last == transaction:
            return bool(last == transaction)
        # Another has written since. A server that took over from the first may never have seen the transaction.
        try:
            found = connection.execute("SELECT pg_xact_status(%s::xid8)", (transaction,)).fetchone()
        except InvalidParameterValue:
            return False
        return found == ("committed",)

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
        check_process(self.place, self._process)
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
        self._settle()
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
        return errors(self.place, _ROLLED_BACK)

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
        transaction = None
        with self._errors():
            self._settle()
            if not is_alive(self._writer):
                self._reclaim()
            self._settings.clear()
            try:
                with self._transaction(self._writer, "BEGIN"):
                    yield
                    transaction = self._put_settings()
            except BaseException as error:
                if transaction is None or is_idle(self._writer):  # not sent, or answered
                    raise
                self._writer.close()
                with self._settling:
                    self._in_doubt = transaction
                    if not isinstance(error, PostgresError) or not self._find_out(transaction, _RECONNECT_WAIT):
                        raise
            finally:
                self._settings.clear()

    def _put_settings(self) -> str:
        """Write the settings and the id of the transaction, and return that."""
        values = {name: json.dumps(value) for name, value in self._settings.items()}
        found = self._query(
            f"""WITH stored AS (INSERT INTO {self._schema}.settings
                                SELECT * FROM unnest(%s::text[], %s::text[], %s::int[])
                                ON CONFLICT (name) DO UPDATE SET value = excluded.value, checksum = excluded.checksum)
                UPDATE {self._schema}.writer SET commit = pg_current_xact_id() WHERE term = %s
                RETURNING commit::text""",
            list(values),
            list(values.values()),
            [schema.checksum(*setting) for setting in values.items()],
            self._term,
        )
        if not found:
            raise StorageError(f"{self.place} was open for writing elsewhere meanwhile; close it, and open it again.")
        return str(found[0][0])

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

    def _query(self, sql: str, *values: Any, **named: Any) -> list[tuple[Any, ...]]:
        """Return what is found, with values by place or by name."""
        with self._errors(), self._connection() as connection, connection.cursor(binary=True) as cursor:
            return cursor.execute(sql, named or values).fetchall()

    def _write(self, sql: str, *values: Any) -> int:
        """Change something, in the transaction of :meth:`writing`; return how many rows."""
        return self._writer.execute(sql, values).rowcount


def _without_option(url: str) -> tuple[str, bool]:
    """Return a URL without what PostgreSQL does not know, and whether it was there."""
    address, _, query = url.partition("?")
    options = query.split("&") if query else []
    kept = [option for option in options if option != _APPROXIMATE]
    return "?".join([address, *(["&".join(kept)] if kept else [])]), kept != options
