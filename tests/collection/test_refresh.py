import numpy as np
import pytest
from tests.collection.brute import pairs, ranking
from tests.collection.refreshing import TIMEOUT, before_each_chunk, held, wait_for_refresh

from onlinehash import HCOH, HROH, LSH, OKH, Collection
from onlinehash.collection import generations
from onlinehash.exceptions import InvalidInputError, StorageError


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(generations, "rows_per_chunk", lambda store: 15)


def filled(place, data, policy, n=40, hasher=None):
    X, y = data.take(n)
    collection = place.open(hasher or HCOH(n_bits=12, random_state=0), policy)
    collection.upsert(range(n), X, y)
    return collection, X, y


def test_codes_stay_until_a_refresh_takes_them_over_whole(place, data):
    collection, X, _ = filled(place, data, "manual")
    more, labels = data.take(200)
    collection.upsert(range(100, 300), more, labels)
    stats = collection.stats()
    assert (stats.version, stats.staleness, stats.generation, stats.bits_recomputed) == (40, 200, 1, 0)
    found = collection.search(X[0])
    assert (found.version, found.staleness) == (40, 200)
    collection.refresh()
    stats = collection.stats()
    assert (stats.version, stats.staleness, stats.generation) == (240, 0, 2)
    assert stats.bits_recomputed == 240 * 12
    assert (stats.refreshing, stats.progress, stats.refresh_error) == (False, 1.0, None)
    found = collection.search(X[0], 300)
    assert (found.version, found.staleness) == (240, 0)
    assert np.array_equal(collection.encoder.weights, collection.hasher.snapshot().weights)
    assert pairs(found) == ranking(collection, X[0])
    collection.refresh()  # nothing was learned since
    assert collection.stats().generation == 2
    collection.close()


def test_changes_during_a_refresh_are_in_both_generations(place, data, monkeypatch):
    collection, X, y = filled(place, data, "manual")
    collection.upsert(40, X[0], y[0])

    def change(number):
        if number == 1:
            collection.delete([3, 38])
            collection.upsert([2, 39, 200], X[[5, 6, 7]], y[[5, 6, 7]])
            collection.update(37, X[9])
            assert collection.stats().refreshing
            assert 0 < collection.stats().progress < 1
            assert pairs(collection.search(X[0], 300)) == ranking(collection, X[0])

    n_read = before_each_chunk(monkeypatch, collection, change)
    collection.refresh()
    assert n_read[0] > 2
    assert collection.stats().generation == 2
    assert set(collection.search(X[0], 300).ids) == {*range(41), 200} - {3, 38}
    assert pairs(collection.search(X[0], 300)) == ranking(collection, X[0])
    assert collection.check().ok
    collection.close()
    with place.open() as again:
        assert pairs(again.search(X[0], 300)) == ranking(again, X[0])


def test_a_refresh_that_is_done_is_not_asked_for_again_by_what_was_learned_meanwhile(place, data, monkeypatch):
    collection, X, y = filled(place, data, "manual")
    collection.upsert(40, X[0], y[0])
    before_each_chunk(monkeypatch, collection, lambda number: number or collection.upsert(41, X[1], y[1]))
    collection.refresh()
    assert (collection.stats().generation, collection.stats().version) == (2, 41)
    assert not collection.stats().pending  # it is made by hand
    collection.upsert(42, X[2], y[2])
    wait_for_refresh(collection)
    assert collection.generation == 2
    collection.close()


@pytest.mark.parametrize("chunk", [0, 1, 3])
def test_a_refresh_that_was_asked_for_and_interrupted_starts_again_when_opened(place, data, monkeypatch, chunk):
    collection, X, y = filled(place, data, "manual")
    collection.upsert(range(40, 60), X[:20], y[:20])
    with held(monkeypatch, collection, chunk) as there:
        collection.refresh(wait=False)
        assert there.wait(TIMEOUT)
        assert (collection.stats().refreshing, collection.stats().version) == (True, 40)
        collection.close()
    with place.open(readonly=True) as reader:
        assert (reader.stats().version, reader.stats().pending) == (40, True)
    with place.open() as again:
        wait_for_refresh(again)
        assert (again.stats().version, again.stats().pending) == (60, False)
        assert again.stats().bits_recomputed == 60 * 12
        assert pairs(again.search(X[0], 300)) == ranking(again, X[0])


def test_what_goes_wrong_in_a_refresh_is_told(place, data, monkeypatch):
    collection, X, y = filled(place, data, "manual")
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


def test_a_number_refreshes_after_so_many_instances(place, data):
    collection, X, y = filled(place, data, 25, n=20)
    collection.upsert(range(20, 40), X, y)
    assert collection.stats().generation == 1
    collection.upsert(range(40, 60), X, y)
    wait_for_refresh(collection)
    assert (collection.stats().generation, collection.stats().version) == (2, 60)
    collection.upsert(range(60, 80), X, y)
    wait_for_refresh(collection)
    assert collection.stats().generation == 2
    collection.close()


def test_auto_refreshes_at_once_whenever_what_was_learned_has_doubled(place, data, monkeypatch):
    monkeypatch.setattr(generations, "MIN_LEARNED", 30)
    monkeypatch.setattr(generations.Refresher, "ask", lambda self, delay=0.0: None if delay else self._build())
    with place.open(HCOH(n_bits=12, random_state=0)) as collection:
        versions = []
        for start in range(0, 300, 10):
            X, y = data.take(10)
            collection.upsert(range(start, start + 10), X, y)
            versions.append(collection.stats().version)
        collection.close(refresh=False)
    assert list(dict.fromkeys(versions)) == [10, 40, 80, 160]


