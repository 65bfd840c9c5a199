"""How far a call walks: the files and functions of this library that one warm call enters.

Run it: ``python -m benchmarks.walks``. It measures no time, so that its numbers are the same on every machine.
"""

from __future__ import annotations

import csv
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

import numpy as np

import onlinehash
from onlinehash import HCOH, Collection
from onlinehash.collection import import_items

SOURCE = str(Path(onlinehash.__file__).parent)
N_FEATURES = 32

Call = Callable[[], object]


_recording: list[set[CodeType]] = []  # functions entered by the call under way


def _note(frame: FrameType, event: str, _: Any) -> None:
    if event == "call" and _recording and frame.f_code.co_filename.startswith(SOURCE):
        _recording[-1].add(frame.f_code)


def walk(call: Call) -> tuple[int, int]:
    """Return how many files, and how many functions, of our source a warm call enters.

    Threads that were started after :func:`threading.setprofile` was given ``_note``, as in :func:`main`, count too.
    """
    call()
    _recording.append(set())
    sys.setprofile(_note)
    try:
        call()
    finally:
        sys.setprofile(None)
        entered = _recording.pop()
    return len({code.co_filename for code in entered}), len(entered)


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors around one centre per label, and the labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, n)
    vectors = rng.standard_normal((10, N_FEATURES))[labels] + rng.standard_normal((n, N_FEATURES))
    return vectors.astype(np.float32), labels


def learn_one_row() -> Call:
    X, y = rows(100)
    hasher = HCOH(32, random_state=0).partial_fit(X, y)
    return lambda: hasher.partial_fit(X[7], int(y[7]))


@contextmanager
def filled_collection(n: int = 1000) -> Iterator[Collection]:
    """Yield a collection that has items and codes, and at which nothing is under way."""
    X, y = rows(n)
    with TemporaryDirectory() as folder, Collection.open(Path(folder) / "items.oh", HCOH(32, random_state=0)) as items:
        items.upsert(range(n), X, y)
        items.refresh()
        yield items


@contextmanager
def served_collection() -> Iterator[Call]:
    """Yield a search over HTTP; client and service are both ours, and both count."""
    from onlinehash.client import Client
    from onlinehash.service import serve_in_thread

    X, _ = rows(1)
    with filled_collection() as items, serve_in_thread(items) as url, Client(url) as client:
        yield lambda: client.search(X[0], k=10)


def write_csv(path: Path, n: int) -> Path:
    X, y = rows(n, seed=1)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["id", "label", *(f"x{i}" for i in range(N_FEATURES))])
        out.writerows([i, label, *vector] for i, (label, vector) in enumerate(zip(y, X, strict=True)))
    return path


def calls(stack: ExitStack) -> Iterator[tuple[str, Call]]:
    """Yield what is measured: a name and a call that can be repeated."""
    yield "HCOH.partial_fit, one row", learn_one_row()
    items = stack.enter_context(filled_collection())
    X, y = rows(100, seed=2)
    starts = count(10_000, 100)
    yield "Collection.upsert, 100 new items", lambda: items.upsert(np.arange(100) + next(starts), X, y)
    yield "Collection.search, one query", lambda: items.search(X[0], k=10)
    yield "Client.search, one query over HTTP", stack.enter_context(served_collection())
    path = write_csv(Path(stack.enter_context(TemporaryDirectory())) / "rows.csv", 200)
    yield "import_items, 200 rows of CSV", lambda: import_items(items, path)


def main() -> None:
    threading.setprofile(_note)
    with ExitStack() as stack:
        print("| call | files | functions |\n|---|---:|---:|")
        for name, call in calls(stack):
            n_files, n_functions = walk(call)
            print(f"| {name} | {n_files} | {n_functions} |", flush=True)


if __name__ == "__main__":
    main()
