"""A load in batches: the mAP of a collection as soon as the load has ended, less that of a load in one batch.

Each way is walked as a user walks it: from Python and over HTTP a search follows the last batch; the command line and a
stream (JSON lines) are processes that end. Then the codes in use are judged by queries that were never stored.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.measure import Row
from onlinehash import HROH, Collection
from onlinehash.client import Client
from onlinehash.datasets import Split, load_dataset
from onlinehash.metrics import Ranking
from onlinehash.service import serve_in_thread

DATASETS = ("mnist", "cifar10", "clinc150", "miniplaces")
N_ITEMS, N_QUERIES, N_BITS = 8000, 1000, 32
BATCHES = (1, 8, 80, 800)


def quality(path: Path, split: Split) -> float:
    with Collection.open(path, readonly=True) as collection:
        ids, codes, encoder = collection.codes_and_encoder()
    assert encoder is not None
    X, y = split.queries.X[:N_QUERIES], split.queries.y[:N_QUERIES]
    return float(Ranking(encoder.encode(X), y, codes, split.database.y[np.array(ids)]).mean_average_precision())


def in_python(path: Path, split: Split, n_batches: int) -> float:
    X, y = split.database
    collection = Collection.open(path, HROH(N_BITS, random_state=0))
    for rows in np.array_split(np.arange(N_ITEMS), n_batches):
        collection.upsert(rows, X[rows], y[rows])
    collection.search(split.queries.X[:1])
    found = quality(path, split)
    collection.close()
    return found


def over_http(path: Path, split: Split, n_batches: int) -> float:
    X, y = split.database
    with (
        Collection.open(path, HROH(N_BITS, random_state=0)) as collection,
        serve_in_thread(collection) as url,
        Client(url) as client,
    ):
        for rows in np.array_split(np.arange(N_ITEMS), n_batches):
            client.upsert(rows.tolist(), X[rows], y[rows].tolist())
        client.search(split.queries.X[:1])
        return quality(path, split)


def command(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "onlinehash", *map(str, words)], check=True, capture_output=True)


def on_the_command_line(path: Path, split: Split, n_batches: int) -> float:
    X, y = split.database
    items = path.with_suffix(".npz")
    np.savez(items, features=X[:N_ITEMS], ids=np.arange(N_ITEMS), labels=y[:N_ITEMS])
    command("ingest", items, "--into", path, "--bits", N_BITS, "--batch", N_ITEMS // n_batches)
    return quality(path, split)


def by_stream(path: Path, split: Split, n_batches: int) -> float:
    X, y = split.database
    messages = path.with_suffix(".jsonl")
    with messages.open("w") as file:
        for id in range(N_ITEMS):
            file.write(json.dumps({"id": id, "vectors": X[id].tolist(), "label": int(y[id])}) + "\n")
    command("ingest", messages, "--once", "--into", path, "--bits", N_BITS, "--batch", N_ITEMS // n_batches)
    return quality(path, split)


WAYS: dict[str, Callable[[Path, Split, int], float]] = {
    "Python": in_python,
    "HTTP": over_http,
    "command line": on_the_command_line,
    "stream": by_stream,
}


def run() -> list[Row]:
    rows = []
    for dataset in DATASETS:
        split = load_dataset(dataset).split()
        for way, fill in WAYS.items():
            with TemporaryDirectory() as folder:
                found = [fill(Path(folder) / f"{n_batches}.oh", split, n_batches) for n_batches in BATCHES]
            differences = [value - found[0] for value in found[1:]]
            worst = max(differences, key=abs)
            what = f"{dataset}, {N_ITEMS} items by {way} in 8, 80 and 800 batches (mAP of one: {found[0]:.3f})"
            rows.append(Row(what, worst, min(differences), max(differences), "difference in mAP", "within .01"))
    return rows
