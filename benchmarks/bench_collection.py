"""Collection: durable upserts against plain SQLite, opening, a refresh and searches meanwhile, filters, memory."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Row, compare, folder_on_disk, interleaved
from onlinehash import HCOH, Collection

Array = NDArray[Any]
BATCH, N_ADDED, N_SINGLE, D = 1000, 30_000, 400, 128
N_ITEMS, N_LATENCY, N_WIDE, WIDE = 1_000_000, 200_000, 1_000_000, 784
N_SMALL, NARROW = 10_000, 64
N_CLASSES = 50
GIB = 1 << 30


def stream(n_rows: int, n_features: int, seed: int = 0) -> tuple[Array, Array]:
    """Return rows around the centres of classes."""
    centres = np.random.default_rng(seed).standard_normal((N_CLASSES, n_features), dtype=np.float32)
    rng = np.random.default_rng(seed + 1)
    y = rng.integers(0, N_CLASSES, n_rows)
    return centres[y] + 0.5 * rng.standard_normal((n_rows, n_features), dtype=np.float32), y


def fill(path: Path, n_items: int, n_features: int, name: Callable[[int], Any] = int) -> None:
    with Collection.open(path, HCOH(32, random_state=0), "manual") as collection:
        for start in range(0, n_items, 50_000):
            X, y = stream(min(50_000, n_items - start), n_features, seed=start)
            collection.upsert([name(i) for i in range(start, start + len(X))], X, y)
        collection.refresh()


class Adds:
    """The same items, upserted to a collection and inserted into a plain table of the same bytes; one file per call."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._n = folder, 0
        self._X, self._y = stream(N_ADDED, D)

    def _path(self) -> Path:
        self._n += 1
        return self._folder / f"{self._n}.oh"

    def collection(self) -> None:
        """Upsert to a collection."""
        with Collection.open(self._path(), HCOH(32, random_state=0), "manual") as collection:
            for start in range(0, N_ADDED, BATCH):
                rows = slice(start, start + BATCH)
                collection.upsert(range(start, start + BATCH), self._X[rows], self._y[rows])

    def one_by_one(self) -> None:
        """Upsert to a collection, one item per call, with string ids."""
        with Collection.open(self._path(), HCOH(32, random_state=0), "manual") as collection:
            for i in range(N_SINGLE):
                collection.upsert(f"item {i}", self._X[i], int(self._y[i]))

    def plain_one_by_one(self) -> None:
        """Insert into a table, one item per transaction."""
        connection = self._plain_table("TEXT")
        for i in range(N_SINGLE):
            with connection:
                row = (f"item {i}", self._X[i].tobytes(), int(self._y[i]), b"1234")
                connection.execute("INSERT INTO items VALUES (?, ?, ?, ?)", row)
        connection.close()

    def _plain_table(self, id_type: str) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path())
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"CREATE TABLE items (id {id_type} PRIMARY KEY, vectors BLOB, label INTEGER, code BLOB)")
        return connection

    def plain(self) -> None:
        """Insert into a table."""
        connection = self._plain_table("INTEGER")
        for start in range(0, N_ADDED, BATCH):
            rows = zip(
                range(start, start + BATCH),
                (row.tobytes() for row in self._X[start : start + BATCH]),
                self._y[start : start + BATCH].tolist(),
                [b"1234"] * BATCH,
                strict=True,
            )
            with connection:
                connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?)", rows)
        connection.close()


def opened(path: Path) -> None:
    Collection.open(path).close()


def encoded_again(path: Path) -> None:
    with Collection.open(path) as collection:
        encoder = collection.encoder
        assert encoder is not None
        start = 0
        while len(rows := collection._store.stream(start, 20_000)):
            encoder.encode(rows.vectors)
            start = int(rows.seqs[-1])


def latencies(search: Callable[[], object], going: Callable[[], bool]) -> list[float]:
    seconds = []
    while going():
        start = perf_counter()
        search()
        seconds.append(perf_counter() - start)
    return seconds


def refresh_row(folder: Path) -> Row:
    """Compare the 99th percentile of searches while a refresh runs with that of quiet times."""
    path = folder / "refresh.oh"
    fill(path, N_LATENCY, D)
    query = stream(1, D, seed=7)[0][0]
    ratios, seconds = [], {"refreshing": 0.0, "quiet": 0.0}
    with Collection.open(path) as collection:

        def search() -> object:
            return collection.search(query, k=10)

        latencies(search, iter([True] * 2000 + [False]).__next__)
        for _ in range(7):
            quiet = latencies(search, iter([True] * 5000 + [False]).__next__)
            collection.upsert(0, query, 0)  # something to learn: else there is nothing to refresh
            collection.refresh(wait=False)
            busy = latencies(search, lambda: collection.stats().refreshing)
            both = [float(np.quantile(values, 0.99)) for values in (busy, quiet)]
            ratios.append(both[0] / both[1])
            seconds = {"refreshing": both[0], "quiet": both[1]}
    what = f"99th percentile of a search among {N_LATENCY} items"
    return Row.of(what, ratios, "during a refresh / quiet", "at most 6", seconds)


