"""SqliteStore: a collection in one SQLite file."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from onlinehash._internal.files import kind_of, wrong_kind
from onlinehash.collection.filters import Compare, FieldPath
from onlinehash.collection.stores.sql import INDEXES, TABLES, SqlStore
from onlinehash.exceptions import (
    DataNotFoundError,
    FileFormatError,
    LockedError,
    OnlineHashError,
    StorageError,
)
from onlinehash.types import Progress

APPLICATION_ID = 0x6F686173  # "ohas", in the header of the file
SCHEMA = 3

_SECONDS_TO_WAIT = 30.0  # for a lock of SQLite
_PAGES_PER_STEP = 1000  # copied by a backup

# What errors of SQLite mean that are not about the content of the file.
_MEANINGS = {
    (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR): (
        "cannot be written: {}. Nothing of this call was stored; make room and try again."
    ),
    (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM): (  # it writes beside a file to read it
        "cannot be opened by a process that may not write to its folder ({}). Open it as a user who may write, or read "
        "a backup of it there, which collection.backup(...) writes."
    ),
    (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL): "is busy: {}. Try again.",
    (sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT): "could not be read or written: {}. Try again.",
}


class WriterLock:
    """The right to write to a file: a lock of the operating system on ``<path>.lock``, gone with the process.

    SQLite holds locks on the file itself, and would lose them if this process closed a second handle of it.
    """

    def __init__(self, path: Path) -> None:
        try:
            file = Path(f"{path}.lock").open("a+")  # noqa: SIM115 (held until it is released)
        except OSError as error:
            raise StorageError(
                f"Cannot write to {path.parent}: {error.strerror}. Open the collection with readonly=True, or move it."
            ) from error
        try:
            _lock(file.fileno())
        except OSError:
            with file:
                file.seek(0)
                holder = file.read(32).strip()
            raise LockedError(
                f"{path} is open for writing already{f' (process {holder})' if holder else ''}; one writer at a time. "
                "Close the other, or open this one with readonly=True."
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._held = [file]  # until it is released

    def release(self) -> None:
        """Let another write; several threads may do so at once."""
        with suppress(IndexError):  # another thread was first
            self._held.pop().close()


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        os.lseek(file, 1 << 20, os.SEEK_SET)  # far from the text, which others read
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        os.lseek(file, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class SqliteStore(SqlStore):
    """Hold a file open, in WAL mode with full synchronisation, for one writer and many readers.

    A forked process can use neither this nor, because SQLite keeps locks in memory, any file of its own while it was
    forked with one open.

    Parameters
    ----------
    path : Path
    readonly : bool
        Read what another process writes.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> store = SqliteStore(Path(folder.name) / "things.oh")
    >>> with store.transaction():
    ...     store.put_settings({"colour": "red"})
    >>> store.settings(), store.head().n_items
    ({'colour': 'red'}, 0)
    >>> store.close()
    >>> folder.cleanup()
    """

    file: Path
    begin_writing = "BEGIN IMMEDIATE"
    database_errors = (sqlite3.Error, UnicodeDecodeError)

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self.file = path.resolve()
        self._log = self.file.with_name(f"{self.file.name}-wal")
        self._lock: WriterLock | None = None
        if _FORKED:
            raise StorageError(_FORK_REFUSED)
        if readonly and not self.file.is_file():
            raise DataNotFoundError(f"There is no collection {path}; open it for writing to create it.")
        if not readonly:
            if not self.file.parent.is_dir():
                raise DataNotFoundError(f"There is no folder {path.parent}; make it first.")
            self._lock = WriterLock(self.file)
        super().__init__(str(path), readonly)
        _OPEN.add(self)

    # ------------------------------------------------------------------ the file

    def _open(self) -> None:
        if self.readonly:
            self._found = self.file.stat()
            self._check_schema()
            return
        self._writer = self._connect("rwc")
        self._found = self.file.stat()
        execute = self._writer.execute
        is_new = not execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        is_new = is_new and not execute("PRAGMA application_id").fetchone()[0]
        if not is_new:
            self._check_schema()
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")
        if is_new:
            with self._in_transaction(self._writer):
                self.create_tables(_made().values())
                execute(f"PRAGMA application_id = {APPLICATION_ID}")
                execute(f"PRAGMA user_version = {SCHEMA}")
            execute("PRAGMA wal_checkpoint(TRUNCATE)")  # from now on the file itself says what it is

    def _check_schema(self) -> None:
        """Refuse a file that is not ours, of another version, or whose tables are not those of a collection."""
        with self.snapshot():
            ((application,),), ((version,),) = self.query("PRAGMA application_id"), self.query("PRAGMA user_version")
            found = dict(self.query("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
            pages, page_size = self.query("PRAGMA page_count")[0][0], self.query("PRAGMA page_size")[0][0]
        if not application and not found:
            raise DataNotFoundError(f"There is no collection in {self.place} yet; open it for writing to create it.")
        if application != APPLICATION_ID:
            raise FileFormatError(f"{self.place} is a database, but not a collection that onlinehash wrote.")
        if version < SCHEMA:
            old, name = {1: "0.1.0", 2: "0.2.0"}.get(version, "an earlier version"), self.file.name
            raise FileFormatError(
                f"{self.place} was written by onlinehash {old}, and this version does not read it. With {old}, run: "
                f"onlinehash collection export {name} items.npz; then with this version: onlinehash ingest items.npz "
                "--into new.oh"
            )
        if version != SCHEMA:
            raise FileFormatError(
                f"{self.place} has schema {version}; this version reads {SCHEMA}. Upgrade onlinehash."
            )
        if self.size() < pages * page_size:
            raise self.damage(f"it has {self.file.stat().st_size} bytes of {pages * page_size}")
        for name, sql in (_made() | INDEXES).items():
            if found.get(name, "").replace(f'"{name}"', name, 1) != sql:  # a table that was renamed has a quoted name
                raise self.damage("its tables are not those of a collection")

    def _check_open(self) -> None:
        """Raise unless this is open, in the process that opened it, and its file is where it was."""
        if _FORKED:
            raise StorageError(_FORK_REFUSED)
        super()._check_open()
        try:
            found = self.file.stat()
            moved = (found.st_dev, found.st_ino) != (self._found.st_dev, self._found.st_ino)
        except FileNotFoundError:
            moved = True
        if moved:
            raise StorageError(
                f"The file {self.place} was moved, deleted or replaced while it was open; close the collection, and "
                "open the file that you want."
            )

    def size(self) -> int:
        """Return the number of bytes of the file and its write-ahead log."""
        files = self._log, self.file  # in this order: what leaves the log meanwhile is in the file then
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Release the file; connections that other threads use are closed when these are done."""
        if _FORKED:
            self._closed = True
            return  # connections and lock are those of the parent
        _OPEN.discard(self)
        super().close()
        if self._lock is not None:
            self._lock.release()

    # ------------------------------------------------------------------ connections

    def _connect(self, mode: str = "ro") -> sqlite3.Connection:
        """Return a connection; one for reading sees what is committed."""
        uri = f"{self.file.as_uri()}?mode={mode}"
        return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_SECONDS_TO_WAIT)

    # ------------------------------------------------------------------ what differs between databases

    def _leaf(self, part: Compare, values: list[Any]) -> str:
        type_, value = _type_of(part.path), _value_of(part.path)
        if part.operator == "exists":
            return f"{type_} IS NOT NULL"
        if part.operator == "contains":
            equal = _compared(part, "type", "value", values)
            each = f"SELECT 1 FROM json_each(payload, {_literal(part.path)}) WHERE {equal}"
            return f"{type_} = 'array' AND EXISTS ({each})"
        return _compared(part, type_, value, values)

    def _indexed(self, path: FieldPath) -> dict[str, str]:
        return {"": f"{_type_of(path)}, {_value_of(path)}"}  # types first, so that the index alone answers a comparison

    def create_stream(self, name: str) -> None:
        """Make another table like the stream."""
        self.execute(_made()["stream"].replace("stream", name, 1))

    # ------------------------------------------------------------------ maintenance

    def problems(self) -> Iterator[str]:
        """Yield what SQLite finds wrong with the file."""
        for (line,) in self.query("PRAGMA integrity_check"):
            if line != "ok":
                yield f"SQLite finds: {line}"

    def backup(self, path: Path, progress: Progress) -> None:
        """Copy the file, as it is at one moment, to a new one."""
        with self.snapshot(), self._connection() as source, closing(sqlite3.connect(path)) as copy:
            source.execute("SELECT count(*) FROM sqlite_master")  # from now on, what is seen stays the same
            source.backup(copy, pages=_PAGES_PER_STEP, progress=lambda _, left, total: progress(total - left, total))
            copy.execute("PRAGMA journal_mode = DELETE")  # those who read it leave no files beside it
        with path.open("rb+") as file:
            os.fsync(file.fileno())

    def compact(self) -> None:
        """Rewrite all tables without gaps, and shorten the file."""
        self._check_open()
        with self._errors():
            self._writer.execute("VACUUM")
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # ------------------------------------------------------------------ errors

    def _translated(self, error: Exception) -> OnlineHashError:
        if isinstance(error, UnicodeDecodeError):  # an error of SQLite that quotes what is damaged
            return self.damage("it holds text that is not UTF-8")
        code = int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
        for codes, text in _MEANINGS.items():
            if code in codes:
                return StorageError(f"{self.place} {text.format(error)}")
        kind = kind_of(self.file)
        if kind and kind != "collection":
            return FileFormatError(wrong_kind(self.file, kind, "collection"))
        return FileFormatError(
            f"{self.place} is damaged, or not a collection that onlinehash wrote ({error}). Restore it from a copy."
        )


