"""Filters on the payload of a million items against the plain search: the first time and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Row, compare, folder_on_disk, interleaved
from onlinehash import LSH, Collection

N_ITEMS, BATCH, D, BITS = 1_000_000, 100_000, 16, 64
PASSING = (10, 100, 1000, 10_000, 100_000)  # one item in this many
REPEATS, ROUNDS = 20, 5


def fill(path: Path) -> NDArray[Any]:
    """Store items whose payload holds a number below 100 000, and return a query."""
    rng = np.random.default_rng(0)
    with Collection.open(path, LSH(BITS, random_state=0), "manual") as collection:
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


def rows_of(collection: Collection, query: NDArray[Any], one_in: int, how: str) -> list[Row]:
    """Compare a filter that one item in ``one_in`` passes with the plain search, in a collection that is in use."""
    filters = new_filters(one_in)
    again = next(filters)
    passing = [item.id for item in collection.items(where=again, limit=1000)]
    assert collection.search(query, ids=passing).ids == collection.search(query, ids=passing, where=again).ids
    collection.search(query, where=again)
    calls = {
        "plain": times(REPEATS, lambda: collection.search(query)),
        "again": times(REPEATS, lambda: collection.search(query, where=again)),
        "first": times(REPEATS, lambda: collection.search(query, where=next(filters))),
    }
    seconds = interleaved(calls, ROUNDS)
    what = f"a filter that 1 item in {one_in} passes, {how}"
    first = [total / REPEATS / 0.05 for total in seconds["first"]]
    return [
        compare(f"{what}, asked again", seconds, "again", "plain", "-"),
        compare(f"{what}, asked the first time", seconds, "first", "plain", "-"),
        Row.of(
            f"{what}, asked the first time", first, "seconds / 0.05", "at most 1" if how == "with an index" else "-"
        ),
    ]


def run() -> list[Row]:
    rows: list[Row] = []
    with folder_on_disk() as name:
        path = Path(name) / "items.oh"
        query = fill(path)
        for how, numbers in (("without an index", (100, 10_000)), ("with an index", PASSING)):
            with Collection.open(path) as collection:
                if how == "with an index":
                    collection.create_index("n")
                rows = [row for one_in in numbers for row in rows_of(collection, query, one_in, how)] + rows
    return rows
