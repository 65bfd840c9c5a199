"""Kill a writer again and again, and look after each time whether all it acknowledged is there: run as a program.

One process imports everything once; each writer is a fork of it, which tells before and after every operation, by its
number, and is killed at a random moment. What an operation does follows from the seed and its number alone, so that the
process knows what must be stored.
"""

import json
import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from tests.collection.brute import by_distance, pairs
from tests.collection.refreshing import wait_for_refresh

from onlinehash import HCOH, Collection, hamming_distances
from onlinehash.collection import generations
from onlinehash.exceptions import LockedError

VECTORS = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
N_IDS = 60


class Model:
    """What must be stored: vector, label and payload by id; how many were learned from; the last refresh."""

    def __init__(self):
        self.items, self.n_learned, self.version = {}, 0, 0

    def copy(self):
        twin = Model()
        twin.items, twin.n_learned, twin.version = dict(self.items), self.n_learned, self.version
        return twin


def operation(kind, number, model):
    """Return the operation of a number: what it does to a collection, and to the model."""
    rng = random.Random(f"{kind} {number}")
    kind = rng.choice(["add", "update", "delete", "refresh"]) if kind == "any" else kind
    kind = kind if model.items and rng.random() < 0.6 else "add"
    names = {"add": range(N_IDS)}.get(kind, sorted(model.items))
    ids = rng.sample(list(names), min(rng.randint(1, 12), len(names)))
    vectors = [rng.randrange(64) for _ in ids]
    labels = [rng.choice([None, 0, 1, 2]) for _ in ids]
    payload = [number] * len(ids)

    def apply(collection):
        if kind == "add":
            collection.upsert(ids, VECTORS[vectors], labels, payload)
        elif kind == "update":
            collection.update(ids, VECTORS[vectors], payload=payload)
        elif kind == "delete":
            collection.delete(ids)
        elif model.n_learned:
            collection.refresh()

    def foresee():
        after = model.copy()
        for id, vector, label in zip(ids, vectors, labels, strict=True):
            if kind == "add":
                after.items[id] = (vector, label, number)
                after.n_learned += label is not None
            elif kind == "update":
                kept = after.items[id][1]
                after.items[id] = (vector, kept, number)
                after.n_learned += kept is not None
            elif kind == "delete":
                del after.items[id]
        if kind == "refresh":
            after.version = after.n_learned
        return after

    return apply, foresee


def write(again, log, kind, number, model):
    """Do one operation after the other, for ever."""
    collection = again()
    while True:
        apply, foresee = operation(kind, number, model)
        apply(collection)
        model = foresee()
        os.write(log, b"%d\n" % number)
        number += 1


def holds(collection, model):
    """Tell whether the collection stores exactly what the model does."""
    stored = {item.id: (item.vectors.tolist(), item.labels, item.payload) for item in collection.items()}
    wanted = {id: (VECTORS[vector].tolist(), label, payload) for id, (vector, label, payload) in model.items.items()}
    return stored == wanted and collection.stats().n_learned == model.n_learned == learned(collection)


def learned(collection):
    return getattr(collection.hasher, "n_samples_seen_", 0)


def check_codes(collection):
    """Demand that what is searched is what the store, encoded again, would give."""
    ids, codes = collection.codes()
    items = collection.get(ids) if ids else []
    assert sorted(ids) == ([] if collection.encoder is None else list(collection))
    if collection.encoder is None or not items:
        assert not ids
        return
    rebuilt = collection.encoder.encode(np.array([item.vectors for item in items]))
    assert np.array_equal(codes, rebuilt)
    distances = hamming_distances(collection.encoder.encode(VECTORS[:1]), rebuilt)[0]
    assert pairs(collection.search(VECTORS[0], N_IDS)) == by_distance(collection, distances.tolist(), ids)


def warm_up(place):
    """Compile and load all that a writer needs, so that it starts at once; return how long it takes to do a little."""
    with Collection.open(**place, hasher=HCOH(n_bits=16, random_state=0), refresh="manual") as collection:
        collection.upsert(range(64), VECTORS, [0, 1] * 32)
        collection.refresh()
        collection.search(VECTORS[0])
    start = time.perf_counter()
    with Collection.open(**place) as collection:
        collection.upsert(range(64), VECTORS, [0, 1] * 32)
        collection.refresh()
    return time.perf_counter() - start


def place_of(folder, store, name):
    """Return where a collection is, as :meth:`Collection.open` takes it."""
    return {"path": Path(folder) / f"{name}.oh" if store is None else name, "store": store}


def reopen(place):
    """Open a collection whose writer was killed; a server may take a moment to notice."""
    deadline = time.monotonic() + 180
    while True:
        try:
            return Collection.open(**place)
        except LockedError:
            if place["store"] is None or time.monotonic() > deadline:
                raise


def kill(place, acknowledged, kind, n_kills, longest):
    """Kill so many writers, each after the longest time at most, and return what they had done.

    On a machine that becomes busy, writers get more time and more of them are killed, until they have done something.
    """
    rng = random.Random(kind)
    model, number, n_done, n_in_flight, n_cut_off = Model(), 0, 0, 0, 0
    Collection.open(**place, hasher=HCOH(n_bits=16, random_state=0), refresh="manual").close()
    for n_killed in range(10 * n_kills):
        if n_killed >= n_kills and n_done > n_kills // 2 and (n_cut_off or kind != "refresh"):
            break
        log = os.open(acknowledged, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        writer = os.fork()
        if not writer:
            try:
                write(partial(reopen, place), log, kind, number, model)
            finally:
                os._exit(1)
        time.sleep(rng.random() * longest)
        os.kill(writer, signal.SIGKILL)
        _, status = os.waitpid(writer, 0)
        os.close(log)
        assert os.WIFSIGNALED(status), "the writer failed by itself"
        done = acknowledged.read_text().split()
        longest *= 1 if done else 1.5
        for _ in done:
            model = operation(kind, number, model)[1]()
            number, n_done = number + 1, n_done + 1
        with patch.object(generations.Refresher, "ask"):  # look before it goes on
            opened = reopen(place)
        with opened as collection:
            after = operation(kind, number, model)[1]()
            if not holds(collection, model):
                assert holds(collection, after), f"{kind}: operation {number} is half applied, or one before it is lost"
                model, number, n_in_flight = after, number + 1, n_in_flight + 1
            assert (collection.stats().version or 0) >= model.version or not model.items
            check_codes(collection)
            n_cut_off += collection.stats().pending
        with reopen(place) as collection:
            wait_for_refresh(collection)  # a refresh that was cut off has been made again
            assert not collection.stats().pending
            check_codes(collection)
    return {"acknowledged": n_done, "in_flight": n_in_flight, "cut_off": n_cut_off}


def main(folder, kinds, n_kills, store=None):
    """Kill so many writers of each kind, and say what they had done."""
    generations.rows_per_chunk = lambda store: 9
    longest = 3 * warm_up(place_of(folder, store, "other"))
    told = {}
    for kind in kinds:
        place = place_of(folder, store, f"items_{kind}")
        told[kind] = kill(place, Path(folder) / "acknowledged", kind, n_kills, longest)
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(","), int(sys.argv[3]), *sys.argv[4:])
