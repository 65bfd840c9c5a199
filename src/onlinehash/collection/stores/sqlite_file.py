"""Database: one SQLite file, its connections and transactions, and its errors in our words."""

from __future__ import annotations

import ctypes
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakSet

from onlinehash._files import kind_of, wrong_kind
from onlinehash._validation import check_process
from onlinehash.collection.locks import WriterLock
from onlinehash.collection.stores import sqlite_schema as schema
from onlinehash.collection.stores.sqlite_transactions import Active, Transaction, Users
from onlinehash.exceptions import DamagedError, DataNotFoundError, FileFormatError, OnlineHashError, StorageError

_WAIT = 30.0  # seconds for a lock of SQLite
_WRONG_BYTES = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)


class Reader(NamedTuple):
    """A connection for reading; if it takes the file for unchanging, the state of the file when it was opened."""

    connection: sqlite3.Connection
    state: tuple[int, ...] | None


class Database:
    """Hold the file of a collection open: in WAL mode with full synchronisation, for one writer and many readers.

    A thread reads on a connection of its own for as long as it takes; writes share one, in one thread at a time.
    Closing waits until no connection is in use. Each writer begins a term, and each of its transactions verifies that
    nobody has begun another. A forked process cannot use what its parent has opened.
    """

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self.path, self.readonly = path, readonly
        self._file = path.resolve()
        self._name = str(self._file)
        self._log = self._file.with_name(f"{self._file.name}-wal")
        self._process = os.getpid()
        self._active = Active()
        self._connections: list[sqlite3.Connection] = []
        self._idle: list[Reader] = []
        self._users = Users(str(path))
        self._lock: WriterLock | None = None
        self._is_new = False
        if readonly and not self._file.is_file():
            raise DataNotFoundError(f"There is no collection {path}; create it with Collection.open(path, hasher).")
        if not readonly:
            if not self._file.parent.is_dir():
                raise DataNotFoundError(f"There is no folder {path.parent}; make it first.")
            self._lock = WriterLock(self._file)
        _OPEN.add(self)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------ the file

    def _open(self) -> None:
        with self._errors():
            if not self.readonly:
                self._writer = self._connect(f"{self._file.as_uri()}?mode=rwc")
            found = self._file.stat()
            self._identity = (found.st_dev, found.st_ino)
            if found.st_nlink > 1:
                raise StorageError(
                    f"{self.path} has {found.st_nlink} names (hard links), and changes on their way into it would be "
                    "seen under one of them only. Copy it, and open the copy."
                )
            if self.readonly:
                with self._connection() as connection:
                    self._check(connection)
                return
            tables = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            self._is_new = not tables and not self._writer.execute("PRAGMA application_id").fetchone()[0]
            if not self._is_new:
                self._check(self._writer)
                self._read_settings()
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._writer.execute("PRAGMA synchronous = FULL")
            if self._is_new:
                self._create()
                self._empty_log()  # from now on the file itself says what it is
                self._read_settings()
            elif self._empty_log():
                self._check_length()

    def _empty_log(self) -> bool:
        """Bring everything from the write-ahead log into the file, unless somebody reads; return whether it is."""
        self._writer.execute("PRAGMA busy_timeout = 0")  # who reads meanwhile may take hours
        busy = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        self._writer.execute(f"PRAGMA busy_timeout = {_WAIT * 1000:.0f}")
        return not busy

    def _create(self) -> None:
        with Transaction(self._writer, self._active, "BEGIN IMMEDIATE"):
            for statement in schema.TABLES.values():
                self._writer.execute(statement)
            self._create_settings()
            self._writer.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
            self._writer.execute(f"PRAGMA user_version = {schema.VERSION}")

    def _create_settings(self) -> None:
        """Write the settings of an empty collection."""

    def _read_settings(self) -> None:
        """Read all settings, before the first transaction of a writer."""

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is not ours, or of another version."""
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if not application and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise DataNotFoundError(f"There is no collection in {self.path} yet; pass a hasher to create it.")
        if application != schema.APPLICATION_ID:
            raise FileFormatError(f"{self.path} is a database, but not a collection that onlinehash wrote.")
        if version == 1:
            raise FileFormatError(
                f"{self.path} has schema 1, of onlinehash 0.1.0; this version reads schema {schema.VERSION}. Run with "
                f"0.1.0: onlinehash collection export {self.path.name} items.npz; then with this version: onlinehash "
                f"ingest items.npz --into new.oh."
            )
        if version != schema.VERSION:
            raise FileFormatError(
                f"{self.path} has schema {version}; this version reads {schema.VERSION}. Upgrade onlinehash."
            )

    def _check_length(self) -> None:
        """Refuse a file that is shorter than its header says; everything is in the file itself by now."""
        pages = self._writer.execute("PRAGMA page_count").fetchone()[0]
        expected = pages * self._writer.execute("PRAGMA page_size").fetchone()[0]
        length = self._file.stat().st_size
        if length < expected:
            raise self._damage(f"it has {length} bytes of {expected}")

    def _demand_file(self) -> None:
        """Demand that the file is where it was."""
        try:
            found = os.stat(self._name)  # noqa: PTH116 (faster, for every transaction)
            moved = (found.st_dev, found.st_ino) != self._identity
        except FileNotFoundError:
            moved = True
        if moved:
            raise StorageError(
                f"The file {self.path} was moved, deleted or replaced while it was open; close the collection, and "
                "open the file that you want."
            )

    def size(self) -> int:
        """Return the number of bytes of the file and its write-ahead log."""
        return sum(_size(file) for file in (self._file, self._log))

    # ------------------------------------------------------------------ connections

    def close(self) -> None:
        """Let go of the file, once nobody uses it any more."""
        if os.getpid() != self._process:
            return  # connections and lock are those of the parent
        if self._active.connection is not None:
            raise StorageError(f"The collection {self.path} cannot be closed inside a transaction; leave that first.")
        self._users.close()
        self._idle.clear()
        while self._connections:
            self._connections.pop().close()  # the writer last: it empties the write-ahead log
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _is_shared(self) -> bool:
        """Return whether this process has the file open elsewhere too."""
        return any(
            other is not self and other._file == self._file and not other._users.closed for other in _OPEN.copy()
        )

    def _disown(self) -> None:
        """In a forked child: leave connections and lock to the parent."""
        self._users.disown()
        for connection in self._connections:  # SQLite must not even close them here
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _connect(self, uri: str) -> sqlite3.Connection:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_WAIT)
        self._connections.append(connection)
        return connection

    def _let_go(self, connection: sqlite3.Connection) -> None:
        self._connections.remove(connection)
        connection.close()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Give the connection of the transaction this thread is in, or else an idle one for reading."""
        active = self._active.connection
        if active is not None:
            check_process(str(self.path), self._process)
            yield active
            return
        with self._users:
            reader = self._take()
            try:
                yield reader.connection
            finally:
                self._put_back(reader)

    def _take(self) -> Reader:
        self._demand_file()
        try:
            reader = self._idle.pop()
        except IndexError:
            return self._connect_to_read()
        if self._is_valid(reader):
            return reader
        self._let_go(reader.connection)
        return self._connect_to_read()

    def _is_valid(self, reader: Reader) -> bool:
        return reader.state is None or reader.state == self._state()

    def _put_back(self, reader: Reader) -> None:
        if self._is_valid(reader):
            self._idle.append(reader)
            return
        self._let_go(reader.connection)
        raise StorageError(f"{self.path} was changed while it was read; try again.")

    def _connect_to_read(self) -> Reader:
        """Return a connection that sees what is committed.

        SQLite wants to write beside the file. Where it may not and nothing waits in the write-ahead log, the file is
        read as one that does not change, until it does.
        """
        uri = f"{self._file.as_uri()}?mode=ro"
        connection = self._connect(uri)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.OperationalError as error:
            self._let_go(connection)
            if _code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
            state = self._state()
            if _size(self._log):
                raise StorageError(
                    f"{self.path} cannot be read by a process that may not write to its folder: {self._log.name} holds "
                    f"changes that are not in the file yet ({error}). Open it as a user who may write there."
                ) from error
            return Reader(self._connect(f"{uri}&immutable=1"), state)
        return Reader(connection, None)

    def _state(self) -> tuple[int, ...]:
        """Return what tells that the file, or its write-ahead log, has changed."""
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return ()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, _size(self._log)

    # ------------------------------------------------------------------ errors

    def _damage(self, what: str, saved: str = "") -> DamagedError:
        return DamagedError(f"{self.path} is damaged: {what}. Restore it from a copy{saved}.", what)

    @contextmanager
    def _checking(self, what: str, saved: str = "") -> Iterator[None]:
        """Take whatever is wrong with what was read for damage."""
        try:
            yield
        except OnlineHashError:
            raise
        except _WRONG_BYTES as error:
            raise self._damage(f"{what} cannot be read", saved) from error

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Say in our words what SQLite says."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._translated(error) from error

    def _translated(self, error: sqlite3.Error | UnicodeDecodeError) -> OnlineHashError:
        if isinstance(error, UnicodeDecodeError):  # an error of SQLite that quotes what is damaged
            return self._damage("it holds text that is not UTF-8")
        code = _code(error)
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            return StorageError(
                f"{self.path} cannot be written: {error}. Nothing of this call was stored; make room and try again."
            )
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return StorageError(
                f"{self.path} cannot be opened for this: {error}. Check who may read and write it and its folder."
            )
        if code in _TRANSIENT:
            return StorageError(f"{self.path}: {error}. Try again.")
        kind = kind_of(self.path)
        if kind and kind != "collection":
            return FileFormatError(wrong_kind(self.path, kind, "collection"))
        detail = f" ({error})" if code else ""  # without a code it quotes what it cannot read
        return FileFormatError(
            f"{self.path} is damaged, or not a collection that onlinehash wrote{detail}. Restore it from a copy."
        )

    # ------------------------------------------------------------------ transactions

    @contextmanager
    def reading(self) -> Iterator[None]:
        """See one moment of the store in all reads of the block."""
        if self._active.connection is not None:
            yield
            return
        with self._errors(), self._connection() as connection, Transaction(connection, self._active, "BEGIN"):
            yield

    def _query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._errors(), self._connection() as connection:
            return connection.execute(sql, values).fetchall()


_OPEN: WeakSet[Database] = WeakSet()
_NAMES = ("BUSY", "LOCKED", "PROTOCOL", "NOMEM", "INTERRUPT", "SCHEMA")
_TRANSIENT = [getattr(sqlite3, f"SQLITE_{name}") for name in _NAMES]


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _disown_all() -> None:
    for database in _OPEN:
        database._disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
