"""Filters and codes are read at one moment: every answer fits one committed state."""

import threading
import time

import numpy as np
import pytest
from tests.thorough import times

from onlinehash import HCOH

pytestmark = pytest.mark.slow
SECONDS = times(1, 4) / 2


@pytest.mark.parametrize("reads", ["the writer", "a reader"])
def test_filtered_searches_fit_a_committed_state_while_items_are_relabelled(place, data, reads):
    """All items change their label together, back and forth, some are deleted and added: a filter finds all or none."""
    X, _ = data.take(60)
    with place.open(HCOH(n_bits=16, random_state=0), 500) as writer:
        writer.upsert(range(60), X, ["a"] * 60)
        searcher = writer if reads == "the writer" else place.open(readonly=True)
        whole, wrong, done = {frozenset(), frozenset(range(60)), frozenset(range(30))}, [], threading.Event()

        def search():
            rng = np.random.default_rng()
            while not done.is_set():
                label = "ab"[rng.integers(2)]
                found = searcher.search(X[rng.integers(60)], 100, labels=label, wait=False).ids
                if frozenset(found) not in whole:
                    wrong.append((label, found))

        threads = [threading.Thread(target=search) for _ in range(2)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for label in "ba":
                writer.update(range(60), labels=[label] * 60)
            writer.delete(range(30, 60))
            writer.upsert(range(30, 60), X[30:], ["a"] * 30)
        done.set()
        for thread in threads:
            thread.join()
        if searcher is not writer:
            searcher.close()
        assert not wrong


@pytest.mark.parametrize("reads", ["the writer", "a reader"])
def test_filters_on_payloads_fit_a_committed_state_while_these_change(place, data, reads):
    """All items change their payload together, some with their vectors, some are deleted and added: all or none."""
    X, y = data.take(60)
    with place.open(HCOH(n_bits=16, random_state=0), 500) as writer:
        writer.upsert(range(60), X, y, [{"a": "x"}] * 60)
        searcher = writer if reads == "the writer" else place.open(readonly=True)
        whole, wrong, done = {frozenset(), frozenset(range(60)), frozenset(range(30))}, [], threading.Event()

        def search():
            rng = np.random.default_rng()
            while not done.is_set():
                value = "xz"[rng.integers(2)]
                found = searcher.search(X[rng.integers(60)], 100, where={"a": value}, include=["payload"])
                if frozenset(found.ids) not in whole:
                    wrong.append((value, found.ids))

        threads = [threading.Thread(target=search) for _ in range(2)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            writer.update(range(60), payload=[{"a": "z"}] * 60)
            writer.update(range(60), X, payload=[{"a": "x"}] * 60)
            writer.delete(range(30, 60))
            writer.upsert(range(30, 60), X[30:], y[30:], [{"a": "x"}] * 30)
        done.set()
        for thread in threads:
            thread.join()
        if searcher is not writer:
            searcher.close()
        assert not wrong


def test_a_filter_by_label_reads_nothing_from_the_store(path, data, monkeypatch):
    """So that no search waits for the disk of another."""
    from onlinehash import Collection

    X, y = data.take(100)
    with Collection.open(path, HCOH(n_bits=16, random_state=0)) as collection:
        collection.upsert(range(100), X, y)

        def asked(self, *args):
            raise AssertionError("the store was asked")

        with monkeypatch.context() as patch:
            patch.setattr(type(collection._store), "query", asked)
            found = set(collection.search(X[0], 100, labels=2).ids)
        assert found == set(np.flatnonzero(y == 2).tolist())


def test_labels_of_items_that_came_before_the_first_codes_are_found(place, data):
    X, y = data.take(40)
    with place.open(HCOH(n_bits=16, random_state=0)) as collection:
        collection.upsert(range(20), X[:20])
        collection.upsert(range(20, 40), X[20:], y[20:])
        collection.update(range(20), labels=y[:20])
        for label in range(4):
            assert set(collection.search(X[0], 100, labels=label).ids) == set(np.flatnonzero(y == label).tolist())
    with place.open() as again:
        assert set(again.search(X[0], 100, labels=[0, 1]).ids) == set(np.flatnonzero(y < 2).tolist())