@pytest.mark.parametrize("wrong", ["often", 0, -3, 2.5, True, [100]], ids=str)
def test_what_says_no_time_to_refresh_is_refused(path, wrong):
    with pytest.raises(InvalidInputError, match="refresh"):
        Collection.open(path, "hcoh", wrong)
    assert not path.exists()


def test_when_to_refresh_is_kept_and_can_be_changed_when_opened(place, data):
    collection, X, y = filled(place, data, "manual")
    collection.close()
    with place.open() as again:
        again.upsert(range(40, 80), X, y)
        wait_for_refresh(again)
        assert again.stats().version == 40
    with place.open(refresh=30) as again:
        wait_for_refresh(again)
        assert again.stats().version == 80
    with place.open() as again:
        again.upsert(range(80, 120), X, y)
        wait_for_refresh(again)
        assert again.stats().version == 120


@pytest.mark.parametrize("hasher", [24, "lsh", OKH(n_bits=8, n_anchors=15, random_state=1)], ids=str)
def test_another_hasher_learns_from_what_is_stored_and_cuts_over(place, data, hasher):
    collection, X, y = filled(place, data, "manual", n=60)
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


def test_another_hasher_that_comes_during_a_refresh_makes_the_codes(place, data, monkeypatch):
    collection, X, y = filled(place, data, "manual", n=60)
    collection.upsert(range(60, 80), X[:20], y[:20])
    with held(monkeypatch, collection, 1) as there:
        collection.refresh(wait=False)
        assert there.wait(TIMEOUT)
        collection.change_hasher(LSH(n_bits=20, random_state=0), wait=False)
    wait_for_refresh(collection)
    assert (collection.encoder.method, collection.stats().pending, collection.stats().refresh_error) == (
        "lsh",
        False,
        None,
    )
    assert pairs(collection.search(X[0], 300)) == ranking(collection, X[0])
    collection.close()


def test_a_hasher_can_be_changed_before_anything_can_be_learned(place, data):
    X, y = data.take(20)
    with place.open(LSH(n_bits=8)) as collection:
        collection.change_hasher("hcoh")
        collection.upsert(range(10), X[:10])
        collection.change_hasher(16)
        assert collection.stats().n_searchable == 0
        collection.upsert(range(10, 20), X[10:], y[10:])
        assert (collection.stats().n_searchable, collection.stats().n_bits) == (20, 16)


@pytest.mark.parametrize("policy", ["manual", "auto"])
def test_a_new_hasher_without_labels_takes_over_once_it_has_some(place, data, policy, caplog):
    X, y = data.take(20)
    with place.open(LSH(n_bits=8), policy) as collection:
        collection.upsert(range(9), X[:9])
        collection.change_hasher("hcoh")
        collection.upsert(9, X[9])  # still nothing to learn from, which is not an error
        wait_for_refresh(collection)
        assert (collection.stats().n_searchable, collection.encoder.method) == (10, "lsh")
        assert collection.stats().refresh_error is None
        collection.upsert(range(10, 20), X[10:], y[10:])
        wait_for_refresh(collection)
        assert (collection.stats().n_searchable, collection.encoder.method) == (20, "hcoh")
        assert pairs(collection.search(X[0], 30)) == ranking(collection, X[0])
    assert not caplog.records


def test_repeated_codes_are_ranked_by_a_hash(path, data):
    X, y = data.take(3000)
    with Collection.open(path, HCOH(n_bits=8, random_state=0), "manual") as collection:
        collection.upsert(range(3000), X, y)
        collection.delete(range(0, 3000, 3))
        assert pairs(collection.search(X[1], 3000)) == ranking(collection, X[1])
    with Collection.open(path) as collection:
        assert pairs(collection.search(X[1], 3000)) == ranking(collection, X[1])


def test_a_search_is_short_only_where_it_waits_for_nobody(path, data):
    X, y = data.take(200)
    with Collection.open(path, HCOH(12, random_state=0), "auto") as collection:
        assert not collection.searches_at_once(1)  # there are no codes yet
        collection.upsert(range(100), X[:100], y[:100])
        assert collection.searches_at_once(1) and not collection.searches_at_once(1_000_000)
        collection.upsert(range(100, 150), X[100:150], y[100:150])
        assert not collection.searches_at_once(1)  # it would wait for a refresh
        collection.refresh()
        assert collection.searches_at_once(1)
        with Collection.open(path, readonly=True) as reader:
            assert not reader.searches_at_once(1)  # it looks for changes first
    assert not collection.searches_at_once(1)


def test_a_search_that_reads_vectors_is_short_where_they_are_few_in_a_small_file(place, data, monkeypatch):
    X, y = data.take(100)
    with place.open(HROH(12, n_components=8, random_state=0)) as collection:
        collection.upsert(range(100), X, y)
        collection.refresh()
        is_file = collection.file is not None
        assert [collection.searches_at_once(1, 10, order) for order in (None, "auto", "l2")] == [True, is_file, is_file]
        assert not collection.searches_at_once(1, 11, "auto")
        assert not collection.searches_at_once(2, 10, "auto")
        monkeypatch.setattr(collection._store, "size", lambda: 1 << 29)
        assert not collection.searches_at_once(1, 10, "auto")
