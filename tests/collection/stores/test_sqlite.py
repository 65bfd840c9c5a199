"""What the store in a file tells those who follow it, and what it says of a file that is damaged."""

import re
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from onlinehash import HCOH, Collection
from onlinehash.collection import check_collection
from onlinehash.collection.stores import sql
from onlinehash.collection.stores.sql import Head
from onlinehash.collection.stores.sqlite import APPLICATION_ID, SqliteStore
from onlinehash.exceptions import DamagedError, DataNotFoundError, FileFormatError


def test_items_and_codes_come_in_order_of_arrival(path, data):
    X, _ = data.take(30)
    names = [f"line\n{99 - i}" for i in range(30)]
    labels = [None if i % 5 == 0 else [f"b{i % 3}", "é\n"] if i % 4 == 0 else "a" for i in range(30)]
    with Collection.open(path, HCOH(n_bits=12, random_state=0), "manual") as collection:
        collection.upsert(names[:20], X[:20], labels[:20])
        collection.upsert(names[20:], X[20:], labels[20:])
        store = collection._store
        items, codes = store.items(), store.codes(1)
        assert items.ids == names == collection.codes()[0]
        assert items.seqs.tolist() == codes.seqs.tolist() == [*store.seqs(names).values()] == sorted(items.seqs)
        assert np.array_equal(codes.codes, collection.encoder.encode(X))
        assert items.labels == store.rows(items.seqs.tolist()).labels
        assert items.labels.count(None) == 6


