"""What the store in a file tells those who follow it, and what it says of a file that is damaged."""

import re
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from onlinehash import HCOH, Collection
from onlinehash.collection import Never
from onlinehash.collection.stores import sqlite_codes
from onlinehash.collection.stores.sqlite import SqliteStore
from onlinehash.exceptions import FileFormatError


def test_codes_come_with_the_labels_of_their_items_in_order_of_arrival(path, data, monkeypatch):
    monkeypatch.setattr(sqlite_codes, "_FETCH_CODES", 7)
    X, _ = data.take(30)
    names = [f"line\n{i}" for i in range(30)]
    labels = [None if i % 5 == 0 else [f"b{i % 3}", "é\n"] if i % 4 == 0 else "a" for i in range(30)]
    with Collection.open(path, HCOH(n_bits=12, random_state=0), Never()) as collection:
        collection.upsert(names, X, labels)
        ids, seqs, codes, texts = collection._store.codes(1)
        assert ids == names == collection.codes()[0]
        assert seqs.tolist() == collection._store.seqs(ids) == sorted(seqs)
        assert np.array_equal(codes, collection.encoder.encode(X[[names.index(id) for id in ids]]))
        assert list(texts) == [row for id in ids for row in collection._store.rows([id]).labels]
        assert texts.count(None) == 6


def test_codes_are_read_in_parts_also_where_the_last_is_empty(items, monkeypatch):
    for n_at_a_time in (10, 40, 39, 41):
        monkeypatch.setattr(sqlite_codes, "_FETCH_CODES", n_at_a_time)
        ids, seqs, codes, labels = items._store.codes(1)
        assert (ids, len(seqs), len(labels)) == (list(range(40)), 40, 40)
        assert np.array_equal(codes, items.codes()[1])


def test_changes_come_with_labels_and_name_a_deleted_id_once(items, data):
    X, _ = data.take(3)
    after = items._position.seq
    for _ in range(3):
        items.delete(7)
        items.upsert(7, X[0], 1)
    items.delete([7, 8])
    items.upsert([100, 8], X[1:], [None, 2])
    changes = items._store.changes(after)
    assert sorted(changes.deleted) == [7, 8]
    assert dict(zip(changes.ids, changes.labels, strict=True)) == {100: None, 8: "2"}
    assert np.array_equal(changes.codes, items.encoder.encode(X[1:]))


def test_commits_tell_in_which_batches_the_stream_came_since_the_last_state(items, data):
    X, y = data.take(20)
    store, start = items._store, items._position.seq
    with store.writing():
        items._learner.save(items._learner.hasher, items._position.seq)
    assert store.commits(0) == []
    items.upsert(range(50, 55), X[:5], y[:5])
    items.delete([50, 51])
    items.upsert(60, X[0], y[0])
    assert store.commits(0) == store.commits(start) == [start + 5, start + 8]
    assert store.commits(start + 5) == [start + 8]
    with store.writing():
        items._learner.save(items._learner.hasher, items._position.seq)
    assert store.commits(0) == []


def test_items_that_have_a_code_are_counted(items):
    assert items._store.n_coded(1) == 40
    with items._store.writing():
        number = items._store.begin_generation(items.encoder.to_bytes())
    assert items._store.n_coded(number) == 0


def damage(path, table, statement):
    """Change a row behind the back of the collection."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(statement.format(table=table)).rowcount
        connection.commit()


@pytest.mark.parametrize(
    ("column", "told"),
    [
        ("vectors = zeroblob(24)", "the vector of item 17 does not match its checksum"),
        ("""payload = '"other"'""", "the payload of item 17 does not match its checksum"),
        ("labels = 77", "item 17 does not match its checksum"),
        ("seq = -1", "item 17 is not where it should be"),
    ],
)
def test_an_item_that_changed_is_named_and_the_others_can_be_read(items, path, column, told):
    items.close()
    damage(path, "items", f"UPDATE {{table}} SET {column} WHERE id = 17")
    for readonly in (False, True):
        with Collection.open(path, readonly=readonly) as collection:
            with pytest.raises(
                FileFormatError, match=f"items.oh is damaged: {told}. Restore it from a copy; with readonly=True, all"
            ):
                collection.get(17)
            with pytest.raises(FileFormatError, match=told):
                list(collection.items())
            assert len(collection.get([id for id in range(40) if id != 17])) == 39


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE ids SET code = zeroblob(length(code)) WHERE id = 17", "the code of sequence number 41 does not match"),
        ("UPDATE ids SET labels = 9 WHERE id = 17", "in the table ids, the row of 17 does not match"),
        ("UPDATE ids SET seq = 99 WHERE id = 17", "in the table ids, the row of 17 does not match"),
        ("UPDATE ids SET id = 99 WHERE id = 17", "in the table ids, the row of 99 does not match"),
        ("DELETE FROM ids WHERE id = 17", "it has 39 of 40 ids"),
        ("UPDATE codes_1 SET codes = zeroblob(length(codes))", "in the table codes_1, the row of 1 does not match"),
        ("UPDATE codes_1 SET seq = 7", "in the table codes_1, the row of 7 does not match"),
        ("DELETE FROM codes_1", "it has 1 of 40 codes"),
        ("UPDATE settings SET value = '[41]' WHERE name = 'head'", "the setting 'head' does not match its checksum"),
        ("DELETE FROM settings WHERE name = 'refresh'", "settings are missing"),
        ("DELETE FROM hasher", "the table hasher cannot be read"),
        ("DELETE FROM generations", "the encoder of generation 1 is missing"),
        ("UPDATE generations SET encoder = zeroblob(9)", "in the table generations, the row of 1 does not match"),
        ("UPDATE generations SET number = 2", "its tables are not those of a collection"),
    ],
)
def test_a_file_whose_codes_or_settings_changed_is_refused(items, path, data, statement, told):
    items.upsert(17, data.take(1)[0][0], 1)  # its code is beside its id, the others in a chunk
    items.close()
    damage(path, "", statement)
    with pytest.raises(FileFormatError, match=f"items.oh is damaged: {re.escape(told)}.*Restore it from a copy"):
        Collection.open(path)


def test_a_hasher_does_not_learn_from_a_stream_in_which_items_are_missing(items, path, data):
    X, y = data.take(20)
    items.upsert(range(50, 70), X, y)
    items._learner._unsaved = 0  # closed as if killed
    items.close()
    damage(path, "items", "DELETE FROM {table} WHERE id = 60")
    with pytest.raises(FileFormatError, match="items are missing that the hasher has learned from"):
        Collection.open(path)


def test_no_generation_without_all_items_is_taken_into_use(items, path):
    items.close()
    damage(path, "items", "DELETE FROM {table} WHERE id = 17")
    with Collection.open(path) as collection:
        with pytest.raises(FileFormatError, match="it has 39 of 40 items"):
            collection.change_hasher("lsh")
        store = collection._store
        with store.writing():
            number = store.begin_generation(collection.encoder.to_bytes())
            rows = store.vectors(0, 100)
            store.put_codes(number, 0, rows, collection.encoder.encode(rows.vectors))
        with pytest.raises(FileFormatError, match="it has 39 of 40 codes"), store.writing():
            store.finish_generation(number)
        assert len(collection.search(rows.vectors[0], 100)) == 40


def test_a_store_that_was_just_made_is_whole(path):
    SqliteStore(path).close()
    with closing(SqliteStore(path, readonly=True)) as store:
        assert (store.count(), store.position(), store.setting("colour")) == (0, (0, 0), None)
