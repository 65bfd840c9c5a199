"""Filters on the payload: the rule, what is refused, and the whole way of a user."""

import numpy as np
import pytest
from hypothesis import given, settings
from tests.collection.brute import pairs, ranking
from tests.collection.filter_oracle import filters, passes, payloads

from onlinehash import HCOH, Collection
from onlinehash.collection.filters import parse_where
from onlinehash.exceptions import InvalidInputError, StorageError, UnknownIdError

VALUES = [1, 1.0, "1", True, False, None, 0, "", [1], {"b": 1}, 2.5, -3, "a", "B", 2**60 + 1, float(2**40)]
LISTS = [[], [1], [1.0, "1"], [True, None], [[1], {"b": 1}], ["a", "B", "a"], "a", {"0": "a"}, None]


@pytest.fixture
def shop(place, data):
    """Items whose payloads hold one value each of every type, and one item without a payload."""
    X, y = data.take(len(VALUES) + 2)
    payload = [{"v": value, "n": {"i": i}} for i, value in enumerate(VALUES)]
    with place.open(HCOH(n_bits=12, random_state=0), "manual") as collection:
        collection.upsert(range(len(VALUES) + 2), X, y, [*payload, {"other": 1}, None])
        yield collection


def passing(collection, where):
    """Return the ids that pass, which every way to ask agrees on."""
    ids = [item.id for item in collection.items(where=where, chunk=3)]
    assert collection.count(where) == len(ids)
    assert sum(collection.label_counts(where).values()) == len(ids)
    query = collection[0].vectors
    expected = ranking(collection, query, lambda item: item.id in ids)
    assert pairs(collection.search(query, 100, where=where)) == expected
    assert pairs(collection.range_search(query, 12, where=where)) == expected
    return ids


CONDITIONS = [
    (1, [0, 1]),
    (1.0, [0, 1]),
    ("1", [2]),
    (True, [3]),
    (False, [4]),
    (None, [5]),
    ({"$exists": True}, range(16)),
    ({"$exists": False}, [16, 17]),
    ({"$ne": 1}, range(2, 18)),
    ({"$in": [1, "1", None, True]}, [0, 1, 2, 3, 5]),
    ({"$in": []}, []),
    ({"$nin": [1, "1"]}, range(3, 18)),
    ({"$gt": 0}, [0, 1, 10, 14, 15]),
    ({"$gte": 0, "$lt": 2.5}, [0, 1, 6]),
    ({"$lt": "a"}, [2, 7, 13]),
    ({"$gt": "A"}, [12, 13]),
    ({"$not": {"$gt": 0}}, [*range(2, 10), 11, 12, 13, 16, 17]),
    (2**60 + 1, [14]),
    (2**60, []),
    (np.float32(2.5), [10]),
    (np.int64(-3), [11]),
]


def test_types_never_mix_and_every_comparison_is_true_or_false(shop):
    for _ in range(2):
        for condition, expected in CONDITIONS:
            assert passing(shop, {"v": condition}) == list(expected), condition
        shop.create_index("v")


def test_lists_are_filtered_by_what_they_contain(place, data):
    X, y = data.take(len(LISTS) + 2)
    with place.open(HCOH(n_bits=12, random_state=0), "manual") as collection:
        payload = [{"tags": {"all": value}} for value in LISTS]
        collection.upsert(range(len(LISTS) + 2), X, y, [*payload, ["a"], None])
        for _ in range(2):
            for value, expected in ((1, [1, 2]), ("1", [2]), (True, [3]), (None, [3]), ("a", [5]), ("A", []), (0, [])):
                assert passing(collection, {"tags.all": {"$contains": value}}) == expected, value
                others = [id for id in range(len(LISTS) + 2) if id not in expected]
                assert passing(collection, {"tags.all": {"$not": {"$contains": value}}}) == others
            assert passing(collection, {"tags.all": {"$contains": "a", "$exists": True}}) == [5]
            assert passing(collection, {"$or": [{"tags.all": "a"}, {"tags.all": {"$contains": "a"}}]}) == [5, 6]
            collection.create_index("tags.all")


