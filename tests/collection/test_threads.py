import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from onlinehash import HCOH, HROH, Collection
from onlinehash.collection.searcher import SharedLock
from onlinehash.collection.stores.sqlite import SqliteStore
from onlinehash.exceptions import StorageError

pytestmark = pytest.mark.slow


def test_searches_see_whole_batches_while_others_write_and_refresh(place, data):
    """Items come and go in pairs of equal vectors: a search finds both or none."""
    X, y = data.take(100)
    collection = place.open(HCOH(n_bits=16, random_state=0), 50)
    collection.upsert([0, 1], X[[0, 0]], y[[0, 0]])
    failures, done = [], threading.Event()

    def search():
        rng = np.random.default_rng()
        while not done.is_set():
            hits = collection.search(X[rng.integers(100)], 10_000)
            found = set(hits.ids)
            if {id ^ 1 for id in found} != found or len(found) != len(hits):
                failures.append(hits)
            collection.get(0)
            collection.stats()

    def write(first):
        try:
            for i in range(first, 100, 2):
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
    with collection._changes, collection._store.transaction():
        found = []
        thread = threading.Thread(target=lambda: found.append(collection.search(X[0], 3)))
        thread.start()
        thread.join(timeout=120)
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
    program = [sys.executable, Path(__file__).parents[1] / "crash" / "closing.py", path, "60"]
    run = subprocess.run(program, capture_output=True, text=True, check=False)  # a crash would end this process
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr


def test_a_read_that_has_begun_ends_well_although_another_thread_closes(path):
    with closing(SqliteStore(path)) as store:
        entered, leave, counted = threading.Event(), threading.Event(), []

        def read():
            with store.snapshot():
                counted.append(store.head().n_items)
                entered.set()
                leave.wait()
                counted.append(store.head().n_items)

        thread = threading.Thread(target=read)
        thread.start()
        entered.wait()
        store.close()
        with pytest.raises(StorageError, match="is closed"):
            store.head()
        leave.set()
        thread.join()
        assert counted == [0, 0]
    with closing(SqliteStore(path)) as again:  # nothing is left of the lock
        assert again.head().n_items == 0


def test_many_threads_may_ask_a_reader_while_it_follows_the_writer(place, data):
    """All of them see settings and items of one moment, never something in between."""
    X, y = data.take(80)
    failures, done = [], threading.Event()
    with place.open(HCOH(n_bits=16, random_state=0), 50) as writer:
        writer.upsert(range(20), X[:20], y[:20], checkpoint={"n": 20})
        with place.open(readonly=True) as reader:

            def ask(call):
                try:
                    while not done.is_set():
                        call()
                except BaseException as error:
                    failures.append(error)

            calls = [
                lambda: reader.search(X[0], 5),
                lambda: reader.search(X[0], 5, wait=False),
                reader.stats,
                lambda: len(reader) <= reader.checkpoint("n"),
                lambda: reader.search(X[0], 5, rescore="l2", include=["payload"]),
                lambda: reader.n_features + len(reader.id_type),
            ]
            threads = [threading.Thread(target=ask, args=(call,)) for call in calls]
            for thread in threads:
                thread.start()
            for start in range(20, 80, 2):
                rows = slice(start, start + 2)
                writer.upsert([start, start + 1], X[rows], y[rows], checkpoint={"n": start + 2})
            done.set()
            for thread in threads:
                thread.join()
    assert not failures, failures


@pytest.mark.parametrize("options", [{"rescore": "l2"}, {"include": ["vectors"]}], ids=str)
def test_a_search_that_a_migration_overtakes_is_answered_by_one_embedder(place, monkeypatch, options):
    texts = ["my card is lost", "lost card", "refund, please", "a refund"]
    with place.open(HCOH(n_bits=8, random_state=0), "manual", embed="char_ngrams:32") as tickets:
        tickets.upsert(range(4), documents=texts, labels=[0, 0, 1, 1])
        read, overtaken = tickets._store.snapshot, []

        def snapshot():  # between the codes and the vectors of the search
            if not overtaken:
                overtaken.append(True)
                thread = threading.Thread(target=tickets.migrate, kwargs={"embed": "char_ngrams:64"})
                thread.start()
                thread.join()
            return read()

        monkeypatch.setattr(tickets._store, "snapshot", snapshot)
        found = tickets.search(texts[0], k=4, **options)
        assert (overtaken, found.version, found.ids[0]) == ([True], 4, 0)
        assert found.vectors is None or found.vectors.shape == (4, 64)


def test_a_decision_that_a_migration_overtakes_is_made_by_one_embedder(path, monkeypatch):
    texts, labels = ["my card is lost", "lost card", "refund, please", "a refund"], [0, 0, 1, 1]
    hasher = HROH(8, n_components=8, random_state=0)
    with Collection.open(path, hasher, "manual", embed="char_ngrams:32") as tickets:
        tickets.upsert(range(4), documents=texts, labels=labels)
        embed, overtaken = tickets._documents.queries, []

        def queries(given):  # between the encoder and the vectors of the query
            if not overtaken:
                overtaken.append(True)
                thread = threading.Thread(target=tickets.migrate, kwargs={"embed": "char_ngrams:64"})
                thread.start()
                thread.join()
            return embed(given)

        monkeypatch.setattr(tickets._documents, "queries", queries)
        decision = tickets.classify(texts[0])
        assert (overtaken, decision.alternatives[0][0], tickets.n_features) == ([True], 0, 64)
