"""SqliteStore: a collection in one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from onlinehash.collection.filters import Filter
from onlinehash.collection.stores import checksums
from onlinehash.collection.stores import sqlite_schema as schema
from onlinehash.collection.stores.blobs import from_blobs, to_blobs
from onlinehash.collection.stores.protocol import TOMBSTONES, Rows
from onlinehash.collection.stores.sqlite_care import FileCare
from onlinehash.collection.stores.sqlite_codes import JOINED, NOT_RETIRED
from onlinehash.collection.stores.sqlite_inserts import insert_ids, insert_items, slices
from onlinehash.collection.stores.sqlite_listing import ROW, ListedItems
from onlinehash.collection.stores.sqlite_migration import MigrationTables
from onlinehash.collection.stores.sqlite_rows import (
    columns_of,
    item_checksums,
    item_columns,
    seal_codes,
    seal_items,
    vector_checksums,
)
from onlinehash.collection.types import Id
from onlinehash.types import Codes

_FETCH = 50_000
_ASK = 500  # ids in one question


class SqliteStore(FileCare, MigrationTables, ListedItems):
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

    def _open(self) -> None:
        super()._open()
        if not self._is_new:
            self._inspect()
            if not self.readonly:
                self._begin_term()

    def _inspect(self) -> None:
        """Refuse a file in which tables or rows cannot be found; the content of rows is verified when it is read."""
        with self.reading():
            made = {("table", name, name, sql) for name, sql in self._tables().items()}
            made |= {("index", name, *index) for name, index in self._indexes().items()}
            if made != set(self._query("SELECT type, name, tbl_name, sql FROM sqlite_master")):
                raise self._damage("its tables are not those of a collection")
            for kind, name, _, _ in sorted(made):
                if kind == "table" and name not in ("items", "new_vectors"):
                    self._check_tree(name)
            self._check_tree("sqlite_master")
            self._small("retired")
            if self._has_ids() and not self.position().generation:
                self.codes(0)

    def _tables(self) -> dict[str, str]:
        """Return the statements that have made the tables there should be, by name."""
        made = schema.tables(self.setting("id_type"), {self.position().generation, *self._numbers()})
        return made if self.setting("migration") is None else made | schema.MIGRATION

    # ------------------------------------------------------------------ items

    def seqs(self, ids: Sequence[Id]) -> list[int | None]:
        """Return where items are in the stream; None of unknown ids."""
        with self.reading():
            select = "SELECT ids.id, ids.seq, items.id FROM ids LEFT JOIN items USING (seq) WHERE ids.id"
            found = {}
            for id, seq, there in self._among(select, ids):
                if id != there:
                    raise self._damage(f"item {id!r} is not where it should be")
                found[id] = seq
        return [found.get(id) for id in ids]

    def _among(self, select: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows in which the last name of the query is one of the values, in any order; none before items."""
        found: list[tuple[Any, ...]] = []
        if not self._has_ids():
            return found
        for start in range(0, len(values), _ASK):
            some = values[start : start + _ASK]
            found += self._query(f"{select} IN ({', '.join('?' * len(some))})", *some)
        return found

    def ids(self, where: Filter | None = None) -> Iterator[Id]:
        """Yield all ids in order, or those of items that pass a filter."""
        if where is not None:
            yield from sorted(id for (id,) in self._passing("id", where))
        elif self._has_ids():
            after, last = "", tuple[Any, ...]()
            while found := self._query(f"SELECT id FROM ids {after} ORDER BY id LIMIT {_FETCH}", *last):
                yield from (id for (id,) in found)
                after, last = "WHERE id > ?", found[-1]

    def label_counts(self, where: Filter | None = None) -> dict[str | None, int]:
        """Return how many items, of those that pass a filter, have which labels, as JSON; None for those without."""
        if where is not None:
            return dict(self._passing(f"{_LABELS}, count(*)", where, "GROUP BY 1"))
        counted = f"SELECT {_LABELS}, count(*) FROM ids NOT INDEXED GROUP BY 1"
        with self.reading():
            return dict(self._query(counted)) if self._has_ids() else {}

    def rows(self, ids: Sequence[Id]) -> Rows:
        """Return the items of ids, in that order, without those that are unknown."""
        with self.reading():
            select = f"SELECT {ROW} FROM ids LEFT JOIN items USING (seq) WHERE ids.id"
            found = {row[0]: row for row in self._among(select, ids)}
            return self._rows([found[id] for id in ids if id in found])

    def put(self, rows: Rows, codes: Mapping[int, Codes]) -> None:
        """Write items and their codes by generation, in place of those with the same ids."""
        if not self._has_ids():
            id_type = "TEXT" if isinstance(rows.ids[0], str) else "INTEGER"
            self.put_setting("id_type", id_type)
            self._writer.execute(schema.ids_table(id_type))
            for table, statement in self._indexes().values():
                if table == "ids":
                    self._writer.execute(statement)
        n_rows = len(rows)
        if n_rows == 1:
            n_before = self._put_some(rows, rows.seqs[0], codes, slice(None))
        else:
            n_before = sum(self._put_some(rows[some], rows.seqs[0], codes, some) for some in slices(rows.vectors))
        self._add(n_items=n_rows - n_before, n_stream=n_rows)
        self.put_setting("seq", rows.seqs[-1])

    def _put_some(self, rows: Rows, batch: int, codes: Mapping[int, Codes], place: slice) -> int:
        """Write rows as few statements, and return how many items they replace."""
        item_sums, id_sums = seal_items(rows, batch)
        insert_items(self._writer, rows, batch, item_sums)
        own, current = b"", self.setting("generation")
        for number, some in codes.items():
            if number == current:
                own = seal_codes(rows.seqs, some[place])
            else:
                self._put_chunk(number, rows.seqs, some[place])
        try:
            insert_ids(self._writer, rows, id_sums, own, replace=False)
        except sqlite3.IntegrityError:  # some are there already
            before = [seq for seq in self.seqs(rows.ids) if seq is not None]
            self._retire(before)
            insert_ids(self._writer, rows, id_sums, own, replace=True)
            return len(before)
        return 0

    def put_payloads(self, ids: Sequence[Id], payloads: Sequence[str | None]) -> None:
        """Write the payloads of known ids."""
        seqs = [seq for seq in self.seqs(ids) if seq is not None]
        found = {row[1]: row for row in self._among(f"SELECT {_HEAD} FROM items WHERE seq", seqs)}
        there, _, batches, labels, sums = columns_of([found[seq] for seq in seqs], 5)
        with self._checking("an item"):
            vector_sums, _ = self._check_items(there, seqs, batches, labels, b"".join(sums))
        columns = item_columns(there, seqs, batches, labels)
        sums = to_blobs(item_checksums(*columns, vector_sums, checksums.texts(payloads)))
        self._writer.executemany(
            "UPDATE items SET payload = ?, checksums = ? WHERE seq = ?", zip(payloads, sums, seqs, strict=True)
        )

    def delete(self, ids: Sequence[Id], first_seq: int) -> None:
        """Delete known ids and their codes; the sequence numbers of that start at ``first_seq``."""
        self._retire([seq for seq in self.seqs(ids) if seq is not None])
        self._writer.executemany("DELETE FROM ids WHERE id = ?", [(id,) for id in ids])
        self._insert("deleted", range(first_seq, first_seq + len(ids)), ids)
        dropped = self._writer.execute(
            "DELETE FROM deleted WHERE seq <= (SELECT seq FROM deleted ORDER BY seq DESC LIMIT 1 OFFSET ?)",
            (TOMBSTONES,),
        )
        self._add(n_deleted=len(ids) - dropped.rowcount, n_items=-len(ids))
        self.put_setting("seq", first_seq + len(ids) - 1)

    def _retire(self, seqs: Sequence[int]) -> None:
        """Drop rows of the stream, those that the hasher has learned since its last state not before the next."""
        if seqs:
            self._forget_codes(seqs)
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
            self._check_order(after, rows.seqs)
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
        """Return the next instances, with sequence numbers and vectors only.

        As one row of the database: a thread that fetches many gives up the interpreter at each, and waits for it
        where others search without a break.
        """
        with self.reading(), self._checking("an item"):
            where = f"WHERE seq > ? AND seq <= ?{NOT_RETIRED} ORDER BY seq LIMIT ?"
            some = f"SELECT seq, checksums, vectors FROM items {where}"
            columns = f"group_concat(seq), {JOINED.format('checksums')}, {JOINED.format('vectors')}"
            seqs, sums, content = self._query(f"SELECT {columns} FROM ({some})", after, self.setting("until"), limit)[0]
            if seqs is None:
                return Rows([], [], np.empty((0, 0), self._dtype()), [], [])
            listed = np.fromstring(seqs, np.int64, sep=",")
            self._check_order(after, listed.tolist())
            matrix = from_blobs([content], self._dtype()).reshape(len(listed), -1)
            found = np.frombuffer(sums, "<u4").reshape(len(listed), 3)[:, 0]
            if not np.array_equal(vector_checksums(checksums.integers(listed), matrix), found):
                self.stream(after, limit)  # which names it
                raise self._damage("a vector does not match its checksum")
            return Rows([], listed.tolist(), matrix, [], [])

    def state(self) -> bytes:
        """Return the last state of the hasher."""
        return self._blob("hasher", 0)

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
