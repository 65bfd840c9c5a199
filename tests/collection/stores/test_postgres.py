"""A collection in PostgreSQL: what is special about it."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import psycopg
import pytest
from tests.collection.brute import pairs, ranking
from tests.collection.places import EnginePlace
from tests.servers.postgres import create_pgvector, postgres
from tests.servers.proxy import proxy

from onlinehash import HCOH, Collection
from onlinehash.collection import Never
from onlinehash.collection.stores import postgres_schema as schema
from onlinehash.collection.stores import postgres_server
from onlinehash.exceptions import (
    DataNotFoundError,
    FileFormatError,
    InvalidInputError,
    LockedError,
    StorageError,
)
from onlinehash.indexes.engines.postgres_client import errors

pytestmark = pytest.mark.slow


@pytest.fixture
def place(server):
    return EnginePlace(server.url)


def cut(server, collection):
    """End the connection that writes, at the side of the server."""
    server.execute("SELECT pg_terminate_backend(%s, 30000)", collection._store._writer.info.backend_pid)


def check(collection, X, n_items):
    """Demand that everything fits together."""
    assert len(collection) == n_items == collection.stats().n_searchable
    assert pairs(collection.search(X[0], 1000)) == ranking(collection, X[0])
    assert collection.stats().n_learned == collection.hasher.n_samples_seen_


def state(collection):
    """Return all that a change changes."""
    stats = collection.stats()
    return list(collection), stats.n_items, stats.n_learned, stats.generation


# ---------------------------------------------------------------------- opening


@pytest.mark.parametrize("name", ["", "a b", 'a"b', "a.b", "ä", "x" * 49, "folder/items.oh"])
def test_names_are_checked(server, name):
    with pytest.raises(InvalidInputError, match="letters, digits and _"):
        Collection.open(name, "hcoh", store=server.url)


def test_an_engine_that_nobody_knows_is_named():
    with pytest.raises(InvalidInputError, match=r"store 'oracle' is unknown; use 'postgresql://"):
        Collection.open("items", "hcoh", store="oracle://host/database")


def test_what_cannot_be_reached_is_told_without_the_password(server):
    with pytest.raises(StorageError, match='database "nowhere" does not exist'):
        Collection.open("items", "hcoh", store=server.url_of("nowhere"))
    with pytest.raises(StorageError, match=r"Cannot connect to 127.0.0.1:1/items: .*refused") as caught:
        Collection.open("items", "hcoh", store="postgresql://me:secret@127.0.0.1:1/items")
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidInputError, match='no URL of PostgreSQL: invalid URI query parameter: "speed"'):
        Collection.open("items", "hcoh", store=f"{server.url}?speed=high")
    with pytest.raises(InvalidInputError, match="CREATE EXTENSION vector"):
        Collection.open("items", "hcoh", store=f"{server.url}?connect_timeout=5&approximate=true")


def test_creating_needs_a_hasher(place, server):
    with pytest.raises(DataNotFoundError, match="pass a hasher to create it"):
        place.open()
    with pytest.raises(DataNotFoundError, match="is not there; create it"):
        place.open(readonly=True)
    assert not server.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", f"onlinehash_{place.name}")


def test_a_schema_of_others_is_left_alone(place, server):
    server.execute(f"CREATE SCHEMA onlinehash_{place.name}")
    for readonly in (False, True):
        with pytest.raises(FileFormatError, match="not of a collection that onlinehash wrote"):
            place.open("hcoh", readonly=readonly)
    server.execute(f"CREATE TABLE onlinehash_{place.name}.settings (name text, value text)")
    with pytest.raises(FileFormatError, match="not of a collection that onlinehash wrote"):
        place.open("hcoh")


def test_a_later_schema_is_refused(small, place, monkeypatch):
    small[0].close()
    monkeypatch.setattr(schema, "VERSION", 1)
    for readonly in (False, True):
        with pytest.raises(FileFormatError, match=r"has schema 2; this version reads 1\. Upgrade onlinehash"):
            place.open(readonly=readonly)


def test_a_schema_of_the_first_version_is_refused_with_the_way_out(place, server):
    server.execute(f"CREATE SCHEMA onlinehash_{place.name}")
    server.execute(f"CREATE TABLE onlinehash_{place.name}.settings (name text PRIMARY KEY, value text NOT NULL)")
    server.execute(f"INSERT INTO onlinehash_{place.name}.settings VALUES ('schema_version', '1')")
    for readonly in (False, True):
        with pytest.raises(FileFormatError, match=r"has schema 1; this version reads 2. Export the items with"):
            place.open("hcoh", readonly=readonly)


def test_who_may_not_is_told(small, place, server):
    collection, X, _ = small
    server.execute(f"CREATE ROLE visitor_{place.name} LOGIN")
    visit = server.url_of("postgres", f"visitor_{place.name}")
    with pytest.raises(StorageError, match=r"does not allow this: permission denied"):
        Collection.open(place.name, store=visit, readonly=True)
    with pytest.raises(StorageError, match=r"does not allow this: permission denied"):
        Collection.open("other", "hcoh", store=visit)
    server.execute(f"GRANT USAGE ON SCHEMA onlinehash_{place.name} TO visitor_{place.name}")
    server.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA onlinehash_{place.name} TO visitor_{place.name}")
    server.execute(
        f"ALTER DEFAULT PRIVILEGES IN SCHEMA onlinehash_{place.name} GRANT SELECT ON TABLES TO visitor_{place.name}"
    )
    with Collection.open(place.name, store=visit, readonly=True) as reader:
        check(reader, X, 40)
        collection.change_hasher(20)
        check(reader, X, 40)


def test_more_than_there_can_be_is_all_there_is(small):
    collection, X, _ = small
    everything = ranking(collection, X[0])
    assert pairs(collection.search(X[0], 10**30)) == everything
    assert len(collection.search(X[0], 2**63, asymmetric=True).ids) == len(everything)
    assert pairs(collection.range_search(X[0], 10**30, max_results=10**30)) == everything


def test_a_full_disk_is_told():
    with pytest.raises(StorageError, match="Nothing of this call was stored; make room"), errors("It"):
        raise psycopg.errors.DiskFull("could not extend file")


def test_a_page_that_the_server_finds_damaged_is_told():
    with pytest.raises(FileFormatError, match=r"It is damaged: invalid page in block 3. Restore it"), errors("It"):
        raise psycopg.errors.DataCorrupted("invalid page in block 3")


# ---------------------------------------------------------------------- what PostgreSQL can hold


def test_strings_that_it_cannot_hold_are_refused_whole(place, data):
    X, y = data.take(20)
    with place.open(HCOH(8, random_state=0), Never()) as collection:
        collection.upsert([str(i) for i in range(10)], X[:10], y[:10])
        for wrong in ("a\0b", "".join(map(str, np.random.default_rng(0).integers(0, 10, 20_000)))):
            with pytest.raises(InvalidInputError, match="cannot hold this"):
                collection.upsert(["fine", wrong], X[10:12], y[10:12])
            assert wrong not in collection
        check(collection, X, 10)
        collection.upsert(["fine"], X[10:11], y[10:11])
        check(collection, X, 11)


def test_ids_are_in_the_order_of_python_and_labels_may_be_anything(place, data):
    X, _ = data.take(9)
    ids = ["b", "B", "a", "_", "ä", "z", "😀", "é", "~"]
    labels = ["a\0b", '["x"]', "ü", 'say "yes"', ["ü", "["], ["a\0b", "b"], None, "\\", ["\\", "%s"]]
    with place.open(HCOH(8, random_state=0), Never()) as collection:
        collection.upsert(ids, X, labels)
        assert list(collection) == [item.id for item in collection.items()] == sorted(ids)
        assert collection.codes()[0] == ids
        found = {label: set(collection.search(X[0], labels=label).ids) for label in ("ü", "a\0b", "\\", "%s", '["x"]')}
        assert found == {"ü": {"a", "ä"}, "a\0b": {"b", "z"}, "\\": {"é", "~"}, "%s": {"~"}, '["x"]': {"B"}}
        some = collection._index.sample(4, seed=1)
        assert some == sorted(set(some)) == collection._index.sample(4, seed=1) != collection._index.sample(4, seed=2)
        assert set(some) < set(ids)
        assert [item.labels for item in collection.get(ids)] == [
            tuple(some) if isinstance(some, list) else some for some in labels
        ]


# ---------------------------------------------------------------------- losing the server


def test_a_writer_that_lost_its_connection_goes_on(small, place, server):
    collection, X, y = small
    cut(server, collection)
    collection.upsert(40, X[0], y[0])
    cut(server, collection)
    collection.refresh()
    check(collection, X, 41)
    with pytest.raises(LockedError, match="open for writing already"):
        place.open()


def test_a_writer_that_lost_its_connection_gives_way_to_another(small, place, server):
    collection, X, y = small
    cut(server, collection)
    with place.open() as other:
        other.upsert(50, X[0], y[0])
        with pytest.raises(LockedError, match="open for writing already"):
            collection.upsert(40, X[0], y[0])
        check(other, X, 41)
    for _ in range(2):
        with pytest.raises(StorageError, match="close it, and open it again"):
            collection.upsert(40, X[0], y[0])
    collection.close()
    with place.open() as again:
        check(again, X, 41)


def test_a_connection_lost_in_the_middle_leaves_nothing_half_done(small, server, monkeypatch):
    collection, X, y = small
    store = collection._store
    for method in ("put", "delete", "put_codes"):
        done = getattr(store, method)

        def lost(*args, done=done):
            done(*args)
            cut(server, collection)

        with monkeypatch.context() as patch:
            patch.setattr(store, method, lost)
            for change in (
                lambda: collection.upsert([1, 90], X[:2], y[:2]),
                lambda: collection.delete([2, 3]),
                collection.refresh,
            ):
                before = state(collection)
                try:
                    change()
                except StorageError as error:
                    assert "rolled back; repeat the call" in str(error)
                    assert state(collection) == before
        check(collection, X, len(list(collection)))
        collection.refresh()
        collection.upsert([1, 2, 3], X[:3], y[:3])
        check(collection, X, len(list(collection)))


def test_a_commit_whose_answer_is_lost_is_found_out(small, monkeypatch):
    collection, X, y = small
    execute = psycopg.Connection.execute
    collection.upsert(60, X[0], y[0])
    changes = [
        (0, lambda: collection.upsert([1, 50], X[:2], y[:2])),
        (0, lambda: collection.delete([3])),
        (0, lambda: collection.update(5, X[9])),
        *[(n_before, collection.refresh) for n_before in range(3)],  # begun, encoded, finished
    ]
    for n_before, change in changes:
        left = [n_before]

        def lost(self, sql, *args, left=left, **kwargs):
            cursor = execute(self, sql, *args, **kwargs)
            if sql == "COMMIT" and self is collection._store._writer:
                left[0] -= 1
                if left[0] < 0:
                    self.close()
                    raise psycopg.OperationalError("the connection is lost")
            return cursor

        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", lost)
            change()
        check(collection, X, len(list(collection)))
        collection.upsert(60, X[0], y[0])
        check(collection, X, len(list(collection)))
    collection.refresh()
    check(collection, X, 41)
    assert 50 in collection
    assert 3 not in collection
    assert np.array_equal(collection.get(5)[0].vectors, X[9])


SLOW = """
CREATE FUNCTION {schema}.wait() RETURNS trigger LANGUAGE plpgsql
AS 'BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON {schema}.items DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (mod(NEW.seq, 16) = 0) EXECUTE FUNCTION {schema}.wait()
"""


@pytest.fixture
def cutting(server, monkeypatch):
    """A proxy, and a function that has it lose the connection at the next COMMIT of a collection."""
    execute = psycopg.Connection.execute
    with proxy(server.port) as running:

        def cut_commit(collection, when, noticed=True):
            left = [when]

            def sent(self, sql, *args, **kwargs):
                if sql == "COMMIT" and self is collection._store._writer and left:
                    running.cut, running.noticed = left.pop(), noticed
                return execute(self, sql, *args, **kwargs)

            monkeypatch.setattr(psycopg.Connection, "execute", sent)

        yield running, cut_commit


@pytest.mark.parametrize("noticed", [True, False], ids=["the server notices", "the server does not notice"])
@pytest.mark.parametrize(
    ("when", "seconds", "stored"),
    [
        ("before", 0, False),
        ("after", 0, True),
        ("after", 0.1, True),
        ("after", 30, False),  # it is ended before it can commit
        ("answer", 0.1, True),
    ],
)
def test_what_add_said_about_a_cut_commit_holds_for_ever(server, data, cutting, when, seconds, stored, noticed):
    running, cut_commit = cutting
    place = EnginePlace(f"postgresql://postgres@127.0.0.1:{running.port}/postgres")
    collection = place.open(HCOH(12, random_state=0), Never())
    X, y = data.take(16)
    collection.upsert(range(16), X, y)
    if seconds:
        server.execute(SLOW.format(schema=f"onlinehash_{place.name}", seconds=seconds))
    n_items, said = 16, set()
    with collection, Collection.open(place.name, store=server.url, readonly=True) as reader:
        for _ in range(6 if noticed and seconds < 30 else 1):
            cut_commit(collection, when, noticed)
            try:
                collection.upsert(range(n_items, n_items + 16), X, y)
                said.add(True)
                n_items += 16
            except StorageError as error:
                assert "rolled back; repeat the call" in str(error)
                said.add(False)
            for _ in range(3):
                assert n_items - 1 in collection
                assert n_items not in collection
                assert len(collection) == len(reader) == n_items
                assert collection.stats().n_learned == reader.stats().n_learned == n_items
                time.sleep(seconds % 30 / 3)
        check(collection, X, n_items)
    assert said == {stored}
    with place.open() as again:
        check(again, X, n_items)
        assert again.hasher.n_samples_seen_ == n_items


@pytest.mark.parametrize("stored", [True, False])
def test_the_first_read_after_the_server_is_back_settles_a_commit(data, monkeypatch, stored):
    monkeypatch.setattr(postgres_server, "_RECONNECT_WAIT", 0.2)
    execute = psycopg.Connection.execute
    with postgres(settings={}) as server:
        place = EnginePlace(server.url)
        X, y = data.take(40)
        collection = place.open(HCOH(12, random_state=0), Never())
        collection.upsert(range(20), X[:20], y[:20])

        def lost(self, sql, *args, **kwargs):
            if sql == "COMMIT":
                if stored:
                    execute(self, sql, *args, **kwargs)
                server.stop("SIGQUIT")
            return execute(self, sql, *args, **kwargs)

        with collection, monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", lost)
            with pytest.raises(StorageError, match=r"not known before the server is back. Read then"):
                collection.upsert(range(20, 40), X[20:], y[20:])
            patch.undo()
            with pytest.raises(StorageError, match="not known before the server is back"):
                len(collection)
            server.start()
            assert (39 in collection) is stored
            check(collection, X, 40 if stored else 20)
            collection.upsert(range(20, 40), X[20:], y[20:])
            assert collection.stats().n_learned == (60 if stored else 40)


@pytest.mark.parametrize("stored", [True, False])
def test_a_commit_is_settled_even_if_another_has_written_since(small, place, server, monkeypatch, stored):
    monkeypatch.setattr(postgres_server, "_RECONNECT_WAIT", 0)
    collection, X, y = small
    store = collection._store
    found, find_out = [], store._find_out

    def cannot_connect(url, **kwargs):
        raise StorageError("Cannot connect.")

    def lost(self, sql, *args, execute=psycopg.Connection.execute, **kwargs):
        if sql == "COMMIT" and self is store._writer:
            if stored:
                execute(self, sql, *args, **kwargs)
            self.close()
        return execute(self, sql, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", lost)
        patch.setattr(postgres_server, "connect", cannot_connect)
        with pytest.raises(StorageError, match="not known before the server is back"):
            collection.upsert(50, X[0], y[0])
    with place.open() as other:
        assert (50 in other) is stored
        other.upsert(60, X[0], y[0])
        monkeypatch.setattr(store, "_find_out", lambda *args: found.append(find_out(*args)))
        assert (50 in collection) is stored
        assert found == [stored]
        with psycopg.connect(server.url, autocommit=True) as connection:
            assert not store._is_committed(connection, str(2**60))  # a server that took over does not know it
    with pytest.raises(StorageError, match="close it, and open it again"):
        collection.upsert(70, X[0], y[0])


def test_an_interrupted_commit_is_settled_before_the_next_read(small, server, place, monkeypatch):
    collection, X, y = small
    server.execute(SLOW.format(schema=f"onlinehash_{place.name}", seconds=0.3))

    def interrupted(self, sql, *args, execute=psycopg.Connection.execute, **kwargs):
        if sql == "COMMIT" and self is collection._store._writer:
            self.pgconn.send_query(b"COMMIT")
            raise KeyboardInterrupt
        return execute(self, sql, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", interrupted)
        with pytest.raises(KeyboardInterrupt):
            collection.upsert(range(40, 56), X[:16], y[:16])
    assert 50 in collection
    check(collection, X, 56)
    assert collection.hasher.n_samples_seen_ == collection.stats().n_learned == 56


def test_a_server_that_was_restarted_is_found_again(data):
    with postgres(settings={}) as server:
        place = EnginePlace(server.url)
        X, y = data.take(40)
        collection = place.open(HCOH(n_bits=12, random_state=0), Never())
        collection.upsert(range(40), X, y)
        with collection, place.open(readonly=True) as reader:
            for how in ("SIGINT", "SIGQUIT"):
                check(reader, X, len(collection))
                server.stop(how)
                with pytest.raises(StorageError, match="Cannot connect"):
                    reader.search(X[0])
                for _ in range(2):
                    with pytest.raises(StorageError, match="Cannot connect"):
                        collection.upsert([100, 101], X[:2], y[:2])
                server.start()
                collection.upsert([len(collection)], X[:1], y[:1])
                collection.refresh()
                check(collection, X, len(collection))
            assert len(reader) == 42
            check(reader, X, 42)


@pytest.mark.parametrize("vector_dtype", ["float32", "float16"])
def test_a_stream_that_crashed_goes_on_as_if_it_had_not(place, data, vector_dtype):
    X, y = data.take(120)
    stored = X.astype(vector_dtype).astype(np.float32)
    collection = place.open(HCOH(12, random_state=0), Never(), vector_dtype=vector_dtype)
    collection.upsert(range(50), X[:50], y[:50])
    collection.refresh()  # the state is written here; what follows is learned again
    collection.upsert(range(50, 80), X[50:80], y[50:80])
    collection.upsert(range(40, 55), X[80:95], y[80:95])  # replaced: before and after the state
    collection.delete([1, 60])  # deleted: before and after the state
    collection.update([2, 61], labels=[0, 1])
    collection._store.close()
    uncut = HCOH(12, random_state=0).partial_fit(stored[[*range(95), 2, 61]], [*y[:95].tolist(), 0, 1])
    for _ in range(2):
        with place.open() as again:
            assert again.hasher.n_samples_seen_ == 97
            assert np.allclose(again.hasher.decision_function(stored), uncut.decision_function(stored), atol=1e-4)
            check(again, X, 78)


def test_the_batches_that_the_state_has_not_learned_from_are_known(small, place):
    collection, X, y = small
    store = collection._store
    with store.writing():
        collection._learner.save(collection._learner.hasher, collection._position.seq)
    assert store.commits(0) == []
    collection.upsert([40, 41], X[:2], y[:2])
    collection.delete([3, 40])
    collection.upsert(range(60, 65), X[:5], y[:5])
    collection.update(5, payload="not learned from")
    assert store.commits(0) == [42, 49]
    assert store.commits(42) == [49]
    with place.open(readonly=True) as reader:
        assert reader._store.commits(0) == [42, 49]
    with store.writing():
        collection._learner.save(collection._learner.hasher, collection._position.seq)
    assert store.commits(0) == []


# ---------------------------------------------------------------------- damage


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        ("items SET vectors = substr(vectors, 2) WHERE id = 7", "the item with id 7"),
        ("items SET vectors = set_byte(vectors, 3, 9) WHERE id = 7", "the item with id 7"),
        ("items SET labels = '[1' WHERE id = 7", "the item with id 7"),
        ("items SET payload = '{' WHERE id = 7", "the item with id 7"),
        ("items SET id = 99 WHERE id = 7", "the item with id 99"),
        ("settings SET value = '\"MANY\"' WHERE name = 'id_type'", "the setting 'id_type'"),
        ("settings SET value = '{' WHERE name = 'n_items'", "the setting 'n_items'"),
        ("settings SET value = '4x' WHERE name = 'seq'", "the setting 'seq'"),
    ],
)
def test_what_is_damaged_is_told(small, place, server, damage, what):
    small[0].close()
    server.execute(f"UPDATE onlinehash_{place.name}.{damage}")
    for readonly in (False, True):
        with (
            pytest.raises(FileFormatError, match=rf"is damaged: {what} is not what was stored. Restore it"),
            place.open(readonly=readonly) as collection,
        ):
            assert list(collection)
            collection.stats()
            list(collection.items())


def test_a_damaged_label_or_a_missing_state_is_told(small, place, server):
    small[0].close()
    server.execute(f"UPDATE onlinehash_{place.name}.items SET labels = '[1' WHERE id = 7")
    with place.open() as collection:
        with pytest.raises(FileFormatError, match="damaged: the label of an item"):
            collection.label_counts()
        collection.upsert(50, small[1][0], 1)
        with pytest.raises(FileFormatError, match="the item with id 7"):
            collection.refresh()
    server.execute(f"DELETE FROM onlinehash_{place.name}.hasher")
    with pytest.raises(FileFormatError, match="damaged: the state of the hasher"):
        place.open()


def test_changed_payloads_have_their_checksums(small):
    collection, X, _ = small
    collection.update([1, 2, 3], payload=["a", None, {"b": "ü"}])
    collection.update(2, X[9], payload="c")
    collection.update(3, labels=2)
    assert [item.payload for item in collection.get([1, 2, 3, 4])] == ["a", "c", {"b": "ü"}, None]


# ---------------------------------------------------------------------- forked processes


FORK = """
import gc, os, sys, traceback
import numpy as np
from onlinehash import Collection
from onlinehash.exceptions import StorageError
from onlinehash.indexes.engines.postgres import PostgresIndex
X = np.zeros((2, 6), np.float32)
codes = np.zeros((2, 1), np.uint8)
writer = {writer}
reader = {reader}
index = PostgresIndex(8, {url!r}, table={table!r})
index.upsert(codes)
reader.search(X, labels=1)
if (child := os.fork()) == 0:
    try:
        for collection in (writer, reader):
            for call in (
                lambda: len(collection), lambda: list(collection), lambda: 3 in collection, lambda: collection.get(3),
                lambda: collection.search(X[0]), lambda: collection.range_search(X, 3), lambda: collection.codes(),
                lambda: collection.stats(), lambda: collection.label_counts(), lambda: collection.id_type,
                lambda: list(collection.items()),
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
            lambda: index.upsert(codes), lambda: len(index), lambda: index.search(codes, 1),
        ):
            try:
                call()
            except StorageError as error:
                assert "a fork of it" in str(error)
            else:
                raise AssertionError("no error")
        with {reader} as own:
            assert len(own) == 40
        writer.close(), reader.close(), index.close()
        del writer, reader, index, collection
        gc.collect()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
