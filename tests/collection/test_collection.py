import numpy as np
import pytest
from tests.collection.brute import by_distance, contents, pairs, ranking

import onlinehash
from onlinehash import HCOH, LSH, Collection, asymmetric_distances
from onlinehash.exceptions import (
    DataNotFoundError,
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
    StorageError,
    TooManyResultsError,
    UnknownIdError,
    UnknownNameError,
)


def test_what_is_added_can_be_had_again(small):
    collection, X, y = small
    collection.upsert(100, X[0], 3, payload={"title": "one"})
    collection.upsert([101, 102], X[1:3], [[1, 2], None], payload=[None, [1, "b"]])
    assert len(collection) == 43
    assert 100 in collection
    assert 7777 not in collection
    assert "100" not in collection
    assert list(collection) == [*range(40), 100, 101, 102]
    items = collection.get([102, 100, 101, 5])
    assert [item.id for item in items] == [102, 100, 101, 5]
    assert [item.labels for item in items] == [None, 3, (1, 2), y[5]]
    assert [item.payload for item in items] == [[1, "b"], {"title": "one"}, None, None]
    assert np.array_equal(items[1].vectors, X[0])
    assert {item.version for item in items} == {40}


def test_ids_may_be_strings_and_come_out_in_their_order(place, data):
    X, y = data.take(30)
    ids = [f"id {i}" for i in range(30)]
    with place.open("hcoh") as collection:
        collection.upsert(ids[::2], X[::2], y[::2])
        collection.upsert(ids[1::2], X[1::2], y[1::2])
        assert list(collection) == sorted(ids)
        assert pairs(collection.search(X[3], 30)) == ranking(collection, X[3])
        assert np.array_equal(collection.get("id 7")[0].vectors, X[7])
        with pytest.raises(InvalidInputError, match="ids holds int; the ids of this collection are str"):
            collection.upsert([1], X[:1], y[:1])


def test_search_is_exact_with_ties_by_id(small, data):
    collection, _, _ = small
    queries = data.take(5)[0]
    for query, hits in zip(queries, collection.search(queries, 25), strict=True):
        assert pairs(hits) == ranking(collection, query)[:25]
    assert len(collection.search(queries[0], 1000)) == 40
    radius = collection.range_search(queries[0], 3)
    assert pairs(radius) == [pair for pair in ranking(collection, queries[0]) if pair[0] <= 3]


def test_filters_give_the_nearest_of_those_that_pass(small, data):
    collection, X, _ = small
    collection.upsert([50, 51], X[:2], [[0, 1], [2]])
    collection.upsert(52, X[3])
    query = data.take(1)[0][0]
    has_0 = {item.id for item in collection.items() if item.labels == 0 or item.labels == (0, 1)}
    assert 50 in has_0
    found = collection.search(query, 7, labels=0)
    assert pairs(found) == ranking(collection, query, lambda item: item.id in has_0)[:7]
    some = [51, 3, 50, 9, 12, 7000, 3]
    assert sorted(collection.search(query, 9, ids=some).ids) == [3, 9, 12, 50, 51]
    assert set(collection.search(query, 9, ids=some, labels=[0, 1]).ids) == set(some) & (
        {item.id for item in collection.items() if item.labels in (0, 1, (0, 1))}
    )
    assert collection.search(query, 9, labels=99).ids == []
    assert collection.range_search(query, 12, ids=[]).ids == []
    assert set(collection.range_search(query, 12, labels=0).ids) == has_0


def test_a_filter_sees_labels_that_change(small, data):
    collection, X, _ = small
    before = set(collection.search(X[0], 100, labels=3).ids)
    id = next(id for id in range(40) if id not in before)
    collection.update(id, labels=3)
    assert set(collection.search(X[0], 100, labels=3).ids) == before | {id}
    collection.delete(id)
    assert set(collection.search(X[0], 100, labels=3).ids) == before


@pytest.mark.parametrize("measure", ["cosine", "l2"])
def test_rescoring_orders_by_the_stored_features(small, data, measure):
    collection, X, _ = small
    query = data.take(1)[0][0]
    if measure == "l2":
        distances = np.linalg.norm(X - query, axis=1)
    else:
        distances = 1 - X @ query / np.linalg.norm(X, axis=1) / np.linalg.norm(query)
    hits = collection.search(query, 5, rescore=measure)  # all 40 are candidates
    assert hits.ids == np.argsort(distances)[:5].tolist()
    assert np.allclose(hits.distances, np.sort(distances)[:5], atol=1e-6)


