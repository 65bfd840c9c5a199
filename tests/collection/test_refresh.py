import numpy as np
import pytest
from tests.collection.brute import pairs, ranking

from onlinehash import HCOH, LSH, OKH, Collection
from onlinehash.collection import Every, Never, WhenDrifted, WhenInformative, reencoder
from onlinehash.collection.refresh import Outlook
from onlinehash.encoders import Encoder
from onlinehash.exceptions import InvalidInputError, StorageError


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(reencoder, "_CHUNK", 15)


def filled(place, data, policy, n=40, hasher=None):
    X, y = data.take(n)
    collection = place.open(hasher or HCOH(n_bits=12, random_state=0), policy)
    collection.upsert(range(n), X, y)
    return collection, X, y


def test_codes_stay_until_a_refresh_takes_them_over_whole(place, data):
    collection, X, _ = filled(place, data, Never())
    more, labels = data.take(200)
    collection.upsert(range(100, 300), more, labels)
    stats = collection.stats()
    assert (stats.version, stats.staleness, stats.generation, stats.bits_recomputed) == (40, 200, 1, 0)
    collection.refresh()
    stats = collection.stats()
    assert (stats.version, stats.staleness, stats.generation) == (240, 0, 2)
    assert stats.bits_recomputed == 240 * 12
    assert (stats.refreshing, stats.progress, stats.refresh_error) == (False, 1.0, None)
    assert np.array_equal(collection.encoder.weights, collection.hasher.snapshot().weights)
    assert pairs(collection.search(X[0], 300)) == ranking(collection, X[0])
    collection.refresh()  # nothing was learned since
    assert collection.stats().generation == 2
    collection.close()


def test_changes_during_a_refresh_are_in_both_generations(place, data, monkeypatch):
    collection, X, y = filled(place, data, Never())
    collection.upsert(40, X[0], y[0])
    step = reencoder.Reencoder._encode_chunk
    done = []

    def between_chunks(self):
        more = step(self)
        if not done:
            collection.delete([3, 38])
            collection.upsert([2, 39, 200], X[[5, 6, 7]], y[[5, 6, 7]])
            collection.update(37, X[9])
            assert collection.stats().refreshing
            assert 0 < collection.stats().progress < 1
            assert pairs(collection.search(X[0], 300)) == ranking(collection, X[0])
        done.append(1)
        return more

    monkeypatch.setattr(reencoder.Reencoder, "_encode_chunk", between_chunks)
    collection.refresh()
    assert len(done) > 2
    assert collection.stats().generation == 2
    assert set(collection.search(X[0], 300).ids) == {*range(41), 200} - {3, 38}
    assert pairs(collection.search(X[0], 300)) == ranking(collection, X[0])
    collection.close()
    with place.open() as again:
        assert pairs(again.search(X[0], 300)) == ranking(again, X[0])


@pytest.mark.parametrize("chunks", [0, 1, 3])
def test_an_interrupted_refresh_goes_on_when_opened_again(place, data, monkeypatch, chunks):
    collection, X, y = filled(place, data, Never())
    collection.upsert(range(40, 60), X[:20], y[:20])
    step = reencoder.Reencoder._encode_chunk
    left = [chunks]

    def stopped(self):
        if not left[0]:
            self._halting.set()
            return True
        left[0] -= 1
        return step(self)

    with monkeypatch.context() as patch:
        patch.setattr(reencoder.Reencoder, "_encode_chunk", stopped)
        collection.refresh()
        assert collection.stats().refreshing
        assert collection.stats().version == 40
        collection.close()
    with place.open() as again:
        again._reencoder.wait()
        assert again.stats().version == 60
        assert again.stats().bits_recomputed == 60 * 12
        assert pairs(again.search(X[0], 300)) == ranking(again, X[0])


def test_what_goes_wrong_in_a_refresh_is_told(place, data, monkeypatch):
    collection, X, y = filled(place, data, Never())
    collection.upsert(40, X[0], y[0])

    def full(self, *args, **kwargs):
        raise StorageError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(type(collection._store), "put_codes", full)
        with pytest.raises(StorageError, match="no room"):
            collection.refresh()
        assert collection.stats().refresh_error == "no room"
        assert collection.stats().version == 40
        assert len(collection.search(X[0], 100)) == 41
    collection.refresh()
    assert collection.stats().refresh_error is None
    assert collection.stats().version == 41
    collection.close()


def test_every_refreshes_after_so_many_instances(place, data):
    collection, X, y = filled(place, data, Every(25), n=20)
    collection.upsert(range(20, 40), X, y)
    assert collection.stats().generation == 1
    collection.upsert(range(40, 60), X, y)
    collection._reencoder.wait()
    assert (collection.stats().generation, collection.stats().version) == (2, 60)
    collection.upsert(range(60, 80), X, y)
    collection._reencoder.wait()
    assert collection.stats().generation == 2
    collection.close()


@pytest.mark.parametrize("policy", [WhenDrifted(every=50, sample=100), WhenInformative(every=50, sample=100)])
def test_a_policy_that_looks_refreshes_early_learners_and_leaves_settled_ones(place, data, policy):
    collection, _, _ = filled(place, data, policy, n=4)
    for i in range(10):
        X, y = data.take(60)
        collection.upsert(range(60 * i + 10, 60 * i + 70), X, y)
        collection._reencoder.wait()
    assert 1 < collection.stats().generation < 10
    assert collection.stats().version > 4
    collection.close()