connections = [writer._store._writer, *writer._store._connections, *reader._store._connections]
writer.upsert(50, X[0], 1)
assert len(writer) == len(reader) == 41
assert len(index.search(codes, 1)) == 2
assert connections == [writer._store._writer, *writer._store._connections, *reader._store._connections]
writer.close(), reader.close(), index.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_is_refused_and_leaves_the_connections_alone(small, place):
    small[0].close()
    program = FORK.format(
        writer=place.source(), reader=place.source(readonly=True), url=place.store, table=f"codes_{place.name}"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert not run.returncode, run.stderr


# ---------------------------------------------------------------------- what others see


READING = """
import numpy as np
from onlinehash import Collection
X = np.array({queries}, np.float32)
seen = set()
with {reader} as items:
    print("ready", flush=True)
    for _ in range({n_looks}):
        for label in (0, 1):
            for found in (
                items.search(X, 50, labels=label),
                items.search(X, 50, labels=label, asymmetric=True),
                items.range_search(X, 12, labels=label),
                [items.search(X[0], 50, labels=label)],
            ):
                sizes = {{len(hits.ids) for hits in found}}
                assert sizes in ({{0}}, {{30}}), (label, sizes)
                seen |= sizes
        for hits in items.search(X, 50):
            assert len(hits.ids) == 30, hits.ids
            assert len(set(hits.distances)) == 1, hits.distances
        assert len({{(item.labels, item.payload, item.vectors.tobytes()) for item in items.get(range(30))}}) == 1
assert seen == {{0, 30}}
"""


def test_a_reader_sees_only_what_was_committed(place, data):
    """In every committed state all items have one vector, one label and one payload."""
    X, y = data.take(60)
    first, second = X[y == 0][0], X[y == 1][0]
    with place.open(HCOH(12, random_state=0), Never()) as writer:
        writer.upsert(range(100, 160), X, y)
        writer.refresh()
        writer.delete(range(100, 160))
        writer.upsert(range(30), np.tile(first, (30, 1)), [0] * 30, [0] * 30)
        program = READING.format(queries=X[:4].tolist(), n_looks=12, reader=place.source(readonly=True))
        readers = [
            subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        for reader in readers:
            assert reader.stdout.readline() == "ready\n", reader.stderr.read()
        label = 0
        while any(reader.poll() is None for reader in readers):
            label = 1 - label
            writer.upsert(range(30), np.tile((first, second)[label], (30, 1)), [label] * 30, [label] * 30)
        for reader in readers:
            _, wrong = reader.communicate()
            assert not reader.returncode, wrong


# ---------------------------------------------------------------------- generations come and go


def test_a_search_whose_codes_were_dropped_is_repeated(small, place, monkeypatch):
    collection, X, y = small
    with place.open(readonly=True) as reader:
        before = reader.search(X[0], 50)
        collection.upsert(range(40, 60), X[:20], y[:20])
        monkeypatch.setattr(reader, "_catch_up", lambda: None)  # it had looked just before
        for _ in range(2):
            collection.upsert(60, X[0], y[0])
            collection.refresh()
            after = pairs(collection.search(X[0], 100))
            assert pairs(reader.search(X[0], 100)) == after != pairs(before)
            assert sorted(reader.codes()[0]) == list(range(61))
            assert reader._index.are_searchable([collection._store.seqs([3])[0], 10**6]) == [True, False]


@pytest.mark.parametrize("search", ["memory", "faiss"])
def test_codes_dropped_while_an_engine_reads_them_are_read_again(small, place, monkeypatch, search):
    collection, X, y = small
    with place.open(readonly=True, search=search) as reader:
        collection.upsert(40, X[0], y[0])
        collection.refresh()
        generations = reader._store.generations

        def refreshed_meanwhile():
            monkeypatch.undo()
            found = generations()
            collection.upsert(41, X[1], y[1])
            collection.refresh()
            return found

        monkeypatch.setattr(reader._store, "generations", refreshed_meanwhile)
        assert pairs(reader.search(X[0], 100)) == pairs(collection.search(X[0], 100))
        assert len(reader.codes()[0]) == 42


def test_codes_that_are_missing_are_told(small, place, server):
    collection, X, _ = small
    server.execute(f"DROP TABLE onlinehash_{place.name}.codes_1")
    with pytest.raises(StorageError, match="codes of generation 1, which is in use, are missing"):
        place.open(readonly=True, search="memory")
    with pytest.raises(StorageError, match="codes of generation 1, which is in use, are missing"):
        collection.search(X[0])


def test_a_reader_that_takes_long_does_not_hold_up_a_refresh(small, place, server):
    collection, X, y = small
    tables = f"""SELECT tablename FROM pg_tables
                 WHERE schemaname = 'onlinehash_{place.name}' AND tablename LIKE 'codes%%'"""
    with place.open(readonly=True) as reader:
        with reader._store.reading():
            ids = reader._store.codes(1).ids
            collection.upsert(40, X[0], y[0])
            collection.refresh()
            assert collection.stats().generation == 2
            check(collection, X, 41)
            assert reader._store.codes(1).ids == ids
            assert len(server.execute(tables)) == 2
        check(reader, X, 41)
        collection.upsert(41, X[0], y[0])
        collection.refresh()
        assert server.execute(tables) == [("codes_3",)]


def test_readers_search_while_generations_change(small, place, monkeypatch):
    monkeypatch.setattr(postgres_server, "_READERS", 2)
    collection, X, y = small
    wrong, done = [], threading.Event()

    def search(reader):
        while not done.is_set():
            try:
                ids = reader.search(X[0], 50).ids
                if len(set(ids)) != len(ids) or not {*range(40)} <= set(ids):
                    wrong.append(ids)
                if len(reader.search(X[:3], 5)) != 3 or not reader.range_search(X[0], 12, labels=1).ids:
                    wrong.append("missing")
            except Exception as error:
                wrong.append(error)

    with place.open(readonly=True) as reader:
        threads = [threading.Thread(target=search, args=(who,)) for who in (reader, reader, reader, collection)]
        for thread in threads:
            thread.start()
        for i in range(8):
            collection.upsert(40 + i, X[i], y[i])
            collection.refresh()
        done.set()
        for thread in threads:
            thread.join()
    assert not wrong


# ---------------------------------------------------------------------- pgvector


STAND_IN = """
CREATE SCHEMA elsewhere;
CREATE FUNCTION elsewhere.apart(bit, bit) RETURNS float8 IMMUTABLE LANGUAGE sql AS 'SELECT bit_count($1 # $2)::float8';
CREATE OPERATOR elsewhere.<~> (FUNCTION = elsewhere.apart, LEFTARG = bit, RIGHTARG = bit)
"""


def test_the_operator_of_pgvector_is_used_where_there_is_one(server, data):
    """Not pgvector itself: an operator of that name, in a schema of its own."""
    server.execute("CREATE DATABASE vectors")
    url = server.url_of("vectors")
    with psycopg.connect(url) as connection:
        connection.execute(STAND_IN)
    X, y = data.take(40)
    with Collection.open("items", HCOH(12, random_state=0), Never(), store=url) as collection:
        assert collection._store._pgvector.schema == "elsewhere"
        collection.upsert(range(40), X, y)
        check(collection, X, 40)
        assert collection.search(X[0], 5).distances == [int(d) for d in collection.search(X[0], 5).distances]
        radius = collection.range_search(X[0], 4)
        assert pairs(radius) == [pair for pair in ranking(collection, X[0]) if pair[0] <= 4]


@pytest.mark.parametrize("approximate", [False, True])
def test_pgvector_itself_searches_a_collection_while_it_changes(server, data, approximate):
    url = create_pgvector(server, f"pgvector_{int(approximate)}")
    X, y = data.take(600)
    url += "?approximate=true" if approximate else ""
    with Collection.open("items", HCOH(12, random_state=0), Never(), store=url) as collection:
        for start in range(0, 500, 100):
            collection.upsert(range(start, start + 100), X[start : start + 100], y[start : start + 100])
        collection.refresh()
        collection.delete(range(50))
        collection.upsert(range(500, 600), X[500:], y[500:])
        for query in X[:5]:
            known, found = ranking(collection, query)[:10], pairs(collection.search(query, 10))
            assert [distance for distance, _ in found] == [distance for distance, _ in known]
            assert approximate or found == known
        plan = server_plan(collection, X[0])
        assert ("Index Scan" in plan) == approximate
        assert collection.check().ok
    with Collection.open("items", store=url, readonly=True) as reader:
        assert len(reader.search(X[0], 1000)) == len(reader) == 550


def server_plan(collection, query):
    """Return how the server finds the nearest codes."""
    store, (code,) = collection._store, collection.encoder.encode(query[None])
    bits = "".join(map(str, np.unpackbits(code, bitorder="little")[:12]))
    with store._connection() as connection:
        connection.execute("SET enable_seqscan = off")  # it is a small table
        rows = connection.execute(
            f"EXPLAIN SELECT id FROM {store._table(store.position().generation)} ORDER BY code <~> B'{bits}' LIMIT 5"
        ).fetchall()
        connection.execute("RESET enable_seqscan")
    return "\n".join(row for (row,) in rows)
