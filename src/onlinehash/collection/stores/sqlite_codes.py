"""CodeTables: the codes of a collection in SQLite, one table per generation."""

from __future__ import annotations

import json
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.stores import checksums
from onlinehash.collection.stores import sqlite_schema as schema
from onlinehash.collection.stores.protocol import TOMBSTONES, Changes, CodedItems, GenerationRow, Rows
from onlinehash.collection.stores.sqlite_rows import CheckedRows, columns_of, sealed
from onlinehash.types import Codes

_FETCH_CODES = 1_000_000
NOT_RETIRED = " AND items.seq NOT IN (SELECT seq FROM retired)"
JOINED = "CAST(group_concat({}, '') AS BLOB)"  # bytes pass as they are: the text of a file of ours is UTF-8


class CodeTables(CheckedRows):
    """Read and write generations: encoders, and the codes they made.

    Parameters
    ----------
    path : Path
    readonly : bool
    """

    def _table(self) -> str | None:
        """Return the table of the generation in use, which has all items; number 0 has no codes yet.

        To be asked inside :meth:`reading` or :meth:`writing`: a refresh may drop it.
        """
        if self.setting("id_type") is None:
            return None
        return f"codes_{self.position().generation}"

    def generations(self) -> list[GenerationRow]:
        """Return the generations: the one in use, one that is being made, or both."""
        with self.reading():
            current, cursor = self.position().generation, self.setting("cursor", 0)
            numbers = self._numbers()
            if current and current not in numbers:
                raise self._damage(f"the encoder of generation {current} is missing")
            return [
                GenerationRow(number, number == current, self._blob("generations", "number, encoder", number), cursor)
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
        self.put_setting("cursor", 0)
        self._put_blob("generations", begun, encoder)
        self._create_codes(begun)
        return begun

    def finish_generation(self, number: int) -> None:
        """Take a generation into use and drop the others."""
        self._check_count("codes", self._n_rows(number))
        self._drop(self.position().generation)
        self.put_setting("generation", number)

    def n_coded(self, number: int) -> int:
        """Return how many items have a code in a generation."""
        with self.reading():
            return self.count() if number == self.position().generation else self._n_rows(number)

    def _n_rows(self, number: int) -> int:
        return int(self._query(f"SELECT count(*) FROM codes_{number}")[0][0])

    def codes(self, number: int) -> CodedItems:
        """Return all items that have a code, in order of arrival."""
        if self.setting("id_type") is None:
            return CodedItems([], [], np.empty((0, 0), np.uint8), [])
        with self.reading(), self._checking("a code"):
            parts = [self._codes_between(number, *ends) for ends in pairwise(self._ends(number))]
            found = [part for part in parts if part[0]] or parts[:1]
            ids, labels = (list(chain.from_iterable(some[part] for some in found)) for part in (0, 2))
            seqs, codes = (np.concatenate([some[part] for some in found]) for part in (1, 3))
            if number == self.position().generation:
                self._check_count("codes", len(ids))
        order = np.argsort(seqs)
        if (np.diff(seqs[order]) <= 0).any():
            raise self._damage(f"two rows of the table codes_{number} have one sequence number")
        if (order[1:] < order[:-1]).any():
            ids, labels = ([column[row] for row in order.tolist()] for column in (ids, labels))
            seqs, codes = seqs[order], codes[order]
        return CodedItems(ids, seqs.tolist(), codes, labels)

    def _ends(self, number: int) -> list[Any]:
        """Return ids that part the codes of a generation, with None at both ends."""
        ends: list[Any] = [None]
        while ends[-1] is not None or len(ends) == 1:
            where, values = _between(ends[-1], None)
            select = f"SELECT id FROM codes_{number} WHERE {where} ORDER BY id LIMIT 1 OFFSET {_FETCH_CODES - 1}"
            ends += [id for (id,) in self._query(select, *values)] or [None]
        return ends

    def _codes_between(
        self, number: int, after: Any, last: Any
    ) -> tuple[list[Any], NDArray[np.int64], list[str | None], Codes]:
        """Return ids, sequence numbers, labels and codes from one id to another.

        SQLite joins what it finds to long texts, which is much faster than many small rows. It finds them in order.
        """
        where, values = _between(after, last)
        integer = self.setting("id_type") == "INTEGER"
        listed = "group_concat(id)" if integer else "json_group_array(id)"
        query = f"""SELECT {listed}, group_concat(seq), group_concat(ifnull(labels, ''), '\n'),
                    {JOINED.format("code")} FROM codes_{number} WHERE {where}"""
        found_ids, found_seqs, found_labels, blob = self._query(query, *values)[0]
        if blob is None:
            return [], np.empty(0, np.int64), [], np.empty((0, 0), np.uint8)
        seqs = np.fromstring(found_seqs, np.int64, sep=",")
        ids: Any = np.fromstring(found_ids, np.int64, sep=",") if integer else json.loads(found_ids)
        texts = found_labels.split("\n")
        labels = [text or None for text in texts] if "" in texts else texts
        codes = self._unsealed(number, ids, seqs, labels, blob)
        if (np.diff(ids) <= 0).any() if integer else sorted(set(ids)) != ids:
            raise self._damage(f"rows of the table codes_{number} are not in order")
        return ids.tolist() if integer else ids, seqs, labels, codes

    def put_codes(self, number: int, after: int, rows: Rows, codes: Codes) -> None:
        """Write the codes of instances that :meth:`vectors` returned after a sequence number."""
        columns = checksums.ids(rows.ids), checksums.integers(rows.seqs), checksums.texts(rows.labels)
        place = "row_number() OVER (ORDER BY seq)"
        self._put_codes(number, after, rows.seqs[-1], sealed(number, codes, *columns), place)
        self.put_setting("cursor", rows.seqs[-1])

    def _put_codes(self, number: int, after: int, last: int, rows: NDArray[np.uint8], place: str) -> None:
        """Write codes beside the labels of their items; one statement is faster than one per code.

        ``place`` tells in SQL which code is that of an item, from 1.
        """
        self._writer.execute(
            f"""INSERT OR REPLACE INTO codes_{number}
                SELECT id, seq, labels, substr(:codes, 1 + :width * ({place} - 1), :width)
                FROM items WHERE seq > :after AND seq <= :last{NOT_RETIRED}""",
            {"codes": rows.tobytes(), "width": rows.shape[1], "after": after, "last": last},
        )

    def _create_codes(self, number: int) -> None:
        self._writer.execute(schema.codes_table(number, self.setting("id_type")))

    def _drop(self, number: int) -> None:
        self._writer.execute(f"DROP TABLE codes_{number}")
        self._writer.execute("DELETE FROM generations WHERE number = ?", (number,))

    def changes(self, after: int) -> Changes | None:
        """Return what happened after a sequence number, or None if the store does not reach back that far."""
        with self.reading(), self._checking("a code"):
            n_deleted, reach = self._query("SELECT count(*), min(seq) FROM deleted")[0]
            if n_deleted != self.setting("n_deleted"):
                raise self._damage("rows of the table deleted are missing")
            if n_deleted >= TOMBSTONES and reach > after:
                return None
            generation = self.position().generation
            found = self._query(
                f"""SELECT items.id, items.seq, items.seq = codes.seq, codes.labels, code FROM items
                    LEFT JOIN {self._table()} codes ON codes.id = items.id WHERE items.seq > ?{NOT_RETIRED}
                    ORDER BY items.seq""",
                after,
            )
            ids, seqs, there, labels, blobs = columns_of(found, 5)
            if not all(there):
                raise self._damage(f"the code of item {ids[there.index(0 if 0 in there else None)]!r} is missing")
            codes = self._unsealed(generation, ids, seqs, labels, b"".join(blobs))
            deleted = self._small("deleted", "seq, id", "seq > ?", after)[1]
            return Changes(ids, seqs, codes, labels, list(dict.fromkeys(deleted)))


def _between(after: Any, last: Any) -> tuple[str, list[Any]]:
    """Return the condition that an id is after one and up to another, each unless it is None, and its values."""
    given = [(f"id {sign} ?", id) for sign, id in ((">", after), ("<=", last)) if id is not None]
    return " AND ".join(["true", *(part for part, _ in given)]), [id for _, id in given]
