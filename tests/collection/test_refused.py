"""Input that a collection refuses, in words, before anything has changed."""

import numpy as np
import pytest

from onlinehash import HCOH, Collection
from onlinehash.exceptions import InvalidInputError, OnlineHashError


@pytest.fixture
def collection(tmp_path):
    with Collection.open(tmp_path / "items.oh", HCOH(8, random_state=0)) as opened:
        opened.upsert([1, 2], np.eye(2), [0, 1])
        yield opened


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda c: c.search([[1.0], [1.0, 2.0]]), "vectors has rows of different lengths"),
        (lambda c: c.search([1.0, 2.0, 3.0]), "vectors has 3 features, but this collection is expecting 2"),
        (lambda c: c.upsert(3, [1.0, 2.0, 3.0]), "vectors has 3 features, but this collection is expecting 2"),
        (lambda c: c.upsert([3], [["a", "b"]]), "vectors has dtype <U1; pass numbers"),
        (lambda c: c.upsert([3], np.ones((1, 2)), [1, 2]), "labels has 2 labels, vectors has 1"),
        (lambda c: c.search(np.eye(2), labels=[]), "labels is empty"),
        (lambda c: c.search(np.eye(2), labels=[[0], 1]), "one label per row"),
        (lambda c: c.search(np.eye(2), labels=b"0"), "labels are integers or strings"),
        (lambda c: c.search([[1e300, 1e300]]), "too large"),
        (lambda c: c.upsert([3], np.ones((1, 2)), [2**70]), "beyond int64"),
        (lambda c: c.upsert([3], np.ones((1, 2)), [[2**70, 1]]), "beyond int64"),
        (lambda c: c.update([1], labels=[2**70]), "beyond int64"),
        (
            lambda c: c.update([1, 2], labels=2),
            "labels=2 is not a list or 1d array of 2 labels, one per id; pass None for an id",
        ),
        (lambda c: c.upsert([1, 2], np.eye(2), "cat"), "labels='cat' is not a list or 1d array of 2 labels"),
        (lambda c: c.upsert([3], np.ones((1, 2)), 2), "labels=2 is not a list or 1d array of 1 label, one per id"),
        (lambda c: c.upsert([3], np.ones((1, 2)), [2], "a"), "payload is not a list of 1 value, one per id"),
        (lambda c: c.upsert([3], np.eye(2)), "vectors has 2 rows for 1 id; pass one vector or document per id"),
        (lambda c: c.upsert(3, np.array([1e38, 0], np.float32), 1), "too large for float32"),
        (lambda c: c.upsert(3, np.array([np.nan, 0], np.float32), 1), "NaN or inf: nan at row 0, feature 0"),
        (lambda c: c.upsert([3], [[1e200, 0]], [1]), "too large for float32"),
        (lambda c: c.upsert([5, 4, 6, 4], np.ones((4, 2))), "4 twice"),
    ],
)
def test_what_is_refused_changes_nothing(collection, call, message):
    before = [repr(item) for item in collection.items()]
    with pytest.raises(OnlineHashError, match=message):
        call(collection)
    assert [repr(item) for item in collection.items()] == before
    assert collection.stats().n_learned == 2


@pytest.mark.parametrize("hasher", [HCOH, 7, ["hcoh"]])
def test_what_is_no_hasher_is_refused_in_one_sentence(path, hasher):
    with pytest.raises(InvalidInputError, match=r"hasher is the class HCOH; pass one of it|neither a hasher nor"):
        Collection.open(path, hasher)
    assert not path.exists()
