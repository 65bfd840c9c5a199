"""Filters on the payload of a million items against the plain search: the first time and again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Row, compare, folder_on_disk, interleaved
from onlinehash import LSH, Collection
from onlinehash.collection import Never
from onlinehash.collection.filters import parse_where
from onlinehash.collection.passing import PassingItems
from onlinehash.collection.stores.sqlite_columns import PayloadColumns

N_ITEMS, BATCH, D, BITS = 1_000_000, 100_000, 16, 64
PASSING = (10, 100, 1000, 10_000, 100_000)  # one item in this many
REPEATS = 20


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


def rows_of(collection: Collection, query: NDArray[Any], one_in: int, how: str, n_first: int) -> list[Row]:
    """Compare a filter that one in ``one_in`` items passes with the plain search."""
    where = {"n": {"$lt": PASSING[-1] // one_in}}
    tree = parse_where(where)

    def first() -> object:
        collection._index._passing_items._known.clear()  # type: ignore[union-attr]
        return collection.search(query, where=where)

    def first_by_path() -> object:
        collection._store._columns = PayloadColumns()  # type: ignore[attr-defined]
        return first()

    passing = [item.id for item in collection.items(where=where, limit=1000)]
    assert collection.search(query, ids=passing).ids == collection.search(query, ids=passing, where=where).ids
    calls = {
        "plain": times(REPEATS, lambda: collection.search(query)),
        "again": times(REPEATS, lambda: collection.search(query, where=where)),
        "first": times(n_first, first),
        "database": times(n_first, lambda: PassingItems(collection._store).of(tree)),
    }
    seconds = interleaved(calls, rounds=5)
    if how == "without an index":
        seconds |= interleaved({"plain": calls["plain"], "first by path": times(n_first, first_by_path)}, rounds=5)
    scale = REPEATS / n_first
    seconds["without"] = [max(0.0, a - b) for a, b in zip(seconds["first"], seconds["database"], strict=True)]
    what = f"a filter that 1 item in {one_in} passes, {how}"
    bar = {"with an index": "at most 2", "without an index": "at most 10"}[how] if one_in == 100 else "-"
    rows = [
        compare(f"{what}, asked again", seconds, "again", "plain", bar),
        compare(f"{what}, asked the first time", seconds, "first", "plain", bar, scale),
    ]
    if how == "without an index":
        rows.append(compare(f"{what}, the first by its path", seconds, "first by path", "plain", "-", scale))
    else:  # without one, a difference of large numbers says nothing
        bar = "at most 1" if one_in >= 100 else "-"
        rows.append(compare(f"{what}, less the time of SQLite", seconds, "without", "plain", bar, scale))
    return rows


def run() -> list[Row]:
    with folder_on_disk() as name:
        path = Path(name) / "items.oh"
        query = fill(path)
        with Collection.open(path) as collection:
            scanned = [
                row for one_in in (100, 10_000) for row in rows_of(collection, query, one_in, "without an index", 1)
            ]
            collection.create_index("n")
            rows = [row for one_in in PASSING for row in rows_of(collection, query, one_in, "with an index", 5)]
    return rows + scanned
