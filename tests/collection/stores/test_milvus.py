"""A collection in Milvus: here Milvus Lite, in a file and asked over TCP."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from tests.collection.brute import contents, pairs, ranking
from tests.collection.places import EnginePlace
from tests.collection.test_state_machine import CollectionMachine
from tests.crash.test_kill import kill
from tests.servers.milvus import milvus as server_of_ours

from onlinehash import HCOH, Collection, asymmetric_distances
from onlinehash.collection import Never
from onlinehash.collection.stores import milvus_journal, milvus_lease
from onlinehash.collection.stores.milvus_changes import MilvusChanges
from onlinehash.collection.stores.milvus_journal import Head, Journal
from onlinehash.collection.stores.milvus_tables import Tables
from onlinehash.exceptions import (
    DataNotFoundError,
    FileFormatError,
    InvalidInputError,
    LockedError,
    StorageError,
)

pytestmark = pytest.mark.slow

N_KILLS = 7
N_KILLS_IN_A_FILE = 2


@pytest.fixture(scope="module")
def server():
    with server_of_ours() as running:
        yield running


@pytest.fixture
def place(server):
    return EnginePlace(f"milvus:{server.uri}")


def check(collection, X):
    """Demand that everything fits together, and that nothing is left over."""
    store, keys = collection._store, list(collection)
    assert len(collection) == len(keys) == collection.stats().n_searchable
    assert pairs(collection.search(X[0], 1000)) == ranking(collection, X[0])
    assert collection.stats().n_learned == collection.hasher.n_samples_seen_
    found, codes = collection.codes()
    assert found == keys
    assert np.array_equal(codes, collection.encoder.encode(np.array([item.features for item in collection.items()])))
    head = store._look()
    names = {f"{store._name}_codes_{number}" for number in head.generations} | {f"{store._name}_items"}
    ours = {name for name in store._milvus.names() if name.startswith(f"{store._name}_")}
    assert ours == names | {f"{store._name}_journal"}
    assert store._milvus.count(f"{store._name}_items", f"seq <= {head.state_seq}") == sum(
        seq <= head.state_seq for seq in store.seqs(keys)
    )
    assert not store._milvus.count(f"{store._name}_items", f"seq > {head.seq}")
    assert len(store._journal._heads()) == 1


# ---------------------------------------------------------------------- what any collection does


def test_it_does_what_a_collection_in_a_file_does(server):
    class MilvusMachine(CollectionMachine):
        def make_place(self):
            self.place = EnginePlace(f"milvus:{server.uri}")

        def leave_place(self):
            pass

    some = settings(max_examples=2, stateful_step_count=12, deadline=None, derandomize=True)
    run_state_machine_as_test(MilvusMachine, settings=some)


def test_a_collection_lives_in_a_file_of_milvus_lite(tmp_path, data):
    place = EnginePlace(f"milvus:{tmp_path / 'milvus.db'}")
    X, y = data.take(50)
    with place.open(HCOH(n_bits=12, random_state=0), Never()) as collection:
        collection.add(range(40), X[:40], y[:40])
        with pytest.raises(LockedError, match="open for writing already in this process"):
            place.open()
        with place.open(readonly=True) as reader:
            collection.add([3, 50], X[40:42], y[40:42], payload=["new", None])
            collection.refresh()
            assert contents(reader) == contents(collection)
            check(collection, X)
            assert pairs(reader.search(X[0], 50)) == ranking(collection, X[0])
        assert collection.stats().n_bytes == (tmp_path / "milvus.db").stat().st_size
        before = contents(collection)
    with place.open() as collection:
        assert contents(collection) == before
        check(collection, X)
    with pytest.raises(StorageError, match="closed"):
        collection.get(1)


def test_searches_are_exact(small, data):
    collection, X, _ = small
    collection.add([50, 51, 52], X[:3], [[0, 1], [2], None])
    assert collection.label_counts()[None] == 1
    queries = data.take(3)[0]
    for query, hits in zip(queries, collection.search(queries, 9), strict=True):
        assert pairs(hits) == ranking(collection, query)[:9]
    has = {item.key for item in collection.items() if item.labels in (0, 1, (0, 1))}
    some = [51, 3, 50, 9, 12, 7000]
    expected = ranking(collection, queries[0], lambda item: item.key in has)
    assert pairs(collection.search(queries[0], 9, labels=[0, 1])) == expected[:9]
    assert pairs(collection.range_search(queries[0], 4, labels=[0, 1])) == [pair for pair in expected if pair[0] <= 4]
    assert set(collection.search(queries[0], 9, labels=[0, 1], keys=some).keys) == has & set(some)
    assert collection.search(queries[0], keys=[]).keys == collection.search(queries[0], labels=9).keys == []
    soft, (keys, codes) = collection.encoder.encode_soft(queries[:1]), collection.codes()
    distances = asymmetric_distances(soft, codes)[0].tolist()
    assert pairs(collection.search(queries[0], 7, asymmetric=True)) == sorted(zip(distances, keys, strict=True))[:7]
    nearest = np.argsort(np.linalg.norm(X - queries[0], axis=1))[:5].tolist()
    assert [key for key in collection.search(queries[0], 8, rescore="l2").keys if key < 40][:5] == nearest
    sample = collection._store.sample(1, 3, seed=0)
    assert len(set(sample)) == 3
    assert set(sample) <= set(keys)
    assert collection._store.sample(1, 100, seed=0) == keys


def test_keys_and_labels_may_be_anything(place, data):
    X, _ = data.take(9)
    keys = ["", "B", 'say "a"', "it's", "ä\\n", "new\nline", "😀", "nul\0", "100%"]
    labels = ["a\0b", '["x"]', "ü", "100%", ["ü", "["], ["a\0b", "b"], None, "\\", ["\\", "a"]]
    with place.open(HCOH(8, random_state=0), Never()) as collection:
        collection.add(keys, X, labels)
        assert list(collection) == [item.key for item in collection.items()] == collection.codes()[0] == sorted(keys)
        found = {label: set(collection.search(X[0], labels=label).keys) for label in ("ü", "a\0b", "\\", "a", "%")}
        assert found == {
            "ü": {'say "a"', "ä\\n"},
            "a\0b": {"", "new\nline"},
            "\\": {"nul\0", "100%"},
            "a": {"100%"},
            "%": set(),
        }
        assert [item.labels for item in collection.get(keys)] == [
            tuple(some) if isinstance(some, list) else some for some in labels
        ]
        with pytest.raises(InvalidInputError, match="Milvus takes no longer ones"):
            collection.add(["fine", "x" * 40_000], X[:2])
        with pytest.raises(InvalidInputError, match="Milvus takes no longer ones"):
            collection.add("fine", X[0], "x" * 40_000)
        with pytest.raises(InvalidInputError, match="payload has an entry of over 65535 characters"):
            collection.update("B", payload="x" * 65_534)
        collection.update("B", payload="x" * 65_533)
        assert "fine" not in collection
        check(collection, X)


def test_numbers_at_both_ends_and_vectors_of_one_are_kept(place):
    ends = [-(2**63), -1, 0, 2**63 - 1]
    with place.open(HCOH(8, random_state=0), Never(), feature_dtype="float16") as collection:
        collection.add(ends, [[1.0], [-2.0], [3.0], [0.1]], [0, 1, 0, 1])
        collection.update(ends[0], payload="least")
        collection.delete(ends[1])
        assert list(collection) == [ends[0], *ends[2:]]
        assert [item.features.tolist() for item in collection.get(ends[::3])] == [[1.0], [float(np.float16(0.1))]]
        assert set(collection.search([1.0], keys=ends).keys) == {ends[0], *ends[2:]}
        check(collection, np.ones((1, 1)))


def test_what_is_too_long_for_a_field_is_kept_in_parts(place, data, monkeypatch):
    monkeypatch.setattr(milvus_journal, "LONGEST", 400)
    X, y = data.take(60)
    with place.open(HCOH(12, random_state=0), Never()) as collection:
        collection.add(range(60), X, y, checkpoint={"queue": "x" * 1000})
        collection.delete(range(0, 60, 2))
        before = contents(collection)
        assert len(collection._store._look().texts) == 1
    with place.open() as collection, place.open(readonly=True) as reader:
        assert collection.checkpoint("queue") == reader.checkpoint("queue") == "x" * 1000
        assert contents(collection) == contents(reader) == before
        check(collection, X)


# ---------------------------------------------------------------------- crashes


class CrashError(Exception):
    pass


CRASHES = {
    "before the commit": (Journal, "commit", False),
    "after the commit": (Journal, "commit", True),
    "before anything is done": (MilvusChanges, "_do", False),
    "when codes are written": (Tables, "put_codes", True),
    "when codes are deleted": (Tables, "delete_codes", True),
    "before it is tidy": (MilvusChanges, "_tidy", False),
    "before the journal is": (Journal, "sweep", False),
}


@pytest.mark.parametrize(
    ("moment", "reopened"),
    [*((moment, True) for moment in CRASHES), ("before the commit", False), ("after the commit", False)],
)
def test_a_change_that_was_cut_off_is_whole_or_not_there(small, place, monkeypatch, moment, reopened):
    collection, X, y = small
    owner, name, late = CRASHES[moment]
    done = getattr(owner, name)

    def crash(self, *args):
        if late:
            done(self, *args)
        raise CrashError

    changes = [
        (lambda: collection.add([1, 90], X[:2], y[:2], payload=["a", "b"]), {1, 90}),
        (lambda: collection.delete([2, 90], missing="ignore"), {2, 90}),
        (lambda: collection.update([4, 5], payload=["c", "d"]), {4, 5}),
        (lambda: collection.refresh(wait=True), set()),
    ]
    for change, changed in changes:
        before = contents(collection)
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, crash)
            try:
                change()
            except CrashError:
                cut_off = True
            else:
                cut_off = False
        if reopened:
            collection._renewal.halt()
            collection._store.close()
            collection = place.open()
        after = contents(collection)
        same = {key for key in before.keys() | after.keys() if before.get(key) == after.get(key)}
        assert same >= (before.keys() | after.keys()) - changed
        if cut_off:
            assert (after == before) == (moment == "before the commit" or not changed)
        collection.refresh()
        check(collection, X)
    collection.close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
def test_a_killed_learner_loses_nothing(tmp_path, server):
    assert kill(tmp_path, "any", N_KILLS, f"milvus:{server.uri}")["acknowledged"] > N_KILLS // 2


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
def test_a_killed_learner_loses_nothing_in_a_file(tmp_path):
    assert kill(tmp_path, "any", N_KILLS_IN_A_FILE, f"milvus:{tmp_path / 'milvus.db'}")["acknowledged"]


# ---------------------------------------------------------------------- others


def test_a_second_learner_is_refused_and_others_may_read(small, place):
    collection, X, y = small
    with pytest.raises(LockedError, match=rf"open for writing already \(process {os.getpid()} on .*readonly=True"):
        place.open()
    with place.open(readonly=True) as reader:
        collection.add(range(40, 60), X[:20], y[:20])
        collection.refresh()
        assert contents(reader) == contents(collection)
        assert pairs(reader.search(X[0], 100)) == ranking(collection, X[0])
        with pytest.raises(StorageError, match="readonly=True"):
            reader.add(1, X[0])
    collection.add(60, X[0], y[0])
    check(collection, X)


def claim(collection, **given):
    """Claim the right to write, as another process would."""
    collection._store._journal.claim(-7, {**milvus_lease._claim_of_ours(), **given})


def test_the_claims_of_the_dead_are_void(small, place):
    collection, _, _ = small
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    collection._store._lease._ended.set()
    collection._store._lease._thread.join()
    collection._store._journal.unclaim(collection._store._lease._number)
    for given in ({"pid": int(ended.stdout)}, {"host": "elsewhere", "at": time.time() - 31}):
        claim(collection, **given)
        place.open().close()
        assert not collection._store._journal.claims()
    claim(collection, host="elsewhere", who="process 1 on elsewhere")
    with pytest.raises(LockedError, match="process 1 on elsewhere"):
        place.open()


def test_a_learner_that_slept_too_long_gives_way(small, place, monkeypatch):
    collection, X, y = small
    lease = collection._store._lease
    for _ in range(2):  # nobody else came
        lease._at -= 25
        collection.add(40, X[0], y[0])
    monkeypatch.setattr(milvus_lease, "_BEAT", 0.01)
    claim(collection, host="elsewhere")
    lease._claim()  # its own is fresh: another's is not heeded
    lease._at -= 25
    for words in ("open for writing already", "Another process has begun to write"):
        with pytest.raises(LockedError, match=words):
            collection.add(41, X[0], y[0])
    with place.open(readonly=True) as reader:
        assert len(reader) == 41


def test_readers_search_while_generations_change(small, place):
    collection, X, y = small
    wrong, done = [], threading.Event()

    def search(who):
        while not done.is_set():
            try:
                keys = who.search(X[0], 50).keys
                missing = {*range(40)} - set(keys)
                if len(set(keys)) != len(keys) or missing - {3}:  # Milvus deletes what it replaces a moment before
                    wrong.append(missing)
                if len(who.get([4, 5])) != 2:
                    wrong.append("items are missing")
            except Exception as error:
                wrong.append(error)

    with place.open(readonly=True) as reader:
        threads = [threading.Thread(target=search, args=(who,)) for who in (reader, collection)]
        for thread in threads:
            thread.start()
        for i in range(4):
            collection.add([40 + i, 3], X[[i, i]], y[[i, i]])
            collection.refresh()
        done.set()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_server_that_was_restarted_is_found_again(data, monkeypatch):
    monkeypatch.setattr("onlinehash.indexes.engines._milvus._PATIENCE", 1)
    with server_of_ours() as server:
        place = EnginePlace(f"milvus:{server.uri}")
        X, y = data.take(40)
        with place.open(HCOH(n_bits=12, random_state=0), Never()) as collection:
            collection.add(range(40), X, y)
            server.stop()
            with pytest.raises(StorageError, match=r"Milvus at 127\.0\.0\.1"):
                collection.add(40, X[0], y[0])
            server.start()
            collection.add(41, X[0], y[0])
            assert len(collection) == 41
            check(collection, X)


def test_names_and_places_are_checked(server, place, tmp_path):
    for name in ("a b", "", "ä", "x" * 49):
        with pytest.raises(InvalidInputError, match="letters, digits and _"):
            Collection.open(name, "hcoh", engine=place.engine)
    with pytest.raises(InvalidInputError, match="'1a' is no name for Milvus"):
        Collection.open("1a", "hcoh", engine=place.engine)
    with pytest.raises(InvalidInputError, match=r"ends in .db"):
        Collection.open("items", "hcoh", engine=f"milvus:{tmp_path / 'items.oh'}")
    with pytest.raises(DataNotFoundError, match="pass a hasher to create it"):
        place.open()
    with pytest.raises(DataNotFoundError, match="There is no collection"):
        place.open(readonly=True)


def test_a_later_layout_is_refused(small, place, monkeypatch):
    small[0].close()
    monkeypatch.setattr(milvus_journal, "_LAYOUT", 0)
    for readonly in (False, True):
        with pytest.raises(FileFormatError, match=r"later version\. Upgrade onlinehash"):
            place.open(readonly=readonly)
    assert Head().next() == Head()
