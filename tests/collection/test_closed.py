import gc
import weakref

import pytest

from onlinehash.exceptions import StorageError


def test_a_closed_collection_says_so_whatever_it_is_asked(small, place):
    collection, X, y = small
    collection.close()
    assert repr(collection) == "<Collection, closed>"
    for call in (
        lambda: collection.search(X[0]),
        lambda: collection.range_search(X[0], 3),
        lambda: collection.get(1),
        lambda: len(collection),
        lambda: 1 in collection,
        lambda: list(collection),
        lambda: list(collection.items()),
        collection.label_counts,
        collection.codes,
        collection.stats,
        collection.refresh,
        lambda: collection.encoder,
        lambda: collection.hasher,
        lambda: collection.n_features,
        lambda: collection.upsert(1, X[0], y[0]),
        lambda: collection.update(1, payload=3),
        lambda: collection.delete(1),
        lambda: collection.change_hasher(8),
        lambda: collection.checkpoint("x"),
    ):
        with pytest.raises(StorageError, match="closed"):
            call()
    collection.close()  # once more does nothing
    with place.open() as again:
        assert len(again) == 40


def test_a_hasher_goes_when_another_takes_its_place_and_when_the_collection_is_closed(small):
    collection, X, y = small
    collection.upsert(100, X[0], y[0])
    first = weakref.ref(collection._learner.hasher)
    collection.change_hasher(8)
    second = weakref.ref(collection._learner.hasher)
    gc.collect()
    assert first() is None
    collection.upsert(101, X[1], y[1])
    collection.close()
    gc.collect()
    assert second() is None
