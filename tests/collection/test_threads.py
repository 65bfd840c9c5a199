import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from onlinehash import HCOH
from onlinehash.collection import Every
from onlinehash.collection.locks import SharedLock
from onlinehash.collection.stores.sqlite import SqliteStore
from onlinehash.exceptions import StorageError

pytestmark = pytest.mark.slow


def test_searches_see_whole_batches_while_others_write_and_refresh(place, data):
    """Items come and go in pairs of equal vectors: a search finds both or none."""
    X, y = data.take(200)
    collection = place.open(HCOH(n_bits=16, random_state=0), Every(100))
    collection.upsert([0, 1], X[[0, 0]], y[[0, 0]])
    failures, done = [], threading.Event()

    def search():
        rng = np.random.default_rng()
        while not done.is_set():
            hits = collection.search(X[rng.integers(200)], 10_000)
            found = set(hits.ids)
            if {id ^ 1 for id in found} != found or len(found) != len(hits):
                failures.append(hits)
            collection.get(0)
            collection.stats()

    def write(first):
        try:
            for i in range(first, 200, 2):
                ids = [2 * i, 2 * i + 1]
                collection.upsert(ids, X[[i, i]], y[[i, i]])
                if i % 5 == first % 5:
                    collection.delete(ids)
        except BaseException as error:
            failures.append(error)
            raise

    readers = [threading.Thread(target=search) for _ in range(3)]
    writers = [threading.Thread(target=write, args=(first,)) for first in (1, 2)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert not failures
    collection.refresh()
    assert collection.stats().n_searchable == len(collection)
    ids, codes = collection.codes()
    assert sorted(ids) == list(collection)
    vectors = np.array([item.vectors for item in collection.get(ids)])
    assert np.array_equal(codes, collection.encoder.encode(vectors))
    collection.close()


def test_a_search_does_not_wait_for_a_writer_that_is_busy_elsewhere(small):
    collection, X, _ = small
    with collection._changes, collection._store.writing():
        found = []
        thread = threading.Thread(target=lambda: found.append(collection.search(X[0], 3)))
        thread.start()
        thread.join(timeout=30)
        assert len(found[0]) == 3


def test_a_change_that_waits_goes_before_new_readers():
    lock, order = SharedLock(), []

    def change():
        with lock.changing():
            order.append("change")

    def read():
        with lock.reading():
            order.append("read")

    changer, reader = threading.Thread(target=change), threading.Thread(target=read)
    with lock.reading():
        changer.start()
        while not lock._n_changing:
            pass
        reader.start()
        reader.join(timeout=0.05)
        assert order == []
    changer.join()
    reader.join()
    assert order == ["change", "read"]


def test_the_shared_lock_keeps_changes_alone():
    lock, inside, wrong = SharedLock(), [], []

    def read():
        for _ in range(300):
            with lock.reading():
                if "change" in inside:
                    wrong.append("read")

    def change():
        for _ in range(100):
            with lock.changing():
                if inside:
                    wrong.append("change")
                inside.append("change")
                inside.pop()

    threads = [threading.Thread(target=target) for target in (read, read, change, change)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_closing_waits_for_what_other_threads_read_and_later_calls_say_so(path):
    program = [sys.executable, Path(__file__).parents[1] / "crash" / "closing.py", path, "12"]
    run = subprocess.run(program, capture_output=True, text=True, check=False)  # a crash would end this process
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr


def test_closing_waits_for_a_read_that_has_begun(path):
    with closing(SqliteStore(path)) as store:
        entered, leave, order = threading.Event(), threading.Event(), []

        def read():
            with store.reading():
                entered.set()
                leave.wait()
                order.append(("read", store.count()))

        def close():
            store.close()
            order.append("closed")

        threads = [threading.Thread(target=read), threading.Thread(target=close)]
        threads[0].start()
        entered.wait()
        threads[1].start()
        while not store._users.closed:
            pass
        with pytest.raises(StorageError, match="is closed"):
            store.count()
        leave.set()
        for thread in threads:
            thread.join()
        assert order == [("read", 0), "closed"]


def test_closing_inside_a_transaction_of_the_same_thread_is_refused(path):
    store = SqliteStore(path)
    with store.reading(), pytest.raises(StorageError, match="inside a transaction"):
        store.close()
    store.close()