def test_a_filter_that_compares_lists_with_a_value_says_how_to_ask(items, caplog):
    items.update(range(3), payload=[{"tags": ["red"]}, {"tags": []}, {"colour": "red"}])
    assert items.count({"tags": "red"}) == 0
    assert [record.getMessage() for record in caplog.records] == [
        "where: 'tags' holds lists, which equal no value; use {'tags': {'$contains': ...}}."
    ]
    caplog.clear()
    assert items.count({"tags": {"$contains": "blue"}}) == items.count({"colour": "blue"}) == 0
    assert items.count({"tags": {"$contains": "red"}}) == items.count({"colour": "red"}) == 1
    assert not caplog.records


def test_a_filter_that_nothing_passes_is_answered_by_a_reader_that_is_behind(place, data):
    """It looks at some payloads for a hint; those of items that are gone by then are no damage."""
    X, y = data.take(40)
    with place.open(HCOH(n_bits=12, random_state=0), "manual") as writer:
        writer.upsert(range(40), X, y, [{"a": 1}] * 40)
        with place.open(readonly=True) as reader:
            assert len(reader) == 40
            writer.delete(range(20))
            assert reader.search(X[0], where={"a": 2}, wait=False).ids == []


def test_filters_are_combined_and_paths_have_dots(shop):
    assert passing(shop, {"n.i": {"$lt": 5}, "v": 1}) == [0, 1]
    assert passing(shop, {"$or": [{"v": "1"}, {"n.i": 9}]}) == [2, 9]
    assert passing(shop, {"$and": [{"n.i": {"$gt": 2}}, {"$not": {"n.i": {"$gt": 4}}}]}) == [3, 4]
    assert passing(shop, {"v.b": 1}) == [9]
    assert passing(shop, {"v.0": 1}) == []  # a list has no keys


def test_filters_go_with_labels_and_ids(shop, data):
    query = data.take(1)[0][0]
    where = {"n.i": {"$gte": 3}}
    expected = ranking(shop, query, lambda item: item.labels in (1, 2) and item.id in range(3, 12))
    found = shop.search(query, 100, labels=[1, 2], ids=range(12), where=where)
    assert pairs(found) == expected
    assert pairs(shop.range_search(query, 12, labels=[1, 2], ids=range(12), where=where)) == expected


def test_a_shop_is_filled_in_batches_filtered_paged_and_cleaned(place, data):
    """The whole way of a user."""
    X, y = data.take(400)
    payload = [{"price": i % 50, "maker": {"country": "DEFR"[i % 2 * 2 :][:2]}, "sold": i % 9 == 0} for i in range(400)]
    cheap = {"price": {"$lt": 10}, "maker.country": "DE", "sold": {"$ne": True}}
    kept = {i for i in range(400) if i % 50 < 10 and i % 2 == 0 and i % 9}
    with place.open(HCOH(n_bits=16, random_state=0)) as shop:
        for start in range(0, 400, 80):
            rows = slice(start, start + 80)
            shop.upsert(range(start, start + 80), X[rows], y[rows], payload[rows])
            shop.search(X[0], where=cheap)  # in between, so that answers are remembered
            if start == 160:
                shop.create_index("price")
        shop.refresh()
        expected = ranking(shop, X[7], lambda item: item.id in kept)
        assert pairs(shop.search(X[7], 400, where=cheap)) == expected
    with place.open() as shop:
        found = shop.search(X[7], 10, where=cheap, include=["labels", "payload"])
        assert all(row["price"] < 10 for row in found.payload)
        assert found.labels == [y[id] for id in found.ids]
        assert pairs(shop.search(X[7], 400, where=cheap)) == expected
        assert {item.id for item in shop.items(where=cheap)} == kept
        assert shop.delete(where={"sold": True}) == 45
        assert shop.count(cheap) == len(kept)
        assert len(shop) == shop.count({"sold": False}) == 355


