"""A load in batches, walked the whole way: what is searched afterwards is as good as after one batch."""

import logging
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from tests.collection.places import FilePlace
from tests.collection.refreshing import TIMEOUT, before_each_chunk, held, wait_for_refresh

from onlinehash import HCOH, HROH, load_dataset, mean_average_precision
from onlinehash.collection import generations
from onlinehash.exceptions import StorageError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits").split()


@pytest.fixture
def never_idle(monkeypatch):
    monkeypatch.setattr(generations, "IDLE_SECONDS", 1000)


@pytest.fixture
def soon_idle(monkeypatch):
    monkeypatch.setattr(generations, "IDLE_SECONDS", 0.05)


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


def settle(collection):
    """Wait until nothing is pending, without asking for a refresh."""
    end = time.monotonic() + TIMEOUT
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


def test_the_first_search_after_a_load_finds_codes_of_all_that_was_learned(place, digits, never_idle):
    with place.open(small_hroh()) as collection:
        load(collection, digits, 8)
        assert collection.stats().version < 1000
        found = collection.search(digits.queries.X[0])
        assert (found.version, found.staleness) == (1000, 0)
        assert collection.stats().version == 1000


@pytest.mark.parametrize("search", [{"wait": False}, {}], ids=["not asked to", "out of patience"])
def test_a_search_may_go_on_with_the_codes_there_are(place, digits, never_idle, search, monkeypatch):
    monkeypatch.setattr(generations, "PATIENCE", 0.01)
    with place.open(small_hroh()) as collection:
        load(collection, digits, 8)
        with held(monkeypatch, collection):
            found = collection.search(digits.queries.X[0], **search)
            assert (len(found), found.version, found.staleness) == (10, 125, 875)
            assert len(collection.range_search(digits.queries.X[0], 16, **search)) == 1000
            assert collection.stats().version == 125
            collection.close(refresh=False)


def test_searches_that_have_waited_in_vain_let_the_next_ones_go_on(place, digits, never_idle, monkeypatch):
    """The clock of the test goes on while a search waits, and between searches, as it says."""
    clock, waits = [1000.0], []

    def wait(self, number=None, timeout=None):
        waits.append(timeout)
        clock[0] += timeout

    with place.open(small_hroh()) as collection:
        load(collection, digits, 8, 400)
        with held(monkeypatch, collection), monkeypatch.context() as patch:
            patch.setattr(generations, "time", SimpleNamespace(monotonic=lambda: clock[0]))
            patch.setattr(generations.Refresher, "wait", wait)
            for _ in range(20):
                collection.search(digits.queries.X[0])
            assert waits == [generations.PATIENCE]
            clock[0] += 3.1 * generations.PATIENCE
            for _ in range(20):
                collection.search(digits.queries.X[0])
            assert waits == [generations.PATIENCE] * 2
            patch.undo()
            collection.close(refresh=False)


def test_an_idle_collection_refreshes_by_itself(place, digits, soon_idle, monkeypatch):
    with place.open(small_hroh()) as collection:
        load(collection, digits, 8)
        stats = settle(collection)
        assert (stats.version, stats.pending, stats.refresh_error) == (1000, False, None)
        collection.upsert(5000, *(column[1000] for column in digits.stream))
        assert not collection.stats().pending  # one in a thousand changes next to nothing
        with held(monkeypatch, collection):
            collection.upsert(range(5001, 5051), *(column[1001:1051] for column in digits.stream))
            assert collection.stats().pending
        assert settle(collection).version == 1051


def test_what_is_learned_during_a_refresh_brings_another_if_it_is_due(place, data, monkeypatch):
    """While a generation is made, twice as much is learned; no later change asks for one."""
    monkeypatch.setattr(generations, "rows_per_chunk", lambda store: 15)
    collection = place.open(HCOH(n_bits=12, random_state=0), 50)
    X, y = data.take(300)
    collection.upsert(range(50), X[:50], y[:50])

    def feed(number):
        if number == 1:
            collection.upsert(range(100, 300), X[100:], y[100:])

    before_each_chunk(monkeypatch, collection, feed)
    collection.upsert(range(50, 100), X[50:100], y[50:100])
    wait_for_refresh(collection)
    assert collection.stats().version == 300
    collection.close()


