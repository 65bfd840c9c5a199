"""Filters that are answered from columns of payloads in memory, against SQLite and a loop over all items."""

import json
import random
import sqlite3
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.collection.filter_oracle import passes

from onlinehash import LSH, Collection
from onlinehash.collection import Never
from onlinehash.collection.filters import parse_where
from onlinehash.collection.stores import sqlite_columns, sqlite_payloads
from onlinehash.collection.stores.payload_runs import read_run
from onlinehash.collection.stores.seq_sets import common_seqs

NUMBERS = (3, 3.0, -7, 0, -0.0, 0.1, 2.5e-17, 1e300, 2**53, 2**53 - 1, 2**70, 2**53 + 1, -(2**63))
VALUES = (*NUMBERS, "3", "a", "a{0}", "é", "\U0001f600", "", True, None, [3])
PATHS = ("n", "a.b", "{x}")
X = np.random.default_rng(0).standard_normal((400, 4)).astype(np.float32)


def settle(*collections):
    """Wait until no column is read any more."""
    for collection in collections:
        while collection._store._wanted:
            time.sleep(0.001)
        collection._store._not_before.clear()


def payload(rng, values):
    """Return a payload that has values at some of the paths."""
    some = {path: rng.choice(values) for path in ("n", "{x}") if rng.random() < 0.8}
    return rng.choice([{**some, "a": {"b": rng.choice(values)}}, some, None])


def filters(rng, values):
    """Return filters, several by each path, with values that are there and some that are not."""
    given = [value for value in (*values, 1, "b", 0.3) if isinstance(value, (int, float, str)) and value is not True]
    plain = [value for value in given if value != 2**70]
    for _ in range(30):
        path, value = rng.choice(PATHS), rng.choice(plain)
        operator = rng.choice(["$eq", "$lt", "$lte", "$gt", "$gte", "$in", "$ne"])
        where = {path: {operator: rng.sample(plain, 3) if operator == "$in" else value}}
        if rng.random() < 0.3:
            where[path] |= {rng.choice(["$gt", "$lte", "$gte"]): rng.choice(plain)}
        yield where if rng.random() < 0.6 else {**where, rng.choice(PATHS): {"$exists": True}, "$not": {"n": -7}}


@pytest.mark.parametrize(
    ("values", "indexed"), [(VALUES, False), (VALUES, True), ((*VALUES, 1e-30, "long " * 50), True)]
)
def test_columns_answer_as_the_oracle_does(tmp_path, monkeypatch, values, indexed):
    """In the writer and a reader, while items come, change and go; and with values that no column holds."""
    monkeypatch.setattr(sqlite_columns, "_AT_ONCE", 20)
    rng, payloads = random.Random(1), {}
    with (
        Collection.open(tmp_path / "items.oh", LSH(8, random_state=0), Never()) as writer,
        Collection.open(tmp_path / "items.oh", readonly=True) as reader,
    ):

        def put(ids):
            payloads.update({id: payload(rng, values) for id in ids})
            writer.upsert(ids, X[ids], payload=[payloads[id] for id in ids])

        def compare():
            for where in filters(rng, values):
                expected = sorted(id for id, given in payloads.items() if passes(given, where))
                for collection in (writer, reader):
                    assert sorted(collection.search(X[0], k=1000, where=where).ids) == expected, where
            settle(writer, reader)

        for path in PATHS if indexed else ():
            writer.create_index(path)
        put(list(range(200)))
        compare()
        compare()
        for start, n_items in ((190, 13), (210, 4), (215, 4), (230, 6)):
            put(list(range(start, start + n_items)))
            compare()
        put(list(range(250, 350)))
        compare()
        payloads[5] = {"n": 3}
        writer.update(5, payload=payloads[5])
        writer.delete([0, 300])
        del payloads[0], payloads[300]
        compare()
        compare()
        for collection in (writer, reader):
            kinds = {bool(column.runs) for column in collection._store._columns.values()}
            assert kinds == ({True} if values is VALUES else {False})


OTHER_PROCESS = """
import sys
from onlinehash import Collection
with Collection.open(sys.argv[1]) as shop:
    shop.update(["item 1", "item 2"], payload=[{"price": 0.25, "brand": "apex"}, {"price": 30}])
    shop.delete(where={"price": {"$gte": 98}})
    shop.upsert("late", [1.0, 2.0, 3.0, 4.0], payload={"price": 5, "brand": "acme"})
"""


