"""PostgresMigration: new vectors of the items of a collection in PostgreSQL, beside the old ones."""

from __future__ import annotations

from onlinehash.collection.stores import postgres_schema as schema
from onlinehash.collection.stores.blobs import to_blobs
from onlinehash.collection.stores.postgres_items import PostgresItems
from onlinehash.collection.stores.protocol import Rows


class PostgresMigration(PostgresItems):
    """Read and write new vectors by sequence number; those of items that were replaced or deleted since are ignored.

    The checksum of a new vector is that of its item once it has it.
    """

    def begin_migration(self, hasher: bytes) -> None:
        """Make room for new vectors, and keep the hasher that is to learn from them."""
        self._write(schema.MIGRATION.format(schema=self._schema))
        self._write(f"INSERT INTO {self._schema}.new_hasher VALUES (0, %s)", hasher)

    def new_hasher(self) -> bytes:
        """Return the hasher that is to learn from the new vectors."""
        found = self._query(f"SELECT state FROM {self._schema}.new_hasher")
        self._demand_intact(bool(found), "the hasher of the migration")
        return bytes(found[0][0])

    def end_migration(self) -> None:
        """Drop the new vectors."""
        self._write(f"DROP TABLE {self._schema}.new_vectors, {self._schema}.new_hasher")

    def put_new_vectors(self, rows: Rows) -> None:
        """Write the new vectors of items."""
        vectors = to_blobs(rows.vectors)
        columns = zip(rows.seqs, rows.ids, rows.labels, vectors, strict=True)
        self._write(
            f"""INSERT INTO {self._schema}.new_vectors SELECT * FROM unnest(%s::bigint[], %s::bytea[], %s::int[])
                ON CONFLICT (seq) DO UPDATE SET vectors = excluded.vectors, checksum = excluded.checksum""",
            rows.seqs,
            vectors,
            [schema.checksum(seq, id, labels, content=vector) for seq, id, labels, vector in columns],
        )

    def n_new_vectors(self) -> int:
        """Return how many items have a new vector."""
        items, new = f"{self._schema}.items", f"{self._schema}.new_vectors"
        return int(self._query(f"SELECT count(*) FROM {items} JOIN {new} USING (seq)")[0][0])

    def without_new_vectors(self, after: int, limit: int) -> Rows:
        """Return the next items that have no new vector, in order of arrival, as they are."""
        return self._rows(
            self._query(
                f"""SELECT id, items.seq, items.vectors, labels, payload, items.checksum, payload_checksum
                    FROM {self._schema}.items LEFT JOIN {self._schema}.new_vectors new USING (seq)
                    WHERE items.seq > %s AND new.seq IS NULL ORDER BY items.seq LIMIT %s""",
                after,
                limit,
            )
        )

    def new_vectors(self, after: int, limit: int) -> Rows:
        """Return the next items that have a new vector, in order of arrival, with that and without payloads."""
        found = self._query(
            f"""SELECT id, items.seq, new.vectors, labels, NULL, new.checksum, NULL
                FROM {self._schema}.items JOIN {self._schema}.new_vectors new USING (seq)
                WHERE items.seq > %s ORDER BY items.seq LIMIT %s""",
            after,
            limit,
        )
        return self._rows(found, "the new vector of item")

    def adopt_new_vectors(self) -> None:
        """Put the new vectors of all items in place of the old ones."""
        n_items = self._write(
            f"""UPDATE {self._schema}.items SET vectors = new.vectors, checksum = new.checksum
                FROM {self._schema}.new_vectors new WHERE new.seq = items.seq"""
        )
        self._demand_intact(n_items == self.count(), "the number of new vectors")
