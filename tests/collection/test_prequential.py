import numpy as np
import pytest

from onlinehash import HROH, Collection, load_dataset
from onlinehash.exceptions import InvalidInputError


@pytest.fixture(scope="module")
def stream():
    return load_dataset("digits").split().stream


def test_new_items_are_searched_for_before_they_are_learned_from(tmp_path, stream):
    X, y = stream
    with Collection.open(tmp_path / "digits.oh", "hcoh") as digits:
        assert digits.stats().precision is None
        digits.measure_quality(k=5, window=200, per_call=50)
        for start in range(0, 1000, 50):
            digits.upsert(range(start, start + 50), X[start : start + 50], y[start : start + 50])
        stats = digits.stats()
        assert stats.n_queries == 950  # the first items find no codes
        assert 0.6 < stats.precision <= 1.0
        wrong = (y[:200] + 1) % 10  # labels that nothing near has: found out before they are learned
        digits.upsert(range(2000, 2200), X[:200], wrong)
        assert digits.stats().precision < stats.precision - 0.1


def test_an_item_that_is_replaced_does_not_find_itself(tmp_path):
    with Collection.open(tmp_path / "few.oh", "hcoh") as few:
        few.upsert([1, 2], [[1.0, 0.0], [-1.0, 0.5]], ["a", "b"])
        few.refresh()
        few.measure_quality(k=1)
        few.upsert(1, [1.0, 0.0], "a")
        assert (few.stats().precision, few.stats().n_queries) == (0.0, 1)


def test_labels_that_overlap_are_relevant_and_items_without_are_no_queries(tmp_path):
    rng = np.random.default_rng(0)
    with Collection.open(tmp_path / "pets.oh", HROH(n_components=16, random_state=0)) as pets:
        pets.upsert(range(20), rng.normal(size=(20, 4)), [["pet", "cat"], ["pet", "dog"]] * 10)
        pets.refresh()
        pets.measure_quality(k=3)
        pets.upsert([30, 31], rng.normal(size=(2, 4)), [["pet"], None])
        assert (pets.stats().precision, pets.stats().n_queries) == (1.0, 1)
        with pytest.raises(InvalidInputError, match="per_call"):
            pets.measure_quality(per_call=0)


def test_items_are_taken_after_everything_was_unlearned(tmp_path):
    rows = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
    with Collection.open(tmp_path / "items.oh", HROH(8, n_components=8, random_state=0), "manual") as items:
        items.measure_quality()
        items.upsert(range(10), rows[:10], [0, 1] * 5)
        items.update(range(10), labels=[None] * 10)
        items.refresh()
        items.upsert([10, 11], rows[10:], [0, 1])
        items.refresh()
        assert items.search(rows[11], k=1).ids == [11]


def test_the_error_of_labels_along_the_stream_is_measured_and_warned_of(tmp_path, stream, caplog):
    X, y = stream
    hasher = HROH(64, n_components=128, random_state=0)
    with Collection.open(tmp_path / "digits.oh", hasher, "manual") as digits:
        digits.upsert(range(1000), X[:1000], y[:1000])
        digits.measure_quality(window=300, per_call=50, max_error=0.05)
        digits.upsert(range(1000, 1200), X[1000:1200], y[1000:1200])
        stats = digits.stats()
        assert stats.coverage > 0.8
        assert stats.error < 0.1
        assert not caplog.records
        digits.upsert(range(2000, 2050), X[1200:1250], (y[1200:1250] + 1) % 10)  # the stream has changed
        assert digits.stats().error > 0.2
        assert "labels that classify would have given are wrong" in caplog.text