@pytest.mark.slow
def test_filters_of_a_shop_are_answered_from_memory(tmp_path, monkeypatch):
    """Indexed and not, of integers, floats and strings, while this and another process change items."""
    monkeypatch.setattr(sqlite_columns, "_AT_ONCE", 1000)
    rng, shelf = random.Random(0), {}
    path, vectors = tmp_path / "shop.oh", np.random.default_rng(0).standard_normal((2200, 4)).astype(np.float32)
    asked = [
        {"price": {"$lt": 20}},
        {"price": {"$gte": 19.5, "$lte": 20}, "brand": "acme"},
        {"brand": {"$in": ["apex", "none"]}, "price": {"$gt": 97.5}},
        {"price": 0.25},
    ]

    def load(shop, ids):
        for start in range(0, len(ids), 400):
            some = ids[start : start + 400]
            given = [{"price": rng.randrange(400) / 4, "brand": rng.choice(["acme", "apex", "zeta"])} for _ in some]
            given = [{**each, "price": int(each["price"])} if rng.random() < 0.5 else each for each in given]
            shop.upsert([f"item {id}" for id in some], vectors[some], payload=given)
            shelf.update({f"item {id}": each for id, each in zip(some, given, strict=True)})

    def compare(*shops):
        for shop in shops:
            for where in asked:
                found = shop.search(vectors[0], k=3000, where=where).ids
                assert set(found) == {id for id, each in shelf.items() if passes(each, where)}, where
            tree, store = parse_where(asked[0]), shop._store
            seqs = store.passing(tree)
            for after in seqs[[10, -10]].tolist():  # so that many items came since, or few
                np.testing.assert_array_equal(store.passing(tree, after), seqs[seqs > after])

    def compare_in_memory(*shops):
        compare(*shops)  # which starts to read what is missing
        settle(*shops)
        for shop in shops:
            shop._index._passing_items._known.clear()
        with monkeypatch.context() as patch:
            patch.setattr(sqlite_payloads, "_NEW", 0)
            for name in ("_passing_seqs", "_passing_among", "_narrowed"):
                patch.setattr(sqlite_payloads.FilteredItems, name, None)
            compare(*shops)

    with Collection.open(path, LSH(8, random_state=0), Never()) as shop:
        shop.create_index("price")
        load(shop, range(1200))
        with Collection.open(path, readonly=True) as reader:
            compare_in_memory(shop, reader)
            load(shop, range(1100, 1400))
            compare_in_memory(shop, reader)
            shop.drop_index("price")
            load(shop, range(1400, 2200))
            shop.update("item 7", payload={"price": 0.25, "brand": "acme"})
            shelf["item 7"] = {"price": 0.25, "brand": "acme"}
            gone = [f"item {id}" for id in range(0, 300, 7) if id != 7]
            shop.delete(gone)
            for id in gone:
                del shelf[id]
            compare_in_memory(shop, reader)
    with Collection.open(path, readonly=True) as reader:
        compare_in_memory(reader)
        subprocess.run([sys.executable, "-c", OTHER_PROCESS, str(path)], check=True)
        shelf |= {"item 1": {"price": 0.25, "brand": "apex"}, "item 2": {"price": 30}}
        shelf = {id: each for id, each in shelf.items() if each["price"] < 98}
        shelf["late"] = {"price": 5, "brand": "acme"}
        compare_in_memory(reader)


def test_the_first_filter_is_answered_while_its_column_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_columns, "_AT_ONCE", 20)
    go, read = threading.Event(), sqlite_columns.read_run

    def slowly(*args):
        assert go.wait(60)
        return read(*args)

    monkeypatch.setattr(sqlite_columns, "read_run", slowly)
    with Collection.open(tmp_path / "items.oh", LSH(8, random_state=0), Never()) as collection:
        collection.upsert(range(100), X[:100], payload=[{"n": n} for n in range(100)])
        for _ in range(2):
            assert sorted(collection.search(X[0], k=100, where={"n": {"$lt": 3}}).ids) == [0, 1, 2]
        assert not collection._store._columns
        go.set()
        settle(collection)
        assert collection._store._columns


def test_closing_does_not_wait_for_a_column(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_columns, "_AT_ONCE", 20)
    started = threading.Event()

    def endless(query, *args):
        started.set()
        query("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")

    monkeypatch.setattr(sqlite_columns, "read_run", endless)
    with Collection.open(tmp_path / "items.oh", LSH(8, random_state=0), Never()) as collection:
        collection.upsert(range(100), X[:100], payload=[{"n": n} for n in range(100)])
        collection.search(X[0], where={"n": 3})
        assert started.wait(60)


def test_filters_are_answered_where_no_thread_can_start(tmp_path, monkeypatch):
    """As while the interpreter exits; the column is read once a thread can start."""
    monkeypatch.setattr(sqlite_columns, "_AT_ONCE", 20)

    def refuse(*args, **kwargs):
        raise RuntimeError("can't start new thread")

    with Collection.open(tmp_path / "items.oh", LSH(8, random_state=0), Never()) as collection:
        collection.upsert(range(100), X[:100], payload=[{"n": n} for n in range(100)])
        with monkeypatch.context() as patch:
            patch.setattr(sqlite_columns, "Thread", refuse)
            assert collection.search(X[0], where={"n": 3}).ids == [3]
        assert collection.search(X[0], where={"n": 4}).ids == [4]
        settle(collection)
        assert collection._store._columns


