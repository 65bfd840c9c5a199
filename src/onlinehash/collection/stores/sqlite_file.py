"""Database: one SQLite file, its connections and transactions, and its errors in our words."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onlinehash._files import kind_of, wrong_kind
from onlinehash.collection.locks import WriterLock
from onlinehash.collection.stores import sqlite_schema as schema
from onlinehash.collection.stores.versions import check_version
from onlinehash.exceptions import DataNotFoundError, FileFormatError, StorageError


class Database:
    """Hold the file of a collection open: in WAL mode with full synchronisation, for one writer and many readers.

    A thread reads on a connection of its own for as long as it takes; writes share one, in one thread at a time.

    Parameters
    ----------
    path : Path
    readonly : bool
    """

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self.path, self.readonly = path, readonly
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._idle: list[sqlite3.Connection] = []
        self._guard = threading.Lock()
        self._lock: WriterLock | None = None
        self._closed = False
        if readonly and not path.is_file():
            raise DataNotFoundError(f"There is no collection {path}; create it with Collection.open(path, hasher).")
        if not readonly:
            if not path.parent.is_dir():
                raise DataNotFoundError(f"There is no folder {path.parent}; make it first.")
            self._lock = WriterLock(path)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------ the file

    def _open(self) -> None:
        with self._errors():
            if self.readonly:
                with self._connection() as connection:
                    self._check(connection)
                return
            self._writer = self._connect(f"{self.path.absolute().as_uri()}?mode=rwc")
            if not self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] and not self._stamp()[0]:
                self._create()
            self._check(self._writer)
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._writer.execute("PRAGMA synchronous = FULL")
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._check_length()
            self._migrate()

    def _create(self) -> None:
        self._writer.execute("PRAGMA journal_mode = WAL")
        self._writer.execute("PRAGMA synchronous = FULL")
        with self._transaction(self._writer, "BEGIN IMMEDIATE"):
            for statement in schema.TABLES.strip().split(";\n"):
                self._writer.execute(statement)
            self._writer.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
            self._writer.execute(f"PRAGMA user_version = {schema.VERSION}")

    def _stamp(self) -> tuple[int, int]:
        application = self._writer.execute("PRAGMA application_id").fetchone()[0]
        return application, self._writer.execute("PRAGMA user_version").fetchone()[0]

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is not ours, or from a later version."""
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if not application and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise DataNotFoundError(f"There is no collection in {self.path} yet; pass a hasher to create it.")
        if application != schema.APPLICATION_ID:
            raise FileFormatError(f"{self.path} is a database, but not a collection that onlinehash wrote.")
        check_version(self.path, version, schema.VERSION, readonly=self.readonly)

    def _check_length(self) -> None:
        """Refuse a file that is shorter than its header says; everything is in the file itself by now."""
        pages = self._writer.execute("PRAGMA page_count").fetchone()[0]
        expected = pages * self._writer.execute("PRAGMA page_size").fetchone()[0]
        length = self.path.stat().st_size
        if length < expected:
            raise FileFormatError(
                f"{self.path} is damaged: it has {length} bytes of {expected}. Restore it from a copy."
            )

    def _migrate(self) -> None:
        for version in range(self._stamp()[1], schema.VERSION):
            with self._transaction(self._writer, "BEGIN IMMEDIATE"):
                schema.MIGRATIONS[version](self._writer)
                self._writer.execute(f"PRAGMA user_version = {version + 1}")

    def close(self) -> None:
        """Let go of the file."""
        with self._guard:
            self._closed = True
            connections, self._connections = self._connections, []
        for connection in connections[::-1]:  # the writer last: it empties the write-ahead log
            connection.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _connect(self, uri: str) -> sqlite3.Connection:
        with self._guard:
            if self._closed:
                raise StorageError(f"The collection {self.path} is closed.")
            connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=30.0)
            self._connections.append(connection)
        return connection

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Give the connection of the transaction this thread is in, or else an idle one for reading."""
        if self._closed:
            raise StorageError(f"The collection {self.path} is closed.")
        active: sqlite3.Connection | None = getattr(self._local, "active", None)
        if active is not None:
            yield active
            return
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect_to_read()
        try:
            yield connection
        finally:
            self._idle.append(connection)

    def _connect_to_read(self) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        connection = self._connect(uri)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.OperationalError:  # SQLite wants to write beside the file; where nobody can, nobody changes it
            connection = self._connect(f"{uri}&immutable=1")
        return connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Say in our words what SQLite says."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                kind = kind_of(self.path)
                if kind and kind != "collection":
                    raise FileFormatError(wrong_kind(self.path, kind, "collection")) from error
                raise FileFormatError(f"{self.path} is damaged, or not a collection that onlinehash wrote.") from error
            if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
                raise StorageError(
                    f"{self.path} cannot be written: {error}. Nothing of this call was stored; make room and try again."
                ) from error
            if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
                raise StorageError(
                    f"{self.path} cannot be opened for this: {error}. Check who may read and write it and its folder."
                ) from error
            raise StorageError(f"{self.path}: {error}.") from error

    # ------------------------------------------------------------------ transactions

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection, begin: str) -> Iterator[None]:
        """Commit the block as one; what this thread reads meanwhile is what it sees there."""
        connection.execute(begin)
        self._local.active = connection
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        finally:
            self._local.active = None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Apply all writes of the block, durably, or none."""
        if self.readonly:
            raise StorageError(f"The collection {self.path} is open with readonly=True; open it for writing.")
        if self._closed:
            raise StorageError(f"The collection {self.path} is closed.")
        with self._errors(), self._transaction(self._writer, "BEGIN IMMEDIATE"):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """See one moment of the store in all reads of the block."""
        if getattr(self._local, "active", None) is not None:
            yield
            return
        with self._errors(), self._connection() as connection, self._transaction(connection, "BEGIN"):
            yield

    def _query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._errors(), self._connection() as connection:
            return connection.execute(sql, values).fetchall()
