import numpy as np
import pytest

from onlinehash import HCOH, HROH, LSH, Collection
from onlinehash.collection import insight
from onlinehash.exceptions import InvalidInputError


def open_with(path, hasher, n_items, data, labels=None):
    collection = Collection.open(path, hasher, "manual")
    X, y = data.take(n_items)
    if n_items:
        collection.upsert(range(n_items), X, y if labels is None else labels(y))
        collection.refresh()
    return collection


def test_items_of_one_label_are_together_on_a_map_and_a_wrong_label_is_suspect(path, data):
    def labels(y):
        return [(one + 1) % 4 if row == 7 else one for row, one in enumerate(y.tolist())]

    with open_with(path, HROH(16, random_state=0, n_components=32), 300, data, labels) as collection:
        shown = collection.map()
        assert shown.ids == list(range(300))
        assert shown.labels == [item.labels for item in collection.get(shown.ids)]
        points, y = np.column_stack([shown.x, shown.y]), np.array(shown.labels)
        distances = np.linalg.norm(points[:, None] - points, axis=2)
        np.fill_diagonal(distances, np.inf)
        assert (y[distances.argmin(axis=1)] == y).mean() > 0.95
        assert 7 in shown.suspects and len(shown.suspects) < 15
        assert set(shown.suspects) == {one.id for one in collection.suspects(300)}
        again = collection.map()
        assert (shown.x == again.x).all()
        assert (shown.y == again.y).all()


def test_a_map_of_some_items_shows_mostly_the_same_after_a_change(place, data):
    with place.open(LSH(12, random_state=0), "manual") as collection:
        X, _ = data.take(500)
        collection.upsert(range(490), X[:490])
        before = collection.map(limit=100)
        assert len(set(before.ids)) == 100
        assert before.labels == [None] * 100
        collection.upsert(range(490, 500), X[490:])
        assert len({*before.ids} & {*collection.map(limit=100).ids}) > 85
        with pytest.raises(InvalidInputError, match="limit"):
            collection.map(limit=0)


@pytest.mark.parametrize(
    "hasher", [LSH(1, random_state=0), HROH(8, random_state=0, n_components=32), HCOH(8, random_state=0)]
)
@pytest.mark.parametrize("n_items", [0, 1, 2, 6])
def test_few_items_have_a_map(path, data, hasher, n_items):
    with open_with(path, hasher, n_items, data, lambda y: ["one"] * len(y)) as collection:
        shown = collection.map()
        assert (len(shown.ids), shown.x.shape, shown.y.shape) == (n_items, (n_items,), (n_items,))
        assert np.isfinite([*shown.x, *shown.y]).all()
        assert (shown.version, shown.suspects) == (n_items or None, [])


@pytest.mark.parametrize("rows", [[[3e38, 1], [-3e38, 2], [0, 0]] * 4, [[1.0]] * 9, [[float(i)] for i in range(9)]])
def test_a_map_of_odd_scores_is_finite(rows):
    points = insight._in_the_plane(np.array(rows, np.float32))
    assert points.shape == (len(rows), 2)
    assert np.isfinite(points).all()


def test_items_without_codes_have_no_map(path, data):
    with Collection.open(path, HCOH(8, random_state=0)) as collection:
        collection.upsert(range(5), data.take(5)[0])  # nothing to learn from
        assert collection.map().ids == []


def test_what_is_shown_is_bounded(path, data, monkeypatch):
    monkeypatch.setattr(insight, "_MAX_VALUES", 12 * 30)
    with open_with(path, LSH(12, random_state=0), 200, data, lambda y: range(200)) as collection:
        assert len(collection.map().ids) == 30
