"""SqliteStore: a collection in one SQLite file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.stores import checksums
from onlinehash.collection.stores import sqlite_schema as schema
from onlinehash.collection.stores.blobs import from_blobs, to_blobs
from onlinehash.collection.stores.protocol import TOMBSTONES, Rows
from onlinehash.collection.stores.sqlite_care import FileCare
from onlinehash.collection.stores.sqlite_codes import JOINED, NOT_RETIRED
from onlinehash.collection.stores.sqlite_rows import SAVED, columns_of, item_checksums, sealed
from onlinehash.collection.types import Id
from onlinehash.exceptions import DamagedError
from onlinehash.types import Codes

_FETCH = 50_000
_ASK = 500  # ids in one question


class SqliteStore(FileCare):
    """Keep a collection in one SQLite file, in WAL mode with full synchronisation.

    What was written survives the end of the process and of the power. Other processes may read meanwhile. Every row
    carries a checksum, which is verified when the row is read, and the structure of all tables but that of the items is
    verified when the file is opened.

    Parameters
    ----------
    path : Path
    readonly : bool
        Read what another process writes.
    partial : bool
        Accept a write-ahead log whose end is damaged, which is refused otherwise.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> store = SqliteStore(Path(folder.name) / "things.oh")
    >>> with store.writing():
    ...     store.put_setting("colour", "red")
    >>> store.setting("colour"), store.count()
    ('red', 0)
    >>> store.close()
    >>> folder.cleanup()
    """

    def __init__(self, path: Path, *, readonly: bool = False, partial: bool = False) -> None:
        super().__init__(path, readonly=readonly, partial=partial)
        try:
            self._inspect()
            if not readonly:
                self._begin_term()
        except BaseException:
            self.close()
            raise

    def _inspect(self) -> None:
        """Refuse a file in which tables or rows cannot be found; the content of rows is verified when it is read."""
        with self.reading():
            made = {("table", name, name, sql) for name, sql in self._tables().items()}
            if made != set(self._query("SELECT type, name, tbl_name, sql FROM sqlite_master")):
                raise self._damage("its tables are not those of a collection")
            for _, name, _, _ in sorted(made):
                if name != "items":
                    self._check_tree(name)
            self._check_tree("sqlite_master")
            self._small("retired", "seq", "true")
            if self.setting("id_type") is not None and not self.position().generation:
                self.codes(0)

    def _tables(self) -> dict[str, str]:
        """Return the statements that have made the tables there should be, by name."""
        return schema.tables(self.setting("id_type"), {self.position().generation, *self._numbers()})

    # ------------------------------------------------------------------ items

    def seqs(self, ids: Sequence[Id]) -> list[int | None]:
        """Return where items are in the stream; None of unknown ids."""
        with self.reading():
            table = self._table()
            join = f"{table} codes LEFT JOIN items USING (seq)"
            select = f"SELECT codes.id, codes.seq, items.id FROM {join} WHERE codes.id"
            found = {} if table is None else {id: (seq, there) for id, seq, there in self._among(select, ids)}
        for id, (_, there) in found.items():
            if id != there:
                raise self._damage(f"item {id!r} is not where it should be")
        return [found[id][0] if id in found else None for id in ids]

    def _among(self, select: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows in which the last name of the query is one of the values, in any order."""
        found: list[tuple[Any, ...]] = []
        for start in range(0, len(values), _ASK):
            some = values[start : start + _ASK]
            found += self._query(f"{select} IN ({', '.join('?' * len(some))})", *some)
        return found

    def ids(self) -> Iterator[Id]:
        """Yield all ids in order."""
        last: Id | None = None
        while rows := self._after("codes.id", last, _FETCH):
            yield from (id for (id,) in rows)
            last = rows[-1][0]

    def label_counts(self) -> dict[str | None, int]:
        """Return how many items have which labels, as JSON; None for those without."""
        with self.reading():
            table = self._table()
            return {} if table is None else dict(self._query(f"SELECT {_LABELS}, count(*) FROM {table} GROUP BY 1"))

    def rows(self, ids: Sequence[Id]) -> Rows:
        """Return the items of ids, in that order, without those that are unknown."""
        with self.reading():
            table = self._table()
            select = f"SELECT {_ROW} FROM {table} codes LEFT JOIN items USING (seq) WHERE codes.id"
            found = {} if table is None else {row[0]: row for row in self._among(select, ids)}
            return self._rows([found[id] for id in ids if id in found])

    def rows_after(self, id: Id | None, limit: int) -> Rows:
        """Return the next items in order of id."""
        with self.reading(), self._naming(lambda: [row[0] for row in self._after("codes.id", id, limit)]):
            return self._rows(self._after(_ROW, id, limit, join="LEFT JOIN items USING (seq)"))

    def _after(self, columns: str, id: Id | None, limit: int, *, join: str = "") -> list[tuple[Any, ...]]:
        """Return the next rows of the table of the generation in use, in order of id."""
        with self.reading():
            table = self._table()
            if table is None:
                return []
            query = f"SELECT {columns} FROM {table} codes {join}"
            if id is None:
                return self._query(f"{query} ORDER BY codes.id LIMIT ?", limit)
            return self._query(f"{query} WHERE codes.id > ? ORDER BY codes.id LIMIT ?", id, limit)

    def _rows(self, found: list[tuple[Any, ...]]) -> Rows:
        """Return rows of items, verified."""
        if len(found) > 1:
            try:
                return self._verified(found)
            except DamagedError:
                for row in found:  # to name the one that is damaged
                    self._verified([row])
                raise
        return self._verified(found)

    def _verified(self, found: list[tuple[Any, ...]]) -> Rows:
        ids, seqs, batches, labels, sums, vectors, payloads = columns_of(found, 7)
        if None in sums:
            raise self._damage(f"item {ids[sums.index(None)]!r} is not where it should be", SAVED)
        with self._checking(f"item {ids[0]!r}" if ids else "an item", SAVED):
            features_crc, payload_crc = self._check_items(ids, seqs, batches, labels, b"".join(sums))
            self._check_parts("vector", ids, features_crc, checksums.blobs(vectors))
            self._check_parts("payload", ids, payload_crc, checksums.texts(payloads))
            return Rows(ids, seqs, from_blobs(vectors, self._dtype()), labels, payloads)

    def _dtype(self) -> str:
        return str(self.setting("vector_dtype", "float32"))

    def put(self, rows: Rows, codes: Mapping[int, Codes]) -> None:
        """Write items and their codes by generation, in place of those with the same ids."""
        if self._table() is None:
            self.put_setting("id_type", "TEXT" if isinstance(rows.ids[0], str) else "INTEGER")
            self._create_codes(0)
        before = self._seqs_before(rows.ids)
        self._retire(before)
        first, last = rows.seqs[0], rows.seqs[-1]
        vectors = to_blobs(rows.vectors)
        ids, labels = checksums.ids(rows.ids), checksums.texts(rows.labels)
        crc = checksums.blobs(vectors), checksums.texts(rows.payloads)
        seqs, batch = checksums.integers(rows.seqs), [first] * len(rows)
        sums = item_checksums(ids, seqs, checksums.integers(batch), labels, *crc)
        self._writer.executemany(
            "INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?)",
            zip(rows.seqs, batch, rows.ids, rows.labels, to_blobs(sums), vectors, rows.payloads, strict=True),
        )
        place = "seq - :after"  # there are no gaps between rows that come together
        if not self.position().generation:
            codes = {0: np.empty((len(rows), 0), np.uint8), **codes}
        columns = ids, seqs, labels
        for number, some in codes.items():
            self._put_codes(number, first - 1, last, sealed(number, some, *columns), place)
        self.put_setting("n_items", self.count() + len(rows) - len(before))
        self.put_setting("n_stream", self.setting("n_stream") + len(rows))
        self.put_setting("seq", last)

    def _seqs_before(self, ids: Sequence[Any]) -> list[int]:
        """Return where items are that ids replace; many ids beyond the last, the common case, take one look."""
        if len(ids) > _ASK:
            last = self._query(f"SELECT max(id) FROM {self._table()}")[0][0]
            if last is None or min(ids) > last:
                return []
        return [seq for seq in self.seqs(ids) if seq is not None]

    def put_payloads(self, ids: Sequence[Id], payloads: Sequence[str | None]) -> None:
        """Write the payloads of known ids."""
        seqs = [seq for seq in self.seqs(ids) if seq is not None]
        found = {row[1]: row for row in self._among(f"SELECT {_HEAD} FROM items WHERE seq", seqs)}
        there, _, batches, labels, sums = columns_of([found[seq] for seq in seqs], 5)
        with self._checking("an item"):
            features_crc, _ = self._check_items(there, seqs, batches, labels, b"".join(sums))
        columns = (*map(checksums.ids, (there, seqs, batches)), checksums.texts(labels))
        sums = to_blobs(item_checksums(*columns, features_crc, checksums.texts(payloads)))
        self._writer.executemany(
            "UPDATE items SET payload = ?, checksums = ? WHERE seq = ?", zip(payloads, sums, seqs, strict=True)
        )

    def delete(self, ids: Sequence[Id], first_seq: int) -> None:
        """Delete known ids and their codes; the sequence numbers of that start at ``first_seq``."""
        self._retire([seq for seq in self.seqs(ids) if seq is not None])
        for number in {self.position().generation, *self._numbers()}:
            self._writer.executemany(f"DELETE FROM codes_{number} WHERE id = ?", [(id,) for id in ids])
        self._insert("deleted", range(first_seq, first_seq + len(ids)), ids)
        dropped = self._writer.execute(
            "DELETE FROM deleted WHERE seq <= (SELECT seq FROM deleted ORDER BY seq DESC LIMIT 1 OFFSET ?)",
            (TOMBSTONES,),
        )
        self.put_setting("n_deleted", self.setting("n_deleted") + len(ids) - dropped.rowcount)
        self.put_setting("n_items", self.count() - len(ids))
        self.put_setting("seq", first_seq + len(ids) - 1)

    def _retire(self, seqs: Sequence[int]) -> None:
        """Drop rows of the stream, those that the hasher has learned since its last state not before the next."""
        if seqs:
            learned_to = self.state_seq()
            self._writer.executemany("DELETE FROM items WHERE seq = ?", [(seq,) for seq in seqs if seq <= learned_to])
            self._insert("retired", [seq for seq in seqs if seq > learned_to])

    # ------------------------------------------------------------------ the stream and the state

    def stream(self, after: int, limit: int, *, retired: bool = False, labelled: bool = False) -> Rows:
        """Return the next instances of the stream."""
        condition = "" if retired else NOT_RETIRED
        condition += " AND labels IS NOT NULL" if labelled else ""
        with self.reading():
            rows = self._rows(
                self._query(
                    f"SELECT {_HEAD}, vectors, payload FROM items WHERE seq > ?{condition} ORDER BY seq LIMIT ?",
                    after,
                    limit,
                )
            )
            if not retired and not after:
                self._check_all_items()
        return rows

    def commits(self, after: int) -> list[int]:
        """Return the last sequence number of every :meth:`put` after one that the hasher's state does not reach."""
        with self.reading():
            after = max(after, self.state_seq())
            stored = self._query("SELECT count(*) FROM items WHERE seq > ?", self.state_seq())
            if stored != [(self.setting("n_stream"),)]:
                raise self._damage("items are missing that the hasher has learned from")
            found = self._query("SELECT max(seq) FROM items WHERE seq > ? GROUP BY batch ORDER BY 1", after)
            return [last for (last,) in found]

    def vectors(self, after: int, limit: int) -> Rows:
        """Return the next instances without their payloads."""
        with self.reading(), self._checking("an item"):
            condition = f"seq > ?{NOT_RETIRED} ORDER BY seq LIMIT ?"
            ids, seqs, labels, features_crc, content = self._joined("vectors", condition, after, limit)
            matrix = from_blobs([content], self._dtype()).reshape(len(ids), -1 if ids else 0)
            self._check_parts("vector", ids, features_crc, checksums.blobs(to_blobs(matrix) if ids else []))
            return Rows(ids, seqs, matrix, labels, [])

    def _joined(
        self, content: str, condition: str, *values: Any
    ) -> tuple[list[Any], list[int], list[Any], NDArray[np.uint32], bytes]:
        """Return ids, sequence numbers, labels, checksums of vectors and a column of items, verified.

        As one row of the database: a thread that fetches many gives up the interpreter at each, and waits for it
        where others search without a break.
        """
        arrays = ", ".join(f"json_group_array({name})" for name in ("id", "seq", "batch", "labels"))
        columns = f"{arrays}, {JOINED.format('checksums')}, {JOINED.format(content)}"
        *texts, sums, other = self._query(
            f"SELECT {columns} FROM (SELECT {_HEAD}, {content} FROM items WHERE {condition})", *values
        )[0]
        ids, seqs, batches, labels = map(json.loads, texts)
        features_crc, _ = self._check_items(ids, seqs, batches, labels, sums or b"")
        return ids, seqs, labels, features_crc, other or b""

    def state(self) -> bytes:
        """Return the last state of the hasher."""
        return self._blob("hasher", "id, state", 0)

    def state_seq(self) -> int:
        """Return the sequence number up to which that state has learned."""
        return int(self.setting("learned_to"))

    def put_state(self, state: bytes, learned_to: int) -> None:
        """Write the state of the hasher; what was kept of the stream up to there may go."""
        self._put_blob("hasher", 0, state)
        self.put_setting("learned_to", learned_to)
        done = "SELECT seq FROM retired WHERE seq <= ?"
        self._writer.execute(f"DELETE FROM items WHERE seq IN ({done})", (learned_to,))
        self._writer.execute("DELETE FROM retired WHERE seq <= ?", (learned_to,))
        stored = self._writer.execute("SELECT count(*) FROM items WHERE seq > ?", (learned_to,)).fetchone()[0]
        self.put_setting("n_stream", stored)


_LABELS = "CAST(labels AS TEXT)"
_HEAD = "id, seq, batch, labels, checksums"
_ROW = "codes.id, codes.seq, batch, items.labels, checksums, vectors, payload"
