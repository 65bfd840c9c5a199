"""SqliteStore: a collection in one SQLite file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from onlinehash.collection.stores import sqlite_schema as schema
from onlinehash.collection.stores.blobs import from_blobs, to_blobs
from onlinehash.collection.stores.protocol import Changes, CodedItems, GenerationRow, Position, Rows
from onlinehash.collection.stores.sqlite_file import Database
from onlinehash.collection.types import Key
from onlinehash.types import Codes

_TOMBSTONES = 100_000  # deletions that readers can still follow; further back they read everything again
_FETCH = 50_000
_ASK = 500  # keys in one question


class SqliteStore(Database):
    """Keep a collection in one SQLite file, in WAL mode with full synchronisation.

    What was written survives the end of the process and of the power. Other processes may read meanwhile.

    Parameters
    ----------
    path : Path
    readonly : bool
        Read what another process writes.

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

    # ------------------------------------------------------------------ settings

    def setting(self, name: str, default: Any = None) -> Any:
        """Return a setting."""
        found = self._query("SELECT value FROM settings WHERE name = ?", name)
        return json.loads(found[0][0]) if found else default

    def put_setting(self, name: str, value: Any) -> None:
        """Write a setting."""
        self._writer.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, json.dumps(value)))

    # ------------------------------------------------------------------ items

    def count(self) -> int:
        """Return the number of items."""
        return int(self.setting("n_items", 0))

    def size(self) -> int:
        """Return the number of bytes of the file and its write-ahead log."""
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def _table(self) -> str | None:
        """Return the table of the generation in use, which has all items; number 0 has no codes yet.

        To be asked inside :meth:`reading` or :meth:`writing`: a refresh may drop it.
        """
        if self.setting("key_kind") is None:
            return None
        return f"codes_{self.position().generation}"

    def seqs(self, keys: Sequence[Key]) -> list[int | None]:
        """Return where items are in the stream; None of unknown keys."""
        with self.reading():
            table = self._table()
            found = {} if table is None else dict(self._among(f"SELECT key, seq FROM {table} WHERE key", keys))
        return [found.get(key) for key in keys]

    def _among(self, select: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows in which the last name of the query is one of the values, in any order."""
        found: list[tuple[Any, ...]] = []
        for start in range(0, len(values), _ASK):
            some = values[start : start + _ASK]
            found += self._query(f"{select} IN ({', '.join('?' * len(some))})", *some)
        return found

    def keys(self) -> Iterator[Key]:
        """Yield all keys in order."""
        last: Key | None = None
        while rows := self._after("key", last, _FETCH):
            yield from (key for (key,) in rows)
            last = rows[-1][0]

    def label_counts(self) -> dict[str | None, int]:
        """Return how many items have which labels, as JSON; None for those without."""
        with self.reading():
            table = self._table()
            return {} if table is None else dict(self._query(f"SELECT labels, count(*) FROM {table} GROUP BY labels"))

    def rows(self, keys: Sequence[Key]) -> Rows:
        """Return the items of keys, in that order, without those that are unknown."""
        with self.reading():
            seqs = [seq for seq in self.seqs(keys) if seq is not None]
            found = {row[1]: row for row in self._among(f"{_SELECT} WHERE seq", seqs)}
            return self._rows([found[seq] for seq in seqs])

    def rows_after(self, key: Key | None, limit: int) -> Rows:
        """Return the next items in order of key."""
        columns = "codes.key, codes.seq, features, codes.labels, payload"
        return self._rows(self._after(columns, key, limit, join="JOIN items USING (seq)"))

    def _after(self, columns: str, key: Key | None, limit: int, *, join: str = "") -> list[tuple[Any, ...]]:
        """Return the next rows of the table of the generation in use, in order of key."""
        with self.reading():
            table = self._table()
            if table is None:
                return []
            query = f"SELECT {columns} FROM {table} codes {join}"
            if key is None:
                return self._query(f"{query} ORDER BY codes.key LIMIT ?", limit)
            return self._query(f"{query} WHERE codes.key > ? ORDER BY codes.key LIMIT ?", key, limit)

    def _rows(self, found: list[tuple[Any, ...]]) -> Rows:
        keys, seqs, features, labels, payloads = map(list, zip(*found, strict=True)) if found else ([], [], [], [], [])
        return Rows(keys, seqs, from_blobs(features, self._dtype()), labels, payloads)

    def _dtype(self) -> str:
        return str(self.setting("feature_dtype", "float32"))

    def put(self, rows: Rows, codes: Mapping[int, Codes]) -> None:
        """Write items and their codes by generation, in place of those with the same keys."""
        if self._table() is None:
            self.put_setting("key_kind", "TEXT" if isinstance(rows.keys[0], str) else "INTEGER")
            self._create_codes(0)
        before = self._seqs_before(rows.keys)
        self._retire(before)
        self._writer.executemany(
            "INSERT INTO items VALUES (?, ?, ?, ?, ?)",
            zip(rows.seqs, rows.keys, to_blobs(rows.features), rows.labels, rows.payloads, strict=True),
        )
        place = "seq - :after"  # there are no gaps between rows that come together
        for number, some in codes.items():
            self._put_codes(number, rows.seqs[0] - 1, rows.seqs[-1], some, place)
        if not self.position().generation:
            self._put_codes(0, rows.seqs[0] - 1, rows.seqs[-1], None, place)
        self.put_setting("n_items", self.count() + len(rows) - len(before))
        self.put_setting("seq", rows.seqs[-1])
        self._writer.execute("INSERT INTO commits VALUES (?)", (rows.seqs[-1],))

    def _seqs_before(self, keys: Sequence[Any]) -> list[int]:
        """Return where items are that keys replace; keys beyond the last, the common case, take one look."""
        last = self._query(f"SELECT max(key) FROM {self._table()}")[0][0]
        if last is None or min(keys) > last:
            return []
        return [seq for seq in self.seqs(keys) if seq is not None]

    def put_payloads(self, keys: Sequence[Key], payloads: Sequence[str | None]) -> None:
        """Write the payloads of known keys."""
        self._writer.executemany(
            "UPDATE items SET payload = ? WHERE seq = ?", zip(payloads, self.seqs(keys), strict=True)
        )

    def delete(self, keys: Sequence[Key], first_seq: int) -> None:
        """Delete known keys and their codes; the sequence numbers of that start at ``first_seq``."""
        self._retire([seq for seq in self.seqs(keys) if seq is not None])
        for number in {self.position().generation, *self._numbers()}:
            self._writer.executemany(f"DELETE FROM codes_{number} WHERE key = ?", [(key,) for key in keys])
        self._writer.executemany("INSERT INTO deleted VALUES (?, ?)", enumerate(keys, first_seq))
        self._writer.execute(
            "DELETE FROM deleted WHERE seq <= (SELECT seq FROM deleted ORDER BY seq DESC LIMIT 1 OFFSET ?)",
            (_TOMBSTONES,),
        )
        self.put_setting("n_items", self.count() - len(keys))
        self.put_setting("seq", first_seq + len(keys) - 1)

    def _retire(self, seqs: Sequence[int]) -> None:
        """Drop rows of the stream, those that the hasher has learned since its last state not before the next."""
        if seqs:
            learned_to = self.state_seq()
            self._writer.executemany("DELETE FROM items WHERE seq = ?", [(seq,) for seq in seqs if seq <= learned_to])
            self._writer.executemany("INSERT INTO retired VALUES (?)", [(seq,) for seq in seqs if seq > learned_to])

    # ------------------------------------------------------------------ the stream and the state

    def position(self) -> Position:
        """Return where the store stands."""
        found = self._query(
            "SELECT (SELECT value FROM settings WHERE name = 'seq'), (SELECT number FROM generations WHERE current)"
        )
        return Position(int(found[0][0] or 0), found[0][1] or 0)

    def stream(self, after: int, limit: int, *, retired: bool = False, labelled: bool = False) -> Rows:
        """Return the next instances of the stream."""
        condition = "" if retired else _NOT_RETIRED
        condition += " AND labels IS NOT NULL" if labelled else ""
        return self._rows(self._query(f"{_SELECT} WHERE seq > ?{condition} ORDER BY seq LIMIT ?", after, limit))

    def vectors(self, after: int, limit: int) -> Rows:
        """Return keys and features of the next instances.

        As one row of the database: a thread that fetches many gives up the interpreter at each, and waits for it
        where others search without a break.
        """
        keys, seqs, features = self._query(
            f"""SELECT json_group_array(key), json_group_array(seq), {_JOINED.format("features")}
                FROM (SELECT key, seq, features FROM items WHERE seq > ?{_NOT_RETIRED} ORDER BY seq LIMIT ?)""",
            after,
            limit,
        )[0]
        listed = json.loads(keys)
        matrix = from_blobs([features or b""], self._dtype()).reshape(len(listed), -1 if listed else 0)
        return Rows(listed, json.loads(seqs), matrix, [], [])

    def changes(self, after: int) -> Changes | None:
        """Return what happened after a sequence number, or None if the store does not reach back that far."""
        n_deleted, reach = self._query("SELECT count(*), min(seq) FROM deleted")[0]
        if n_deleted >= _TOMBSTONES and reach > after:
            return None
        changed = self._query(
            f"""SELECT codes.key, code, codes.labels FROM items JOIN {self._table()} codes
                ON codes.key = items.key AND codes.seq = items.seq WHERE items.seq > ?""",
            after,
        )
        deleted = self._query("SELECT DISTINCT key FROM deleted WHERE seq > ?", after)
        keys, blobs, labels = map(list, zip(*changed, strict=True)) if changed else ([], [], [])
        return Changes(keys, _as_codes(b"".join(blobs), len(keys)), labels, [key for (key,) in deleted])

    def state(self) -> bytes:
        """Return the last state of the hasher."""
        state: bytes = self._query("SELECT state FROM hasher")[0][0]
        return state

    def state_seq(self) -> int:
        """Return the sequence number up to which that state has learned."""
        return int(self._query("SELECT learned_to FROM hasher")[0][0])

    def put_state(self, state: bytes, learned_to: int) -> None:
        """Write the state of the hasher; what was kept of the stream up to there may go."""
        self._writer.execute("INSERT OR REPLACE INTO hasher VALUES (0, ?, ?)", (state, learned_to))
        done = "SELECT seq FROM retired WHERE seq <= ?"
        self._writer.execute(f"DELETE FROM items WHERE seq IN ({done})", (learned_to,))
        self._writer.execute("DELETE FROM retired WHERE seq <= ?", (learned_to,))
        self._writer.execute("DELETE FROM commits WHERE seq <= ?", (learned_to,))

    def commits(self, after: int) -> list[int]:
        """Return the last sequence number of every committed batch after a sequence number."""
        return [seq for (seq,) in self._query("SELECT seq FROM commits WHERE seq > ? ORDER BY seq", after)]

    # ------------------------------------------------------------------ generations

    def generations(self) -> list[GenerationRow]:
        """Return the generations: the one in use, one that is being made, or both."""
        found = self._query("SELECT number, current, encoder, cursor FROM generations ORDER BY number")
        return [GenerationRow(number, bool(current), encoder, cursor) for number, current, encoder, cursor in found]

    def _numbers(self) -> list[int]:
        return [number for (number,) in self._query("SELECT number FROM generations")]

    def begin_generation(self, encoder: bytes) -> int:
        """Start a generation in place of any that was being made; return its number."""
        for (number,) in self._query("SELECT number FROM generations WHERE NOT current"):
            self._drop(number)
        begun = self._writer.execute("INSERT INTO generations (current, encoder) VALUES (0, ?)", (encoder,)).lastrowid
        assert begun is not None
        self._create_codes(begun)
        return begun

    def finish_generation(self, number: int) -> None:
        """Take a generation into use and drop the others."""
        self._drop(self.position().generation)
        self._writer.execute("UPDATE generations SET current = 1 WHERE number = ?", (number,))

    def codes(self, number: int) -> CodedItems:
        """Return all items that have a code, in order of key."""
        # SQLite joins what it finds to long texts, which is twice as fast as a million small rows.
        joined = f"""SELECT json_group_array(key), {_JOINED.format("code")}, json_group_array(labels)
                     FROM (SELECT key, code, labels FROM codes_{number} {{where}} ORDER BY key LIMIT {_FETCH})"""
        keys: list[Any] = []
        blobs: list[bytes] = []
        labels: list[str | None] = []
        found = self._query(joined.format(where=""))[0]
        while found[1] is not None:
            keys += json.loads(found[0])
            blobs.append(found[1])
            labels += json.loads(found[2])
            found = self._query(joined.format(where="WHERE key > ?"), keys[-1])[0]
        return CodedItems(keys, _as_codes(b"".join(blobs), len(keys)), labels)

    def n_coded(self, number: int) -> int:
        """Return how many items have a code in a generation."""
        return int(self._query(f"SELECT count(*) FROM codes_{number}")[0][0])

    def put_codes(self, number: int, after: int, cursor: int, codes: Codes) -> None:
        """Write the codes of the instances from one sequence number to another; the generation is complete up to it."""
        self._put_codes(number, after, cursor, codes, "row_number() OVER (ORDER BY seq)")
        self._writer.execute("UPDATE generations SET cursor = ? WHERE number = ?", (cursor, number))

    def _put_codes(self, number: int, after: int, last: int, codes: Codes | None, place: str) -> None:
        """Write codes, NULL for None, beside the labels of their items; one statement is faster than one a code.

        ``place`` tells in SQL which code is an item's, from 1.
        """
        blob, width = (None, 0) if codes is None else (codes.tobytes(), codes.shape[1])
        self._writer.execute(
            f"""INSERT OR REPLACE INTO codes_{number}
                SELECT key, seq, labels, substr(:codes, 1 + :width * ({place} - 1), :width)
                FROM items WHERE seq > :after AND seq <= :last{_NOT_RETIRED}""",
            {"codes": blob, "width": width, "after": after, "last": last},
        )

    def _create_codes(self, number: int) -> None:
        kind = self.setting("key_kind")
        rowless = " WITHOUT ROWID" if kind == "TEXT" else ""
        self._writer.execute(schema.CODES.format(number=number, kind=kind) + rowless)

    def _drop(self, number: int) -> None:
        self._writer.execute(f"DROP TABLE codes_{number}")
        self._writer.execute("DELETE FROM generations WHERE number = ?", (number,))


_NOT_RETIRED = " AND seq NOT IN (SELECT seq FROM retired)"
_JOINED = "CAST(group_concat({}, '') AS BLOB)"  # bytes pass as they are: the text of a file of ours is UTF-8
_SELECT = "SELECT key, seq, features, labels, payload FROM items"


def _as_codes(content: bytes, n_rows: int) -> Codes:
    return np.frombuffer(content, np.uint8).reshape(n_rows, -1) if n_rows else np.empty((0, 0), np.uint8)
