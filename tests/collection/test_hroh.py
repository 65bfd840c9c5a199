import numpy as np
import pytest
from tests.collection.brute import pairs, ranking
from tests.collection.test_reopen import assert_same_hashing, crash

from onlinehash import HROH, Collection, Encoder
from onlinehash.collection import learner
from onlinehash.exceptions import InvalidInputError


def hroh(**params):
    return HROH(n_bits=16, n_components=64, random_state=0, **params)


@pytest.mark.parametrize("n_before", [60, 400])  # the head of the stream, which gives the bandwidth, is open, or not
def test_a_stream_that_crashed_goes_on_as_if_it_had_not(tmp_path, data, n_before):
    X, y = data.take(700)
    path, copy = tmp_path / "items.oh", tmp_path / "copy.oh"
    collection = Collection.open(path, hroh(), "manual")
    for start in range(0, n_before, 37):  # rows wait for their block to fill
        stop = min(start + 37, n_before)
        collection.upsert(range(start, stop), X[start:stop], y[start:stop])
    collection.refresh()
    assert collection.stats().staleness == 0
    collection.upsert(range(n_before, 500), X[n_before:500], y[n_before:500])
    collection.upsert(range(n_before - 5, n_before + 5), X[500:510], y[500:510])
    collection.delete([1, 450])
    crash(collection, path, copy)
    replaced = slice(n_before - 5, n_before + 5)
    uncut = hroh().partial_fit(X[:500], y[:500]).unlearn(X[replaced], y[replaced]).partial_fit(X[500:510], y[500:510])
    with Collection.open(copy) as again:
        assert len(again) == 498
        assert_same_hashing(again.hasher, uncut, X)
        again.upsert(range(510, 700), X[510:], y[510:])
        assert_same_hashing(again.hasher, uncut.partial_fit(X[510:], y[510:]), X)
        assert pairs(again.search(X[7], 200, rescore=None)) == ranking(again, X[7])[:200]
        again.refresh()
        assert again.encoder.version == again.stats().version == 710
        assert np.array_equal(again.codes()[1], again.encoder.encode(stored(again)))
    with Collection.open(copy) as again:
        assert_same_hashing(again.hasher, uncut, X)


def stored(collection):
    """Return the vectors of all items, in order of arrival."""
    return np.array([item.vectors for item in collection.get(collection.codes()[0])])


def test_bits_change_without_learning_again(path, data, monkeypatch):
    X, y = data.take(400)
    with Collection.open(path, hroh(general_bits=4), "manual") as collection:
        collection.upsert(range(400), X, y)
        collection.delete(range(10))
        before = collection.hasher
        with monkeypatch.context() as patch:
            patch.setattr(learner.Learner, "learn_stream", None)
            collection.change_hasher(24)
        assert collection.stats().n_bits == 24
        assert collection.hasher.general_bits == 4
        assert_same_hashing(collection.hasher, before.with_bits(24, 4), X)
        assert pairs(collection.search(X[3], 50, rescore=None)) == ranking(collection, X[3])[:50]
        with pytest.raises(InvalidInputError, match="general_bits=4 leaves no bit for classes, of n_bits=2"):
            collection.change_hasher(2)
        assert collection.stats().n_bits == 24
    with Collection.open(path) as collection:
        assert collection.hasher.n_bits == 24
        collection.upsert(1000, X[0], y[0])
        assert collection.stats().staleness == 1


def test_bits_change_before_anything_is_learned(path, data):
    with Collection.open(path, hroh(), "manual") as collection:
        collection.change_hasher(8)
        X, y = data.take(30)
        collection.upsert(range(30), X, y)
        assert collection.codes_and_encoder()[1].shape == (30, 1)


def test_a_hasher_that_has_forgotten_rows_is_not_stale_for_ever(path, data):
    X, y = data.take(300)
    hasher = hroh().partial_fit(X, y).unlearn(X[:50], y[:50])
    with Collection.open(path, hasher, 10) as collection:
        collection.upsert(range(20), X[:20], y[:20])
        collection.refresh()
        stats = collection.stats()
        assert (stats.staleness, stats.version) == (0, 370)
        collection.refresh()
        assert collection.stats().generation == stats.generation


def test_the_encoder_of_a_generation_can_be_read_elsewhere(path, data, tmp_path):
    X, y = data.take(300)
    with Collection.open(path, hroh(), "manual") as collection:
        collection.upsert(range(300), X, y)
        ids, codes, encoder = collection.codes_and_encoder()
        encoder.save(tmp_path / "encoder.oh")
        assert ids == list(range(300))
        assert np.array_equal(Encoder.load(tmp_path / "encoder.oh").encode(X), codes)


def test_what_is_deleted_can_be_forgotten_too(tmp_path, data):
    X, y = data.take(600)
    X[590:], labels = X[:10], [*y[:590].tolist(), *[None] * 10]  # ten without labels, of which nothing was learned
    path, copy = tmp_path / "items.oh", tmp_path / "copy.oh"
    collection = Collection.open(path, hroh(bandwidth=1.0), "manual")
    collection.upsert(range(600), X, labels)
    collection.refresh()
    collection.delete(range(400, 600), unlearn=True)
    crash(collection, path, copy)
    with Collection.open(copy) as again:
        never = hroh(bandwidth=1.0).partial_fit(X[:400], y[:400])
        assert (again.hasher.n_samples_seen_, again.hasher.n_unlearned_) == (590, 190)
        assert np.array_equal(again.hasher.transform(X), never.transform(X))
        assert again.stats().staleness == 190
        again.refresh()
        assert np.array_equal(again.codes()[1], never.transform(X[:400]))
        again.upsert(range(400, 500), X[400:500], y[400:500])
        assert np.array_equal(again.hasher.transform(X), never.partial_fit(X[400:500], y[400:500]).transform(X))


def test_what_cannot_be_forgotten_is_not_deleted(path, small, tmp_path, data):
    collection, X, _ = small  # HCOH
    with pytest.raises(InvalidInputError, match=r"cannot unlearn; HROH can. .*change_hasher"):
        collection.delete([1], unlearn=True)
    assert 1 in collection
    with Collection.open(tmp_path / "fading.oh", hroh(decay=0.99), "manual") as fading:
        fading.upsert(range(40), *data.take(40))
        with pytest.raises(InvalidInputError, match="only with decay=1"):
            fading.delete([1, 2], unlearn=True)
        assert len(fading) == 40
        fading.upsert(50, X[0], 1)
        assert fading.hasher.n_samples_seen_ == 41