@pytest.mark.parametrize("n_at_a_time", [10, 39, 40, 41])
def test_codes_are_stored_in_chunks(path, data, monkeypatch, n_at_a_time):
    monkeypatch.setattr(sql, "CODES_PER_CHUNK", n_at_a_time)
    X, y = data.take(80)
    with Collection.open(path, HCOH(n_bits=12, random_state=0), "manual") as collection:
        collection.upsert(range(40), X[:40], y[:40])
        collection.upsert(range(40, 80), X[40:], y[40:])
        collection.refresh()
        ((n_chunks,),) = collection._store.query("SELECT count(*) FROM codes")
        assert n_chunks == -(-80 // n_at_a_time)
        codes = collection._store.codes(2)
        assert np.array_equal(codes.codes, collection.codes()[1])
        assert np.array_equal(codes.codes, collection.encoder.encode(X))
    with Collection.open(path) as again:
        assert np.array_equal(again.codes()[1], codes.codes)


def test_changes_name_the_items_that_came_and_those_that_went(items, data):
    X, _ = data.take(3)
    store, after = items._store, items.sequence
    first = store.seqs([7, 8]).values()
    for _ in range(3):
        items.delete(7)
        items.upsert(7, X[0], 1)
    items.delete([7, 8])
    items.upsert([100, 8], X[1:], [None, 2])
    changes = store.changes_since(after, store.head())
    assert set(first) < set(changes.gone.tolist())
    assert dict(zip(changes.items.ids, changes.items.labels, strict=True)) == {100: None, 8: "2"}
    assert changes.items.seqs.tolist() == [*store.seqs([100, 8]).values()]
    rows = np.isin(changes.codes.seqs, changes.items.seqs)
    assert np.array_equal(changes.codes.codes[rows], items.encoder.encode(X[1:]))


def test_changes_too_far_back_are_not_told(items, data, monkeypatch):
    X, y = data.take(10)
    after = items.sequence
    items.upsert(range(50, 60), X, y)
    assert len(items._store.changes_since(after, items._store.head()).items.seqs) == 10
    monkeypatch.setattr(sql, "FOLLOWED", 10)
    assert items._store.changes_since(after, items._store.head()) is None


def test_the_batches_of_the_stream_since_the_last_state_are_known(items, data):
    X, y = data.take(20)
    store = items._store
    items.compact()  # writes the state
    start = items.sequence
    assert store.batches(start) == []
    items.upsert(range(50, 55), X[:5], y[:5])
    items.delete([50, 51])
    items.upsert(60, X[0], y[0])
    last = items.sequence
    assert store.batches(start) == [(start + 1, 5), (last, 1)]
    items.compact()
    assert store.batches(last) == []


def test_rows_of_items_that_are_gone_stay_until_the_state_is_written(items, data):
    def in_stream(*ids):
        marks = ", ".join("?" * len(ids))
        return items._store.query(f"SELECT count(*) FROM stream WHERE id IN ({marks})", *ids)[0][0]

    X, y = data.take(2)
    items.compact()
    items.upsert([50, 51], X, y)
    items.delete([1, 50])
    assert (in_stream(1), in_stream(50, 51)) == (0, 2)  # 50 is to be learned again after a crash
    items.compact()
    assert in_stream(50, 51) == 1


def test_a_transaction_that_fails_changes_nothing(path):
    with closing(SqliteStore(path)) as store:
        with store.transaction():
            store.put_settings({"colour": "red"})
        before = store.head()
        for error in (ValueError, KeyboardInterrupt):
            with pytest.raises(error), store.transaction():
                store.put_settings({"colour": "blue", "size": 3})
                raise error
            assert (store.settings(), store.head()) == ({"colour": "red"}, before)
        with store.transaction():
            store.put_settings({"colour": None, "size": 3})
        assert store.settings() == {"size": 3}


def test_a_snapshot_shows_one_moment(path):
    with closing(SqliteStore(path)) as writer, closing(SqliteStore(path, readonly=True)) as reader:
        with reader.snapshot():
            assert reader.settings() == {}
            with writer.transaction():
                writer.put_settings({"colour": "red"})
            assert reader.settings() == {}
        assert reader.settings() == {"colour": "red"}


def test_a_store_that_was_just_made_is_whole(path):
    SqliteStore(path).close()
    with closing(SqliteStore(path, readonly=True)) as store:
        assert (len(store.items().seqs), store.head(), store.settings()) == (0, Head(), {})


def test_a_store_is_made_only_where_that_is_wanted(path):
    with pytest.raises(DataNotFoundError, match="There is no collection"):
        SqliteStore(path, readonly=True)
    assert not list(path.parent.iterdir())
    path.touch()  # as a temporary file is
    with pytest.raises(DataNotFoundError, match="There is no collection in"):
        Collection.open(path, readonly=True)
    with Collection.open(path) as collection:
        assert len(collection) == 0


# ---------------------------------------------------------------------- other versions and other files


def write_header(path, application, version):
    """Make a database with a table, and mark it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE items (id, seq, vectors, labels, payload, checksums)")
        connection.execute(f"PRAGMA application_id = {application}")
        connection.execute(f"PRAGMA user_version = {version}")


@pytest.mark.parametrize(
    ("application", "version", "told"),
    [
        (
            APPLICATION_ID,
            2,
            "items.oh was written by onlinehash 0.2.0, and this version does not read it. With 0.2.0, run: onlinehash "
            "collection export items.oh items.npz; then with this version: onlinehash ingest items.npz --into new.oh",
        ),
        (APPLICATION_ID, 1, "was written by onlinehash 0.1.0, and this version does not read it. With 0.1.0, run: "),
        (APPLICATION_ID, 4, "has schema 4; this version reads 3. Upgrade onlinehash."),
        (7, 3, "is a database, but not a collection that onlinehash wrote."),
    ],
)
def test_a_file_of_another_version_is_refused_with_what_to_do(path, tmp_path, application, version, told):
    write_header(path, application, version)
    before = path.read_bytes()
    for call in (
        lambda: Collection.open(path),
        lambda: Collection.open(path, "hcoh"),
        lambda: Collection.open(path, readonly=True),
        lambda: Collection.restore(path, tmp_path / "new.oh"),
    ):
        with pytest.raises(FileFormatError, match=re.escape(told)):
            call()
    (problem,) = check_collection(path).problems
    assert told in problem
    assert path.read_bytes() == before
    beside = {f"items.oh{suffix}" for suffix in ("", ".lock", "-wal", "-shm")}  # as SQLite leaves them
    assert {file.name for file in tmp_path.iterdir()} <= beside


# ---------------------------------------------------------------------- damage


def damage(path, statement):
    """Change a row behind the back of the collection."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(statement).rowcount
        connection.commit()


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE stream SET vector = zeroblob(24) WHERE id = 17", "the vector of item 17 does not match its checksum"),
        ("UPDATE stream SET vector = 'text' WHERE id = 17", "the vector of item 17 does not match its checksum"),
        ("UPDATE stream SET labels = 77 WHERE id = 17", "the vector of item 17 does not match its checksum"),
        ("UPDATE stream SET checksum = 'x' WHERE id = 17", "the vector of item 17 does not match its checksum"),
        ("DELETE FROM stream WHERE id = 17", "item 17 is not where it should be"),
        (
            "UPDATE payloads SET payload = 7 WHERE seq = (SELECT seq FROM items WHERE id = 17)",
            "the payload of item 17 does not match its checksum",
        ),
        (
            "DELETE FROM payloads WHERE seq = (SELECT seq FROM items WHERE id = 17)",
            "item 17 is not where it should be",
        ),
    ],
)
def test_an_item_that_changed_is_named_and_the_others_can_be_read(items, path, statement, told):
    items.close()
    damage(path, statement)
    for readonly in (False, True):
        with Collection.open(path, readonly=readonly) as collection:
            for call in (lambda: collection.get(17), lambda: list(collection.items())):
                with pytest.raises(DamagedError, match=f"items.oh is damaged: {told}. Restore it from a copy"):
                    call()
            assert len(collection.get([id for id in range(40) if id != 17])) == 39
            assert len(collection.search(np.ones(6), 100)) == 40


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE items SET labels = 9 WHERE id = 17", "item 17 does not match its checksum"),
        ("UPDATE items SET seq = 99 WHERE id = 17", "item 17 does not match its checksum"),
        ("UPDATE items SET id = 99 WHERE id = 17", "item 99 does not match its checksum"),
        ("DELETE FROM items WHERE id = 17", "39 items were found of 40"),
        ("UPDATE codes SET codes = zeroblob(length(codes))", "codes do not match their checksum"),
        ("UPDATE codes SET codes = zeroblob(2) WHERE last = 41", "codes do not match their checksum"),
        ("UPDATE codes SET seqs = zeroblob(length(seqs))", "codes do not match their checksum"),
        ("UPDATE codes SET last = 7 WHERE last = 40", "codes do not match their checksum"),
        ("UPDATE codes SET codes = 'text' WHERE last = 41", "codes do not match their checksum"),
        ("UPDATE codes SET seqs = 'text' WHERE last = 41", "codes do not match their checksum"),
        ("DELETE FROM codes WHERE last = 41", "codes of items are missing"),
        ("DELETE FROM codes WHERE last = 40", "codes of items are missing"),
        ("DELETE FROM codes", "codes of items are missing"),
        ("UPDATE settings SET value = '[41]' WHERE name = 'head'", "the setting 'head' does not match its checksum"),
        ("DELETE FROM settings WHERE name = 'head'", "its counters are missing"),
        ("DELETE FROM settings WHERE name = 'refresh'", "settings are missing"),
        ("DELETE FROM settings", "its counters are missing"),
        ("DELETE FROM state", "the state of the hasher does not match its checksum"),
        ("UPDATE state SET content = zeroblob(9)", "the state of the hasher does not match its checksum"),
        ("UPDATE state SET content = 'text'", "the state of the hasher does not match its checksum"),
        ("DELETE FROM generation", "the encoder does not match its checksum"),
        ("UPDATE generation SET encoder = zeroblob(9)", "the encoder does not match its checksum"),
        ("UPDATE generation SET number = 2", "the encoder does not match its checksum"),
    ],
)
def test_a_file_whose_codes_or_settings_changed_is_refused(items, path, data, statement, told):
    items.upsert(17, data.take(1)[0][0], 1)  # a chunk of codes of its own
    items.close()
    damage(path, statement)
    with pytest.raises(DamagedError, match=f"items.oh is damaged: {re.escape(told)}.*Restore it from a copy"):
        Collection.open(path)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE gone",
        "DROP INDEX gone_by_at",
        "ALTER TABLE payloads RENAME COLUMN payload TO content",
        "ALTER TABLE items ADD COLUMN colour",
    ],
)
def test_a_file_with_other_tables_is_refused(items, path, statement):
    items.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
    for readonly in (False, True):
        with pytest.raises(DamagedError, match="its tables are not those of a collection"):
            Collection.open(path, readonly=readonly)


