"""CodeTables: the codes of a collection in SQLite, with the ids of its items or in chunks by generation."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import count, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash.collection.stores import checksums
from onlinehash.collection.stores import sqlite_schema as schema
from onlinehash.collection.stores.label_texts import LabelTexts
from onlinehash.collection.stores.protocol import TOMBSTONES, Changes, CodedItems, GenerationRow, Rows
from onlinehash.collection.stores.sqlite_rows import CheckedRows, columns_of, is_rising
from onlinehash.types import Codes

_FETCH_CODES = 1_000_000
_CHUNK = 50_000  # codes
NOT_RETIRED = " AND items.seq NOT IN (SELECT seq FROM retired)"
JOINED = "CAST(group_concat({}, '') AS BLOB)"  # bytes pass as they are: the text of a file of ours is UTF-8


class CodeTables(CheckedRows):
    """Read and write generations: encoders, and the codes they made."""

    def generations(self) -> list[GenerationRow]:
        """Return the generations: the one in use, one that is being made, or both."""
        with self.reading():
            current, cursor = self.position().generation, self.setting("cursor", 0)
            numbers = self._numbers()
            if current and current not in numbers:
                raise self._damage(f"the encoder of generation {current} is missing")
            return [
                GenerationRow(number, number == current, self._blob("generations", number), cursor)
                for number in numbers
            ]

    def _numbers(self) -> list[int]:
        return [number for (number,) in self._query("SELECT number FROM generations ORDER BY number")]

    def begin_generation(self, encoder: bytes) -> int:
        """Start a generation in place of any that was being made; return its number."""
        for number in self._numbers():
            if number != self.position().generation:
                self._drop(number)
        begun = int(self.setting("n_generations", 0)) + 1
        self.put_setting("n_generations", begun)
        self.put_setting("until", self.position().seq)
        self.put_setting("cursor", 0)
        self.put_setting("n_coded", 0)
        self._put_blob("generations", begun, encoder)
        self._writer.execute(schema.codes_table(begun))
        return begun

    def finish_generation(self, number: int) -> None:
        """Take a generation into use and drop the others."""
        self._check_count("codes", self.setting("n_coded"))
        seq, before = self.position()
        if before:
            self._drop(before)
        self.put_setting("generation", number)
        self.put_setting("since", seq)

    def n_coded(self, number: int) -> int:
        """Return how many items have a code in a generation."""
        with self.reading():
            return self.count() if number == self.position().generation else int(self.setting("n_coded"))

    def _forget_codes(self, seqs: Sequence[int]) -> None:
        """Count codes out of the generation being built; those of items that it has yet to reach are not in yet."""
        if self.setting("n_generations") > self.setting("generation"):
            cursor, until = self.setting("cursor"), self.setting("until")
            self._add(n_coded=-sum(seq <= cursor or seq > until for seq in seqs))

    def codes(self, number: int) -> CodedItems:
        """Return all items that have a code, in order of arrival; of generation 0 all items, and empty codes."""
        if not self._has_ids():
            return CodedItems([], [], np.empty((0, 0), np.uint8), [])
        with self.reading(), self._checking("a code"):
            is_current = number == self.position().generation
            since = self.setting("since") if is_current else self.position().seq
            ids, seqs, labels, own = self._ids(since)
            self._check_count("ids", len(ids))
            chunked, codes = self._chunks(number)
            if is_current and np.array_equal(chunked, seqs):
                return CodedItems(ids, seqs, codes, labels)
            places = np.searchsorted(chunked, seqs)
            there = places < len(chunked)
            there[there] = chunked[places[there]] == seqs[there]
            found = np.empty((len(seqs), (codes if len(codes) else own).shape[1]), np.uint8)
            has_code = there | (seqs > since)
            if len(codes):
                found[there] = codes[places[there]]
            if len(own):
                found[seqs > since] = own
            if is_current:
                self._check_count("codes", int(has_code.sum()))
        if not has_code.all():
            kept = np.flatnonzero(has_code)
            ids, labels = [ids[row] for row in kept.tolist()], labels.take(kept)
            seqs, found = seqs[kept], found[kept]
        return CodedItems(ids, seqs, found, labels)

    def _chunks(self, number: int) -> tuple[NDArray[np.int64], Codes]:
        """Return the sequence numbers, rising, and the codes of all chunks of a generation."""
        rows = self._query(f"SELECT seq, codes, checksum FROM codes_{number} ORDER BY seq") if number else []
        firsts, blobs, sums = columns_of(rows, 3)
        self._check_rows(f"codes_{number}", firsts, sums, checksums.integers(firsts), checksums.blobs(blobs))
        parts = [_parted(blob) for blob in blobs]
        if not parts:
            return np.empty(0, np.int64), np.empty((0, 0), np.uint8)
        seqs, codes = (np.concatenate(some) for some in zip(*parts, strict=True))
        if (np.diff(seqs) <= 0).any():
            raise self._damage(f"chunks of the table codes_{number} overlap")
        return seqs, codes

    def _ids(self, since: int) -> tuple[list[Any], NDArray[np.int64], LabelTexts, Codes]:
        """Return ids, sequence numbers and labels of all items, in order of arrival, and the codes since one."""
        texts = defaultdict[str, int](count().__next__)
        parts = [self._ids_between(*ends, since, texts) for ends in pairwise(self._ends())]
        found = [part for part in parts if len(part[0])] or parts[:1]
        columns = list(zip(*found, strict=True))
        ids, seqs, numbers = (np.concatenate(some) if len(some) > 1 else some[0] for some in columns[:3])
        own = np.concatenate([some[3] for some in found if len(some[3])] or [found[0][3]])
        if (np.diff(seqs) <= 0).any():
            order = np.argsort(seqs, kind="stable")
            own = own[np.argsort(seqs[seqs > since], kind="stable")]
            ids, seqs, numbers = ids[order], seqs[order], numbers[order]
            if (np.diff(seqs) <= 0).any():
                raise self._damage("two rows of the table ids have one sequence number")
        return ids.tolist(), seqs, _column(texts, numbers), own

    def _ends(self) -> list[Any]:
        """Return ids that part the table of ids, with None at both ends."""
        if self.count() <= _FETCH_CODES:
            return [None, None]
        ends: list[Any] = [None]
        while ends[-1] is not None or len(ends) == 1:
            where, values = _between(ends[-1], None)
            select = f"SELECT id FROM ids WHERE {where} ORDER BY id LIMIT 1 OFFSET {_FETCH_CODES - 1}"
            ends += [id for (id,) in self._query(select, *values)] or [None]
        return ends

    def _ids_between(
        self, after: Any, last: Any, since: int, texts: dict[str, int]
    ) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int32], Codes]:
        """Return ids, sequence numbers and numbers of labels from one id to another, and the codes since one.

        ``texts`` gives a new label the next number. SQLite joins what it finds to long texts, which is much faster than
        many small rows. It finds them in order.
        """
        where, values = _between(after, last)
        integer = self.setting("id_type") == "INTEGER"
        listed = "group_concat(id)" if integer else "json_group_array(id)"
        own = JOINED.format(f"CASE WHEN seq > {since:d} THEN code END") if since < self.position().seq else "NULL"
        query = f"""SELECT {listed}, group_concat(seq), group_concat(ifnull(labels, ''), '\n'),
                    {JOINED.format("checksum")}, {own} FROM ids WHERE {where}"""
        found_ids, found_seqs, found_labels, sums, blob = self._query(query, *values)[0]
        if sums is None:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32), np.empty((0, 0), np.uint8)
        seqs = np.fromstring(found_seqs, np.int64, sep=",")
        ids: Any = np.fromstring(found_ids, np.int64, sep=",") if integer else json.loads(found_ids)
        labels = found_labels.split("\n")
        numbers = np.fromiter(map(texts.__getitem__, labels), np.int32, len(labels))
        self._check_ids(ids, seqs, _column(texts, numbers), sums)
        if not is_rising(ids):
            raise self._damage("rows of the table ids are not in order")
        codes = self._unsealed(seqs[seqs > since], blob or b"")
        return ids if integer else np.array(ids, object), seqs, numbers, codes

    def put_codes(self, number: int, after: int, rows: Rows, codes: Codes) -> None:
        """Write the codes of instances that :meth:`vectors` returned after a sequence number."""
        self._put_chunk(number, rows.seqs, codes)
        self.put_setting("cursor", rows.seqs[-1])

    def _put_chunk(self, number: int, seqs: Sequence[int], codes: Codes) -> None:
        """Write codes as one blob."""
        self._put_blob(f"codes_{number}", seqs[0], _joined(seqs, codes))
        self._add(n_coded=len(seqs))

    def _drop_dead_codes(self) -> None:
        """Write the chunks of the generation in use again, without the codes of items that are gone."""
        number = self.position().generation
        if not number:
            return
        seqs, codes = self._chunks(number)
        living = np.isin(seqs, self._ids(self.position().seq)[1])
        seqs, codes = seqs[living], codes[living]
        self._writer.execute(f"DELETE FROM codes_{number}")
        for start in range(0, len(seqs), _CHUNK):
            some = slice(start, start + _CHUNK)
            self._put_blob(f"codes_{number}", int(seqs[start]), _joined(seqs[some], codes[some]))

    def _drop(self, number: int) -> None:
        self._writer.execute(f"DROP TABLE codes_{number}")
        self._writer.execute("DELETE FROM generations WHERE number = ?", (number,))

    def _deletions(self) -> tuple[int, int]:
        """Return the number of deletions that can be followed, and the sequence number of the first."""
        ((n_deleted, first),) = self._query("SELECT count(*), min(seq) FROM deleted")
        if n_deleted != self.setting("n_deleted"):
            raise self._damage("rows of the table deleted are missing")
        return n_deleted, first

    def changes(self, after: int) -> Changes | None:
        """Return what happened after a sequence number, or None if the store does not reach back that far."""
        with self.reading(), self._checking("a code"):
            n_deleted, reach = self._deletions()
            if (n_deleted >= TOMBSTONES and reach > after) or after < self.setting("since"):
                return None
            found = self._query(
                f"""SELECT items.id, items.seq, items.seq = ids.seq, ids.labels, checksum, code FROM items
                    LEFT JOIN ids ON ids.id = items.id WHERE items.seq > ?{NOT_RETIRED} ORDER BY items.seq""",
                after,
            )
            ids, seqs, there, labels, sums, blobs = columns_of(found, 6)
            if not all(there):
                raise self._damage(f"the code of item {ids[there.index(0 if 0 in there else None)]!r} is missing")
            self._check_ids(ids, seqs, labels, b"".join(sums))
            codes = self._unsealed(seqs, b"".join(filter(None, blobs)))
            deleted = dict.fromkeys(id for _, id, _ in self._small("deleted", "seq > ?", after))
            return Changes(ids, seqs, codes, labels, list(deleted))


def _column(texts: dict[str, int], numbers: NDArray[np.int32]) -> LabelTexts:
    """Return labels by their numbers; an item without any has an empty text."""
    return LabelTexts([text or None for text in texts], numbers)


def _joined(seqs: ArrayLike, codes: Codes) -> bytes:
    """Return a chunk."""
    return len(codes).to_bytes(8, "little") + np.asarray(seqs, "<i8").tobytes() + codes.tobytes()


def _parted(blob: bytes) -> tuple[NDArray[np.int64], Codes]:
    """Return the sequence numbers and the codes of a chunk."""
    n_rows = int.from_bytes(blob[:8], "little")
    seqs = np.frombuffer(blob, "<i8", n_rows, 8)
    return seqs, np.frombuffer(blob, np.uint8, offset=8 + 8 * n_rows).reshape(n_rows, -1)


def _between(after: Any, last: Any) -> tuple[str, list[Any]]:
    """Return the condition that an id is after one and up to another, each unless it is None, and its values."""
    given = [(f"id {sign} ?", id) for sign, id in ((">", after), ("<=", last)) if id is not None]
    return " AND ".join(["true", *(part for part, _ in given)]), [id for _, id in given]
