"""What is replaced is unlearned, exactly, also when a crash or an interrupt comes in between."""

import numpy as np
import pytest
from tests.collection.conftest import Data
from tests.collection.test_reopen import crash

from onlinehash import HCOH, HROH, Collection
from onlinehash.collection import learner

N_ITEMS = 400


def hroh(**params):
    return HROH(16, **{"n_components": 64, "random_state": 0, **params})


def assert_same_sums(one, other, X):
    """Both have learned the same rows, in whatever order."""
    scores = [hasher.decision_function(X)[:, np.argsort(hasher.classes_)] for hasher in (one, other)]
    assert sorted(one.classes_) == sorted(other.classes_)
    assert np.allclose(*scores, atol=1e-6)
    assert one.n_samples_seen_ - one.n_unlearned_ == other.n_samples_seen_ - other.n_unlearned_


@pytest.mark.parametrize("how", ["upsert", "update", "one by one"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_corrected_labels_leave_no_trace(tmp_path, data, how, dtype):
    X, y = data.take(1000)
    wrong = y.copy()
    rows = np.random.default_rng(0).choice(1000, 300, replace=False)
    wrong[rows] = (y[rows] + 1) % 4
    with (
        Collection.open(tmp_path / "corrected.oh", hroh(), "manual", vector_dtype=dtype) as items,
        Collection.open(tmp_path / "clean.oh", hroh(), "manual", vector_dtype=dtype) as clean,
    ):
        clean.upsert(range(1000), X, y)
        items.upsert(range(1000), X, wrong)
        if how == "upsert":
            items.upsert(range(1000), X, y)
        elif how == "update":
            items.update(rows.tolist(), labels=y[rows])
        else:
            for row in rows.tolist():
                items.update(row, labels=int(y[row]))
        assert_same_sums(items.hasher, clean.hasher, X)
        assert items.hasher.n_unlearned_ == 300
        assert items.stats().staleness == 600
        for collection in (items, clean):
            collection.refresh()
        assert np.array_equal(items.codes(range(1000))[1], clean.codes(range(1000))[1])


def test_new_vectors_leave_no_trace_of_the_old_ones(path, data):
    X, y = data.take(N_ITEMS)
    with Collection.open(path, hroh(bandwidth=1.0), "manual") as items:
        items.upsert(range(N_ITEMS), X[::-1] + 1.0, [None if row % 3 else int(label) for row, label in enumerate(y)])
        items.upsert(range(0, N_ITEMS, 2), X[::2], y[::2])
        items.update(range(1, N_ITEMS, 2), X[1::2], labels=y[1::2])
        assert_same_sums(items.hasher, hroh(bandwidth=1.0).partial_fit(X, y), X)
        items.update(range(100), labels=[None] * 100)  # without a label, nothing of them is left
        assert_same_sums(items.hasher, hroh(bandwidth=1.0).partial_fit(X[100:], y[100:]), X)


def test_items_that_do_not_change_are_not_learned_again(path, data):
    X, y = data.take(N_ITEMS)
    with Collection.open(path, hroh(), "manual") as items:
        items.upsert(range(N_ITEMS), X, y)
        learned, generation = items.hasher.to_bytes(), items.generation
        items.upsert(range(N_ITEMS), X, y, [{"n": 1}] * N_ITEMS)
        items.update([3, 4], labels=y[3:5])
        items.update(5, X[5], payload="new")
        items.update(6, payload="new")
        assert items.hasher.to_bytes() == learned
        assert (items.stats().n_learned, items.stats().staleness) == (N_ITEMS, 0)
        items.refresh()
        assert items.generation == generation
        assert [items[id].payload for id in (4, 5, 6)] == [{"n": 1}, "new", "new"]
        items.upsert(range(N_ITEMS + 1), [*X, X[0]], [*y, y[0]])
        assert items.stats().n_learned == N_ITEMS + 1


def test_items_that_come_again_and_again_take_no_more_room(path, data):
    X, y = data.take(N_ITEMS)
    X = np.repeat(X, 100, axis=1)
    with Collection.open(path, hroh(n_components=16), "manual") as items:
        items.upsert(range(N_ITEMS), X, y)
        items.compact()
        size = items.stats().n_bytes
        for _ in range(10):
            items.upsert(range(N_ITEMS), X, y)
        items.compact()
        assert items.stats().n_bytes < 1.5 * size
        assert items.stats().n_learned == N_ITEMS


def test_an_item_that_was_replaced_and_is_deleted_leaves_no_trace(path, data):
    X, y = data.take(N_ITEMS)
    with Collection.open(path, hroh(bandwidth=1.0), "manual") as items:
        items.upsert(range(N_ITEMS), X, y)
        items.upsert(range(50), X[100:150], (y[:50] + 1) % 4)
        items.update(range(30), X[200:230])
        items.delete(range(50), unlearn=True)
        assert_same_sums(items.hasher, hroh(bandwidth=1.0).partial_fit(X[50:], y[50:]), X)


def test_an_ingest_that_is_run_again_learns_every_item_once(path, data):
    X, y = data.take(N_ITEMS)

    def ingest(until):
        with Collection.open(path, hroh(), "manual") as items:
            for start in range(0, until, 50):
                items.upsert(range(start, start + 50), X[start : start + 50], y[start : start + 50])
            return items.hasher

    ingest(200)
    assert_same_sums(ingest(N_ITEMS), hroh().partial_fit(X, y), X)
    again = ingest(N_ITEMS)
    assert (again.n_samples_seen_, again.n_unlearned_) == (N_ITEMS, 0)


@pytest.mark.parametrize("hasher", [HCOH(8, random_state=0), hroh(decay=0.99)], ids=["hcoh", "decay"])
def test_a_hasher_that_cannot_unlearn_learns_from_all_that_comes(path, data, hasher):
    X, y = data.take(100)
    with Collection.open(path, hasher, "manual") as items:
        items.upsert(range(100), X, y)
        items.upsert(range(100), X, y)
        items.update(3, labels=int(y[3]))
        assert items.stats().n_learned == items.hasher.n_samples_seen_ == 201


# ---------------------------------------------------------------------- after a crash


def change(items, rng, data):
    """Change a collection somehow: mostly replacements, in batches of any size."""
    size = int(rng.integers(1, 40))
    ids = rng.choice(120, size, replace=False).tolist()
    X, y = data.take(size)
    labels = [None if rng.random() < 0.2 else int(label) for label in y]
    known = [id for id in ids if id in items]
    kind = rng.choice(["upsert", "upsert", "update", "same", "delete", "unlearn", "link", "merge"])
    if kind == "upsert":
        items.upsert(ids, X, labels)
    elif kind == "update" and known:
        items.update(known, X[: len(known)], labels=labels[: len(known)])
    elif kind == "same" and known:
        stored = items.get(known)
        items.upsert(known, [item.vectors for item in stored], [item.labels for item in stored])
    elif kind in ("delete", "unlearn"):
        items.delete(ids[:3], missing="ignore", unlearn=kind == "unlearn")
    elif kind == "link":
        free = [item.id for item in items.get(known) if item.labels is None or item.labels < -1000]
        if len(free) > 1:
            items.link(free)
    elif kind == "merge":
        counts = [label for label in items.label_counts() if label is not None]
        if len(counts) > 3:
            items.merge_labels(counts[-1], counts[0])


@pytest.mark.parametrize("bytes_per_state", [1, 3000, 1 << 22], ids=["always", "at times", "never"])
@pytest.mark.parametrize("seed", range(3))
def test_a_crash_between_replacements_loses_no_bit(tmp_path, monkeypatch, seed, bytes_per_state):
    monkeypatch.setattr(learner, "_MIN_BYTES_PER_STATE", bytes_per_state)
    monkeypatch.setattr(learner, "_BYTES_OF_VECTORS_PER_BYTE_OF_STATE", 0)
    rng, data = np.random.default_rng(seed), Data(seed)
    path, copy = tmp_path / "items.oh", tmp_path / "copy.oh"
    X, y = data.take(120)
    items = Collection.open(path, hroh(n_components=16), "manual")
    items.upsert(range(120), X, y)
    for _ in range(30):
        change(items, rng, data)
    expected, contents = items.hasher.to_bytes(), items.label_counts()
    n_learned, codes = items.stats().n_learned, items.codes()
    crash(items, path, copy)
    with Collection.open(copy) as again:
        assert again.hasher.to_bytes() == expected
        assert (again.label_counts(), again.stats().n_learned) == (contents, n_learned)
        assert np.array_equal(again.codes()[1], codes[1])
        assert again.check().ok
        for _ in range(5):
            change(again, rng, data)
        expected = again.hasher.to_bytes()
        crash(again, copy, path)
    with Collection.open(path, readonly=True) as reader:
        assert reader.hasher.to_bytes() == expected
