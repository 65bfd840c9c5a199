"""A load in batches, walked the whole way: what is searched afterwards is as good as after one batch."""

import logging
import threading
import time

import numpy as np
import pytest
from tests.collection.places import FilePlace

from onlinehash import HCOH, HROH, load_dataset, mean_average_precision
from onlinehash.collection import Every, Never, WhenDrifted, WhenIdle, reencoder
from onlinehash.exceptions import InvalidInputError, StorageError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits").split()


def load(collection, split, n_batches, n_items=1000):
    X, y = split.stream
    for rows in np.array_split(np.arange(n_items), n_batches):
        collection.upsert(rows, X[rows], y[rows])


def quality(collection, split):
    """Return the mAP of the codes in use, for queries that were never stored."""
    X, y = split.queries
    ids, codes, encoder = collection.codes_and_encoder()
    return mean_average_precision(encoder.encode(X), y, codes, split.stream.y[ids])


def small_hroh():
    return HROH(n_bits=16, n_components=64, random_state=0)


def settle(collection, seconds=30.0):
    """Wait until nothing is pending, without asking for a refresh."""
    end = time.monotonic() + seconds
    while collection.stats().pending and time.monotonic() < end:
        time.sleep(0.01)
    return collection.stats()


@pytest.mark.parametrize("n_batches", [8, 40])
def test_a_load_in_batches_searches_as_well_as_in_one(place, digits, n_batches):
    check_load(place, digits, n_batches)


def test_a_load_in_hundreds_of_small_batches_searches_as_well_as_in_one(tmp_path, digits):
    check_load(FilePlace(tmp_path), digits, 400)


def check_load(place, digits, n_batches):
    with place.open(small_hroh()) as collection:
        load(collection, digits, n_batches)
    with place.open(readonly=True) as again:
        stats = again.stats()
        assert (stats.version, stats.staleness, stats.pending, stats.refreshing) == (1000, 0, False, False)
        in_batches = quality(again, digits)
    one = small_hroh().partial_fit(*(column[:1000] for column in digits.stream)).snapshot()
    X, y = digits.stream
    at_once = mean_average_precision(one.encode(digits.queries.X), digits.queries.y, one.encode(X[:1000]), y[:1000])
    assert abs(in_batches - at_once) < 0.01


def test_the_first_search_after_a_load_finds_codes_of_all_that_was_learned(place, digits):
    with place.open(small_hroh(), WhenIdle(seconds=1000)) as collection:
        load(collection, digits, 8)
        assert collection.stats().version < 1000
        collection.search(digits.queries.X[0])
        assert collection.stats().version == 1000


@pytest.mark.parametrize("search", [{"wait": False}, {}], ids=["not asked to", "without patience"])
def test_a_search_may_go_on_with_the_codes_there_are(place, digits, search):
    policy = WhenIdle(Never(), seconds=1000, patience=10 if search else 0)
    with place.open(small_hroh(), policy) as collection:
        load(collection, digits, 8)
        assert len(collection.search(digits.queries.X[0], **search)) == 10
        assert len(collection.range_search(digits.queries.X[0], 16, **search)) == 1000
        assert collection.stats().version == 125
        collection.close(refresh=False)


def test_patience_with_a_slow_refresh_ends_once_for_all_searches(place, digits, monkeypatch):
    monkeypatch.setattr(reencoder, "_CHUNK", 20)
    monkeypatch.setattr(reencoder, "_PAUSE", 0.2)
    with place.open(small_hroh(), WhenIdle(Never(), seconds=1000, patience=0.3)) as collection:
        load(collection, digits, 8, 400)
        start = time.monotonic()
        for x in digits.queries.X[:20]:
            collection.search(x)
        assert 0.3 <= time.monotonic() - start < 3
        assert collection.stats().refreshing
        collection.close(refresh=False)


def test_an_idle_collection_refreshes_by_itself(place, digits):
    with place.open(small_hroh(), WhenIdle(seconds=0.05)) as collection:
        load(collection, digits, 8)
        stats = settle(collection)
        assert (stats.version, stats.pending, stats.refresh_error) == (1000, False, None)
        collection.upsert(5000, *(column[1000] for column in digits.stream))
        assert not collection.stats().pending  # one in a thousand changes next to nothing
        collection.upsert(range(5001, 5051), *(column[1001:1051] for column in digits.stream))
        assert collection.stats().pending
        assert settle(collection).version == 1051


def test_a_finished_refresh_is_followed_by_another_look_of_the_policy(place, data, monkeypatch):
    """While a generation is made, twice as much is learned; no later change asks the policy."""
    monkeypatch.setattr(reencoder, "_CHUNK", 15)
    collection = place.open(HCOH(n_bits=12, random_state=0), Every(50))
    X, y = data.take(300)
    collection.upsert(range(50), X[:50], y[:50])
    step, fed = reencoder.Reencoder._encode_chunk, []

    def between_chunks(self):
        more = step(self)
        if not fed:
            fed.append(1)
            collection.upsert(range(100, 300), X[100:], y[100:])
        return more

    monkeypatch.setattr(reencoder.Reencoder, "_encode_chunk", between_chunks)
    collection.upsert(range(50, 100), X[50:100], y[50:100])
    end = time.monotonic() + 30
    while collection.stats().version < 300 and time.monotonic() < end:
        time.sleep(0.01)
    assert collection.stats().version == 300
    collection.close()


