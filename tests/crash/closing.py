"""Close a collection while other threads use it in every way, again and again: run as a program."""

import random
import sys
import threading
import time

import numpy as np

from onlinehash import HCOH, Collection
from onlinehash.exceptions import StorageError

X = np.random.default_rng(0).normal(size=(2000, 6)).astype(np.float32)
CALLS = [
    lambda items: items.get(range(500)),
    lambda items: items.stats(),
    lambda items: (items.search(X[:2], 5, labels=[0, 1]), len(items)),
    lambda items: items.search(X[0], 5, rescore="l2"),
    lambda items: list(items.items(chunk=500)),
    list,
    lambda items: items.label_counts(),
]


def main(path, n_times):
    """Close so many times, as a writer and as a reader; each thread must end with an error that says so."""
    with Collection.open(path, HCOH(n_bits=8, random_state=0), "manual") as items:
        items.upsert(range(2000), X, np.arange(2000) % 3)
    rng = random.Random(0)
    for i in range(n_times):
        items, ends = Collection.open(path, readonly=bool(i % 2)), []
        started = threading.Barrier(len(CALLS) + 1)

        def use(call, items=items, ends=ends, started=started):
            started.wait()
            try:
                while True:
                    call(items)
            except BaseException as error:
                ends.append(error)

        threads = [threading.Thread(target=use, args=(call,)) for call in CALLS]
        for thread in threads:
            thread.start()
        halfway = items.items(chunk=10)
        next(halfway)
        started.wait()
        time.sleep(rng.random() / 20)
        items.close()
        for thread in threads:
            thread.join()
        assert all(isinstance(end, StorageError) and "is closed" in str(end) for end in ends), ends
        try:
            list(halfway)
        except StorageError as error:
            assert "is closed" in str(error), error
        else:
            raise AssertionError("a collection was read after it was closed")
    print("done")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
