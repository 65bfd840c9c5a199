"""Upserts of one item at a time."""

import numpy as np
import pytest
from tests.collection.brute import by_distance

from onlinehash import HCOH, Collection


def test_items_that_come_one_by_one_are_found_at_once(tmp_path, data):
    """Many items, some of them several times, with searches and deletions in between."""
    X, y = data.take(300)
    rng = np.random.default_rng(0)
    last: dict[str, int] = {}
    with Collection.open(tmp_path / "items.oh", HCOH(16, random_state=0), "manual") as collection:
        collection.upsert([f"{i}" for i in range(20)], X[:20], y[:20])
        last.update({f"{i}": i for i in range(20)})
        for row in range(20, 300):
            id = f"{rng.integers(120)}"
            collection.upsert(id, X[row], int(y[row]))
            last.pop(id, None)
            last[id] = row
            if row % 7 == 0 and (row < 100 or row > 250):
                gone = next(iter(last))
                collection.delete(gone)
                del last[gone]
            if row % 11 == 0 or row > 290:
                assert collection.search(X[row], k=1000).ids == _nearest(collection, last, X, row)
                assert collection.stats().n_searchable == len(last)
                label = int(y[row])
                found = collection.search(X[row], k=1000, labels=label).ids
                assert set(found) == {id for id, at in last.items() if y[at] == label}
        collection.refresh()
        assert collection.search(X[0], k=1000).ids == _nearest(collection, last, X, 0)


def _nearest(collection, last, X, row):
    """Return all ids by distance."""
    encoder = collection.encoder
    codes = encoder.encode(X[list(last.values())])
    distances = np.bitwise_count(codes ^ encoder.encode(X[row : row + 1])).sum(axis=1)
    return [id for _, id in by_distance(collection, distances.tolist(), list(last))]


def test_memory_that_fails_to_apply_a_change_is_read_again(tmp_path, data, monkeypatch):
    """The change is stored all the same."""
    X, y = data.take(30)
    with Collection.open(tmp_path / "items.oh", HCOH(16, random_state=0), "manual") as collection:
        collection.upsert(range(20), X[:20], y[:20])
        collection.upsert(20, X[20], int(y[20]))

        def broken(*_):
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr(collection._searcher.catalogue, "put", broken)
            with pytest.raises(MemoryError):
                collection.upsert(21, X[21], int(y[21]))
        assert sorted(collection.search(X[20], k=30).ids) == list(range(22))
        assert collection.hasher.n_samples_seen_ == 22
