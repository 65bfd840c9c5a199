import numpy as np
import pytest

from onlinehash import HCOH, HROH, LSH, Collection
from onlinehash.codes import pack_signs, unpack_bits
from onlinehash.collection import insight
from onlinehash.exceptions import InvalidInputError


def open_with(path, hasher, n_items, data, labels=None):
    collection = Collection.open(path, hasher, "manual")
    X, y = data.take(n_items)
    if n_items:
        collection.upsert(range(n_items), X, y if labels is None else labels(y))
        collection.refresh()
    return collection


def test_a_map_is_two_principal_components_of_the_scores(path, data):
    with open_with(path, HROH(16, random_state=0, sharpness=3.0, n_components=32), 300, data) as collection:
        shown = collection.map()
        assert shown.ids == list(range(300))
        items = collection.get(shown.ids)
        assert shown.labels == [item.labels for item in items]
        scores = collection.encoder.class_scores(np.array([item.vectors for item in items]))
        assert scores.shape == (300, 4)
        centred = scores - scores.mean(axis=0)
        left, lengths, _ = np.linalg.svd(centred, full_matrices=False)
        for axis, values in enumerate((shown.x, shown.y)):
            np.testing.assert_allclose(np.abs(values), np.abs(left[:, axis] * lengths[axis]), atol=1e-4)
        np.testing.assert_allclose(shown.explained, lengths[:2] ** 2 / (lengths**2).sum(), rtol=1e-5)
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
@pytest.mark.parametrize("n_items", [0, 1, 2])
def test_few_items_have_a_map_and_codewords(path, data, hasher, n_items):
    with open_with(path, hasher, n_items, data, lambda y: ["one"] * len(y)) as collection:
        shown, words = collection.map(), collection.codewords()
        assert (len(shown.ids), shown.x.shape, shown.y.shape) == (n_items, (n_items,), (n_items,))
        assert np.isfinite([*shown.x, *shown.y, *shown.explained]).all()
        assert [(one.label, one.n_items) for one in words.classes] == [("one", n_items)] * bool(n_items)
        assert (words.version, words.n_bits) == (n_items or None, hasher.n_bits)


def test_a_map_of_scores_that_are_far_apart_is_finite():
    points, explained = insight._principal(np.array([[3e38, 1], [-3e38, 2], [0, 0]], np.float32))
    assert np.isfinite(points).all()
    np.testing.assert_allclose(explained, (1, 0), atol=1e-12)


def test_items_without_labels_have_no_classes(path, data):
    with Collection.open(path, HCOH(8, random_state=0)) as collection:
        collection.upsert(range(5), data.take(5)[0])  # nothing to learn from
        assert collection.map().ids == []
        assert collection.codewords().classes == []


@pytest.mark.parametrize(
    "hasher", [HCOH(12, random_state=0), HROH(20, random_state=0, general_bits=4, n_components=32)]
)
def test_codewords_stand_beside_the_bits_of_their_classes(place, data, hasher):
    with place.open(hasher, "manual") as collection:
        X, y = data.take(200)
        collection.upsert(range(200), X, [[int(one), 7] if one == 0 else int(one) for one in y])
        collection.refresh()
        found, learned = collection.codewords(), collection.hasher
        assert (found.n_classes, found.n_bits, found.version) == (5, hasher.n_bits, 200)
        assert found.n_class_bits == 12 if isinstance(hasher, HCOH) else 16
        words = dict(zip(learned.classes_.tolist(), learned.codewords_, strict=True))
        ids, codes = collection.codes()
        bits = unpack_bits(codes, hasher.n_bits)
        for one in found.classes:
            assert (one.codeword == pack_signs(words[one.label][None])[0]).all()
            members = np.isin(ids, [item.id for item in collection.items(labels=one.label)])
            assert one.n_items == members.sum()
            np.testing.assert_allclose(one.ones, bits[members].mean(axis=0))
    with place.open(readonly=True) as reader:
        seen = reader.codewords()
        assert [(one.label, one.codeword.tolist()) for one in seen.classes] == [
            (one.label, one.codeword.tolist()) for one in found.classes
        ]


def test_what_is_shown_is_bounded(path, data, monkeypatch):
    monkeypatch.setattr(insight, "_MAX_CLASSES", 3)
    monkeypatch.setattr(insight, "_MAX_SAMPLE", 20)
    monkeypatch.setattr(insight, "_MAX_VALUES", 12 * 30)
    with open_with(path, LSH(12, random_state=0), 200, data, lambda y: range(200)) as collection:
        words = collection.codewords()
        assert (words.n_classes, len(words.classes), words.n_class_bits) == (200, 3, 0)
        assert all(one.codeword is None and len(one.ones) in (0, 12) for one in words.classes)
        assert len(collection.map().ids) == 30