def test_a_reader_sees_what_is_pending(place, digits, monkeypatch):
    monkeypatch.setattr(reencoder, "_CHUNK", 50)
    monkeypatch.setattr(reencoder, "_PAUSE", 0.2)
    with place.open(small_hroh(), WhenIdle(Never(), seconds=1000)) as collection:
        load(collection, digits, 2, 400)
        with place.open(readonly=True) as reader:
            stats = reader.stats()
            assert (stats.version, stats.staleness, stats.refreshing, stats.pending) == (200, 200, False, True)
            collection.refresh(wait=False)
            end = time.monotonic() + 30
            while not (stats := reader.stats()).refreshing and time.monotonic() < end:
                time.sleep(0.01)
            assert stats.refreshing
            assert stats.progress < 1
            assert stats.pending
        collection.close(refresh=False)
    with place.open(readonly=True) as reader:
        assert reader.stats().pending
    with place.open() as again:
        assert settle(again).version == 400


def test_a_reader_logs_once_that_codes_are_far_behind(place, digits, caplog):
    with place.open(small_hroh(), WhenIdle(seconds=1000)) as collection:
        load(collection, digits, 2, 400)
        with caplog.at_level(logging.WARNING, "onlinehash"), place.open(readonly=True) as reader:
            for x in digits.queries.X[:3]:
                reader.search(x)
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == 1
        assert "200 of 400" in said[0]


def test_closing_without_a_refresh_says_so_and_the_next_writer_makes_up_for_it(place, digits, caplog):
    collection = place.open(small_hroh(), WhenIdle(seconds=1000))
    load(collection, digits, 8)
    with caplog.at_level(logging.WARNING, "onlinehash"):
        collection.close(refresh=False)
    assert "875 of 1000 learned" in caplog.text
    with place.open(refresh=WhenIdle(seconds=0.05)) as again:
        assert settle(again).version == 1000


def test_an_error_in_the_block_closes_without_a_refresh(place, digits):
    with pytest.raises(ZeroDivisionError), place.open(small_hroh(), WhenIdle(seconds=1000)) as collection:
        load(collection, digits, 8)
        raise ZeroDivisionError
    with place.open(readonly=True) as reader:
        assert reader.stats().version == 125


def test_a_refresh_that_fails_at_closing_is_logged_and_loses_nothing(place, digits, caplog, monkeypatch):
    collection = place.open(small_hroh(), WhenIdle(seconds=1000))
    load(collection, digits, 8)

    def full(self, *args, **kwargs):
        raise StorageError("no room")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "onlinehash"):
        patch.setattr(type(collection._store), "put_codes", full)
        collection.close()
    assert "no room" in caplog.text
    with place.open(refresh=WhenIdle(seconds=0.05)) as again:
        assert len(again) == 1000
        assert settle(again).version == 1000


def test_other_policies_are_left_alone(place, digits):
    with place.open(small_hroh(), WhenDrifted()) as collection:
        load(collection, digits, 8)
        collection.search(digits.queries.X[0])
        time.sleep(0.1)
        assert (collection.stats().version, collection.stats().pending) == (125, False)


def test_bad_parameters_of_an_idle_policy_are_refused():
    for wrong in (
        lambda: WhenIdle("often"),
        lambda: WhenIdle(WhenIdle()),
        lambda: WhenIdle(seconds=0),
        lambda: WhenIdle(share=-1),
        lambda: WhenIdle(patience=-1),
    ):
        with pytest.raises(InvalidInputError):
            wrong()


def test_closing_while_a_refresh_is_about_to_begin_waits_for_it(place, digits, monkeypatch, caplog):
    """The idle collection takes its time to make an encoder; closing comes in between."""
    with caplog.at_level(logging.WARNING, "onlinehash"):
        collection = place.open(small_hroh(), WhenIdle(Never(), seconds=0.01))
        load(collection, digits, 1)
        begun, snapshot = threading.Event(), HROH.snapshot

        def slow(self):
            begun.set()
            time.sleep(0.3)
            return snapshot(self)

        monkeypatch.setattr(HROH, "snapshot", slow)
        collection.upsert(range(1000, 1200), *(column[:200] for column in digits.stream))
        assert begun.wait(30)
        collection.close()
    assert not caplog.records
    with place.open(readonly=True) as reader:
        assert (reader.stats().version, reader.stats().pending) == (1200, False)


def test_where_changes_and_searches_alternate_most_searches_do_not_wait(place, digits, monkeypatch):
    """Making an encoder takes its time here; what is far behind after every change is not refreshed each time."""
    snapshot = HROH.snapshot

    def slow(self):
        time.sleep(0.05)
        return snapshot(self)

    with place.open(small_hroh(), WhenIdle(Never(), seconds=1000)) as collection:
        monkeypatch.setattr(HROH, "snapshot", slow)
        X, y = digits.stream
        waits = []
        hurry = reencoder.Reencoder._hurry
        monkeypatch.setattr(reencoder.Reencoder, "_hurry", lambda self: (waits.append(1), hurry(self)))
        for i in range(60):
            collection.upsert(i, X[i], y[i])
            collection.search(X[i])
        assert collection.stats().generation > 2
        assert len(waits) < 30
        collection.close(refresh=False)
