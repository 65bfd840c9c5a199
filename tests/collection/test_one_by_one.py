"""Upserts of one item, which the index applies together."""

import numpy as np
import pytest

from onlinehash import HCOH, Collection
from onlinehash.collection import Never, code_index


def test_items_that_come_one_by_one_are_found_at_once(tmp_path, data, monkeypatch):
    """More items than are applied together, some of them several times, with searches and deletions in between."""
    monkeypatch.setattr(code_index, "_WAITING", 8)
    X, y = data.take(300)
    rng = np.random.default_rng(0)
    last: dict[str, int] = {}
    with Collection.open(tmp_path / "items.oh", HCOH(16, random_state=0), Never()) as collection:
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
    """Return all ids by distance; those that tie in order of arrival."""
    encoder = collection.encoder
    codes = encoder.encode(X[list(last.values())])
    distances = np.bitwise_count(codes ^ encoder.encode(X[row : row + 1])).sum(axis=1)
    return [list(last)[i] for i in np.argsort(distances, kind="stable")]


def test_an_index_that_fails_is_read_again(tmp_path, data, monkeypatch):
    """The change is stored all the same."""
    X, y = data.take(30)
    with Collection.open(tmp_path / "items.oh", HCOH(16, random_state=0), Never()) as collection:
        collection.upsert(range(20), X[:20], y[:20])
        collection.upsert(20, X[20], int(y[20]))

        def broken(*_):
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr(collection._index._arrivals, "put", broken)
            with pytest.raises(MemoryError):
                collection.search(X[20])
        assert 20 in collection.search(X[20], k=21).ids