def test_asymmetric_search_ranks_by_the_real_values_of_the_query(small, data):
    collection, X, _ = small
    query = data.take(1)[0]
    soft, codes = collection.encoder.encode_asymmetric(query), collection.encoder.encode(X)
    distances = asymmetric_distances(soft, codes)[0]
    expected = by_distance(collection, distances.tolist(), list(range(40)))[:15]
    assert pairs(collection.search(query, 15, asymmetric=True)[0]) == expected


def test_adding_a_known_id_replaces_the_item(small):
    collection, X, _ = small
    collection.upsert([3, 90], X[[10, 11]], [1, 2], payload=["new", None])
    assert len(collection) == 41
    item = collection.get(3)[0]
    assert (item.labels, item.payload) == (1, "new")
    assert np.array_equal(item.vectors, X[10])
    assert pairs(collection.search(X[10], 50)) == ranking(collection, X[10])


def test_update_changes_only_what_is_given(small):
    collection, X, _ = small
    collection.update(3, payload="note")
    assert collection.stats().n_learned == 40
    collection.update([3, 4], labels=[0, None])
    collection.update(4, X[20])
    items = collection.get([3, 4])
    assert [item.labels for item in items] == [0, None]
    assert [item.payload for item in items] == ["note", None]
    assert np.array_equal(items[0].vectors, X[3])
    assert np.array_equal(items[1].vectors, X[20])
    assert collection.stats().n_learned == 41
    assert pairs(collection.search(X[20], 40)) == ranking(collection, X[20])
    with pytest.raises(UnknownIdError, match="no item with id 99"):
        collection.update([3, 99], payload=["lost", "lost"])
    assert collection.get(3)[0].payload == "note"


def test_deleted_items_are_gone(small):
    collection, X, _ = small
    collection.delete([0, 1, 2])
    assert len(collection) == 37
    assert 0 not in collection
    assert not {0, 1, 2} & set(collection.search(X[0], 40).ids)
    with pytest.raises(UnknownIdError, match="no item with id 0"):
        collection.delete([5, 0])
    collection.delete([5, 0], missing="ignore")
    assert len(collection) == 36
    with pytest.raises(UnknownIdError, match="no item with id 5"):
        collection.get([5])


def test_items_without_labels_are_found_but_not_learned_from(place, data):
    X, y = data.take(30)
    with place.open(HCOH(n_bits=8), "manual") as collection:
        collection.upsert(range(10), X[:10])
        stats = collection.stats()
        assert (stats.n_items, stats.n_searchable, stats.n_learned, stats.generation) == (10, 0, 0, 0)
        assert collection.search(X[0]).ids == []
        assert [len(hits) for hits in collection.range_search(X[:2], 3)] == [0, 0]
        assert collection.get(3)[0].version is None
        collection.upsert(range(10, 20), X[10:20], [*y[10:19].tolist(), None])
        stats = collection.stats()
        assert (stats.n_items, stats.n_searchable, stats.n_learned, stats.version) == (20, 20, 9, 9)
        assert pairs(collection.search(X[0], 30)) == ranking(collection, X[0])


def test_an_unsupervised_hasher_learns_from_every_item(place, data):
    X, y = data.take(20)
    with place.open(LSH(n_bits=8), "manual") as collection:
        collection.upsert(range(10), X[:10])
        collection.upsert(range(10, 20), X[10:], y[10:])
        assert collection.stats().n_learned == 20
        assert set(collection.search(X[0], 20, labels=int(y[10])).ids) == {i for i in range(10, 20) if y[i] == y[10]}


