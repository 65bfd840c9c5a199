"""SqlStore: a collection in the tables of a database; the SQL that SQLite and PostgreSQL have in common."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.filters import FieldPath, Filter
from onlinehash.collection.types import Batch, Id
from onlinehash.exceptions import DamagedError, StorageError
from onlinehash.types import Codes, Progress

MAX_VALUE_BYTES = 999_000_000  # SQLite takes 10^9 bytes per row, PostgreSQL 2^30 per value

Seqs = NDArray[np.int64]
"""Sequence numbers of items: their places in the stream that the hasher learns from."""


class Head(NamedTuple):
    """Counters of a store, written by every transaction."""

    seq: int = 0  # of the last change
    n_items: int = 0
    n_unsaved: int = 0  # rows of the stream after the state of the hasher
    generation: int = 0  # of the codes in use; 0 before the first
    n_changes: int = 0  # transactions
    n_settings: int = 0
    n_learned: int = 0  # version of the hasher


class ItemColumns(NamedTuple):
    """Which items there are: one entry per item and column, labels as JSON."""

    seqs: Seqs = np.empty(0, np.int64)
    ids: Sequence[Any] = ()
    labels: Sequence[str | None] = ()


@dataclass(frozen=True, eq=False)
class StreamRows:
    """Rows of the stream, in order: what a hasher learns from and an encoder encodes."""

    seqs: Seqs
    ids: list[Any]
    vectors: NDArray[Any]
    labels: list[str | None]

    def __len__(self) -> int:
        return len(self.seqs)


class CodeColumns(NamedTuple):
    """Codes of a generation; those of items that are gone may be among them."""

    seqs: Seqs = np.empty(0, np.int64)
    codes: Codes = np.empty((0, 0), np.uint8)


class Changes(NamedTuple):
    """What happened after a sequence number: items that came and are still there, and those that went."""

    items: ItemColumns = ItemColumns()
    codes: CodeColumns = CodeColumns()
    gone: Seqs = np.empty(0, np.int64)


class AppliedRequest(NamedTuple):
    """A change by its key: the checksum of what was asked for, and how many items it concerned."""

    key: str
    checksum: int
    n_items: int


def _check_size(content: bytes, what: str) -> None:
    """Raise if a state is too large for one value of a database."""
    if len(content) > MAX_VALUE_BYTES:
        raise StorageError(
            f"{what} has {len(content) / 1e9:.2f} GB, and a value of a database has at most {MAX_VALUE_BYTES / 1e9:g} "
            "GB. It grows with classes times features: use a hasher with fewer n_components, or features='none'."
        )


def checksum(*fields: object, content: Any = b"") -> int:
    """Return the CRC-32 of the fields of a row, the large one as bytes; -1 if that is something else.

    Examples
    --------
    >>> checksum(7, "cat") == checksum(7, "cat"), checksum(7, "cat") == checksum(77, "at")
    (True, False)
    """
    if not isinstance(content, (bytes, memoryview)):
        return -1
    return crc32(content, crc32(ascii(fields).encode()))  # the same in every version of Python


def to_blobs(vectors: NDArray[Any]) -> list[bytes]:
    """Return the bytes of each row, little-endian.

    Examples
    --------
    >>> [blob.hex() for blob in to_blobs(np.array([[1.0], [-2.0]], np.float16))]
    ['003c', '00c0']
    """
    rows = np.ascontiguousarray(vectors, vectors.dtype.newbyteorder("<"))
    blobs: list[bytes] = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0].tolist()
    return blobs


def from_blobs(blobs: Sequence[bytes], dtype: str) -> NDArray[Any]:
    """Return the rows of which these are the bytes.

    Examples
    --------
    >>> from_blobs([bytes.fromhex("003c"), bytes.fromhex("00c0")], "float16")
    array([[ 1.],
           [-2.]], dtype=float16)
    """
    content = np.frombuffer(b"".join(blobs), np.dtype(dtype).newbyteorder("<"))
    return content.reshape(len(blobs), -1 if blobs else 0)


# ``items`` says which items there are. The stream has their vectors, and those of items replaced or deleted since the
# last state of the hasher, which learns from them again after a crash. ``gone`` has the sequence numbers of such items,
# and when they went, for the processes that follow. Codes come in chunks: sequence numbers, then codes, both as bytes.
# ``requests`` has the keys of changes that were applied, so that one that is sent again is not applied twice.
# Every row has a checksum. ``{id}``, ``{blob}`` and ``{end}`` differ between databases.
TABLES = {
    "settings": "(name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum BIGINT NOT NULL){end}",
    "state": "(seq BIGINT PRIMARY KEY, content {blob} NOT NULL, checksum BIGINT NOT NULL)",
    "generation": "(number BIGINT PRIMARY KEY, encoder {blob} NOT NULL, checksum BIGINT NOT NULL)",
    "codes": "(number BIGINT, last BIGINT, seqs {blob} NOT NULL, codes {blob} NOT NULL, checksum BIGINT NOT NULL, "
    "PRIMARY KEY (number, last))",
    "items": "(id {id} PRIMARY KEY, seq BIGINT NOT NULL, labels TEXT, checksum BIGINT NOT NULL){end}",
    "stream": "(seq {rowid} PRIMARY KEY, id {id} NOT NULL, batch BIGINT NOT NULL, labels TEXT, vector {blob} NOT NULL, "
    "checksum BIGINT NOT NULL)",
    "payloads": "(seq {rowid} PRIMARY KEY, payload TEXT, checksum BIGINT NOT NULL)",
    "gone": "(seq {rowid} PRIMARY KEY, at BIGINT NOT NULL, checksum BIGINT NOT NULL)",
    "requests": "(key TEXT PRIMARY KEY, at BIGINT NOT NULL, request BIGINT NOT NULL, n_items BIGINT NOT NULL, "
    "checksum BIGINT NOT NULL){end}",
}
"""What follows CREATE TABLE and a name."""

INDEXES = {f"{table}_by_at": f"CREATE INDEX {table}_by_at ON {table} (at)" for table in ("gone", "requests")}

NEW_STREAM = "new_stream"
"""The table of the vectors of another embedding model, made as the stream is."""

FOLLOWED = 1_000_000
"""Sequence numbers that a follower may be behind; further back, it reads everything again."""

REQUEST_SECONDS = 24 * 3600
"""For which the key of a change is kept."""

ROWS_PER_QUERY = 500
CODES_PER_CHUNK = 50_000
ROWS_PER_FETCH = 50_000


class Database(Protocol):
    """What a store asks of a database. SQL has ``?`` for values.

    Each thread that reads takes a connection of its own; changes share one. A subclass defines the methods that have
    no body here.
    """

    place: str
    """What errors call the collection."""
    readonly: bool
    file: Path | None = None
    """The file that holds everything, if there is one."""
    begin_reading: str = "BEGIN"
    begin_writing: str
    _writer: Any  # the connection that changes share
    _idle: list[Any]
    _active: threading.local
    _readers: threading.BoundedSemaphore
    _closed: bool

    def __init__(self) -> None:
        self._idle, self._active, self._closed = [], threading.local(), False
        self._readers = threading.BoundedSemaphore(16)  # connections; further threads wait for one

    # ------------------------------------------------------------------ connections and transactions

    def _connect(self) -> Any:
        """Return a connection for reading."""

    def _is_usable(self, connection: Any) -> bool:
        """Return whether a connection is open, and in no transaction."""

    def _check_open(self) -> None:
        """Raise unless this is open, in the process that opened it."""

    def _rollback(self, connection: Any) -> None:
        """Undo what was not committed, if anything."""

    def _errors(self) -> AbstractContextManager[None]:
        """Raise errors of the database as ours."""

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """Give the connection of the transaction that this thread is in, or one for reading."""
        active = getattr(self._active, "connection", None)
        if active is not None:
            yield active
            return
        self._check_open()
        with self._readers:
            connection = None
            while self._idle and connection is None:
                with suppress(IndexError):  # another thread took the last
                    connection = self._idle.pop()
                    if not self._is_usable(connection):
                        connection = connection.close()
            connection = connection or self._connect()
            try:
                yield connection
            finally:
                self._idle.append(connection)
                if self._closed:
                    self.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """See one moment of the database in all queries of the block."""
        if getattr(self._active, "connection", None) is not None:
            yield
            return
        with self._errors(), self._connection() as connection:
            try:
                connection.execute(self.begin_reading)
                self._active.connection = connection
                yield
            finally:
                self._active.connection = None
                self._rollback(connection)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Apply all statements of the block, durably, or none; raise if the right to write was lost."""
        if self.readonly:
            raise StorageError(f"{self.place} is open with readonly=True; open it for writing.")
        with self._errors():
            self._check_open()
            self._rollback(self._writer)  # if an interrupt came between a transaction and its end
            try:
                self._writer.execute(self.begin_writing)
                self._active.connection = self._writer  # queries of this thread see the transaction
                yield
                self._writer.execute("COMMIT")
            finally:
                self._active.connection = None
                self._rollback(self._writer)

    def take_lock(self) -> bool:
        """Take the right to write again if it was lost, and return whether it was; what was committed then is over."""
        return False

    def close(self) -> None:
        """Release everything; connections that other threads use are closed when these are done."""
        self._closed = True
        with suppress(IndexError):  # another thread took the last
            while self._idle:
                self._idle.pop().close()
        if hasattr(self, "_writer"):
            self._writer.close()

    # ------------------------------------------------------------------ statements

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""

    def execute(self, sql: str, *values: Any) -> None:
        """Run a statement of a transaction."""

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement of a transaction for each of several rows of values."""

    def condition(self, where: Filter) -> tuple[str, list[Any]]:
        """Return SQL for a filter on the column ``payload``, and its values."""

    def create_index(self, path: FieldPath) -> None:
        """Make filters by a path fast."""

    def drop_index(self, path: FieldPath) -> None:
        """Drop the index of a path."""

    def create_stream(self, name: str) -> None:
        """Make another table like the stream."""

    def set_id_type(self, id_type: str) -> None:
        """Prepare for ids that are "int" or "str", before the first item."""
        return

    def create_tables(self, statements: Iterable[str]) -> None:
        """Make the tables, and the counters that every store has."""
        head = str(list(Head()))
        for statement in [*statements, *INDEXES.values()]:
            self.execute(statement)
        self.execute("INSERT INTO settings VALUES ('head', ?, ?)", head, checksum("head", head))

    # ------------------------------------------------------------------ maintenance

    def damage(self, what: str) -> DamagedError:
        """Return the error for what was read and is not what was written."""
        return DamagedError(f"{self.place} is damaged: {what}. Restore it from a copy.", what)

    def problems(self) -> Iterator[str]:
        """Yield what the database itself finds wrong."""
        yield from ()

    def size(self) -> int:
        """Return the number of bytes that everything takes."""

    def backup(self, path: Path, progress: Progress) -> None:
        """Copy everything, as it is at one moment, to a new SQLite file."""

    def compact(self) -> None:
        """Give unused space back."""


class SqlStore:
    """Durable items of a collection. Reads see what was committed, from any thread; one thread writes at a time.

    Parameters
    ----------
    database : Database
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.readonly, self.file = database.readonly, database.file
        self._head: dict[str, int] = {}  # in a transaction: the counters that it will write
        self._has_rival = False  # whether another process was seen to write, though this one has the lock
        self.last = Head()
        """The counters that the last transaction has written."""
        self.request: AppliedRequest | None = None
        """What the next transaction is to remember."""

    def close(self) -> None:
        """Release the database; the store cannot be used again."""
        self.database.close()

    # ------------------------------------------------------------------ transactions and settings

    @contextmanager
    def transaction(self, known: Head | None = None) -> Iterator[None]:
        """Apply all changes of the block, durably, or none; raise if the counters are not those that are known."""
        with self.database.transaction():
            head = self.head()
            self._has_rival = self._has_rival or known not in (None, head)
            if self._has_rival:
                raise StorageError(
                    f"{self.database.place} was changed by another writer, which its lock should have kept out; close "
                    "it, and open it again."
                )
            self._head = head._asdict()
            yield
            if self.request is not None:
                self._remember(self.request)
            self._head["n_changes"] += 1
            self._write_setting("head", list(self._head.values()))
        self.last, self.request = Head(**self._head), None

    def snapshot(self) -> AbstractContextManager[None]:
        """See one moment of the store in all reads of the block."""
        return self.database.snapshot()

    def head(self) -> Head:
        """Return the counters."""
        found = self._checked(self.database.query(f"{_SETTINGS} WHERE name = 'head'"), "the setting {!r}")
        if not found:
            raise self.database.damage("its counters are missing")
        return Head(*json.loads(found[0][1]))

    @cached_property
    def vector_dtype(self) -> str:
        """Precision of the stored vectors, which never changes."""
        return str(self.settings().get("vector_dtype", "float32"))

    def settings(self) -> dict[str, Any]:
        """Return all settings: JSON values by name."""
        found = self._checked(self.database.query(_SETTINGS), "the setting {!r}")
        settings = {name: json.loads(value) for name, value, _ in found}
        if "head" not in settings:
            raise self.database.damage("its counters are missing")
        if Head(*settings.pop("head")).n_settings != len(settings):
            raise self.database.damage("settings are missing")
        return settings

    def _checked(self, rows: list[tuple[Any, ...]], what: str) -> list[tuple[Any, ...]]:
        """Return rows that end in their checksums; ``what`` names one by its first field in errors."""
        for row in rows:
            if crc32(ascii(row[:-1]).encode()) != row[-1]:  # checksum(), without a call for every row
                raise self.database.damage(f"{what.format(row[0])} does not match its checksum")
        return rows

    def put_settings(self, settings: Mapping[str, Any]) -> None:
        """Write some settings; None removes one."""
        for name, value in settings.items():
            known = bool(self.database.query("SELECT 1 FROM settings WHERE name = ?", name))
            if value is None:
                self.database.execute("DELETE FROM settings WHERE name = ?", name)
            else:
                self._write_setting(name, value)
            self._head["n_settings"] += (value is not None) - known

    def _write_setting(self, name: str, value: Any) -> None:
        text = json.dumps(value)
        self.database.execute(
            "INSERT INTO settings VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value, "
            "checksum = excluded.checksum",
            name,
            text,
            checksum(name, text),
        )

    def find_request(self, key: str) -> AppliedRequest | None:
        """Return the change that was applied with a key."""
        found = self._checked(self.database.query(f"{_REQUESTS} WHERE key = ?", key), _REQUEST_ROW)
        return AppliedRequest(key, *found[0][2:4]) if found else None

    def _remember(self, request: AppliedRequest) -> None:
        """Write the key of the change of this transaction; those of long ago may go."""
        key, now = request.key, int(time.time())
        row = (key, now, request.checksum, request.n_items)
        self.database.execute("DELETE FROM requests WHERE at < ?", now - REQUEST_SECONDS)
        self.database.execute("INSERT INTO requests VALUES (?, ?, ?, ?, ?)", *row, checksum(*row))

    # ------------------------------------------------------------------ items

    def put(self, first: int, batch: Batch, n_learned: int) -> None:
        """Write new items from a sequence number on, and the version of the hasher; items replaced are deleted."""
        head = self._head
        if first == 1:
            self.database.set_id_type("str" if isinstance(batch.ids[0], str) else "int")
        stream, items, payloads = [], [], []
        for seq, (id, blob, labels, payload) in enumerate(
            zip(batch.ids, to_blobs(batch.vectors), batch.labels, batch.payloads, strict=True), first
        ):
            row, item, text = (seq, id, first, labels), (id, seq, labels), (seq, payload)  # checksum(), without calls
            stream.append((*row, blob, crc32(blob, crc32(ascii(row).encode()))))
            items.append((*item, crc32(ascii(item).encode())))
            payloads.append((*text, crc32(ascii(text).encode())))
        self.database.execute_many("INSERT INTO stream VALUES (?, ?, ?, ?, ?, ?)", stream)
        self.database.execute_many("INSERT INTO items VALUES (?, ?, ?, ?)", items)
        self.database.execute_many("INSERT INTO payloads VALUES (?, ?, ?)", payloads)
        n_rows = len(items)
        head["seq"], head["n_learned"] = first + n_rows - 1, n_learned
        head["n_items"], head["n_unsaved"] = head["n_items"] + n_rows, head["n_unsaved"] + n_rows

    def put_payloads(self, seqs: Sequence[int], payloads: Sequence[str | None]) -> None:
        """Write the payloads of items."""
        rows = [(text, checksum(seq, text), seq) for seq, text in zip(seqs, payloads, strict=True)]
        self.database.execute_many("UPDATE payloads SET payload = ?, checksum = ? WHERE seq = ?", rows)

    def delete(self, seqs: Sequence[int], ids: Sequence[Id], at: int, *, keep_rows: bool = False) -> None:
        """Delete items; the change has the sequence number ``at``.

        With ``keep_rows``, their vectors stay until the next state of the hasher, which unlearns them.
        """
        saved_to = -1 if keep_rows else self._state_seq()
        database, one = self.database, [(seq,) for seq in seqs]
        database.execute_many("DELETE FROM items WHERE id = ?", [(id,) for id in ids])
        database.execute_many("DELETE FROM payloads WHERE seq = ?", one)
        database.execute_many("DELETE FROM stream WHERE seq = ?", [(seq,) for seq in seqs if seq <= saved_to])
        database.execute_many("INSERT INTO gone VALUES (?, ?, ?)", [(seq, at, checksum(seq, at)) for seq in seqs])
        self._head["seq"] = max(self._head["seq"], at)
        self._head["n_items"] -= len(seqs)

    def seqs(self, ids: Sequence[Id]) -> dict[Any, int]:
        """Return the sequence numbers of ids that are known, in the same order."""
        rows = self._checked(self._among(f"{_ITEMS} WHERE id", ids), "item {!r}")
        if not rows:
            return {}
        found = {row[0]: row[1] for row in rows}
        return {id: found[id] for id in ids if id in found}

    def items(self) -> ItemColumns:
        """Return all items, in order of arrival."""
        ids, seqs, labels = list[Any](), list[int](), list[str | None]()
        with self.snapshot():
            n_items = self.head().n_items
            while rows := self._next_items(ids[-1] if ids else None, ROWS_PER_FETCH):
                ids += [row[0] for row in rows]
                seqs += [row[1] for row in rows]
                labels += [row[2] for row in rows]
        if len(ids) != n_items:
            raise self.database.damage(f"{len(ids)} items were found of {n_items}")
        numbers = np.array(seqs, np.int64)
        order = np.argsort(numbers)
        if (np.diff(numbers[order]) <= 0).any():
            raise self.database.damage("two items have one sequence number")
        places = order.tolist()
        return ItemColumns(numbers[order], [ids[i] for i in places], [labels[i] for i in places])

    def _next_items(self, after: Id | None, limit: int, sign: str = ">", order: str = "ASC") -> list[tuple[Any, ...]]:
        where, values = ("", ()) if after is None else (f"WHERE id {sign} ?", (after,))
        found = self.database.query(f"{_ITEMS} {where} ORDER BY id {order} LIMIT ?", *values, limit)
        return self._checked(found, "item {!r}")

    def page(self, order: str, after: Id | None, limit: int, *, descending: bool = False) -> list[tuple[int, Any]]:
        """Return sequence numbers and ids of the next items in order of "id" or "arrival"."""
        sign, direction = ("<", "DESC") if descending else (">", "ASC")
        if order == "id":
            return [(row[1], row[0]) for row in self._next_items(after, limit, sign, direction)]
        where, values = ("", ()) if after is None else (f"AND seq {sign} ?", (after,))
        select = f"SELECT seq, id FROM stream WHERE {_is_item('stream')} {where} ORDER BY seq {direction} LIMIT ?"
        return [(seq, id) for seq, id in self.database.query(select, *values, limit)]

    def _among(self, select: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows in which the column that ends the query has one of the values, in any order."""
        found: list[tuple[Any, ...]] = []
        for start in range(0, len(values), ROWS_PER_QUERY):
            some = values[start : start + ROWS_PER_QUERY]
            found += self.database.query(f"{select} IN ({', '.join('?' * len(some))})", *some)
        return found

    def rows(self, seqs: Sequence[int], table: str = "stream") -> StreamRows:
        """Return the rows of items, in that order; raise if one is missing."""
        found = {row[0]: row for row in self._among(f"{_STREAM.replace('stream', table)} WHERE seq", seqs)}
        self._demand(seqs, found)
        return self._stream_rows([found[seq] for seq in seqs])

    def _stream_rows(self, rows: list[tuple[Any, ...]]) -> StreamRows:
        """Return rows of the stream as columns; raise if one is not what was written."""
        seqs, ids, batches, labels, blobs, sums = map(list, zip(*rows, strict=True)) if rows else ([] for _ in range(6))
        keys = map(str.encode, map(ascii, zip(seqs, ids, batches, labels, strict=True)))
        if {*map(type, blobs)} - {bytes}:
            blobs = [blob if isinstance(blob, bytes) else b"" for blob in blobs]
        for id, found, right in zip(ids, sums, map(crc32, blobs, map(crc32, keys)), strict=True):  # as checksum() does
            if found != right:
                raise self.database.damage(f"the vector of item {id!r} does not match its checksum")
        return StreamRows(np.array(seqs, np.int64), ids, from_blobs(blobs, self.vector_dtype), labels)

    def payloads(self, seqs: Sequence[int]) -> list[str | None]:
        """Return the payloads of items as JSON, in that order; raise if one is missing."""
        found: dict[int, str | None] = {}
        for seq, text, sum_ in self._among("SELECT seq, payload, checksum FROM payloads WHERE seq", seqs):
            if checksum(seq, text) != sum_:
                raise self.database.damage(f"the payload of item {self._name(seq)} does not match its checksum")
            found[seq] = text
        self._demand(seqs, found)
        return [found[seq] for seq in seqs]

    def first_payloads(self, limit: int) -> list[str]:
        """Return some payloads that are not empty."""
        select = "SELECT payload FROM payloads WHERE payload IS NOT NULL LIMIT ?"
        return [text for (text,) in self.database.query(select, limit)]

    def _demand(self, seqs: Sequence[int], found: Mapping[int, Any]) -> None:
        missing = next((seq for seq in seqs if seq not in found), None)
        if missing is not None:
            raise self.database.damage(f"item {self._name(missing)} is not where it should be")

    def _name(self, seq: int) -> str:
        """Return what errors call an item."""
        found = self.database.query("SELECT id FROM items WHERE seq = ?", seq)
        return repr(found[0][0]) if found else f"number {seq}"

    # ------------------------------------------------------------------ filters

    def filter(self, where: Filter) -> Seqs:
        """Return the sequence numbers of items whose payload passes, sorted."""
        passes, values = self.database.condition(where)
        found = self.database.query(f"SELECT seq FROM payloads WHERE {passes}", *values)
        return np.sort(np.fromiter((seq for (seq,) in found), np.int64, len(found)))

    # ------------------------------------------------------------------ the stream and the state of the hasher

    def stream(self, after: int, limit: int, table: str = "stream", *, only_items: bool = False) -> StreamRows:
        """Return the next rows of the stream; those of items that are gone too, unless only items are wanted."""
        some = f"AND {_is_item(table)}" if only_items else ""
        select = f"{_STREAM.replace('stream', table)} WHERE seq > ? {some} ORDER BY seq LIMIT ?"
        rows = self._stream_rows(self.database.query(select, after, limit))
        if (np.diff(rows.seqs) <= 0).any():
            raise self.database.damage("the stream is not in order")
        return rows

    def replaced_by(self, last: int) -> StreamRows:
        """Return the rows of the items that the batch with this last sequence number replaced."""
        gone = self._checked(self.database.query(f"{_GONE} WHERE at = ?", last), _GONE_ROW)
        return self.rows([row[0] for row in gone])

    def batches(self, after: int) -> list[tuple[int, int]]:
        """Return the first sequence number and the number of rows of every batch that the state does not know."""
        with self.snapshot():
            n_unsaved = self.head().n_unsaved
            select = "SELECT batch, count(*) FROM stream WHERE seq > ? GROUP BY batch ORDER BY batch"
            found = self.database.query(select, after)
        if sum(n_rows for _, n_rows in found) != n_unsaved:
            raise self.database.damage("items are missing that the hasher has learned from")
        return [(first, n_rows) for first, n_rows in found]

    def items_left(self, seqs: Sequence[int]) -> list[int]:
        """Return those of some sequence numbers that items still have, in the same order."""
        there = {seq for (seq,) in self._among("SELECT seq FROM payloads WHERE seq", seqs)}
        return [seq for seq in seqs if seq in there]

    def bytes_per_vector(self) -> int:
        """Return the size of a vector; 0 before the first."""
        found = self.database.query("SELECT length(vector) FROM stream LIMIT 1")
        return int(found[0][0]) if found else 0

    def state(self) -> tuple[bytes, int]:
        """Return the last state of the hasher, and the sequence number up to which it has learned."""
        return self._blob("SELECT content, seq, checksum FROM state", "the state of the hasher")

    def _blob(self, select: str, what: str) -> tuple[bytes, int]:
        found = self.database.query(select)
        if len(found) != 1 or checksum(found[0][1], content=found[0][0]) != found[0][2]:
            raise self.database.damage(f"{what} does not match its checksum")
        return bytes(found[0][0]), found[0][1]

    def _state_seq(self) -> int:
        found = self.database.query("SELECT seq FROM state")
        return found[0][0] if found else 0

    def put_state(self, content: bytes, seq: int, n_learned: int) -> None:
        """Write the state of the hasher and its version; what was kept of the stream for it may go."""
        database = self.database
        _check_size(content, "The state of the hasher")
        database.execute("DELETE FROM state")
        database.execute("INSERT INTO state VALUES (?, ?, ?)", seq, content, checksum(seq, content=content))
        database.execute("DELETE FROM stream WHERE seq IN (SELECT seq FROM gone WHERE seq <= ?)", seq)
        database.execute("DELETE FROM gone WHERE at <= ? AND seq <= ?", self._head["seq"] - FOLLOWED, seq)
        found = database.query("SELECT count(*) FROM stream WHERE seq > ?", seq)
        self._head["n_unsaved"], self._head["n_learned"] = found[0][0], n_learned

    # ------------------------------------------------------------------ codes

    def generation(self) -> tuple[bytes, int]:
        """Return the encoder in use and its number."""
        return self._blob("SELECT encoder, number, checksum FROM generation", "the encoder")

    def codes(self, number: int, after: int = 0) -> CodeColumns:
        """Return the codes of a generation, in chunks that end after a sequence number."""
        seqs, codes = [np.empty(0, np.int64)], list[Codes]()
        select = "SELECT last, seqs, codes, checksum FROM codes WHERE number = ? AND last > ? ORDER BY last"
        for last, numbers, content, found in self.database.query(select, number, after):
            if checksum(number, last, checksum(content=numbers), content=content) != found:
                raise self.database.damage("codes do not match their checksum")
            seqs.append(np.frombuffer(numbers, "<i8"))
            codes.append(np.frombuffer(content, np.uint8).reshape(len(seqs[-1]), -1))
        return CodeColumns(np.concatenate(seqs), np.concatenate(codes)) if codes else CodeColumns()

    def put_codes(self, number: int, seqs: Sequence[int] | Seqs, codes: Codes) -> None:
        """Write the codes of items."""
        for start in range(0, len(seqs), CODES_PER_CHUNK):
            chunk = np.asarray(seqs[start : start + CODES_PER_CHUNK], "<i8")
            numbers, content = chunk.tobytes(), codes[start : start + CODES_PER_CHUNK].tobytes()
            last = int(chunk[-1])
            sum_ = checksum(number, last, checksum(content=numbers), content=content)
            self.database.execute("INSERT INTO codes VALUES (?, ?, ?, ?, ?)", number, last, numbers, content, sum_)

    def put_generation(self, number: int, encoder: bytes, seqs: Seqs, codes: Codes) -> None:
        """Write an encoder and the codes of all items in place of those in use."""
        _check_size(encoder, "The encoder")
        for table in ("generation", "codes"):
            self.database.execute(f"DELETE FROM {table}")
        self.database.execute(
            "INSERT INTO generation VALUES (?, ?, ?)", number, encoder, checksum(number, content=encoder)
        )
        self.put_codes(number, seqs, codes)
        self._head["generation"] = number

    def changes_since(self, seq: int, head: Head) -> Changes | None:
        """Return what happened after a sequence number; None if that is too far back."""
        if head.seq - seq >= FOLLOWED:
            return None
        gone = self._checked(self.database.query(f"{_GONE} WHERE at > ?", seq), _GONE_ROW)
        left = {number for number, _, _ in gone}
        found = self.database.query(f"{_STREAM} WHERE seq > ? ORDER BY seq", seq)
        new = self._stream_rows([row for row in found if row[0] not in left])
        items = ItemColumns(new.seqs, new.ids, new.labels)
        return Changes(items, self.codes(head.generation, seq), np.array(sorted(left), np.int64))

    # ------------------------------------------------------------------ the vectors of another embedding model

    def begin_migration(self) -> None:
        """Make room for new vectors beside the stream."""
        self.database.create_stream(NEW_STREAM)

    def put_new_vectors(self, seqs: Sequence[int], vectors: NDArray[Any]) -> None:
        """Write the new vectors of items."""
        found = self._among(f"{_STREAM} WHERE seq", seqs)
        self._stream_rows(found)  # checks them
        known, rows = {row[0]: row[:4] for row in found}, []
        for seq, blob in zip(seqs, to_blobs(vectors), strict=True):
            rows.append((*known[seq], blob, checksum(*known[seq], content=blob)))
        self.database.execute_many(f"DELETE FROM {NEW_STREAM} WHERE seq = ?", [(seq,) for seq in seqs])
        self.database.execute_many(f"INSERT INTO {NEW_STREAM} VALUES (?, ?, ?, ?, ?, ?)", rows)

    def without_new_vectors(self, limit: int, after: int = 0) -> list[int]:
        """Return the sequence numbers of the next items that have no new vector; all items have a payload's row."""
        missing = f"NOT EXISTS (SELECT 1 FROM {NEW_STREAM} WHERE {NEW_STREAM}.seq = payloads.seq)"
        select = f"SELECT seq FROM payloads WHERE seq > ? AND {missing} ORDER BY seq LIMIT ?"
        return [seq for (seq,) in self.database.query(select, after, limit)]

    def n_new_vectors(self) -> int:
        """Return how many items have a new vector."""
        return int(self.database.query(f"SELECT count(*) FROM {NEW_STREAM} WHERE {_is_item(NEW_STREAM)}")[0][0])

    def end_migration(self, *, adopt: bool) -> None:
        """Put the new vectors in place of the old ones, or drop them."""
        if not adopt:
            self.database.execute(f"DROP TABLE {NEW_STREAM}")
            return
        self.database.execute(f"DELETE FROM {NEW_STREAM} WHERE NOT {_is_item(NEW_STREAM)}")
        self.database.execute("DROP TABLE stream")
        self.database.execute(f"ALTER TABLE {NEW_STREAM} RENAME TO stream")

    # ------------------------------------------------------------------ maintenance

    def check_gone(self) -> None:
        """Raise if a row of what is gone, or of the changes applied, is damaged, or a payload is that of no item."""
        self._checked(self.database.query(_GONE), _GONE_ROW)
        self._checked(self.database.query(_REQUESTS), _REQUEST_ROW)
        n_payloads, n_items = self.database.query("SELECT count(*) FROM payloads")[0][0], self.head().n_items
        if n_payloads != n_items:
            raise self.database.damage(f"there are {n_payloads} payloads of {n_items} items")


def _is_item(table: str) -> str:
    """Return SQL that is true for rows of items, not of items that are gone; each item has one payload, if empty."""
    return f"EXISTS (SELECT 1 FROM payloads WHERE payloads.seq = {table}.seq)"


_SETTINGS = "SELECT name, value, checksum FROM settings"
_GONE, _GONE_ROW = "SELECT seq, at, checksum FROM gone", "row {} of the table gone"
_REQUESTS, _REQUEST_ROW = "SELECT key, at, request, n_items, checksum FROM requests", "the change with the key {!r}"
_ITEMS = "SELECT id, seq, labels, checksum FROM items"
_STREAM = "SELECT seq, id, batch, labels, vector, checksum FROM stream"