def test_a_file_that_was_cut_short_is_refused(items, path):
    items.close()
    whole = path.read_bytes()
    for n_bytes in (len(whole) - 1, len(whole) - 4096, 5000, 4096, 100, 17):
        path.write_bytes(whole[:n_bytes])
        for readonly in (False, True):
            with pytest.raises(FileFormatError, match=r"items.oh is damaged.*Restore it from a copy"):
                Collection.open(path, readonly=readonly)


def test_a_hasher_does_not_learn_from_a_stream_in_which_items_are_missing(items, path, data, tmp_path):
    X, y = data.take(20)
    items.upsert(range(50, 70), X, y)
    copy = tmp_path / "copy.oh"
    for suffix in ("", "-wal"):  # as if killed
        copy.with_name(f"copy.oh{suffix}").write_bytes(path.with_name(f"items.oh{suffix}").read_bytes())
    damage(copy, "DELETE FROM stream WHERE id = 60")
    with pytest.raises(DamagedError, match="items are missing that the hasher has learned from"):
        Collection.open(copy)


def test_no_generation_without_all_items_is_taken_into_use(items, path, data):
    items.close()
    damage(path, "DELETE FROM stream WHERE id = 17")
    X, y = data.take(1)
    with Collection.open(path) as collection:
        collection.upsert(100, X[0], y[0])
        with pytest.raises(DamagedError, match="the vectors of 1 items are missing"):
            collection.refresh()
        assert collection.generation == 1
        assert len(collection.search(X[0], 100)) == 41
        assert "the vectors of 1 items are missing" in collection.stats().refresh_error
    with Collection.open(path) as again:
        assert len(again.search(X[0], 100)) == 41