def _made() -> dict[str, str]:
    """Return the statements that make the tables, by name."""
    types = {"id": "", "rowid": "INTEGER", "blob": "BLOB", "end": " WITHOUT ROWID"}
    return {name: f"CREATE TABLE {name} {columns.format(**types)}" for name, columns in TABLES.items()}


# ---------------------------------------------------------------------- filters

_TYPES = {"number": "IN ('integer', 'real')", "string": "= 'text'"}


def _compared(part: Compare, type_: str, value: str, values: list[Any]) -> str:
    if part.type not in _TYPES:
        return f"{type_} IN ({', '.join(repr(json.dumps(one)) for one in part.values)})"  # 'null', 'true', 'false'
    # A float is read as the payload is, so that the same digits are the same number.
    marks = ["json_extract(?, '$')" if isinstance(one, float) else "?" for one in part.values]
    values.extend(repr(one) if isinstance(one, float) else one for one in part.values)
    if part.operator in ("in", "contains"):
        test = f"= {marks[0]}" if len(marks) == 1 else f"IN ({', '.join(marks)})"
    else:
        test = f"{part.operator} {marks[0]}"
    return f"{type_} {_TYPES[part.type]} AND {value} {test}"


def _type_of(path: FieldPath) -> str:
    return f"json_type(payload, {_literal(path)})"


def _value_of(path: FieldPath) -> str:
    return f"json_extract(payload, {_literal(path)})"


def _literal(path: FieldPath) -> str:
    """Return a path in quotes; older versions of SQLite compare keys as they are written, which is in ASCII."""
    text = "$" + "".join(f".{json.dumps(key)}" for key in path)
    return "'{}'".format(text.replace("'", "''"))


# ---------------------------------------------------------------------- forks

# Files open in this process, and those that were open in its parent when it was forked.
_OPEN: WeakSet[SqliteStore] = WeakSet()
_FORKED: list[SqliteStore] = []


def _after_fork() -> None:
    _FORKED.extend(_OPEN)  # kept, so that SQLite does not close what is its parent's
    _OPEN.clear()
    for database in _FORKED:
        if database._lock is not None:
            database._lock.release()  # which leaves it to the parent


_FORK_REFUSED = (
    "This process was forked while a collection was open, and SQLite must not be carried across a fork. Start it with "
    "multiprocessing's 'spawn' or 'forkserver', or fork before you open a collection."
)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