def test_policies_decide_by_what_they_see():
    old, same, turned = (Encoder(np.array(w, np.float64)) for w in ([[1.0, 1.0]], [[2.0, 3.0]], [[-1.0, 1.0]]))
    rows, labels = np.array([[1.0], [2.0], [-1.0], [-2.0]]), [(0,), (0, 2), (1,), (1,)]

    def outlook(encoder, n_learned=10):
        return Outlook(n_learned, old, lambda: encoder, lambda n: (rows, labels))

    assert not Never().should_refresh(outlook(turned))
    assert Every(10).should_refresh(outlook(same))
    assert not Every(11).should_refresh(outlook(same))
    assert WhenDrifted(share=0.5).should_refresh(outlook(turned))
    assert not WhenDrifted(share=0.51).should_refresh(outlook(turned))
    assert not WhenDrifted().should_refresh(outlook(same))
    assert not WhenInformative().should_refresh(outlook(turned))  # as informative as before
    constant = Encoder(np.array([[0.0, 0.0]]))
    blind = Outlook(10, constant, lambda: same, lambda n: (rows, labels))
    assert WhenInformative(gain=0.5).should_refresh(blind)
    unlabelled = Outlook(10, constant, lambda: same, lambda n: (rows, [()] * 4))
    assert not WhenInformative().should_refresh(unlabelled)
    for wrong in (lambda: Every(0), lambda: WhenDrifted(share=0), lambda: WhenInformative(every=0)):
        with pytest.raises(InvalidInputError):
            wrong()


@pytest.mark.parametrize("hasher", [24, "lsh", OKH(n_bits=8, n_anchors=15, random_state=1)], ids=str)
def test_another_hasher_learns_from_what_is_stored_and_cuts_over(place, data, hasher):
    collection, X, y = filled(place, data, Never(), n=60)
    collection.upsert([3, 70], X[[9, 8]], y[[9, 8]])
    collection.delete(5)
    collection.change_hasher(hasher)
    stats = collection.stats()
    assert (stats.n_learned, stats.version, stats.n_searchable) == (60, 60, 60)
    assert (stats.method, stats.n_bits) == (collection.hasher.name, collection.hasher.n_bits)
    assert pairs(collection.search(X[0], 300)) == ranking(collection, X[0])
    collection.upsert(99, X[4], y[4])
    assert collection.hasher.n_samples_seen_ == 61
    weights = collection.hasher.snapshot().weights
    collection.close()
    with place.open() as again:
        assert np.allclose(again.hasher.snapshot().weights, weights, atol=1e-6)
        assert pairs(again.search(X[0], 300)) == ranking(again, X[0])


def test_a_hasher_can_be_changed_before_anything_can_be_learned(place, data):
    X, y = data.take(20)
    with place.open(LSH(n_bits=8)) as collection:
        collection.change_hasher("hcoh")
        collection.upsert(range(10), X[:10])
        collection.change_hasher(16)
        assert collection.stats().n_searchable == 0
        collection.upsert(range(10, 20), X[10:], y[10:])
        assert (collection.stats().n_searchable, collection.stats().n_bits) == (20, 16)


def test_a_new_hasher_without_labels_takes_over_once_it_has_some(place, data):
    X, y = data.take(20)
    with place.open(LSH(n_bits=8), Never()) as collection:
        collection.upsert(range(10), X[:10])
        collection.change_hasher("hcoh")
        assert (collection.stats().n_searchable, collection.encoder.method) == (10, "lsh")
        collection.upsert(range(10, 20), X[10:], y[10:])
        assert (collection.stats().n_searchable, collection.encoder.method) == (20, "hcoh")
        assert pairs(collection.search(X[0], 30)) == ranking(collection, X[0])


def test_repeated_codes_are_searched_in_buckets(path, data):
    X, y = data.take(3000)
    with Collection.open(path, HCOH(n_bits=8, random_state=0), Never()) as collection:
        collection.upsert(range(500), X[:500], y[:500])
        assert collection.stats().index == "flat"
        collection.upsert(range(500, 3000), X[500:], y[500:])
        assert collection.stats().index == "buckets"
        collection.delete(range(0, 3000, 3))
        assert pairs(collection.search(X[1], 3000)) == ranking(collection, X[1])
    with Collection.open(path) as collection:
        assert collection.stats().index == "buckets"
        assert pairs(collection.search(X[1], 3000)) == ranking(collection, X[1])


def test_a_refresh_gives_way_to_searches(place, data, monkeypatch):
    collection, X, y = filled(place, data, Never())
    collection.upsert(40, X[0], y[0])
    step, sleep = reencoder.Reencoder._encode_chunk, reencoder.time.sleep
    seen, rests = [], []

    def chunk(self):
        start = reencoder.time.thread_time()
        more = step(self)
        if len(seen) != 1:  # nobody searches during the second chunk
            collection.search(X[0])
        seen.append((reencoder.time.thread_time() - start, len(rests)))
        return more

    def note(seconds):
        if seconds:
            rests.append(seconds)
        sleep(seconds)

    monkeypatch.setattr(reencoder.Reencoder, "_encode_chunk", chunk)
    monkeypatch.setattr(reencoder.time, "sleep", note)
    collection.refresh()
    monkeypatch.undo()
    (searched, first), (_, second) = seen[:2]
    assert rests[first] >= reencoder._SEARCHES_FIRST * searched
    assert rests[second] == reencoder._PAUSE
    collection.close()
