"""ClassListIndex against brute force."""

import numpy as np
import pytest

from onlinehash import HROH
from onlinehash.exceptions import InvalidInputError, UnknownIdError
from onlinehash.indexes import ClassListIndex
from onlinehash.indexes.kernels import mixed


def random_lists(n, n_classes, rng):
    """Lists of up to 5 classes, some of them with a probability of 0."""
    lists = np.zeros((n, 5), np.uint32)
    for row in lists:
        numbers = rng.permutation(n_classes)[:5]
        row[: len(numbers)] = numbers << 16 | rng.choice([0, 1, 60, 255], len(numbers)) << 8 | rng.integers(256)
    return lists


def brute_force(items, query, ties):
    """Ids and distances of all items, by the probability of the same class, then in the order of ties."""

    def chances(entries):
        return {entry >> 16: (entry >> 8 & 255) / 255 for entry in entries.tolist() if entry >> 8 & 255}

    own, found = chances(query), []
    for id, entries in items.items():
        distance = 1 - sum(own.get(number, 0) * chance for number, chance in chances(entries).items())
        key = int(mixed(np.array([id]))[0]) if ties == "hash" else id
        found.append((round(distance, 9), key, id))
    return [(id, distance) for distance, _, id in sorted(found)]


@pytest.mark.parametrize("ties", ["id", "hash"])
@pytest.mark.parametrize("n_classes", [2, 12, 60000])
def test_search_is_exact_after_any_changes(n_classes, ties):
    rng, index, items = np.random.default_rng(0), ClassListIndex(ties), {}
    for step in range(12):
        ids = rng.permutation(80)[: rng.integers(30)] - 20
        lists = random_lists(len(ids), n_classes, rng)
        index.upsert(lists, ids)
        items |= dict(zip(ids.tolist(), lists, strict=True))
        gone = [id for id in items if rng.random() < 0.2]
        index.delete(gone)
        items = {id: each for id, each in items.items() if id not in gone}
        assert len(index) == len(items)
        assert [id for id in range(-25, 70) if id in index] == sorted(items)
        queries = random_lists(3, n_classes, rng)
        for k in (1, 5, 200):
            found = index.search(queries, k)
            for query, ids, distances in zip(queries, found.ids, found.distances, strict=True):
                expected = brute_force(items, query, ties)[:k]
                assert ids.tolist() == [id for id, _ in expected], step
                assert np.allclose(distances, [distance for _, distance in expected], atol=1e-6)


def test_lists_of_an_encoder_rank_items_by_their_probabilities():
    rng = np.random.default_rng(0)
    y = rng.integers(8, size=900)
    X = np.random.default_rng(1).normal(size=(8, 6))[y] + 0.7 * rng.normal(size=(900, 6))
    encoder = HROH(16, n_components=64, random_state=0).partial_fit(X[:500], y[:500]).snapshot()
    lists = encoder.class_lists(X)
    assert lists.dtype == np.uint32 and lists.shape == (900, 5)
    scores = encoder.class_scores(X)
    assert np.array_equal(lists[:, 0] >> 16, scores.argmax(axis=1))
    index = ClassListIndex()
    index.upsert(lists[500:], np.arange(500, 900))
    found = index.search(lists[:50], 10).ids
    assert np.mean(y[found] == y[:50, None]) > 0.7
    assert repr(index) == "<ClassListIndex of 400 items>"


def test_what_is_no_class_list_is_refused_and_nothing_changes():
    index = ClassListIndex()
    index.upsert(np.zeros((2, 5), np.uint32), [3, 4])
    for lists in (np.zeros((2, 5)), np.zeros((2, 4), np.uint32), np.zeros(5, np.uint32)):
        with pytest.raises(InvalidInputError, match="class lists are uint32"):
            index.upsert(lists, [1, 2])
    with pytest.raises(InvalidInputError, match="twice"):
        index.upsert(np.zeros((2, 5), np.uint32), [1, 1])
    with pytest.raises(UnknownIdError, match="id 7"):
        index.delete([3, 7])
    assert "3" not in index and 3 in index and len(index) == 2
    assert index.search(np.zeros((1, 5), np.uint32), 9).distances.tolist() == [[1.0, 1.0]]