@settings(max_examples=60, deadline=None)
@given(filters)
def test_every_filter_is_parsed_to_a_tree_that_can_be_remembered(where):
    assert parse_where(where) == parse_where(where)
    assert hash(parse_where(where)) == hash(parse_where(where))


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ([], "is not a filter"),
        ({}, "has no condition"),
        ({"a": {}}, "'a' has no condition"),
        ({"$near": 1}, "unknown operator '\\$near'"),
        ({"a": {"$near": 1}}, "unknown operator '\\$near' for 'a'"),
        ({"a": {"b": 1}}, "unknown operator 'b' for 'a'"),
        ({"a": [1]}, "\\$eq of 'a' is \\[1\\]"),
        ({"a": {"$lt": None}}, "which has no order"),
        ({"a": {"$in": "text"}}, "takes a list of values"),
        ({"a": {"$exists": 1}}, "use True or False"),
        ({"a": {"$contains": [1]}}, "\\$contains of 'a' is \\[1\\]"),
        ({"a": float("nan")}, "compare with a string, a number"),
        ({"a": 2**63}, "at most 64 bits"),
        ({"a": "\0"}, "without U\\+0000"),
        ({"$and": []}, "takes a list of filters"),
        ({"a..b": 1}, "is not a path"),
        ({'a"b': 1}, "is not a path"),
        ({3: 1}, "3 is not a path"),
        ({"a": {"$in": list(range(10_001))}}, "more than 10000 values"),
        ({"$or": [{"a": i} for i in range(201)]}, "more than 200 conditions"),
    ],
)
def test_what_is_no_filter_is_refused_with_the_rule(items, where, said):
    with pytest.raises(InvalidInputError, match=said):
        items.search(items[0].vectors, where=where)


def test_a_filter_that_is_nested_too_deep_is_refused(items):
    where = {"a": 1}
    for _ in range(100_000):
        where = {"$not": where}
    with pytest.raises(InvalidInputError, match="levels deep"):
        items.count(where)


def test_the_largest_filters_are_answered(shop):
    many = {"$or": [{"v": {"$in": [f"{i} {j}" for j in range(50)]}} for i in range(199)] + [{"n.i": 3}]}
    assert passing(shop, many) == [3]
    deep = {"n.i": 3}
    for _ in range(14):
        deep = {"$not": deep}
    assert passing(shop, deep) == [3]


def test_one_and_true_are_remembered_apart(items):
    items.update([1, 2], payload=[{"a": 1}, {"a": True}])
    query = items[0].vectors
    assert [items.search(query, where={"a": value}).ids for value in (1, True, 1.0)] == [[1], [2], [1]]


def test_changes_are_seen_by_the_next_filter(place, data):
    X, y = data.take(30)
    where = {"a": {"$lt": 3}}
    with place.open(HCOH(n_bits=12, random_state=0), "manual") as writer:
        writer.upsert(range(20), X[:20], y[:20], [{"a": i} for i in range(20)])
        with place.open(readonly=True) as reader:
            for collection in (writer, reader):
                assert set(collection.search(X[0], 30, where=where).ids) == {0, 1, 2}
            for change, expected in (
                (lambda: writer.update(7, payload={"a": 1}), {0, 1, 2, 7}),
                (lambda: writer.upsert([20, 21], X[20:22], y[20:22], [{"a": 2}, {"a": 3}]), {0, 1, 2, 7, 20}),
                (lambda: writer.upsert(1, X[1], 3, {"a": 9}), {0, 2, 7, 20}),
                (lambda: writer.update(0, X[9], 2), {0, 2, 7, 20}),
                (lambda: writer.delete(2), {0, 7, 20}),
                (writer.refresh, {0, 7, 20}),
                (lambda: writer.delete(where={"a": 2}), {0, 7}),
                (lambda: writer.delete(where={"a": {"$gt": 100}}), {0, 7}),
            ):
                change()
                for collection in (writer, reader):
                    assert set(collection.search(X[0], 30, where=where).ids) == expected


def test_an_index_changes_nothing_but_the_time_and_stays(place, data):
    X, y = data.take(30)
    with place.open(HCOH(n_bits=12, random_state=0), "manual") as collection:
        collection.create_index("a.b")  # before the first item
        collection.upsert(range(20), X[:20], y[:20], [{"a": {"b": i}} for i in range(20)])
        collection.create_index("größe")
        collection.create_index("a.b")
        assert collection.indexes() == ["a.b", "größe"]
        collection.upsert(20, X[20], y[20], {"größe": "x" * 60_000, "a": {"b": 4}})
        assert passing(collection, {"a.b": {"$lt": 5}}) == [0, 1, 2, 3, 4, 20]
        assert passing(collection, {"größe": {"$gte": "x" * 59_999}}) == [20]
        assert passing(collection, {"größe": "x" * 59_999}) == []
    with place.open() as again:
        assert again.indexes() == ["a.b", "größe"]
        again.drop_index("größe")
        with pytest.raises(InvalidInputError, match=r"no index of 'c'; there are: a\.b"):
            again.drop_index("c")
    with place.open(readonly=True) as reader:
        assert reader.indexes() == ["a.b"]
        with pytest.raises(StorageError):
            reader.create_index("c")