def test_a_reader_sees_what_is_pending_and_how_stale_its_answers_are(place, digits, never_idle, monkeypatch):
    monkeypatch.setattr(generations, "rows_per_chunk", lambda store: 50)
    with place.open(small_hroh()) as collection:
        load(collection, digits, 2, 400)
        with place.open(readonly=True) as reader:
            stats = reader.stats()
            assert (stats.version, stats.staleness, stats.refreshing, stats.pending) == (200, 200, False, True)
            found = reader.search(digits.queries.X[0])  # it can make no codes, so it does not wait for any
            assert (found.version, found.staleness) == (200, 200)
            with held(monkeypatch, collection) as there:
                collection.refresh(wait=False)
                assert there.wait(TIMEOUT)
                assert collection.stats().progress < 1
                assert reader.stats().pending
                collection.close(refresh=False)
    with place.open(readonly=True) as reader:
        assert reader.stats().pending
    with place.open() as again:
        assert settle(again).version == 400


def test_closing_without_a_refresh_says_so_and_the_next_writer_makes_up_for_it(place, digits, caplog, monkeypatch):
    monkeypatch.setattr(generations, "IDLE_SECONDS", 1000)
    collection = place.open(small_hroh())
    load(collection, digits, 8)
    with caplog.at_level(logging.WARNING, "onlinehash"):
        collection.close(refresh=False)
    assert "875 of 1000 learned" in caplog.text
    monkeypatch.setattr(generations, "IDLE_SECONDS", 0.05)
    with place.open() as again:
        assert settle(again).version == 1000


def test_an_error_in_the_block_closes_without_a_refresh(place, digits, never_idle):
    with pytest.raises(ZeroDivisionError), place.open(small_hroh()) as collection:
        load(collection, digits, 8)
        raise ZeroDivisionError
    with place.open(readonly=True) as reader:
        assert reader.stats().version == 125


def test_a_refresh_that_fails_at_closing_is_logged_and_loses_nothing(place, digits, caplog, monkeypatch):
    monkeypatch.setattr(generations, "IDLE_SECONDS", 1000)
    collection = place.open(small_hroh())
    load(collection, digits, 8)

    def full(self, *args, **kwargs):
        raise StorageError("no room")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "onlinehash"):
        patch.setattr(type(collection._store), "put_codes", full)
        collection.close()
    assert "no room" in caplog.text
    monkeypatch.setattr(generations, "IDLE_SECONDS", 0.05)
    with place.open() as again:
        assert len(again) == 1000
        assert settle(again).version == 1000


def test_codes_that_are_refreshed_by_hand_are_left_alone(place, digits, monkeypatch):
    monkeypatch.setattr(generations, "IDLE_SECONDS", 0.0)
    asked = []
    monkeypatch.setattr(generations.Refresher, "ask", lambda self, delay=0.0: asked.append(delay))
    with place.open(small_hroh(), "manual") as collection:
        load(collection, digits, 8)
        collection.search(digits.queries.X[0])
        assert (collection.stats().version, collection.stats().pending) == (125, False)
    assert not asked


def test_closing_while_a_refresh_is_about_to_begin_waits_for_it(place, digits, soon_idle, monkeypatch, caplog):
    """The idle collection takes its time to make an encoder; closing comes in between."""
    with caplog.at_level(logging.WARNING, "onlinehash"):
        collection = place.open(small_hroh())
        load(collection, digits, 1)
        begun, snapshot = threading.Event(), HROH.snapshot

        def slow(self):
            begun.set()
            time.sleep(0.3)  # which gives closing the time to begin, but need not
            return snapshot(self)

        monkeypatch.setattr(HROH, "snapshot", slow)
        collection.upsert(range(1000, 1200), *(column[:200] for column in digits.stream))
        assert begun.wait(TIMEOUT)
        collection.close()
    assert not caplog.records
    with place.open(readonly=True) as reader:
        assert (reader.stats().version, reader.stats().pending) == (1200, False)
