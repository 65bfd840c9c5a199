"""A collection in PostgreSQL: the same as one in a file, and what a server adds that can go wrong."""

import json
import os
import random
import re
import subprocess
import sys
import threading
import traceback
from contextlib import closing, contextmanager

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.collection.brute import contents, pairs, ranking
from tests.collection.filter_oracle import PATHS, filters, passes, payloads
from tests.collection.places import EnginePlace
from tests.servers import wait_until
from tests.servers.postgres import postgres
from tests.servers.proxy import proxy

from onlinehash import HCOH, Collection
from onlinehash.collection.filters import parse_path, parse_where
from onlinehash.collection.stores.postgres import PostgresStore
from onlinehash.collection.stores.sqlite import SqliteStore
from onlinehash.exceptions import (
    DamagedError,
    DataNotFoundError,
    FileFormatError,
    InvalidInputError,
    LockedError,
    StorageError,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def place(server):
    return EnginePlace(server.url)


def cut(server, collection):
    """End the connection that writes, at the side of the server."""
    server.execute("SELECT pg_terminate_backend(%s, 30000)", collection._store._writer.info.backend_pid)


def cut_all(server):
    server.execute(
        "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE application_name LIKE 'onlinehash%%'"
    )


def check(collection, X, n_items):
    """Demand that everything fits together, in memory and in the database."""
    assert len(collection) == n_items == collection.stats().n_searchable == len(list(collection.items()))
    assert pairs(collection.search(X[0], 1000)) == ranking(collection, X[0])
    assert collection.stats().n_learned == collection.hasher.n_samples_seen_
    assert collection.check().problems == ()


def state(collection):
    """Return all that a change changes."""
    stats = collection.stats()
    return contents(collection), stats.n_items, stats.n_learned, stats.generation, collection.indexes()


# ---------------------------------------------------------------------- the same as in a file


def same(one, other):
    """Return whether two values of a store are the same, arrays and columns included."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "__dataclass_fields__"):
        return all(same(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__)
    return type(one) is type(other) and one == other


def reads(ids, seq, other_ids):
    """Return what a store is asked, by name."""
    known = ids[::3]
    return {
        "head": lambda store: store.head(),
        "settings": lambda store: sorted(
            (name, value) for name, value in store.settings().items() if name != "history:encoders"
        ),
        "items": lambda store: store.items(),
        "seqs": lambda store: store.seqs(known + other_ids),
        "stream": lambda store: store.stream(seq, 17),
        "batches": lambda store: store.batches(store.state()[1]),
        "state": lambda store: store.state(),
        "generation": lambda store: store.generation() if store.head().generation else None,
        "codes": lambda store: store.codes(store.head().generation),
        "changes": lambda store: store.changes_since(seq, store.head()),
        "rows": lambda store: store.rows([*store.seqs(known).values()]) if known else None,
        "payloads": lambda store: store.payloads([*store.seqs(known).values()]),
        "items_left": lambda store: store.items_left(range(seq + 5)),
        "by id": lambda store: store.page("id", other_ids[0], 7),
        "by id, from the end": lambda store: store.page("id", known[0] if known else None, 7, descending=True),
        "by arrival": lambda store: store.page("arrival", seq, 7),
        "by arrival, from the end": lambda store: store.page("arrival", None, 7, descending=True),
        "filter": lambda store: store.filter(parse_where({"a": {"$gte": 2}})),
    }


def demand_same(one, other, X, rng):
    """Demand that two collections hold the same and answer the same."""
    ids, seq = list(one), rng.randrange(one.sequence + 1)
    other_ids = [10**9, -7] if one.id_type != "str" else ["nobody", "it's %s ?", "é"]
    for name, read in reads(ids, seq, other_ids).items():
        assert same(read(one._store), read(other._store)), name
    for ask in (
        lambda collection: collection.search(X[:3], 10, include=["labels", "payload"]),
        lambda collection: collection.search(X[0], 5, where={"a": {"$contains": "y"}}, rescore="cosine").ids,
        lambda collection: collection.count({"a": {"$in": [1, "x", None]}}),
        lambda collection: collection.label_counts(),
        lambda collection: collection.indexes(),
        lambda collection: [item.id for item in collection.items(order="arrival", descending=True, limit=9)],
        lambda collection: collection.check(sample=5),
    ):
        assert repr(ask(one)) == repr(ask(other))
    assert one.check().problems == ()


STARTS = ["", "é", "Z", "a%s", "?", "'", '"', "\\", "😀", "\uffff", "z"]
PAYLOADS = [None, {"a": 1}, {"a": 3.5}, {"a": "x"}, {"a": [1, "y"]}, {"a": None}, "%s ? é", {"a": "\\ '"}]


@pytest.mark.parametrize("id_type", ["int", "str"])
def test_the_same_changes_give_the_same_in_a_file_and_in_postgresql(server, place, data, tmp_path, id_type):
    rng = random.Random(id_type)
    X, y = data.take(500)
    hasher = HCOH(n_bits=12, random_state=0)
    file = Collection.open(tmp_path / "items.oh", hasher, "manual")
    other = place.open(hasher, "manual")
    reader = place.open(readonly=True)

    def some_ids(n):
        numbers = rng.sample(range(-40, 40), n)
        return numbers if id_type == "int" else [STARTS[number % len(STARTS)] + str(number) for number in numbers]

    def both(change):
        for collection in (file, other):
            change(collection)

    def upsert():
        ids = some_ids(rng.randrange(1, 20))
        rows = [rng.randrange(500) for _ in ids]
        labels = [rng.choice([None, int(y[row]), sorted({0, int(y[row])})]) for row in rows]
        texts = [rng.choice(PAYLOADS) for _ in ids]
        both(lambda collection: collection.upsert(ids, X[rows], labels, texts, checkpoint={"at": rows[0]}))

    def update():
        ids = rng.sample(list(file), min(len(file), 5))
        new = rng.choice(
            [
                {"payload": [rng.choice(PAYLOADS) for _ in ids]},
                {"labels": [rng.randrange(4) for _ in ids]},
                {"vectors": X[[rng.randrange(500) for _ in ids]]},
            ]
        )
        both(lambda collection: collection.update(ids, **new))

    def delete():
        ids = rng.sample(list(file), min(len(file), 4))
        both(lambda collection: collection.delete(ids))

    def index():
        path = rng.choice(["a", "it's 100%?.b\\"])
        both(
            lambda collection: (collection.drop_index if path in collection.indexes() else collection.create_index)(
                path
            )
        )

    def fail():
        for collection in (file, other):
            with pytest.raises(KeyError), collection._store.transaction():
                collection._store.put_settings({"x": 1})
                collection._store.execute("DELETE FROM items")
                raise KeyError

    def migrate():
        both(lambda collection: collection.migrate(vectors=[(id, X[number]) for number, id in enumerate(collection)]))

    changes = [upsert, upsert, update, delete, index, fail, lambda: both(lambda collection: collection.compact())]
    changes += [lambda: both(lambda collection: collection.refresh())]
    with file, other, reader:
        upsert()
        for step in range(20):
            rng.choice(changes)() if step != 10 else migrate()
            demand_same(file, other, X, rng)
        assert same(reads(list(file), 3, [1])["items"](reader._store), file._store.items())
        assert contents(reader) == contents(file)
        both(lambda collection: collection.create_index("b") if "b" not in collection.indexes() else None)
        reader.backup(tmp_path / "copy.oh")
        with Collection.open(tmp_path / "copy.oh") as copy:
            demand_same(file, copy, X, rng)
            made = [store.query("SELECT sql FROM sqlite_master WHERE sql LIKE '%INDEX payload_%' ORDER BY 1")
                    for store in (file._store, copy._store)]  # fmt: skip
            assert made[0] == made[1] != []
    with place.open() as again, Collection.open(tmp_path / "items.oh") as file:
        demand_same(file, again, X, rng)


def test_both_databases_follow_the_rule_of_filters_with_and_without_indexes(server, place, tmp_path):
    strict = settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    cases = given(st.lists(st.none() | payloads, min_size=1, max_size=6), st.lists(filters, min_size=1, max_size=6))

    def follows(store, begin):
        def follow(held, wheres):
            rows = [(i, None if payload is None else json.dumps(payload), 0) for i, payload in enumerate(held)]
            with pytest.raises(KeyError), store.transaction():
                store.execute("DELETE FROM payloads")
                store.execute_many("INSERT INTO payloads VALUES (?, ?, ?)", rows)
                store.execute(begin)
                for where in wheres:
                    expected = [i for i, payload in enumerate(held) if passes(payload, where)]
                    assert store.filter(parse_where(where)).tolist() == expected, (where, held)
                raise KeyError  # leave nothing

        return strict(cases(follow))

    with closing(SqliteStore(tmp_path / "a.oh")) as file, closing(PostgresStore(place.name, server.url)) as other:
        for indexed in (False, True):
            for store, begin in ((file, "SELECT 1"), (other, "SET LOCAL enable_seqscan = off")):
                if indexed:
                    with store.transaction():
                        for path in PATHS:
                            store.create_index(parse_path(path))
                follows(store, begin)()


def test_an_index_serves_comparisons_and_is_gone_when_dropped(small, place):
    collection = small[0]
    collection.create_index("it's 100%?.b\\")
    wheres = [{"$eq": 3}, {"$gt": 3, "$lte": 9.5}, {"$eq": "x" * 3000}, {"$gte": "a"}, {"$in": [None, True]}]

    def plan(where):
        store = collection._store
        condition, values = store.condition(parse_where({"it's 100%?.b\\": where}))
        with store._in_transaction(store._writer):
            store.execute("SET LOCAL enable_seqscan = off")
            rows = store.query(f"EXPLAIN SELECT seq FROM payloads WHERE {condition}", *values)
        return "\n".join(row for (row,) in rows)

    for where in wheres:
        assert "on payload_" in plan(where)
    collection.drop_index("it's 100%?.b\\")
    for where in wheres:
        assert "on payload_" not in plan(where)


def test_strings_are_kept_in_the_order_of_python_or_refused_whole(place, data):
    X, _ = data.take(9)
    ids = ["b", "B", "a", "_", "ä", "z", "😀", "é", "~"]
    labels = ["a\0b", '["x"]', "ü", 'say "yes"', ["ü", "["], ["a\0b", "b"], None, "\\", ["\\", "%s"]]
    with place.open(HCOH(8, random_state=0), "manual") as collection:
        collection.upsert(ids, X, labels)
        assert list(collection) == [item.id for item in collection.items()] == sorted(ids)
        assert [item.id for item in collection.items(order="arrival")] == collection.codes()[0] == ids
        found = {label: set(collection.search(X[0], labels=label).ids) for label in ("ü", "a\0b", "\\", "%s", '["x"]')}
        assert found == {"ü": {"a", "ä"}, "a\0b": {"b", "z"}, "\\": {"é", "~"}, "%s": {"~"}, '["x"]': {"B"}}
        some = collection.sample(4, seed=1)
        assert some == collection.sample(4, seed=1) != collection.sample(4, seed=2)
        assert len(set(some)) == 4 and set(some) < set(ids)
        assert [item.labels for item in collection.get(ids)] == [
            tuple(some) if isinstance(some, list) else some for some in labels
        ]
        before = state(collection)
        for wrong in ("a\0b", "".join(map(str, np.random.default_rng(0).integers(0, 10, 20_000)))):
            with pytest.raises(InvalidInputError, match="cannot hold this"):
                collection.upsert(["fine", wrong], X[:2], ["ü", "b"])
            assert wrong not in collection
            assert state(collection) == before
        collection.upsert(["fine"], X[:1], ["ü"])
        check(collection, X, 10)


# ---------------------------------------------------------------------- opening


def raised(open_it, error):
    """Return the text of an error, which has no password in it, nor those that it came from."""
    with pytest.raises(error) as caught:
        open_it()
    assert "s3cr" not in "".join(traceback.format_exception(caught.value)).replace(__file__, "")
    return str(caught.value)


def test_what_cannot_be_opened_is_told_without_the_password_and_makes_nothing(place, server):
    """The addresses have a name here, so that the source lines of a traceback do not show them."""
    for name in ("", "a b", 'a"b', "a.b", "ä", "x" * 49, "folder/items.oh"):
        with pytest.raises(InvalidInputError, match="letters, digits and _"):
            Collection.open(name, "hcoh", store=server.url)
    with pytest.raises(InvalidInputError, match=r"store 'oracle' is unknown; use 'postgresql://"):
        Collection.open("items", "hcoh", store="oracle://host/database")
    with pytest.raises(DataNotFoundError, match=r"is not there; open it for writing to create it"):
        place.open(readonly=True)
    assert not server.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", f"onlinehash_{place.name}")
    wrong = ["me:s3cr@et@h/db", "me:s3cr/et@h/db", "me:12/s3cret@h/db", "me:s3cr%zzet@h/db", "me:s3cr#et:@h:x/db"]
    for user in wrong:
        address = f"postgresql://{user}"
        assert "percent-encode" in raised(lambda: PostgresStore("items", address), InvalidInputError)  # noqa: B023
    address = f"{server.url}?speed=high"
    assert "only parameters that PostgreSQL knows" in raised(lambda: PostgresStore("items", address), InvalidInputError)
    server.execute("CREATE ROLE careful LOGIN PASSWORD 's3cret'")
    hba = server.folder / "data" / "pg_hba.conf"
    before = hba.read_text()
    hba.write_text(f"host all careful all scram-sha-256\n{before}")
    server.execute("SELECT pg_reload_conf()")
    for address, words in {
        "postgresql://me:s3cret@127.0.0.1:1/items": "Cannot connect to 127.0.0.1:1/items: .*refused",
        server.url_of("nowhere"): 'database "nowhere" does not exist',
        server.url_of("postgres", "nobody:s3cret"): 'role "nobody" does not exist',
        server.url_of("postgres", "careful:s3crets"): 'password authentication failed for user "careful"',
        server.url_of("postgres", "careful:s3cret"): "does not allow this: permission denied for database",
    }.items():
        said = raised(lambda: Collection.open("items", "hcoh", store=address), StorageError)  # noqa: B023
        assert re.search(words, said), said
    hba.write_text(before)
    server.execute("SELECT pg_reload_conf()")


def test_a_schema_of_others_or_of_another_version_is_left_alone_and_the_way_out_is_told(place, server):
    schema = f"onlinehash_{place.name}"
    way_out = (
        rf"With the version that wrote it, run: onlinehash collection export 'postgresql://...#{place.name}' "
        rf"items.npz; then with this version: onlinehash ingest items.npz --into 'postgresql://...#new_{place.name}'"
    )

    def refused(error, words):
        for asked in ({"hasher": "hcoh"}, {"readonly": True}):
            with pytest.raises(error, match=words):
                place.open(**asked)

    server.execute(f"CREATE SCHEMA {schema}")
    refused(FileFormatError, rf"another version \(0\.2\.0, or not onlinehash\)\. {way_out}")
    server.execute(f"CREATE TABLE {schema}.settings (name text PRIMARY KEY, value text NOT NULL)")
    server.execute(f"INSERT INTO {schema}.settings VALUES ('schema_version', '2')")  # as 0.2.0 made it
    refused(FileFormatError, rf"another version \(0\.2\.0, or not onlinehash\)\. {way_out}")
    server.execute(f"COMMENT ON TABLE {schema}.settings IS 'onlinehash collection, schema 4'")
    refused(FileFormatError, rf"another version \(onlinehash collection, schema 4\)\. {way_out}")
    server.execute(f"COMMENT ON TABLE {schema}.settings IS 'onlinehash collection, schema 3'")
    refused(DamagedError, "damaged: its tables are not those of a collection")
    assert server.execute(f"SELECT * FROM {schema}.settings") == [("schema_version", "2")]
    server.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    with pytest.raises(StorageError, match=r"encoding of the database .*/latin is not UTF8"):
        Collection.open("items", "hcoh", store=server.url_of("latin"))


def test_a_role_that_may_only_select_reads_and_is_told_so_when_it_writes(small, place, server):
    collection, X, y = small
    schema, role = f"onlinehash_{place.name}", f"visitor_{place.name}"
    server.execute(f"CREATE ROLE {role} LOGIN")
    address = server.url_of("postgres", role)
    for open_it in (
        lambda: Collection.open(place.name, store=address, readonly=True),
        lambda: Collection.open("other", "hcoh", store=address),
    ):
        with pytest.raises(StorageError, match=r"does not allow this: permission denied"):
            open_it()
    server.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    server.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
    with Collection.open(place.name, store=address, readonly=True) as reader:
        check(reader, X, 40)
        collection.upsert(40, X[0], y[0], {"a": 1})
        collection.change_hasher(20)
        check(reader, X, 41)
        assert reader.search(X[0], where={"a": 1}).ids == [40]
        with pytest.raises(StorageError, match="readonly=True"):
            reader.upsert(41, X[0], y[0])
    collection.close()
    with (
        pytest.raises(StorageError, match="does not allow this: permission denied"),
        Collection.open(place.name, store=address) as writer,
    ):
        writer.upsert(41, X[0], y[0])
    with place.open() as again:
        check(again, X, 41)


# ---------------------------------------------------------------------- losing the server


def test_a_writer_that_lost_its_connection_goes_on_and_holds_the_lock_again(small, place, server):
    collection, X, y = small
    for id in (40, 41):
        cut(server, collection)
        collection.upsert(id, X[0], y[0])
        check(collection, X, id + 1)
    cut_all(server)
    check(collection, X, 42)
    collection.upsert(42, X[0], y[0])
    collection.refresh()
    check(collection, X, 43)
    with pytest.raises(LockedError, match=rf"open for writing already \(process {os.getpid()} on .*one writer"):
        place.open()


IN_BETWEEN = {
    "items": lambda other, X, y: other.upsert([1, 50], X[:2], y[:2]),
    "fewer items": lambda other, X, y: other.delete([1, 2]),
    "another hasher": lambda other, X, y: other.change_hasher(9),
    "new codes": lambda other, X, y: (other.upsert(3, X[9], y[9]), other.refresh()),
    "an index": lambda other, X, y: other.create_index("a"),
}
OWN = {
    "upsert": lambda collection, X, y: collection.upsert([2, 60], X[:2], y[:2], [{"a": 2}, None]),
    "delete": lambda collection, X, y: collection.delete([7]),
    "index": lambda collection, X, y: collection.create_index("b"),
    "refresh": lambda collection, X, y: collection.refresh(),
    "close": lambda collection, X, y: collection.close(),
}


@pytest.mark.parametrize(
    ("between", "own"),
    [
        ("items", "upsert"),
        ("fewer items", "upsert"),
        ("another hasher", "upsert"),
        ("new codes", "delete"),
        ("an index", "index"),
        ("items", "refresh"),
        ("new codes", "close"),
    ],
)
def test_a_writer_that_lost_its_connection_does_not_write_over_another(small, place, server, between, own):
    collection, X, y = small
    collection.upsert(39, X[39], y[39])
    cut(server, collection)
    with place.open() as other:
        IN_BETWEEN[between](other, X, y)
        if between == "items":
            with pytest.raises(LockedError, match=rf"open for writing already \(process {os.getpid()} on "):
                OWN["upsert"](collection, X, y)
    with place.open(readonly=True) as reader:
        known, indexes = contents(reader), reader.indexes()
        try:
            OWN[own](collection, X, y)
        except StorageError:  # nothing of it was stored
            assert contents(reader) == known
            OWN[own](collection, X, y)
        check(reader, X, len(known) + {"upsert": 1 + (2 not in known), "delete": -1}.get(own, 0))
        assert set(indexes) <= set(reader.indexes())
        if own != "close":
            check(collection, X, len(reader))
            assert state(collection) == state(reader)
            collection.upsert([4, 70], X[:2], y[:2])
            check(collection, X, len(reader))
            check(reader, X, len(reader))
    collection.close()
    with place.open() as again:
        check(again, X, len(again))


def test_a_writer_that_another_has_replaced_answers_every_question(small, place, server):
    """It shows what was there when it lost its connection, or what is there now."""
    collection, X, y = small
    collection.update(range(40), payload=[{"a": id} for id in range(40)])
    cut(server, collection)
    with place.open() as other:
        other.upsert(50, X[0], y[0], {"a": 50})
        other.delete(39)
        for _ in range(2):
            assert len(collection) == 40
            assert len(collection.search(X[0], 100).ids) == 40
            assert collection.search(X[0], 100, where={"a": {"$gte": 38}}).ids in (
                [38, 39],
                [39, 38],
                [38, 50],
                [50, 38],
            )
            assert collection.count({"a": {"$gte": 38}}) == 2
            assert len(collection.search(X[0], 100, include=["payload", "vectors"]).payload) == 40
            assert sum(len(list(collection.items(labels=label))) for label in range(4)) == 40
            with collection.snapshot() as shown:
                assert len(shown.read([seq for seq, _ in shown.rows])) == 40


def test_a_connection_lost_in_the_middle_leaves_nothing_half_done(small, server, monkeypatch):
    collection, X, y = small
    store = collection._store
    for method in ("put", "delete", "put_codes", "put_state", "put_settings"):
        done = getattr(store, method)

        def lost(*args, done=done, **kwargs):
            done(*args, **kwargs)
            cut(server, collection)

        with monkeypatch.context() as patch:
            patch.setattr(store, method, lost)
            for change in (
                lambda: collection.upsert([1, 90], X[:2], y[:2]),
                lambda: collection.delete([2, 3]),
                lambda: collection.create_index("a"),
                collection.refresh,
            ):
                before = state(collection)
                try:
                    change()
                except StorageError as error:
                    assert "lost its connection" in str(error)
                    assert state(collection) == before
        check(collection, X, len(list(collection)))
        if "a" in collection.indexes():
            collection.drop_index("a")
        collection.refresh()
        collection.upsert([1, 2, 3], X[:3], y[:3])
        check(collection, X, len(list(collection)))


def test_a_reader_that_lost_its_connections_takes_others(small, place, server):
    collection, X, _ = small
    with place.open(readonly=True) as reader:
        for each in (collection, reader):
            cut_all(server)
            check(each, X, 40)
            with pytest.raises(StorageError, match="lost its connection"), each.snapshot() as shown:
                cut_all(server)
                shown.read([seq for seq, _ in shown.rows])
            check(each, X, 40)
        wrong = []

        def read():
            try:
                for _ in range(5):
                    assert len(reader.get([1, 2])) == 2
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=read) for _ in range(30)]  # more than there are connections
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
    collection.close()
    left = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE %s"
    wait_until(lambda: not server.execute(left, f"onlinehash, process {os.getpid()} %"))


SLOW = """
CREATE FUNCTION {schema}.wait() RETURNS trigger LANGUAGE plpgsql
AS 'BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON {schema}.items DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (mod(NEW.seq, 16) = 0) EXECUTE FUNCTION {schema}.wait()
"""


@contextmanager
def committing(monkeypatch, collection, act):
    """Call a function with the connection that writes instead of its next COMMIT."""
    execute, left = psycopg.Connection.execute, [act]

    def sent(self, sql, *args, **kwargs):
        if sql == "COMMIT" and self is collection._store._writer and left:
            left.pop()(self)
        return execute(self, sql, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", sent)
        yield


@pytest.mark.parametrize(
    ("when", "seconds", "noticed", "stored"),
    [
        ("before", 0, True, {False}),
        ("before", 0, False, {False}),
        ("after", 0, True, {False, True}),
        ("after", 0.2, False, {False, True}),
        ("after", 30, False, {False}),  # it is ended before it can commit
        ("answer", 0, True, {True}),
        ("answer", 0.1, False, {True}),
        ("interrupt", 0.3, True, {False, True}),
    ],
)
def test_a_commit_whose_answer_is_lost_is_done_or_not_for_ever(
    server, data, monkeypatch, when, seconds, noticed, stored
):
    with proxy(server.port) as running:
        place = EnginePlace(f"postgresql://postgres@127.0.0.1:{running.port}/postgres")
        X, y = data.take(16)

        def lose(connection):
            if when == "interrupt":
                connection.pgconn.send_query(b"COMMIT")
                raise KeyboardInterrupt
            running.cut, running.noticed = when, noticed

        with (
            place.open(HCOH(12, random_state=0), "manual") as collection,
            Collection.open(place.name, "hcoh", store=server.url, readonly=True) as reader,
        ):
            collection.upsert(range(16), X, y)
            if seconds:
                server.execute(SLOW.format(schema=f"onlinehash_{place.name}", seconds=seconds))
            with (
                committing(monkeypatch, collection, lose),
                pytest.raises(
                    (StorageError, KeyboardInterrupt), match=r"^$|COMMIT, the change may or may not have been"
                ),
            ):
                collection.upsert(range(16, 32), X, y)
            n_items = len(collection)
            assert (n_items == 32) in stored
            assert (n_items == 32) == (31 in collection)
            assert collection.stats().n_learned == n_items
            check(collection, X, n_items)
            check(reader, X, n_items)
            collection.upsert(range(n_items, n_items + 8), X[:8], y[:8])
            collection.refresh()
            check(collection, X, n_items + 8)
            check(reader, X, n_items + 8)
        with place.open() as again:
            check(again, X, n_items + 8)


def test_a_server_that_was_restarted_is_found_again(data):
    with postgres(settings={}) as server:
        place = EnginePlace(server.url)
        X, y = data.take(40)
        collection = place.open(HCOH(n_bits=12, random_state=0), "manual")
        collection.upsert(range(40), X, y)
        with collection, place.open(readonly=True) as reader:
            for how in ("SIGINT", "SIGQUIT"):
                n_items = len(collection)
                check(reader, X, n_items)
                server.stop(how)
                with pytest.raises(StorageError, match=r"Cannot connect|lost its connection"):
                    reader.search(X[0])
                for _ in range(2):
                    with pytest.raises(StorageError, match=r"Cannot connect|lost its connection"):
                        collection.upsert([100, 101], X[:2], y[:2])
                server.start()
                assert len(collection) == n_items
                collection.upsert(n_items, X[0], y[0])
                collection.refresh()
                check(collection, X, n_items + 1)
            check(reader, X, 42)


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        ("53100", StorageError, "cannot be written: no. Nothing of this call was stored; make room and try again"),
        ("XX001", DamagedError, "is damaged: no. Restore it from a copy"),
        ("25006", StorageError, "cannot be written to: no. It can be read"),
        ("40001", StorageError, "cannot do this: no. Nothing of this call was stored; try again"),
    ],
)
def test_what_the_server_cannot_do_is_told_and_changes_nothing(small, place, server, code, error, words):
    """A disk that is full, a page that is damaged, a server in standby, a conflict."""
    collection, X, y = small
    schema = f"onlinehash_{place.name}"
    server.execute(
        f"CREATE FUNCTION {schema}.fail() RETURNS trigger LANGUAGE plpgsql AS "
        f"'BEGIN RAISE EXCEPTION ''no'' USING ERRCODE = ''{code}''; END'"
    )
    server.execute(f"CREATE TRIGGER fail BEFORE INSERT ON {schema}.payloads EXECUTE FUNCTION {schema}.fail()")
    before = state(collection)
    with pytest.raises(error, match=words):
        collection.upsert([1, 50], X[:2], y[:2])
    assert state(collection) == before
    server.execute(f"DROP TRIGGER fail ON {schema}.payloads")
    collection.upsert([1, 50], X[:2], y[:2])
    check(collection, X, 41)


def test_a_schema_that_was_dropped_is_told_and_the_collection_can_be_closed(small, place, server):
    collection, X, y = small
    with place.open(readonly=True) as reader:
        server.execute(f"DROP SCHEMA onlinehash_{place.name} CASCADE")
        for call in (
            lambda: collection.upsert(50, X[0], y[0]),
            lambda: collection.get(1),
            lambda: reader.search(X[0]),
            lambda: len(reader),
            collection.refresh,
        ):
            with pytest.raises(DataNotFoundError, match=r"was deleted while it was open: .*Close it"):
                call()
    collection.close()
    with pytest.raises(DataNotFoundError, match="is not there"):
        place.open(readonly=True)
    with place.open(HCOH(12, random_state=0), "manual") as again:
        again.upsert(range(40), X, y)
        check(again, X, 40)


# ---------------------------------------------------------------------- other processes


FORK = """
import gc, os, sys, traceback
import numpy as np
from onlinehash import Collection
from onlinehash.exceptions import StorageError
X = np.zeros((2, 6), np.float32)
writer = {writer}
reader = {reader}
reader.search(X, where={{"a": 1}})
if (child := os.fork()) == 0:
    try:
        for collection in (writer, reader):
            for call in (
                lambda: len(collection), lambda: list(collection), lambda: 3 in collection, lambda: collection.get(3),
                lambda: collection.search(X[0]), lambda: collection.range_search(X, 3), lambda: collection.codes(),
                lambda: collection.stats(), lambda: collection.label_counts(), lambda: collection.id_type,
                lambda: list(collection.items()), lambda: collection.check(), lambda: collection.backup("copy.oh"),
            ):
                try:
                    call()
                except StorageError as error:
                    assert f"was opened in process {{os.getppid()}}, and this is process {{os.getpid()}}" in str(error)
                    assert "Open it again here" in str(error)
                else:
                    raise AssertionError("no error")
        for call in (
            lambda: writer.upsert(1, X[0], 1), lambda: writer.delete(1), lambda: writer.update(1, payload=2),
            lambda: writer.refresh(), lambda: writer.compact(),
        ):
            try:
                call()
            except StorageError as error:
                assert "a fork of it" in str(error)
            else:
                raise AssertionError("no error")
        with {reader} as own:
            assert len(own) == 40
        writer.close(), reader.close()
        del writer, reader, collection
        gc.collect()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
holder = writer._store._writer
writer.upsert(50, X[0], 1)
assert len(writer) == len(reader) == 41
assert writer._store._writer is holder
writer.close(), reader.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_is_refused_and_leaves_the_connections_alone(small, place, tmp_path):
    small[0].close()
    program = FORK.format(writer=place.source(), reader=place.source(readonly=True))
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert not run.returncode, run.stderr
    assert not list(tmp_path.iterdir())


READING = """
import numpy as np
from onlinehash import Collection
X = np.array({queries}, np.float32)
seen = set()
with {reader} as items:
    print("ready", flush=True)
    for _ in range(6):
        for label in (0, 1):
            for found in (
                items.search(X, 50, labels=label),
                items.search(X, 50, where={{"label": label}}, asymmetric=True),
                items.range_search(X, 12, labels=label),
                [items.search(X[0], 50, labels=label)],
            ):
                sizes = {{len(hits.ids) for hits in found}}
                assert sizes in ({{0}}, {{30}}), (label, sizes)
                seen |= sizes
        for hits in items.search(X, 50, include=["payload", "vectors"]):
            assert len(hits.ids) == 30, hits.ids
            assert len(set(hits.distances)) == 1, hits.distances
            assert len({{(payload["label"], row.tobytes()) for payload, row in zip(hits.payload, hits.vectors)}}) == 1
        known = items.get(range(30))
        assert len({{(item.labels, item.payload["label"], item.vectors.tobytes()) for item in known}}) == 1
assert seen == {{0, 30}}
"""


def test_a_reader_sees_only_what_was_committed(place, data):
    """In every committed state all items have one vector, one label and one payload; codes change meanwhile."""
    X, y = data.take(60)
    some = X[y == 0][0], X[y == 1][0]
    with place.open(HCOH(12, random_state=0), "manual") as writer:
        writer.upsert(range(100, 160), X, y)
        writer.refresh()
        writer.delete(range(100, 160))

        def put(label):
            writer.upsert(range(30), np.tile(some[label], (30, 1)), [label] * 30, [{"label": label}] * 30)

        put(0)
        program = READING.format(queries=X[:4].tolist(), reader=place.source(readonly=True))
        reader = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert reader.stdout.readline() == "ready\n", reader.stderr.read()
        label = n_changes = 0
        while reader.poll() is None:
            label, n_changes = 1 - label, n_changes + 1
            put(label)
            if n_changes % 5 == 0:
                writer.refresh()
        _, wrong = reader.communicate()
        assert not reader.returncode, wrong


def test_a_change_that_is_committed_as_a_snapshot_begins_is_in_it(small, place, monkeypatch):
    collection, X, y = small
    with place.open(readonly=True) as reader:
        begin, ids = reader._store.snapshot, iter((40, 41))

        def snapshot():
            for id in ids:
                collection.upsert(id, X[0], y[0])
            return begin()

        monkeypatch.setattr(reader._store, "snapshot", snapshot)
        with reader.snapshot() as shown:
            assert [id for _, id in shown.rows] == list(range(42))
            assert len(shown.read([seq for seq, _ in shown.rows])) == 42


def test_a_reader_sees_one_moment_while_all_vectors_are_replaced(small, place):
    """PostgreSQL's snapshots do not hide that a table was replaced."""
    collection, X, _ = small
    wrong, seen, done = [], set(), threading.Event()

    def read():
        with place.open(readonly=True) as reader:
            while not done.is_set():
                try:
                    with reader.snapshot() as shown:
                        found = shown.read([seq for seq, _ in shown.rows])
                    assert len(found) == 40
                    (number,) = {float(item.vectors[0]) for item in found}
                    seen.add(number)
                except BaseException as error:
                    wrong.append(error)

    def move(number):
        collection.migrate(vectors=[(id, np.full(6, number) + X[id] * [0, 1, 1, 1, 1, 1]) for id in range(40)])

    move(100.0)
    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(101, 107):
        move(float(number))
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]
    assert seen <= set(map(float, range(100, 107)))
    check(collection, X, 40)