REFUSED = [
    (InvalidInputError, "twice", lambda c, X: c.upsert([7, 8, 7], X[:3], [0, 1, 2])),
    (InvalidInputError, "only integers or only strings", lambda c, X: c.upsert([1, "a"], X[:2])),
    (InvalidInputError, "ids of this collection are int", lambda c, X: c.upsert("a", X[0])),
    (InvalidInputError, "beyond int64", lambda c, X: c.upsert(2**63, X[0])),
    (InvalidInputError, "integers or strings", lambda c, X: c.upsert(None, X[0])),
    (InvalidInputError, "bool", lambda c, X: c.upsert([True], X[:1])),
    (InvalidFeaturesError, "2 rows for 3 ids", lambda c, X: c.upsert([1, 2, 3], X[:2])),
    (InvalidFeaturesError, "expecting 6 features", lambda c, X: c.upsert(1, X[0, :4])),
    (InvalidFeaturesError, "NaN", lambda c, X: c.upsert(1, X[0] * np.nan)),
    (InvalidFeaturesError, "too large for float32", lambda c, X: c.upsert(1, X[0].astype(float) * 1e60)),
    (InvalidLabelsError, "labels of this collection are int", lambda c, X: c.upsert(1, X[0], "cat")),
    (InvalidLabelsError, "labels has 1 labels", lambda c, X: c.upsert([1, 2], X[:2], [1])),
    (InvalidInputError, "one per id", lambda c, X: c.upsert([1, 2], X[:2], payload=["a"])),
    (InvalidInputError, "JSON", lambda c, X: c.upsert(1, X[0], payload=object())),
    (InvalidInputError, "JSON", lambda c, X: c.upsert(1, X[0], payload=float("inf"))),
    (InvalidInputError, "Store a link", lambda c, X: c.upsert(1, X[0], payload="x" * 70_000)),
    (UnknownIdError, "no item with id 99", lambda c, X: c.update([1, 99], X[:2])),
    (InvalidFeaturesError, "expecting 6 features", lambda c, X: c.update(1, X[0, :5])),
    (InvalidInputError, "missing='perhaps'", lambda c, X: c.delete(1, missing="perhaps")),
    (InvalidInputError, "k=0", lambda c, X: c.search(X[0], 0)),
    (InvalidFeaturesError, "expecting 6 features", lambda c, X: c.search(X[0, :5])),
    (InvalidInputError, "rescore='near'", lambda c, X: c.search(X[0], rescore="near")),
    (InvalidInputError, "radius", lambda c, X: c.range_search(X[0], -1)),
]


@pytest.mark.parametrize(("error", "words", "call"), REFUSED, ids=[words for _, words, _ in REFUSED])
def test_refused_input_changes_nothing(small, error, words, call):
    collection, X, _ = small
    before, learned = contents(collection), collection.hasher.to_bytes()
    with pytest.raises(error, match=words):
        call(collection, X)
    assert contents(collection) == before
    assert collection.hasher.to_bytes() == learned
    collection.upsert(77, X[0], 1)
    assert 77 in collection


def test_labels_that_the_hasher_refuses_are_not_stored(place, data):
    words = {0: np.ones(8), 1: -np.ones(8)}
    X, _ = data.take(3)
    with place.open(HCOH(n_bits=8, codebook=words)) as collection:
        with pytest.raises(InvalidLabelsError):
            collection.upsert([1, 2], X[:2], [0, 5])
        assert len(collection) == 0
        collection.upsert([1, 2], X[:2], [0, 1])
        with pytest.raises(InvalidLabelsError):
            collection.upsert([2, 3], X[:2], [0, 5])
        assert len(collection) == 2
        assert collection.stats().n_learned == 2


def test_features_may_be_stored_in_half_precision(place, data):
    X, y = data.take(20)
    with place.open("hcoh", vector_dtype="float16") as collection:
        collection.upsert(range(20), X, y)
        assert collection.get(3)[0].vectors.dtype == np.float16
        assert np.array_equal(collection.get(3)[0].vectors, X[3].astype(np.float16))
        collection.upsert(3, np.full(6, 6e4, np.float16))  # whose squares are beyond float16
        assert (collection.get(3)[0].vectors == np.float16(6e4)).all()
        with pytest.raises(InvalidFeaturesError, match="NaN or inf"):
            collection.upsert(3, np.full(6, np.nan, np.float16))
        with pytest.raises(InvalidFeaturesError, match="too large for float16"):
            collection.upsert(30, X[0] * 1e6)
    with pytest.raises(InvalidInputError, match="stores float16"):
        place.open(vector_dtype="float32")


def test_creating_needs_a_folder_and_the_right_to_write(path, data):
    with pytest.raises(DataNotFoundError, match="There is no folder"):
        Collection.open(path.parent / "nowhere" / "items.oh", "hcoh")
    with pytest.raises(DataNotFoundError, match=r"no collection .*; open it for writing to create it"):
        Collection.open(path, readonly=True)
    with pytest.raises(UnknownNameError):
        Collection.open(path, "hchoh")
    with pytest.raises(InvalidInputError, match="n_bits=0"):
        Collection.open(path, HCOH(n_bits=0))
    with pytest.raises(InvalidInputError, match="vector_dtype='int8'"):
        Collection.open(path, "hcoh", vector_dtype="int8")
    with pytest.raises(InvalidInputError, match='refresh=\'often\' is not "auto", "manual" or a number'):
        Collection.open(path, "hcoh", "often")
    assert not path.exists()


