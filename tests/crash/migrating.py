"""Kill a process that migrates a collection, again and again, and look each time whether all is there: a program.

One process imports everything once; each child is a fork of it that migrates the collection to and fro between two
embedders of different widths, while one thread changes items and another one searches, and is killed at a random
moment. What a change does follows from its number alone, so that the process knows what must be stored.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
from tests.collection.brute import by_distance, pairs

from onlinehash import HCOH, Collection, Embedder, hamming_distances
from onlinehash.collection import migration
from onlinehash.exceptions import LockedError

N_FIXED, N_IDS = 120, 200  # items that never change, and ids of all
TURN = np.random.default_rng(4).normal(size=(5, 9)).astype(np.float32)


def embed_a(texts):
    return np.array([np.random.default_rng(int(text)).normal(size=5) for text in texts], np.float32)


def embed_b(texts):
    return np.array([np.tanh(row @ TURN) for row in embed_a(texts)])  # the same bits in any batch


EMBEDDERS = {"a": Embedder("a", embed_a), "b": Embedder("b", embed_b)}


def change(number, model):
    """Return what a change does to a collection, and to the model: the document and label of every item."""
    rng = random.Random(number)
    ids = rng.sample(range(N_FIXED, N_IDS), rng.randint(1, 6))
    kind = rng.choice(["upsert", "upsert", "update", "delete"])
    documents, labels = [str(1000 * number + id) for id in ids], [rng.randrange(3) for _ in ids]
    after = dict(model)
    if kind == "upsert":
        after |= {id: (text, label) for id, text, label in zip(ids, documents, labels, strict=True)}
        return after, lambda items: items.upsert(ids, documents=documents, labels=labels)
    known = [id for id in ids if id in model]
    if kind == "update":
        after |= {id: (model[id][0], 1) for id in known}
        return after, lambda items: items.update(known, labels=[1] * len(known)) if known else None
    for id in known:
        del after[id]
    return after, lambda items: items.delete(ids, missing="ignore")


def reopen(place):
    """Open a collection whose writer was killed; a server may take a moment to notice."""
    deadline = time.monotonic() + 180
    while True:
        try:
            with Collection.open(**place, readonly=True) as items:
                name = items.embedder
            return Collection.open(**place, embed=EMBEDDERS[name])
        except LockedError:
            if place["store"] is None or time.monotonic() > deadline:
                raise


def work(place, log, number, model):
    """Migrate to and fro, change and search, for ever; exit with 2 if anything is wrong."""
    items = reopen(place)

    def guarded(call):
        try:
            while True:
                call()
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(2)

    def migrate():
        under_way = items.migration
        name = under_way.embedder if under_way else {"a": "b", "b": "a"}[items.embedder]
        items.migrate(embed=EMBEDDERS[name])
        os.write(log, b"migrated\n")

    def one_change():
        nonlocal number, model
        model, apply = change(number, model)
        apply(items)
        os.write(log, b"%d\n" % number)
        number += 1
        time.sleep(0.001)

    def search():
        ids = random.sample(range(N_FIXED), 3)
        found = items.search([str(id) for id in ids], k=2, rescore="l2")
        assert [row[0] for row in found.ids] == ids, (ids, found)
        assert max(row[0] for row in found.distances) < 1e-6, found

    for call in (one_change, search):
        threading.Thread(target=guarded, args=(call,), daemon=True).start()
    guarded(migrate)


def stores(items, model):
    """Tell whether the collection stores exactly what the model does, by one embedder."""
    stored = {item.id: (item.payload["document"], item.labels) for item in items.items()}
    return stored == model


def check(items):
    """Demand that vectors, codes and searches are those of the embedder in use."""
    stored = {item.id: item for item in items.items()}
    vectors = EMBEDDERS[items.embedder]([item.payload["document"] for item in stored.values()])
    assert np.array_equal([item.vectors for item in stored.values()], vectors)
    codes_of = dict(zip(stored, items.encoder.encode(vectors), strict=True))
    ids, codes = items.codes()
    assert sorted(ids) == list(stored)
    assert np.array_equal(codes, [codes_of[id] for id in ids])
    distances = hamming_distances(items.encoder.encode(EMBEDDERS[items.embedder](["5"])), codes)[0]
    assert pairs(items.search("5", k=N_IDS)) == by_distance(items, distances.tolist(), ids)


def main(folder, n_kills, store=None):
    """Kill so many processes, and say what they had done."""
    migration.ITEMS_PER_CHUNK = 16
    place = {"path": Path(folder) / "items.oh" if store is None else f"migrating_{os.getpid()}", "store": store}
    acknowledged, rng = Path(folder) / "acknowledged", random.Random(0)
    model = {id: (str(id), id % 3) for id in range(N_FIXED)}
    with Collection.open(**place, hasher=HCOH(16, random_state=0), refresh="manual", embed=EMBEDDERS["a"]) as items:
        items.upsert(list(model), documents=[text for text, _ in model.values()], labels=[y for _, y in model.values()])
        start = time.perf_counter()
        items.migrate(embed=EMBEDDERS["b"])
        longest = 4 * (time.perf_counter() - start) + 0.2
        check(items)
    number, seen = 0, {"changes": 0, "in_flight": 0, "migrated": 0, "cut_off": 0, "resumed": 0}
    for n_killed in range(10 * n_kills):
        if n_killed >= n_kills and seen["changes"] and seen["cut_off"]:
            break
        log = os.open(acknowledged, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND)
        child = os.fork()
        if not child:
            try:
                work(place, log, number, model)
            finally:
                os._exit(1)
        time.sleep(rng.random() * longest)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(log)
        assert os.WIFSIGNALED(status), "the process failed by itself"
        done = acknowledged.read_text().split()
        longest *= 1 if done else 1.5  # the machine has become busy
        for line in done:
            if line == "migrated":
                seen["migrated"] += 1
            else:
                model = change(number, model)[0]
                number, seen["changes"] = number + 1, seen["changes"] + 1
        with reopen(place) as items:
            if not stores(items, model):
                model = change(number, model)[0]
                number, seen["in_flight"] = number + 1, seen["in_flight"] + 1
                assert stores(items, model), f"change {number - 1} is half applied, or one before it is lost"
            check(items)
            if items.migration is not None:
                seen["cut_off"] += 1
                if rng.random() < 0.2:
                    name = items.migration.embedder
                    items.migrate(embed=EMBEDDERS[name])
                    seen["resumed"] += 1
                    assert items.embedder == name
                    check(items)
                elif rng.random() < 0.1:
                    items.abandon_migration()
                    check(items)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
