import shutil
import sqlite3

import numpy as np
import pytest
from tests.collection.brute import pairs, ranking

from onlinehash import HCOH, HMOH, HROH, LSH, OKH, Collection
from onlinehash.collection.stores.sql import SqlStore
from onlinehash.exceptions import InvalidInputError, StorageError

HASHERS = [
    HCOH(n_bits=12, random_state=0),
    HCOH(n_bits=12, batch_size=7, random_state=0),
    HMOH(n_bits=8, n_anchors=30, random_state=0),
    HROH(n_bits=16, n_components=64, random_state=0),
    OKH(n_bits=8, n_anchors=20, random_state=0),
    LSH(n_bits=12, random_state=0),
]


def crash(collection, path, other):
    """Copy the files as they are: what a killed process would leave."""
    for suffix in ("", "-wal"):
        if path.with_name(path.name + suffix).exists():
            shutil.copy(path.with_name(path.name + suffix), other.with_name(other.name + suffix))
    collection.close()


def assert_same_hashing(one, other, X):
    """Both make the same projections, to rounding."""
    assert one.n_samples_seen_ == other.n_samples_seen_
    assert np.allclose(one.project(X), other.project(X), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("hasher", HASHERS, ids=repr)
@pytest.mark.parametrize("vector_dtype", ["float32", "float16"])
def test_a_stream_that_crashed_goes_on_as_if_it_had_not(tmp_path, data, hasher, vector_dtype):
    X, y = data.take(120)
    path, copy = tmp_path / "items.oh", tmp_path / "copy.oh"
    stored = X.astype(vector_dtype).astype(np.float32)
    collection = Collection.open(path, hasher, "manual", vector_dtype=vector_dtype)
    collection.upsert(range(50), X[:50], y[:50])
    collection.refresh()
    collection.close()  # the state is written here; what follows is learned again
    collection = Collection.open(path)
    collection.upsert(range(50, 80), X[50:80], y[50:80])
    collection.upsert(range(40, 55), X[80:95], y[80:95])  # replaced: before and after the state
    collection.delete([1, 60])  # deleted: before and after the state
    collection.update([2, 61], labels=[0, 1])
    crash(collection, path, copy)
    uncut = type(hasher)(**hasher.get_params()).partial_fit(stored[:80], y[:80])
    for replaced, by, labels in ((range(40, 55), range(80, 95), y[80:95]), ([2, 61], [2, 61], [0, 1])):
        if uncut.unlearns:
            uncut.unlearn(stored[replaced], y[replaced])
        uncut.partial_fit(stored[by], labels)
    with Collection.open(copy) as again:
        assert len(again) == 78
        assert_same_hashing(again.hasher, uncut, stored)
        again.upsert(range(95, 120), X[95:], y[95:])
        uncut.partial_fit(stored[95:], y[95:])
        assert_same_hashing(again.hasher, uncut, stored)
        assert pairs(again.search(X[7], 200, rescore=None)) == ranking(again, X[7])
    with Collection.open(copy) as again:
        assert_same_hashing(again.hasher, uncut, stored)


def test_closing_writes_the_state_so_that_nothing_is_learned_twice(path, data):
    X, y = data.take(60)
    with Collection.open(path, HCOH(n_bits=8), "manual") as collection:
        collection.upsert(range(60), X, y)
        collection.delete(range(10))
        learned = collection.hasher.to_bytes()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM stream").fetchone() == (50,)
    assert connection.execute("SELECT count(*) FROM items").fetchone() == (50,)
    connection.close()
    with Collection.open(path) as collection:
        assert collection.hasher.to_bytes() == learned


def test_large_states_are_not_written_with_every_batch(place, data, monkeypatch):
    X, y = data.take(100)
    written = []
    with place.open(HCOH(n_bits=8), "manual") as collection:
        store, put_state = collection._store, collection._store.put_state
        monkeypatch.setattr(store, "put_state", lambda *a: written.append(1) or put_state(*a))
        for i in range(0, 100, 10):
            collection.upsert(range(i, i + 10), X[i : i + 10], y[i : i + 10])
        assert not written
    assert len(written) == 1  # at closing


def test_a_state_that_no_value_of_a_database_holds_is_named_and_nothing_is_lost(place, data, monkeypatch):
    X, y = data.take(50)
    with place.open(HROH(n_bits=8, n_components=16, random_state=0), "manual") as collection:
        collection.upsert(range(40), X[:40], y[:40])
        collection.refresh()
        collection.upsert(range(40, 50), X[40:], y[40:])
        with monkeypatch.context() as patch:
            patch.setattr("onlinehash.collection.stores.sql.MAX_VALUE_BYTES", 100)
            with pytest.raises(StorageError, match=r"has 0\.00 GB.*fewer n_components, or"):
                collection.refresh()
        collection.refresh()
        assert len(collection) == 50
    with place.open() as collection:
        assert len(collection) == collection.hasher.n_samples_seen_ == 50


def test_items_and_codes_are_the_same_after_opening_again(place, data):
    X, y = data.take(50)
    ids = [f"k{i}" for i in range(50)]
    with place.open("hcoh", 20) as collection:
        for i in range(0, 50, 10):
            collection.upsert(ids[i : i + 10], X[i : i + 10], y[i : i + 10], payload=list(range(i, i + 10)))
        collection.refresh()
        before = [(item.id, item.vectors.tolist(), item.labels, item.payload) for item in collection.items()]
        hits, stats = collection.search(X[:5], 20), collection.stats()
    with place.open() as collection:
        assert [(i.id, i.vectors.tolist(), i.labels, i.payload) for i in collection.items()] == before
        again = collection.search(X[:5], 20)
        assert (again.ids, again.distances) == (hits.ids, hits.distances)
        assert collection.stats().version == stats.version
        assert collection._settings["refresh"] == 20
    with place.open(refresh="auto"):
        pass
    with place.open() as collection:
        assert collection._settings["refresh"] == "auto"


def test_another_hasher_is_refused_by_name_of_the_way_out(place, data):
    X, y = data.take(20)
    with place.open(HCOH(n_bits=8, learning_rate=0.3)) as collection:  # a seed is drawn
        collection.upsert(range(20), X, y)
    seedless = HCOH(n_bits=8, learning_rate=0.3, random_state=np.random.RandomState(0))
    for same in (None, "hcoh", HCOH(n_bits=8, learning_rate=0.3), seedless):
        place.open(same).close()
    for other in (HCOH(n_bits=16, learning_rate=0.3), "lsh", HCOH(n_bits=8, learning_rate=0.3, random_state=5)):
        with pytest.raises(InvalidInputError, match=r"collection.change_hasher\(...\)"):
            place.open(other, "manual")
    with place.open() as collection:  # a refusal lets go of the file, and changes nothing
        assert collection._settings["refresh"] == "auto"


def test_a_seed_that_was_not_given_is_kept(tmp_path, data, monkeypatch):
    X, y = data.take(30)
    collection = Collection.open(tmp_path / "a.oh", HCOH(n_bits=8), "manual")
    monkeypatch.setattr(SqlStore, "put_state", lambda *args: None)  # the state with the weights is never written
    collection.upsert(range(30), X, y)
    weights = collection.hasher.weights_
    crash(collection, tmp_path / "a.oh", tmp_path / "b.oh")
    monkeypatch.undo()
    with Collection.open(tmp_path / "b.oh") as again:
        assert np.allclose(again.hasher.weights_, weights, atol=1e-6)