def test_a_column_too_long_for_sqlite_is_read_once(tmp_path, monkeypatch):
    """SQLite answers from then on; and how long paths must wait to be read again is forgotten when that is over."""
    monkeypatch.setattr(sqlite_columns, "_AT_ONCE", 20)
    asked = []

    def too_long(query, path, *args):
        asked.append(path)
        query("SELECT zeroblob(2000000000)")

    monkeypatch.setattr(sqlite_columns, "read_run", too_long)
    monkeypatch.setattr(sqlite_columns, "_PAUSE", 0)
    with Collection.open(tmp_path / "items.oh", LSH(8, random_state=0), Never()) as collection:
        collection.upsert(range(100), X[:100], payload=[{"n": n, "m": n} for n in range(100)])
        for name, value in (("n", 3), ("n", 4), ("m", 3), ("n", 5)):
            assert collection.search(X[0], where={name: value}).ids == [value]
            while collection._store._wanted:
                time.sleep(0.001)
        assert asked == [("n",), ("m",)]
        assert len(collection._store._not_before) == 1


def test_columns_take_no_more_memory_than_they_may(tmp_path, monkeypatch):
    for name, value in (("_AT_ONCE", 20), ("_MOST", 4000), ("_MORE", 100)):
        monkeypatch.setattr(sqlite_columns, name, value)
    with Collection.open(tmp_path / "items.oh", LSH(8, random_state=0), Never()) as collection:
        names, store = ("a", "b", "c"), collection._store
        for start, kept in ((0, 2), (100, 1), (200, 0)):
            ids = range(start, start + 100)
            collection.upsert(ids, X[ids], payload=[dict.fromkeys(names, n) for n in ids])
            for name in names:
                assert (
                    len(collection.search(X[0], k=1000, where={name: {"$gte": 50, "$lt": 1000 + start}}).ids)
                    == start + 50
                )
                settle(collection)
            assert sum(bool(column.runs) for column in store._columns.values()) == kept
            assert store._n_bytes == sum(column.n_bytes for column in store._columns.values()) <= 4000


def test_a_damaged_text_is_compared_as_it_is(tmp_path):
    file = tmp_path / "items.oh"
    with Collection.open(file, LSH(8, random_state=0), Never()) as collection:
        collection.upsert(range(3), X[:3], payload=[{"s": text} for text in ("a", "marked", "z")])
    content = file.read_bytes()
    assert content.count(b"marked") == 1
    file.write_bytes(content.replace(b"marked", b"\xb6arked"))
    with Collection.open(file, readonly=True) as collection:
        for where, ids in (({"s": "marked"}, []), ({"s": {"$lt": "n"}}, [0]), ({"s": {"$gt": "z"}}, [1])):
            assert collection.search(X[0], where=where).ids == list(collection._store.ids(parse_where(where))) == ids
        assert not collection.check().ok


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**62), 2**62), max_size=20))
def test_numbers_are_read_to_the_last_bit(numbers):
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE items (seq INTEGER PRIMARY KEY, payload TEXT)")
    texts = [json.dumps({"n": number}) for number in numbers]
    connection.executemany("INSERT INTO items (payload) VALUES (?)", [(text,) for text in texts])
    run = read_run(lambda sql, *given: connection.execute(sql, given).fetchall(), ("n",), "number", 0, False)
    values = [value for (value,) in connection.execute("SELECT json_extract(payload, '$.n') FROM items ORDER BY seq")]
    connection.close()
    if any(0 < abs(value) < 1e-20 for value in values):
        assert run is None or max(abs(value) for value in values if abs(value) < 1e-20) > 1e-21
        return
    assert (np.diff(run.values) > 0).all()
    read = dict(zip(run.seqs.tolist(), np.repeat(run.values, np.diff(run.starts)).tolist(), strict=True))
    for seq, value in enumerate(values, 1):
        assert read[seq] == value if abs(value) < 2**53 else abs(read[seq]) >= 2**53
        assert (read[seq] > 0) == (value > 0)


@given(
    st.lists(st.sets(st.integers(1, 300) | st.integers(1, 2**40), max_size=40), min_size=1, max_size=3), st.booleans()
)
def test_common_seqs_are_those_in_all_sets(sets, narrow):
    kept = [sorted((seq for seq in some if not narrow or seq < 2**31), key=hash) for some in sets]
    found = common_seqs([np.array(some, np.int32 if narrow else np.int64) for some in kept])
    assert found.dtype == np.int64
    assert found.tolist() == sorted(set.intersection(*map(set, kept)))