def single_upserts(collection: Collection, n_calls: int) -> float:
    """Return the CPU seconds of upserts of one item each, with string ids that sort among those that are there."""
    X, y = stream(n_calls, NARROW, seed=11)
    start = process_time()
    for i in range(n_calls):
        collection.upsert(f"item {i}, new", X[i], int(y[i]))
    return process_time() - start


def large_rows(folder: Path) -> list[Row]:
    """Measure a large collection with string ids: opening, the first filter, a refresh, single upserts."""
    name = "item {}".format
    large, small = folder / "large.oh", folder / "small.oh"
    fill(large, N_ITEMS, NARROW, name)
    fill(small, N_SMALL, NARROW, name)
    query = stream(1, NARROW, seed=7)[0][0]
    opening, filtering, refreshing, upserting = list[float](), list[float](), list[float](), list[float]()
    for _ in range(3):
        start = process_time()
        collection = Collection.open(large)
        opening.append((process_time() - start) / 3)
        collection.search(query, k=10)
        start = process_time()
        collection.search(query, k=10, labels=3)
        filtering.append((process_time() - start) / 0.1)
        with Collection.open(small) as other:
            ratios = [single_upserts(collection, 100) / single_upserts(other, 100) for _ in range(3)]
            upserting.append(median(ratios))
        start = process_time()
        collection.refresh()
        refreshing.append(N_ITEMS / (process_time() - start) / 100_000)
        collection.close()
    what = f"{N_ITEMS} items of {NARROW} features with string ids"
    return [
        Row.of(f"opening {what}", opening, "CPU seconds / 3", "at most 1"),
        Row.of(f"first search with a label filter among {what}", filtering, "CPU seconds / 0.1", "at most 1"),
        Row.of(f"CPU time of upserts of one item into {what}", upserting, f"to the same with {N_SMALL}", "at most 2"),
        Row.of(f"refresh of {what}", refreshing, "items per CPU second / 100 000", "at least 1"),
    ]


def memory_row(folder: Path) -> Row:
    """Measure a process that opens a large collection and searches it."""
    path = folder / "wide.oh"
    fill(path, N_WIDE, WIDE)
    # not getrusage: its peak includes that of the process before it became another program
    code = (
        "import sys, numpy as np; from onlinehash import Collection\n"
        "with Collection.open(sys.argv[1]) as c: c.search(np.ones((10, int(sys.argv[2])), np.float32), k=10)\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    call = [sys.executable, "-c", code, str(path), str(WIDE)]
    kib = int(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
    what = f"peak memory of a process that opens and searches {N_WIDE} items of {WIDE} features"
    return Row.of(what, [kib * 1024 / GIB], "bytes / 1 GiB", "at most 1")


def run() -> list[Row]:
    with folder_on_disk() as name:
        folder = Path(name)
        adds = Adds(folder)
        seconds = interleaved({"plain": adds.plain, "collection": adds.collection}, rounds=5, clock=perf_counter)
        what = f"durable upserts of {N_ADDED} items of {D} features in batches of {BATCH}, learning included"
        rows = [compare(what, seconds, "plain", "collection", "at least 0.4")]
        rate = [N_ADDED / value / 10_000 for value in seconds["collection"]]
        rows.append(Row.of(what, rate, "items per second / 10 000", "at least 1"))
        seconds = interleaved({"plain": adds.plain, "collection": adds.collection}, rounds=5)
        rows.append(compare(f"CPU time of {what}", seconds, "plain", "collection", "-"))
        calls = {"plain": adds.plain_one_by_one, "collection": adds.one_by_one}
        seconds = interleaved(calls, rounds=9)
        what = f"CPU time of {N_SINGLE} durable upserts of one item with a string id, opening and closing included"
        rows.append(compare(what, seconds, "collection", "plain", "at most 6"))
        big = folder / "big.oh"
        fill(big, N_ITEMS, D)
        calls = {"open": lambda: opened(big), "encode": lambda: encoded_again(big)}
        seconds = interleaved(calls, rounds=3, clock=perf_counter)
        # encoding opens the collection first
        net = {"open": seconds["open"], "encode": [b - a for a, b in zip(*seconds.values(), strict=True)]}
        rows.append(compare(f"opening {N_ITEMS} items of {D} features", net, "open", "encode", "-"))
        big.unlink()
        rows += large_rows(folder)
        rows.append(refresh_row(folder))
        rows.append(memory_row(folder))
    return rows