def test_a_closed_collection_says_so(small):
    collection, X, _ = small
    collection.close()
    collection.close()
    with pytest.raises(StorageError, match="closed"):
        collection.upsert(1, X[0])
    with pytest.raises(StorageError, match="closed"):
        collection.get(1)


def test_the_hasher_given_is_copied(place, data):
    X, y = data.take(20)
    mine = HCOH(n_bits=8, random_state=1).partial_fit(X, y)
    with place.open(mine) as collection:
        collection.upsert(range(20), X, y)
        assert mine.n_samples_seen_ == 20
        assert collection.hasher.n_samples_seen_ == 40


def test_codes_come_out_by_id(small):
    collection, X, _ = small
    ids, codes = collection.codes()
    assert ids == list(range(40))
    assert np.array_equal(codes, collection.encoder.encode(X))


def test_nothing_is_added_for_no_ids(small):
    collection, _, _ = small
    collection.upsert([], np.empty((0, 6)))
    collection.update([], payload=[])
    collection.delete([])
    assert collection.get([]) == []
    assert len(collection) == 40
    assert onlinehash.Collection is Collection


def test_checkpoints_are_stored_with_the_items_they_came_with(small, place):
    collection, X, y = small
    assert collection.checkpoint("queue") is None
    collection.upsert([100, 101], X[:2], y[:2], checkpoint={"queue": {"last": 17}})
    collection.delete([100], checkpoint={"other": [1]})
    with pytest.raises(UnknownIdError):
        collection.delete([100], checkpoint={"queue": 18})
    with pytest.raises(InvalidFeaturesError):
        collection.upsert([102], X[:1, :2], y[:1], checkpoint={"queue": 18})
    for checkpoint in ([1], {1: 2}, {"queue": object()}, {"queue": float("nan")}):
        with pytest.raises(InvalidInputError, match="checkpoint"):
            collection.upsert([102], X[:1], y[:1], checkpoint=checkpoint)
    assert 102 not in collection
    collection.close()
    with place.open() as again:
        assert again.checkpoint("queue") == {"last": 17}
        again.delete([100], missing="ignore", checkpoint={"queue": 19})
        again.upsert([], np.empty((0, 6)), checkpoint={"other": 2})
        assert (again.checkpoint("queue"), again.checkpoint("other")) == (19, 2)


def test_items_are_counted_by_label(small):
    collection, X, y = small
    collection.upsert([100, 101, 102], X[:3], [[1, 9], None, [9]])
    expected = {label: int((y == label).sum()) for label in range(4)}
    expected[1] += 1
    assert collection.label_counts() == {**expected, 9: 2, None: 1}
    assert list(collection.label_counts()) == [0, 1, 2, 3, 9, None]


def test_a_range_search_stops_at_the_number_of_results_allowed(small):
    collection, X, _ = small
    found = collection.range_search(X[:3], 12, max_results=120)
    assert [len(one) for one in found] == [40, 40, 40]
    assert found.ids == collection.range_search(X[:3], 1 << 80).ids
    for queries, most in ((X[:3], 119), (X[0], 39)):
        with pytest.raises(TooManyResultsError, match=f"more than {most}; use a smaller one"):
            collection.range_search(queries, 12, max_results=most)


def test_a_checkpoint_is_stored_with_every_kind_of_change(small):
    collection, X, _ = small
    before = collection.sequence
    collection.update(1, labels=2, checkpoint={"a": 1})
    collection.update(1, payload="x", checkpoint={"b": 2})
    collection.update(2, X[3], checkpoint={"c": 3})
    collection.update([], checkpoint={"d": 4})
    assert [collection.checkpoint(name) for name in "abcd"] == [1, 2, 3, 4]
    assert collection.sequence == before + 2


def test_a_checkpoint_that_the_caller_changes_and_passes_again_is_stored(small, place):
    collection, X, y = small
    offsets = {"partition 0": 1}
    collection.upsert([100], X[:1], y[:1], checkpoint={"queue": offsets})
    offsets["partition 0"] = 2
    assert collection.checkpoint("queue") == {"partition 0": 1}
    collection.upsert([101], X[:1], y[:1], checkpoint={"queue": offsets})
    collection.checkpoint("queue").clear()
    collection.close()
    with place.open() as again:
        assert again.checkpoint("queue") == {"partition 0": 2}
