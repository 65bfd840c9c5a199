"""What was learned since the last stored state is learned again after a crash, bit for bit."""

import numpy as np
import pytest

from onlinehash.exceptions import StorageError
from onlinehash.hashers import make_hasher


@pytest.mark.parametrize("method", ["mihash", "hcoh", "hroh", "osh", "adapthash", "sketchhash"])
def test_a_replay_learns_in_the_batches_of_the_first_time(path, data, method):
    from onlinehash import Collection

    hasher = make_hasher(method, n_bits=6, random_state=0, **({"n_components": 32} if method == "hroh" else {}))
    collection = Collection.open(path, hasher, "manual")
    rng, n_items = np.random.default_rng(1), 0
    for _ in range(25):
        size = int(rng.integers(1, 60))
        X, y = data.take(size)
        collection.upsert(range(n_items, n_items + size), X, y)
        n_items += size
        if rng.random() < 0.3:
            collection.delete(int(rng.integers(n_items)), missing="ignore")
            collection.update(n_items - 1, data.take(1)[0][0])
    learned = collection.hasher.snapshot()
    collection._store.close()  # as a crash would: the hasher's state is not written
    with Collection.open(path) as again:
        replayed = again.hasher.snapshot()
        assert replayed.version == learned.version
        assert np.array_equal(replayed.weights, learned.weights)


def test_a_change_of_hasher_that_is_cut_off_changes_nothing(place, data, monkeypatch):
    """The hasher and the generation that its codes belong to change in one transaction."""
    X, y = data.take(40)
    collection = place.open(make_hasher("hcoh", n_bits=16, random_state=0), "manual")
    collection.upsert(range(40), X, y)
    weights = collection.hasher.snapshot().weights

    def killed(self, *args):
        raise StorageError("cut off")

    with monkeypatch.context() as patch:
        patch.setattr(type(collection._store), "put_settings", killed)
        with pytest.raises(StorageError, match="cut off"):
            collection.change_hasher(make_hasher("hcoh", n_bits=16, random_state=1))
    assert np.array_equal(collection.hasher.snapshot().weights, weights)
    collection.close()
    with place.open() as again:
        assert np.array_equal(again.hasher.snapshot().weights, weights)
        assert np.array_equal(again.encoder.weights, weights)
        again.change_hasher(make_hasher("hcoh", n_bits=16, random_state=1))
        assert np.array_equal(again.encoder.weights, again.hasher.snapshot().weights)
        assert not np.array_equal(again.encoder.weights, weights)
