"""A load over HTTP, walked the whole way: what is found afterwards is as good as after one batch."""

import time

import numpy as np
import pytest

from onlinehash import HROH, Collection, load_dataset
from onlinehash.client import Client
from onlinehash.collection import generations
from onlinehash.service import serve_in_thread

pytestmark = pytest.mark.slow


def precision(client, split):
    """Return the share of the ten nearest that have the label of the query."""
    queries = split.queries
    found = client.search(queries.X[:100], k=10)
    return np.mean([split.stream.y[hits.ids] == label for hits, label in zip(found, queries.y[:100], strict=True)])


def filled(path, split, n_batches, seconds, monkeypatch):
    monkeypatch.setattr(generations, "IDLE_SECONDS", seconds)
    hasher = HROH(16, n_components=64, random_state=0)
    with (
        Collection.open(path, hasher, "auto") as collection,
        serve_in_thread(collection) as url,
        Client(url) as client,
    ):
        for rows in np.array_split(np.arange(1000), n_batches):
            client.upsert(rows.tolist(), split.stream.X[rows], split.stream.y[rows].tolist())
        yield client


def test_the_first_search_after_a_load_is_as_good_as_after_one_batch(tmp_path, monkeypatch):
    split = load_dataset("digits").split()
    found = {}
    for n_batches in (1, 8, 100):
        for client in filled(tmp_path / f"{n_batches}.oh", split, n_batches, seconds=1000, monkeypatch=monkeypatch):
            found[n_batches] = precision(client, split)
            assert client.stats().version == 1000
    assert max(found.values()) - min(found.values()) < 0.01


def test_an_idle_service_refreshes_while_it_is_searched(tmp_path, monkeypatch):
    """Searches that follow each other do not wait; the refresh comes all the same."""
    split = load_dataset("digits").split()
    for client in filled(tmp_path / "items.oh", split, 1, seconds=0.2, monkeypatch=monkeypatch):
        client.search(split.queries.X[:1])
        client.upsert(range(1000, 1200), split.stream.X[:200], split.stream.y[:200].tolist())
        slowest, end = 0.0, time.monotonic() + 180
        while client.stats().pending and time.monotonic() < end:
            start = time.monotonic()
            client.search(split.queries.X[:1])
            slowest = max(slowest, time.monotonic() - start)
        assert client.stats().version == 1200
        assert slowest < 5
