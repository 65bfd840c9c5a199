"""CheckedRows: rows of a SQLite file with their checksums, verified when they are read."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import islice
from operator import lt
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.filters import FieldPath, parse_path
from onlinehash.collection.stores import checksums
from onlinehash.collection.stores.blobs import from_blobs
from onlinehash.collection.stores.checksums import label_number, number, row_checksum, row_checksums
from onlinehash.collection.stores.protocol import Rows
from onlinehash.collection.stores.sqlite_settings import SettingsFile
from onlinehash.exceptions import DamagedError
from onlinehash.types import Codes

Sums = NDArray[np.uint32]
_ONE, _THREE = struct.Struct("<I"), struct.Struct("<3I")
SAVED = "; with readonly=True, all other items can still be read by their ids"


class CheckedRows(SettingsFile):
    """Read and write rows with their checksums; one that does not match is a :class:`FileFormatError`."""

    def _has_ids(self) -> bool:
        """Return whether there is a table of ids: since the first item."""
        return self.setting("id_type") is not None

    def _indexed(self) -> list[FieldPath]:
        """Return the paths in payloads that have an index; that of labels, if they have one."""
        return [parse_path(name) for name in self.setting("indexes", [])]

    def _check_tree(self, table: str) -> None:
        """Refuse a table in which SQLite would not find rows that are there."""
        if self._query(f"PRAGMA quick_check({table})") != [("ok",)]:
            raise self._damage(f"rows of the table {table} cannot be found")

    def _check_sums(self, what: str, names: Any, found: Any, expected: Any, saved: str = "") -> None:
        """Refuse rows that do not match their checksums; name the first."""
        for row in np.flatnonzero(found != expected)[:1]:
            name = names[row].item() if isinstance(names, np.ndarray) else names[row]
            raise self._damage(f"{what} {name!r} does not match its checksum", saved)

    def _check_rows(self, table: str, names: Any, found: Any, *columns: checksums.Column) -> None:
        """Refuse rows of a table that do not match their checksums."""
        self._check_sums(
            f"in the table {table}, the row of", names, checksums.integers(found), row_checksums(table, *columns)
        )

    def _check_order(self, after: int, seqs: list[int]) -> None:
        """Refuse rows of items that are not in order: reading on from the last one would never end."""
        if not is_rising([after, *seqs]):
            raise self._damage("rows of the table items are not in order")

    def _check_count(self, what: str, n_rows: int) -> None:
        if n_rows != self.count():
            raise self._damage(f"it has {n_rows} of {self.count()} {what}")

    def _check_ids(self, ids: Any, seqs: Any, labels: Sequence[str | None], sums: bytes) -> None:
        """Refuse rows of the table of ids that do not match their checksums; their codes have their own."""
        columns = checksums.ids(ids), checksums.integers(seqs), checksums.texts(labels)
        self._check_rows("ids", ids, np.frombuffer(sums, "<u4"), *columns)

    def _check_items(
        self, ids: list[Any], seqs: list[int], batches: list[int], labels: list[str | None], sums: bytes
    ) -> tuple[Sums, Sums]:
        """Return the checksums of the vectors and payloads of items, once that of the rest is verified."""
        vectors, payloads, rest = np.frombuffer(sums, "<u4").reshape(len(ids), 3).T
        expected = row_checksums("items", *item_columns(ids, seqs, batches, labels), vectors, payloads)
        self._check_sums("item", ids, rest, expected, SAVED)
        return vectors, payloads

    def _rows(self, found: list[tuple[Any, ...]]) -> Rows:
        """Return rows of items, verified."""
        try:
            return self._verified(found)
        except DamagedError:
            for row in found:  # to name the one that is damaged
                self._verified([row])
            raise

    def _verified(self, found: list[tuple[Any, ...]]) -> Rows:
        ids, seqs, batches, labels, sums, vectors, payloads = columns_of(found, 7)
        if None in sums:
            raise self._damage(f"item {ids[sums.index(None)]!r} is not where it should be", SAVED)
        with self._checking(f"item {ids[0]!r}" if ids else "an item", SAVED):
            vector_sums, payload_sums = self._check_items(ids, seqs, batches, labels, b"".join(sums))
            self._check_sums("the payload of item", ids, payload_sums, checksums.texts(payloads), SAVED)
            matrix = self._matrix(ids, vectors)
            expected = vector_checksums(checksums.integers(seqs), matrix)
            self._check_sums("the vector of item", ids, vector_sums, expected, SAVED)
            return Rows(ids, seqs, matrix, labels, payloads)

    def _matrix(self, ids: list[Any], blobs: list[bytes]) -> NDArray[Any]:
        size = self.setting("n_features", 0) * np.dtype(self._dtype()).itemsize
        self._check_sums("the vector of item", ids, np.array(list(map(len, blobs)), int), size, SAVED)
        return from_blobs(blobs, self._dtype())

    def _dtype(self) -> str:
        return str(self.setting("vector_dtype", "float32"))

    def _insert(self, table: str, *columns: Sequence[Any]) -> None:
        """Write rows of a small table, with their checksums."""
        sums = row_checksums(table, *map(checksums.ids, columns)).tolist()
        marks = ", ".join("?" * (len(columns) + 1))
        self._writer.executemany(f"INSERT INTO {table} VALUES ({marks})", zip(*columns, sums, strict=True))

    def _small(self, table: str, condition: str = "true", *values: Any) -> list[tuple[Any, ...]]:
        """Return rows of a small table in order, verified."""
        found = self._query(f"SELECT * FROM {table} WHERE {condition} ORDER BY seq", *values)
        with self._checking(f"the table {table}"):
            *columns, sums = columns_of(found, 2)
            self._check_rows(table, columns[0], sums, *map(checksums.ids, columns))
        return found

    def _blob(self, table: str, number: int) -> bytes:
        """Return the bytes that a table has under a number, verified."""
        found = self._query(f"SELECT * FROM {table} WHERE rowid = ?", number)
        with self._checking(f"the table {table}"):
            ((_, checksum, blob),) = found
            self._check_rows(table, [number], [checksum], checksums.integers([number]), checksums.blobs([blob]))
        return bytes(blob)

    def _put_blob(self, table: str, number: int, blob: bytes) -> None:
        row = (number, row_checksum(table, number, crc32(blob)), blob)
        self._writer.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", row)

    def _unsealed(self, seqs: Any, content: bytes) -> Codes:
        """Return codes without their checksums, verified."""
        rows = np.frombuffer(content, np.uint8).reshape(len(seqs), -1 if len(seqs) else 0)
        if not rows.shape[1]:  # generation 0
            return rows
        codes, sums = rows[:, : -checksums.BYTES], np.ascontiguousarray(rows[:, -checksums.BYTES :]).view("<u4")[:, 0]
        expected = row_checksums("codes", checksums.integers(seqs), *checksums.words(codes))
        self._check_sums("the code of sequence number", seqs, sums, expected)
        return np.ascontiguousarray(codes)


def is_rising(values: Any) -> bool:
    """Return whether every value is larger than the one before it."""
    if isinstance(values, np.ndarray):
        return bool((values[1:] > values[:-1]).all())
    return all(map(lt, values, islice(values, 1, None)))


def columns_of(rows: list[tuple[Any, ...]], n: int) -> list[list[Any]]:
    """Return the columns of rows."""
    return list(map(list, zip(*rows, strict=True))) if rows else [[] for _ in range(n)]


def vector_checksums(seqs: checksums.Column, vectors: NDArray[Any]) -> Sums:
    """Return the checksums of vectors and their sequence numbers."""
    return row_checksums("vectors", seqs, checksums.rows(vectors))


def seal_items(rows: Rows, batch: int) -> tuple[bytes, bytes]:
    """Return the checksums of new rows of ``items``, three each, and of the rows of ``ids`` that go with them."""
    if len(rows.seqs) == 1:
        seq, labels, payload = rows.seqs[0], label_number(rows.labels[0]), number(rows.payloads[0])
        id, vector = number(rows.ids[0]), row_checksum("vectors", seq, checksums.row(rows.vectors[0]))
        item = row_checksum("items", id, seq, batch, labels, vector, payload)
        return _THREE.pack(vector, payload, item), _ONE.pack(row_checksum("ids", id, seq, labels))
    columns = checksums.ids(rows.ids), checksums.integers(rows.seqs), checksums.texts(rows.labels)
    parts = vector_checksums(columns[1], rows.vectors), checksums.texts(rows.payloads)
    items = item_checksums(*columns[:2], np.full(len(rows), batch, np.uint64), columns[2], *parts)
    return items.tobytes(), row_checksums("ids", *columns).tobytes()


def item_columns(ids: Any, seqs: Any, batches: Any, labels: Sequence[str | None]) -> tuple[checksums.Column, ...]:
    """Return the columns of items that are not vectors or payloads, as numbers."""
    return (*map(checksums.ids, (ids, seqs, batches)), checksums.texts(labels))


def item_checksums(*columns: checksums.Column) -> Sums:
    """Return the three checksums of items: those of vectors and payloads, which are the last columns, and of all."""
    sums = np.empty((len(columns[0]), 3), "<u4")
    sums[:, 0], sums[:, 1], sums[:, 2] = *columns[-2:], row_checksums("items", *columns)
    return sums


def seal_codes(seqs: Sequence[int], codes: Codes) -> bytes:
    """Return codes, each with the checksum of it and its sequence number behind it."""
    if len(codes) == 1:
        code = codes.tobytes()
        words = [int.from_bytes(code[start : start + 8], "little") for start in range(0, len(code), 8)]
        return code + _ONE.pack(row_checksum("codes", seqs[0], *words))
    sums = row_checksums("codes", checksums.integers(seqs), *checksums.words(codes))
    return np.hstack([codes, sums[:, np.newaxis].view(np.uint8)]).tobytes()