def test_several_indexes_answer_a_filter_together(items):
    items.update(range(40), payload=[{"a": i, "b": f"{i % 4}", "c": i % 3} for i in range(40)])
    for path in ("a", "b", "c"):
        items.create_index(path)
    where = {"a": {"$gte": 5, "$lt": 25}, "b": {"$in": ["1", "2"]}, "c": {"$ne": 0}, "d": {"$exists": False}}
    expected = [i for i in range(5, 25) if i % 4 in (1, 2) and i % 3]
    assert passing(items, where) == expected
    assert passing(items, {"a": 7, "b": "3"}) == [7]
    assert passing(items, {"a": 7, "b": "2"}) == []


def test_delete_takes_ids_or_a_filter_and_counts(shop):
    with pytest.raises(InvalidInputError, match="ids or where"):
        shop.delete()
    with pytest.raises(InvalidInputError, match="ids or where"):
        shop.delete([1], where={"v": 1})
    assert shop.delete(where={"v": {"$exists": False}}) == 2
    assert shop.delete([0, 99], missing="ignore") == 1
    assert shop.delete(where={"v": "nothing"}) == 0
    assert len(shop) == shop.count() == 15


def test_payloads_that_no_database_filters_by_are_refused(items):
    for wrong in ("a\0b", {"a": ["\ud800"]}, {"\0": 1}):
        with pytest.raises(InvalidInputError, match=r"U\+0000"):
            items.update(0, payload=wrong)
    items.update(0, payload={"a": "\\u0000 😀"})
    assert items.count({"a": "\\u0000 😀"}) == 1


@settings(max_examples=60, deadline=None)
@given(payload=payloads, where=filters)
def test_sqlite_follows_the_rule(tmp_path_factory, payload, where):
    collection = one_item(tmp_path_factory)
    collection.update(0, payload=payload)
    assert collection.count(where) == passes(payload, where)


def one_item(tmp_path_factory, opened=[]):  # noqa: B006 (one collection for all examples)
    if not opened:
        collection = Collection.open(tmp_path_factory.mktemp("one") / "one.oh", "lsh", "manual")
        collection.upsert(0, [1.0, 2.0])
        opened.append(collection)
    return opened[0]


# ---------------------------------------------------------------------- listing


def test_pages_of_items_are_all_items(shop):
    ids, last = [], None
    while page := [item.id for item in shop.items(after=last, limit=5)]:
        ids, last = ids + page, page[-1]
    assert ids == list(shop)
    assert [item.id for item in shop.items(after=3, limit=2, where={"v": {"$ne": "a"}})] == [4, 5]
    assert list(shop.items(limit=0)) == []
    assert [item.id for item in shop.items(limit=7, chunk=3)] == list(range(7))
    with pytest.raises(InvalidInputError):
        shop.items(after="a")


def test_an_item_is_found_by_its_id(shop):
    assert shop[3].payload == {"v": True, "n": {"i": 3}}
    with pytest.raises(UnknownIdError):
        shop[99]
    with pytest.raises(TypeError, match="not one id"):
        shop[[1, 2]]


def test_results_carry_what_is_included(shop, data):
    queries = data.take(2)[0]
    plain = shop.search(queries, 5)
    assert plain.labels is plain.payload is plain.vectors is None
    found = shop.search(queries, 5, include=["labels", "payload", "vectors"])
    assert found.ids == plain.ids
    assert [hit.payload for hit in found[0]] == found.payload[0]
    for row in found:
        items = shop.get(row.ids)
        assert row.labels == [item.labels for item in items]
        assert row.payload == [item.payload for item in items]
        assert np.array_equal(row.vectors, [item.vectors for item in items])
    near = shop.range_search(queries[0], 3, include=["payload"])
    assert near.payload == [item.payload for item in shop.get(near.ids)]
    rescored = shop.search(queries[0], 5, rescore="l2", include=["labels"])
    assert rescored.labels == [item.labels for item in shop.get(rescored.ids)]
    for wrong in ("labels", ["code"], 3):
        with pytest.raises(InvalidInputError, match="include"):
            shop.search(queries, include=wrong)
