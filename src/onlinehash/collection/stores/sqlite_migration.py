"""MigrationTables: new vectors of the items of a collection in SQLite, beside the old ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinehash.collection.stores import checksums
from onlinehash.collection.stores import sqlite_schema as schema
from onlinehash.collection.stores.blobs import from_blobs, to_blobs
from onlinehash.collection.stores.checksums import row_checksums
from onlinehash.collection.stores.protocol import Rows
from onlinehash.collection.stores.sqlite_codes import NOT_RETIRED, CodeTables
from onlinehash.collection.stores.sqlite_rows import columns_of, item_checksums, item_columns, vector_checksums

_AT_A_TIME = 1000  # rows


class MigrationTables(CodeTables):
    """Read and write new vectors by sequence number; those of items that were replaced or deleted since are ignored."""

    def begin_migration(self, hasher: bytes) -> None:
        """Make room for new vectors, and keep the hasher that is to learn from them."""
        for statement in schema.MIGRATION.values():
            self._writer.execute(statement)
        self._put_blob("new_hasher", 0, hasher)

    def new_hasher(self) -> bytes:
        """Return the hasher that is to learn from the new vectors."""
        return self._blob("new_hasher", 0)

    def end_migration(self) -> None:
        """Drop the new vectors."""
        for name in schema.MIGRATION:
            self._writer.execute(f"DROP TABLE {name}")

    def put_new_vectors(self, rows: Rows) -> None:
        """Write the new vectors of items."""
        vectors = to_blobs(rows.vectors)
        sums = row_checksums("new_vectors", checksums.integers(rows.seqs), checksums.blobs(vectors)).tolist()
        self._writer.executemany(
            "INSERT OR REPLACE INTO new_vectors VALUES (?, ?, ?)", zip(rows.seqs, sums, vectors, strict=True)
        )

    def n_new_vectors(self) -> int:
        """Return how many items have a new vector."""
        join = f"FROM items JOIN new_vectors USING (seq) WHERE true{NOT_RETIRED}"
        return int(self._query(f"SELECT count(*) {join}")[0][0])

    def without_new_vectors(self, after: int, limit: int) -> Rows:
        """Return the next items that have no new vector, in order of arrival, as they are."""
        with self.reading():
            rows = self._rows(
                self._query(
                    f"""SELECT id, items.seq, batch, labels, checksums, items.vectors, payload
                        FROM items LEFT JOIN new_vectors new USING (seq)
                        WHERE items.seq > ? AND new.seq IS NULL{NOT_RETIRED} ORDER BY items.seq LIMIT ?""",
                    after,
                    limit,
                )
            )
            self._check_order(after, rows.seqs)
            return rows

    def new_vectors(self, after: int, limit: int) -> Rows:
        """Return the next items that have a new vector, in order of arrival, with that and without payloads."""
        ids, seqs, _, labels, _, _, blobs = self._new(after, limit)
        return Rows(ids, seqs, from_blobs(blobs, self._dtype()), labels, [])

    def _new(self, after: int, limit: int) -> list[list[Any]]:
        """Return ids, sequence numbers, batches, labels, checksums, those of new vectors and these, verified."""
        with self.reading(), self._checking("a new vector"):
            found = columns_of(
                self._query(
                    f"""SELECT id, items.seq, batch, labels, checksums, new.checksum, new.vectors
                        FROM items JOIN new_vectors new USING (seq)
                        WHERE items.seq > ?{NOT_RETIRED} ORDER BY items.seq LIMIT ?""",
                    after,
                    limit,
                ),
                7,
            )
            ids, seqs, batches, labels, sums, new_sums, blobs = found
            self._check_order(after, seqs)
            self._check_items(ids, seqs, batches, labels, b"".join(sums))
            self._check_rows("new_vectors", ids, new_sums, checksums.integers(seqs), checksums.blobs(blobs))
            return found

    def adopt_new_vectors(self) -> None:
        """Put the new vectors of all items in place of the old ones."""
        after, n_items = 0, 0
        while (found := self._new(after, _AT_A_TIME))[0]:
            ids, seqs, batches, labels, sums, _, blobs = found
            payload_crc = np.frombuffer(b"".join(sums), "<u4").reshape(len(ids), 3)[:, 1].astype(np.uint64)
            vector_crc = vector_checksums(checksums.integers(seqs), from_blobs(blobs, self._dtype()))
            new_sums = to_blobs(item_checksums(*item_columns(ids, seqs, batches, labels), vector_crc, payload_crc))
            self._writer.executemany(
                "UPDATE items SET vectors = ?, checksums = ? WHERE seq = ?", zip(blobs, new_sums, seqs, strict=True)
            )
            after, n_items = seqs[-1], n_items + len(ids)
        self._check_count("new vectors", n_items)
