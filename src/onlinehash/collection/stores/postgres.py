"""PostgresStore: a collection in a schema of a PostgreSQL database."""

from __future__ import annotations

import json
import os
import selectors
import socket
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from onlinehash._internal.validation import check_process
from onlinehash.collection.filters import Compare, FieldPath, parse_path
from onlinehash.collection.stores.sql import NEW_STREAM, ROWS_PER_QUERY, TABLES, SqlStore
from onlinehash.collection.stores.sqlite import SqliteStore
from onlinehash.exceptions import (
    DamagedError,
    DataNotFoundError,
    FileFormatError,
    InvalidInputError,
    LockedError,
    StorageError,
    needs_extra,
)
from onlinehash.types import Progress

with needs_extra("psycopg", "postgres"):
    import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]

_COMMENT = "onlinehash collection, schema 3"  # on the table of settings
_TYPES = {"id": 'TEXT COLLATE "C"', "rowid": "BIGINT", "blob": "BYTEA", "end": ""}
_SET_LOCK_TIMEOUT = "SET lock_timeout = '30s'"  # for locks of tables

# What errors of PostgreSQL mean, by the start of their SQLSTATE.
_UNSURE = "If this was during COMMIT, the change may or may not have been stored; read before you repeat it."
_MEANINGS: dict[str | tuple[str, ...], tuple[type[Exception], str]] = {
    ("08", "57P"): (StorageError, f"lost its connection: {{}}. {_UNSURE}"),
    ("22", "54"): (InvalidInputError, "cannot hold this: {}."),
    ("3F000", "42P01"): (DataNotFoundError, "was deleted while it was open: {}. Close it."),
    "25006": (StorageError, "cannot be written to: {}. It can be read."),
    "42501": (StorageError, "does not allow this: {}. Ask its owner, or use another user."),
    "53": (StorageError, "cannot be written: {}. Nothing of this call was stored; make room and try again."),
    "XX00": (DamagedError, "is damaged: {}. Restore it from a copy."),
    "": (StorageError, "cannot do this: {}. Nothing of this call was stored; try again."),
}


