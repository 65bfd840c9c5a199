"""Filters on the payload of a million items against the plain search: the first time and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import process_time, sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Row, compare, folder_on_disk, interleaved
from onlinehash import LSH, Collection
from onlinehash.collection import Never

N_ITEMS, BATCH, D, BITS = 1_000_000, 100_000, 16, 64
PASSING = (10, 100, 1000, 10_000, 100_000)  # one item in this many
REPEATS, ROUNDS = 20, 5
BARS = {"with an index": "at most 2", "without an index": "at most 10"}


def fill(path: Path) -> NDArray[Any]:
    """Store items whose payload holds a number below 100 000, and return a query."""
    rng = np.random.default_rng(0)
    with Collection.open(path, LSH(BITS, random_state=0), Never()) as collection:
        for start in range(0, N_ITEMS, BATCH):
            X = rng.standard_normal((BATCH, D), dtype=np.float32)
            payload = [{"n": n, "brand": f"brand {n % 50}"} for n in rng.integers(0, PASSING[-1], BATCH).tolist()]
            collection.upsert(range(start, start + BATCH), X, payload=payload)
    query: NDArray[Any] = rng.standard_normal(D, dtype=np.float32)
    return query


def times(n: int, call: Callable[[], object]) -> Callable[[], None]:
    def repeated() -> None:
        for _ in range(n):
            call()

    return repeated


def new_filters(one_in: int) -> Iterator[dict[str, Any]]:
    """Yield filters that one item in ``one_in`` passes, each with other values."""
    width = PASSING[-1] // one_in
    for start in np.random.default_rng(one_in).permutation(PASSING[-1] - width).tolist():
        yield {"n": {"$gte": start, "$lt": start + width}}


def settle(collection: Collection) -> None:
    """Wait until no column is read any more."""
    while collection._store._wanted:  # type: ignore[attr-defined]
        sleep(0.01)


class BySqlite:
    """Search with filters that SQLite answers, and tell the CPU time without that which SQLite takes."""

    def __init__(self, collection: Collection, query: NDArray[Any]) -> None:
        self._collection, self._query, self._asked = collection, query, 0.0

    def search(self, where: dict[str, Any]) -> None:
        """Search without columns in memory."""
        store, passing = self._collection._store, self._collection._index._passing_items  # type: ignore[union-attr]
        store._column = lambda key, moment: None  # type: ignore[attr-defined]
        passing.of = partial(self._ask, passing.of)  # type: ignore[method-assign]
        try:
            self._collection.search(self._query, where=where)
        finally:
            del store._column, passing.of  # type: ignore[attr-defined]

    def _ask(self, of: Callable[[Any], Any], where: Any) -> Any:
        start = process_time()
        try:
            return of(where)
        finally:
            self._asked += process_time() - start

    def clock(self) -> float:
        """Return the CPU time without that of asking SQLite."""
        return process_time() - self._asked


def after_opening(path: Path, query: NDArray[Any], how: str) -> list[Row]:
    """Compare the first two filters after opening with the plain search; the first starts to read a column."""
    filters, measured = new_filters(100), list[dict[str, float]]()
    for _ in range(ROUNDS):
        with Collection.open(path) as collection:
            plain = interleaved({"plain": times(REPEATS, partial(collection.search, query))}, rounds=1)["plain"][0]
            start = process_time()
            collection.search(query, where=next(filters))
            settle(collection)
            first = process_time()
            collection.search(query, where=next(filters))
            measured.append({"plain": plain / REPEATS, "first": first - start, "second": process_time() - first})
    seconds = {name: [some[name] for some in measured] for name in measured[0]}
    what = f"a filter that 1 item in 100 passes, {how}"
    return [
        compare(f"{what}, the first of all, and the reading of the column", seconds, "first", "plain", "-"),
        compare(f"{what}, the second of all", seconds, "second", "plain", "-"),
    ]


def rows_of(collection: Collection, query: NDArray[Any], one_in: int, how: str) -> list[Row]:
    """Compare a filter that one item in ``one_in`` passes with the plain search, in a collection that is in use."""
    filters = new_filters(one_in)
    again = next(filters)
    passing = [item.id for item in collection.items(where=again, limit=1000)]
    assert collection.search(query, ids=passing).ids == collection.search(query, ids=passing, where=again).ids
    collection.search(query, where=again)
    settle(collection)

    calls = {
        "plain": times(REPEATS, lambda: collection.search(query)),
        "again": times(REPEATS, lambda: collection.search(query, where=again)),
        "first": times(REPEATS, lambda: collection.search(query, where=next(filters))),
    }
    seconds = interleaved(calls, ROUNDS)
    what = f"a filter that 1 item in {one_in} passes, {how}"
    bar = BARS[how] if one_in == 100 else "-"
    rows = [
        compare(f"{what}, asked again", seconds, "again", "plain", bar),
        compare(f"{what}, asked the first time", seconds, "first", "plain", bar),
    ]
    if how == "with an index":
        by_sqlite, bar = BySqlite(collection, query), "at most 1" if one_in >= 100 else "-"
        calls = {"plain": calls["plain"], "by SQLite": times(REPEATS, lambda: by_sqlite.search(next(filters)))}
        rows += [
            compare(f"{what}, answered by SQLite", interleaved(calls, ROUNDS), "by SQLite", "plain", "-"),
            compare(
                f"{what}, answered by SQLite, less the time of SQLite",
                interleaved(calls, ROUNDS, by_sqlite.clock),
                "by SQLite",
                "plain",
                bar,
            ),
        ]
    return rows


def run() -> list[Row]:
    rows: list[Row] = []
    with folder_on_disk() as name:
        path = Path(name) / "items.oh"
        query = fill(path)
        for how, numbers in (("without an index", (100, 10_000)), ("with an index", PASSING)):
            with Collection.open(path) as collection:
                if how == "with an index":
                    collection.create_index("n")
                some = [row for one_in in numbers for row in rows_of(collection, query, one_in, how)]
            rows = some + after_opening(path, query, how) + rows
    return rows
