"""PostgresIndex: codes in a table of PostgreSQL, which searches them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from onlinehash._validation import check_process
from onlinehash.codes import code_width
from onlinehash.exceptions import InvalidInputError
from onlinehash.indexes._ids import is_id, unknown_id
from onlinehash.indexes.engines.postgres_client import (
    Answer,
    CodeScan,
    Connection,
    code_from,
    connect,
    errors,
    find_pgvector,
    from_bits,
    place_of,
    to_bytes,
)
from onlinehash.indexes.index import Index
from onlinehash.types import Codes, Distances, Ids, QueryValues, SearchResult

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)


class PostgresIndex(Index):
    """Search packed codes in a table of PostgreSQL: by default exactly, ties by id.

    The table has an ``id`` and a ``code`` of type ``bit(n_bits)``; it is created if it does not exist, and persists. A
    search reads every code, with the operator of pgvector if the extension is installed, else with ``bit_count``.
    Several processes may use one table; changes are visible to all at once.

    Parameters
    ----------
    n_bits : int
        Length of the codes.
    url : str
        ``"postgresql://user:password@host:port/database"``; PostgreSQL 14 or later.
    table : str, default="codes"
        Letters, digits and ``_``.
    approximate : bool, default=False
        Use an HNSW index of pgvector, which is faster and may miss some of the nearest. Needs
        pgvector 0.7 or later. :meth:`search` with ``ids``, and the other searches, stay exact.

    Examples
    --------
    With a server at hand::

        index = PostgresIndex(8, "postgresql://me@localhost/items")
        index.upsert(np.array([[0b0000], [0b0001], [0b0111]], np.uint8), ids=[10, 20, 30])
        index.search(np.array([[0b0011]], np.uint8), k=2).ids  # array([[20, 30]])
        index.close()
    """

    def __init__(self, n_bits: int, url: str, *, table: str = "codes", approximate: bool = False) -> None:
        super().__init__(n_bits)
        if not _NAME.fullmatch(str(table)):
            raise InvalidInputError(f"table={table!r} is no name; use letters, digits and _, at most 63 of them.")
        self._table = f'"{table}"'
        self._place = f"The table {table!r} in {place_of(url)}"
        self._opened, self._process = connect(url), os.getpid()
        try:
            with errors(self._place):
                self._open(approximate)
        except BaseException:
            self.close()
            raise

    def _open(self, approximate: bool) -> None:
        pgvector = find_pgvector(self._connection)
        if approximate and pgvector is None:
            raise InvalidInputError("approximate=True needs pgvector 0.7 or later. Run: CREATE EXTENSION vector")
        self._scan = CodeScan(self._table, self.n_bits, pgvector, approximate=approximate)
        with self._connection.transaction():
            # Two processes that create it at once: one waits for the other.
            self._connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (self._table,))
            if self._ask("SELECT to_regclass(%s)", self._table)[0][0] is None:
                self._connection.execute(
                    f"CREATE TABLE {self._table} (id bigint PRIMARY KEY, code bit({self.n_bits}) NOT NULL)"
                )
                if pgvector is not None and approximate:
                    self._connection.execute(pgvector.make_index(self._table))
        kind = self._ask(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass "
            "AND attname = 'code'",
            self._table,
        )
        if kind != [(f"bit({self.n_bits})",)]:
            found = f"codes of {kind[0][0]}" if kind else "no codes"
            raise InvalidInputError(f"{self._place} has {found}, not of {self.n_bits} bits; name another table.")

    def close(self) -> None:
        """Close the connection; the table persists. In a forked process, leave it to the one that opened it."""
        if os.getpid() == self._process:
            self._opened.close()

    @property
    def _connection(self) -> Connection:
        check_process(self._place, self._process)
        return self._opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        return int(self._ask(f"SELECT count(*) FROM {self._table}")[0][0])

    def __contains__(self, id: object) -> bool:
        return is_id(id) and bool(self._ask(f"SELECT 1 FROM {self._table} WHERE id = %s::bigint", int(id)))

    @property
    def ids(self) -> Ids:
        """Ids of all items, sorted."""
        return np.array([id for (id,) in self._ask(f"SELECT id FROM {self._table} ORDER BY id")], np.int64)

    @property
    def codes(self) -> Codes:
        """Codes of all items, in the order of `ids`, read-only."""
        codes = self._codes(self._ask(f"SELECT code FROM {self._table} ORDER BY id"))
        codes.flags.writeable = False
        return codes

    def _get(self, ids: Ids) -> Codes:
        found = self._ask(
            f"""SELECT wanted.id, code FROM unnest(%s::bigint[]) WITH ORDINALITY wanted(id, place)
                LEFT JOIN {self._table} codes ON codes.id = wanted.id ORDER BY place""",
            ids.tolist(),
        )
        self._demand([id for id, code in found if code is None])
        return self._codes([(code,) for _, code in found])

    # ------------------------------------------------------------------ changing

    def upsert(self, codes: ArrayLike, ids: ArrayLike | None = None) -> None:
        """Insert or replace items, as every index does; other processes may do so at the same time."""
        with errors(self._place), self._connection.transaction():
            if ids is None:
                self._connection.execute(f"LOCK TABLE {self._table} IN SHARE ROW EXCLUSIVE MODE")
            super().upsert(codes, ids)

    def _next_id(self) -> int:
        return int(self._ask(f"SELECT coalesce(max(id) + 1::numeric, 0) FROM {self._table}")[0][0])

    def _put(self, codes: Codes, ids: Ids) -> None:
        self._connection.execute(
            f"""INSERT INTO {self._table} (id, code)
                SELECT id, {code_from("%(codes)s::bytea", "place", self.n_bits)}
                FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY given(id, place) ORDER BY id
                ON CONFLICT (id) DO UPDATE SET code = excluded.code""",
            {"codes": to_bytes(codes), "ids": ids.tolist()},
        )

    def _drop(self, ids: Ids) -> None:
        doomed = ids.tolist()
        with errors(self._place), self._connection.transaction():
            gone = self._ask(f"DELETE FROM {self._table} WHERE id = ANY(%s::bigint[]) RETURNING id", doomed)
            self._demand(sorted(set(doomed) - {id for (id,) in gone}), len(gone))

    # ------------------------------------------------------------------ searching

    def _search(self, queries: Codes, k: int, among: Ids | None) -> SearchResult:
        return self._result(self._scanned(CodeScan.search, among, queries, k), k, np.int32, among)

    def _search_asymmetric(self, queries: QueryValues, k: int, among: Ids | None) -> SearchResult:
        return self._result(self._scanned(CodeScan.search_asymmetric, among, queries, k), k, np.float32, among)

    def _range_search(self, queries: Codes, radius: int, among: Ids | None) -> list[tuple[Ids, Distances]]:
        found = self._scanned(CodeScan.range_search, among, queries, radius)
        return [(np.array(ids, np.int64), np.array(distances, np.int32)) for ids, distances, _ in found]

    # ------------------------------------------------------------------ storage

    def _scanned(self, search: Callable[..., list[Answer]], among: Ids | None, *how: Any) -> list[Answer]:
        scan = self._scan
        if among is not None:
            scan = scan._replace(where="id = ANY(%(ids)s::bigint[])", values={"ids": among.tolist()})
        with errors(self._place):
            return search(scan, self._connection, *how)

    def _ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with errors(self._place), self._connection.cursor(binary=True) as cursor:
            return cursor.execute(sql, values).fetchall()

    def _codes(self, found: list[tuple[Any, ...]]) -> Codes:
        codes = from_bits([code for (code,) in found])
        return codes if len(codes) else np.empty((0, code_width(self.n_bits)), np.uint8)

    def _demand(self, unknown: list[int], n_gone: int = 0) -> None:
        if unknown:
            raise unknown_id(unknown[0], len(self) + n_gone)

    def _result(self, found: list[Answer], k: int, dtype: type, among: Ids | None) -> SearchResult:
        if not found:  # with the shape of a result
            n_among = len(self) if among is None else sum(id in self for id in among.tolist())
            return SearchResult(np.empty((0, min(k, n_among)), np.int64), np.empty((0, min(k, n_among)), dtype))
        ids, distances, _ = zip(*found, strict=True)
        return SearchResult(np.array(ids, np.int64), np.array(distances, dtype))