class PostgresStore(SqlStore):
    """Hold a schema open, for one writer and many readers.

    The connection that writes holds an advisory lock. Changes are as durable as the settings of the server make them.

    Parameters
    ----------
    name : str
        The schema is ``onlinehash_<name>``.
    url : str
        ``"postgresql://user:password@host:port/database"``.
    readonly : bool
        Read what another process writes; otherwise the schema is created if there is none.
    """

    # The lock keeps the writer from replacing the stream meanwhile, which a snapshot of PostgreSQL does not hide.
    begin_reading = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; LOCK TABLE stream IN ACCESS SHARE MODE"
    begin_writing = "BEGIN ISOLATION LEVEL READ COMMITTED"
    database_errors = (psycopg.Error,)

    def __init__(self, name: str, url: str, *, readonly: bool = False) -> None:
        self._parameters = _parameters(url)
        address = {"host": "localhost", "port": 5432, "dbname": "", **self._parameters}
        self._server = "{host}:{port}/{dbname}".format(**address)
        self._schema = f"onlinehash_{name}"
        self._process, self._writer_pid = os.getpid(), 0  # here, and of the server
        super().__init__(f"The collection {name!r} in {self._server}", readonly)

    # ------------------------------------------------------------------ the schema

    def _open(self) -> None:
        if not self.readonly:
            self._writer = self._connect_to_write()
        if not self.query("SELECT 1 FROM pg_namespace WHERE nspname = ?", self._schema):
            if self.readonly:
                raise DataNotFoundError(f"{self.place} is not there; open it for writing to create it.")
            with self._in_transaction(self._writer):
                self.execute(f'CREATE SCHEMA "{self._schema}"')
                self.create_tables(f"CREATE TABLE {name} {made.format(**_TYPES)}" for name, made in TABLES.items())
                self.execute(f"COMMENT ON TABLE settings IS '{_COMMENT}'")
        self._check_schema()

    def _check_schema(self) -> None:
        """Refuse a schema that is not ours, of another version, or whose tables are not those of a collection."""
        ((comment,),) = self.query("SELECT obj_description(to_regclass(?))", f'"{self._schema}".settings')
        if comment != _COMMENT:
            name = self._schema.removeprefix("onlinehash_")
            raise FileFormatError(
                f"{self.place} has the schema of another version ({comment or '0.2.0, or not onlinehash'}). With the "
                f"version that wrote it, run: onlinehash collection export 'postgresql://...#{name}' items.npz; "
                f"then with this version: onlinehash ingest items.npz --into 'postgresql://...#new_{name}'"
            )
        if not TABLES.keys() <= set(self._tables()):
            raise self.damage("its tables are not those of a collection")

    def _tables(self) -> list[str]:
        return [name for (name,) in self.query("SELECT tablename FROM pg_tables WHERE schemaname = ?", self._schema)]

    # ------------------------------------------------------------------ connections

    def _connect(self, *, prepare: int | None = None) -> Connection:
        """Return a connection; it prepares statements only if no other connection changes the tables."""
        user = f"onlinehash, process {os.getpid()} on {socket.gethostname()}"[:63]
        given = {"connect_timeout": 10, **self._parameters, "application_name": user}
        try:
            connection = psycopg.connect(**given, autocommit=True, prepare_threshold=prepare)
        except psycopg.Error as error:
            raise StorageError(f"Cannot connect to {self._server}: {_message(error)}.") from error
        if connection.info.parameter_status("server_encoding") != "UTF8":
            connection.close()
            raise StorageError(f"The encoding of the database {self._server} is not UTF8; use one whose encoding is.")
        connection.adapters.register_dumper(int, _UntypedInt)
        connection.execute(f'SET search_path = "{self._schema}"; {_SET_LOCK_TIMEOUT}')
        return connection

    def _connect_to_write(self) -> Connection:
        """Return a connection that holds the lock; if the one before was lost, its COMMIT is over by then."""
        connection = self._connect(prepare=5)
        lock = int.from_bytes(sha256(f'"{self._schema}"'.encode()).digest()[:8], "big", signed=True)
        holders = f"""FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE datname = current_database() AND granted
                      AND locktype = 'advisory' AND classid::int8 << 32 | objid::int8 = {lock}"""
        try:  # the server may not know yet that a writer is gone, hence the wait
            connection.execute(f"SELECT pg_terminate_backend(pid) {holders} AND pid = {self._writer_pid}")
            connection.execute(f"SET lock_timeout = '1s'; SELECT pg_advisory_lock({lock}); {_SET_LOCK_TIMEOUT}")
        except psycopg.errors.LockNotAvailable:
            with closing(connection):
                found = connection.execute(f"SELECT application_name {holders}").fetchall()
            holder = "".join(f" ({name.removeprefix('onlinehash, ')})" for (name,) in found)
            raise LockedError(
                f"{self.place} is open for writing already{holder}; one writer at a time. Close the other, or open "
                "this one with readonly=True."
            ) from None
        self._writer_pid = connection.info.backend_pid
        return connection

    def _check_open(self) -> None:
        check_process(self.place, self._process)
        super()._check_open()

    def take_lock(self) -> bool:
        """Connect and lock again if the connection was lost; another process may have written in between."""
        self._check_open()
        if self._is_usable(self._writer):
            return False
        self._writer.close()
        with self._errors():
            self._writer = self._connect_to_write()
        return True

    def close(self) -> None:
        """Release the server; connections that other threads use are closed when these are done."""
        self._closed = True
        if os.getpid() == self._process:  # else the connections are those of the parent
            super().close()

    # ------------------------------------------------------------------ transactions

    def _is_usable(self, connection: Connection) -> bool:
        """Return whether a connection is open, in no transaction, and has nothing to read, which would be its end."""
        if connection.closed or connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            return False
        with selectors.DefaultSelector() as selector:
            selector.register(connection.pgconn.socket, selectors.EVENT_READ)
            return not selector.select(0)

    def _run(self, connection: Connection, sql: str, values: Sequence[Any]) -> psycopg.Cursor[tuple[Any, ...]]:
        return connection.execute(_to_psycopg(sql), values, binary=True)

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement of a transaction for each of several rows of values."""
        with self._writer.cursor() as cursor:
            if not sql.startswith("INSERT"):
                cursor.executemany(_to_psycopg(sql), rows)
            else:
                with cursor.copy(f"COPY {sql.split()[2]} FROM STDIN") as copy:  # which is faster
                    for row in rows:
                        copy.write_row(row)

    # ------------------------------------------------------------------ what differs between databases

    def _leaf(self, part: Compare, values: list[Any]) -> str:
        if part.operator == "exists":
            return f"{_value_of(part.path)} IS NOT NULL"
        if part.operator == "contains":
            values.append(json.dumps(part.values))
            return f"{_value_of(part.path)} @> ?::jsonb"
        return _compared_text(part, values) if part.type == "string" else _compared(part, values)

    def _indexed(self, path: FieldPath) -> dict[str, str]:
        return {"_scalar": _scalar_of(path), "_string": _start_of(path)}

    def create_stream(self, name: str) -> None:
        """Make another table like the stream."""
        self.execute(f"CREATE TABLE {name} (LIKE stream INCLUDING ALL)")

    def set_id_type(self, id_type: str) -> None:
        """Make the columns of ids integers, if that is what ids are."""
        if id_type == "int":
            for table in ("items", "stream"):
                self.execute(f"ALTER TABLE {table} ALTER id TYPE BIGINT USING id::bigint")

    # ------------------------------------------------------------------ maintenance

    def size(self) -> int:
        """Return the number of bytes of all tables and their indexes."""
        select = "SELECT pg_total_relation_size(format('%I.%I', schemaname, tablename)) FROM pg_tables"
        return sum(n_bytes for (n_bytes,) in self.query(f"{select} WHERE schemaname = ?", self._schema))

    def backup(self, path: Path, progress: Progress) -> None:
        """Copy everything, as it is at one moment, to a new SQLite file."""
        with TemporaryDirectory(dir=path.parent) as folder, closing(SqliteStore(Path(folder) / path.name)) as copy:
            with self.snapshot(), self._connection() as connection, copy._in_transaction(copy._writer):
                tables, n_copied = self._tables(), 0
                n_rows = sum(self.query(f"SELECT count(*) FROM {table}")[0][0] for table in tables)
                if NEW_STREAM in tables:
                    copy.create_stream(NEW_STREAM)
                for table in tables:
                    copy.execute(f"DELETE FROM {table}")  # the settings that every store has
                    connection.execute(f"DECLARE {table}_rows CURSOR FOR SELECT * FROM {table}")
                    while rows := self.query(f"FETCH {ROWS_PER_QUERY} FROM {table}_rows"):
                        copy.execute_many(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
                        n_copied += len(rows)
                        progress(n_copied, n_rows)
                for indexed in self.settings().get("indexes", []):
                    copy.create_index(parse_path(indexed))
            copy.backup(path, lambda done, total: None)  # which leaves no files beside it

    def compact(self) -> None:
        """Rewrite all tables without gaps; readers of a table wait meanwhile."""
        with self._errors():
            self._check_open()
            self._writer.execute(f"VACUUM (FULL, ANALYZE) {', '.join(self._tables())}")

    # ------------------------------------------------------------------ errors

    def _translated(self, error: psycopg.Error) -> Exception:
        state = error.sqlstate or ("22" if isinstance(error, psycopg.DataError) else "08")
        type_, text = next(meaning for start, meaning in _MEANINGS.items() if state.startswith(start))
        return type_(f"{self.place} {text.format(_message(error))}")


class _UntypedInt(psycopg.adapt.Dumper):
    """Write an integer without a type, as psycopg writes strings: the server takes that of the column."""

    def dump(self, obj: Any) -> bytes:
        """Return the digits."""
        return str(obj).encode()


def _parameters(url: str) -> dict[str, Any]:
    """Return the parameters of a URL. No error quotes it: part of a password with "@" or "/" is taken for a host."""
    with suppress(psycopg.Error):
        got = {name: value for name, value in psycopg.conninfo.conninfo_to_dict(url).items() if value}
        if "@" not in f"{got.get('host')}{got.get('dbname')}" and str(got.get("port", 0)).replace(",", "").isdecimal():
            return got
    raise InvalidInputError(
        "The URL of the store is not valid; use postgresql://user:password@host:port/database, percent-encode special "
        "characters, and pass only parameters that PostgreSQL knows."
    )


def _to_psycopg(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s")


def _message(error: psycopg.Error) -> str:
    """Return the first line of the message of an error."""
    return (error.diag.message_primary or str(error) or type(error).__name__).strip().split("\n")[0].rstrip(".")


# ---------------------------------------------------------------------- filters

_INDEXED_CHARACTERS = 250  # of a string: PostgreSQL refuses index entries of more than 2700 bytes
_ESCAPES = {"\\": r"\\", "'": "''", "?": r"\x3f", "%": r"\x25"}  # "?" and "%" have a meaning in our SQL and psycopg's


def _compared(part: Compare, values: list[Any]) -> str:
    """Return a comparison with numbers, booleans or null; as jsonb, numbers are exact."""
    texts = [json.dumps(one) for one in part.values]
    values.append(texts if part.operator == "in" else texts[0])
    if part.operator == "in":
        return f"{_scalar_of(part.path)} = ANY(?::text[]::jsonb[])"
    return f"{_scalar_of(part.path)} {part.operator} ?::jsonb AND jsonb_typeof({_value_of(part.path)}) = 'number'"


def _compared_text(part: Compare, values: list[Any]) -> str:
    """Return a comparison with strings: of their starts, which an index has, and of the whole."""
    starts = [one[:_INDEXED_CHARACTERS] for one in part.values]
    start, text = _start_of(part.path), f'{_text_of(part.path)} COLLATE "C"'
    if part.operator == "in":
        values.extend([starts, list(part.values)])
        return f"{start} = ANY(?::text[]) AND {text} = ANY(?::text[])"
    values.extend([starts[0], part.values[0]])
    return f"{start} {part.operator[0]}= ?::text AND {text} {part.operator} ?::text"


def _value_of(path: FieldPath) -> str:
    """Return the value at a path, key by key: "0" is a key, never a place in a list."""
    keys = ("".join(_ESCAPES.get(character, character) for character in key) for key in path)
    return "(" + " -> ".join(["payload::jsonb", *(f"E'{key}'" for key in keys)]) + ")"


def _scalar_of(path: FieldPath) -> str:
    value = _value_of(path)
    return f"(CASE WHEN jsonb_typeof({value}) IN ('number', 'boolean', 'null') THEN {value} END)"


def _text_of(path: FieldPath) -> str:
    value = _value_of(path)
    return f"(CASE WHEN jsonb_typeof({value}) = 'string' THEN {value} #>> '{{}}' END)"


def _start_of(path: FieldPath) -> str:
    return f'(left({_text_of(path)}, {_INDEXED_CHARACTERS}) COLLATE "C")'
