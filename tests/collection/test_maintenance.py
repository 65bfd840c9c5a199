"""Check, back up, restore and compact: damage is found and named, and a sound collection is never called damaged."""

import random
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from tests.collection.brute import contents

from onlinehash import HCOH, HROH, LSH, Collection
from onlinehash.collection import check_collection, export_items, migration
from onlinehash.collection.stores.sql import checksum
from onlinehash.exceptions import (
    DamagedError,
    DataNotFoundError,
    FileFormatError,
    InvalidInputError,
    LockedError,
    StorageError,
)


@pytest.fixture
def file(path, data):
    """A closed collection of 300 items, with labels, payloads and codes."""
    X, y = data.take(300)
    with Collection.open(path, HCOH(n_bits=12, random_state=0), "manual") as collection:
        collection.upsert(range(300), X, y, [{"n": i} for i in range(300)])
    return path


def change(path, sql, *values):
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(sql, values).rowcount == 1


def flip(path, at, bit=0):
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def answers(path, X):
    with Collection.open(path, readonly=True) as collection:
        items = [(item.id, item.vectors.tolist(), item.labels, item.payload) for item in collection.items()]
        return items, collection.search(X, 50).ids, collection.hasher.to_bytes()


# ---------------------------------------------------------------------- check


def test_nothing_is_wrong_with_a_collection_in_use(place, data):
    X, y = data.take(400)
    with place.open(HCOH(n_bits=12, random_state=0), "manual") as collection:
        assert collection.check().ok
        collection.upsert(range(200), X[:200], y[:200], checkpoint={"offset": 7})
        collection.refresh()
        collection.delete(range(10, 30))
        collection.upsert(range(20, 220), X[200:], y[200:])
        collection.update(0, labels=None)
        calls = []
        report = collection.check(progress=lambda *call: calls.append(call))
        assert (report.problems, report.n_items, report.n_codes, report.n_encoded) == ((), 210, 210, 210)
        assert calls[-1] == (420, 420)
        assert calls == sorted(calls)
        assert collection.check(sample=50).n_encoded == 50
        assert check_collection(place.name, store=place.store) == report


@pytest.mark.parametrize("hasher", [HROH(24, n_components=64, random_state=0), LSH(64, random_state=0)], ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_codes_made_one_at_a_time_are_those_of_the_encoder(path, hasher, dtype):
    X = np.random.default_rng(0).normal(loc=3.0, size=(300, 100))
    with Collection.open(path, hasher, "manual", vector_dtype=dtype) as collection:
        collection.upsert(range(200), X[:200], np.arange(200) % 5)
        collection.refresh()
        for i in range(200, 300):
            collection.upsert(i, X[i], i % 5)
        assert collection.check().problems == ()


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("UPDATE stream SET vector = zeroblob(24) WHERE id = 7", "the vector of item 7 does not match its checksum"),
        ("UPDATE stream SET vector = 'x' WHERE id = 7", "the vector of item 7 does not match its checksum"),
        ("UPDATE stream SET checksum = 'x' WHERE id = 7", "the vector of item 7 does not match its checksum"),
        ("UPDATE stream SET batch = 2 WHERE id = 7", "the vector of item 7 does not match its checksum"),
        ("DELETE FROM stream WHERE id = 7", "item 7 is not where it should be"),
        ("UPDATE payloads SET payload = '1' WHERE seq = 8", "the payload of item 7 does not match its checksum"),
        ("UPDATE payloads SET payload = NULL WHERE seq = 8", "the payload of item 7 does not match its checksum"),
        ("DELETE FROM payloads WHERE seq = 8", "item 7 is not where it should be"),
        ("INSERT INTO payloads VALUES (999, NULL, 0)", "there are 301 payloads of 300 items"),
        ("UPDATE items SET labels = '9' WHERE id = 7", "item 7 does not match its checksum"),
        ("DELETE FROM items WHERE id = 7", "299 items were found of 300"),
        ("UPDATE codes SET codes = x'00'", "codes do not match their checksum"),
        ("DELETE FROM codes", "codes of items are missing"),
        ("UPDATE state SET content = x'00'", "the state of the hasher does not match its checksum"),
        ("UPDATE generation SET encoder = x'00'", "the encoder does not match its checksum"),
        ("UPDATE settings SET value = '\"lsh\"' WHERE name = 'method'", "the setting 'method' does not match"),
        ("INSERT INTO gone VALUES (1, 1, 1)", "row 1 of the table gone does not match"),
    ],
)
def test_what_is_damaged_is_named(file, sql, words):
    change(file, sql)
    report = check_collection(file)
    assert any(words in problem for problem in report.problems), report
    assert not any("Restore" in problem or str(file) in problem for problem in report.problems)


def test_all_damaged_items_are_listed(file):
    for id in (3, 250, 299):
        change(file, "UPDATE payloads SET payload = '1' WHERE seq = ?", id + 1)
    for id in (4, 251, 298):
        change(file, "UPDATE stream SET vector = zeroblob(24) WHERE id = ?", id)
    with Collection.open(file, readonly=True) as collection:
        problems = set(collection.check(sample=0).problems)
    assert problems == {f"the payload of item {id} does not match its checksum" for id in (3, 250, 299)} | {
        f"the vector of item {id} does not match its checksum" for id in (4, 251, 298)
    }


def test_codes_of_another_encoder_are_noticed(items):
    other = HCOH(n_bits=12, random_state=1).partial_fit(*map(np.asarray, ([[1.0] * 6, [-1.0] * 6], [0, 1]))).snapshot()
    content, store = other.to_bytes(), items._store
    with store.transaction():
        store.execute("UPDATE generation SET encoder = ?, checksum = ?", content, checksum(1, content=content))
    problems = items.check().problems
    assert "is not what the encoder makes of its vector" in problems[0]


@pytest.mark.parametrize("seed", range(25))
def test_a_flipped_bit_that_changes_an_answer_is_found(file, data, seed):
    X, rng, whole = data.take(3)[0], random.Random(seed), file.read_bytes()
    known = answers(file, X)
    file.write_bytes(whole)
    flip(file, rng.randrange(len(whole)), rng.randrange(8))
    report, flipped = check_collection(file), file.read_bytes()
    try:
        changed = answers(file, X) != known
    except FileFormatError:
        changed = True
    assert changed <= (not report.ok), (flipped == whole, report)


def test_a_file_that_cannot_be_opened_is_reported_and_a_missing_one_is_an_error(file, tmp_path):
    file.write_bytes(file.read_bytes()[:5000])
    assert not check_collection(file).ok
    with pytest.raises(DataNotFoundError, match="There is no collection"):
        check_collection(tmp_path / "nope.oh")


def test_a_damaged_tree_of_items_never_ends_in_a_loop(file):
    """Rows that do not come in order would be read again and again."""
    with Collection.open(file, readonly=True) as collection:
        store = collection._store
        query = store.query
        store.query = lambda sql, *values: query(sql, *values)[:: -1 if "FROM stream" in sql else 1]
        with pytest.raises(DamagedError, match="the stream is not in order"):
            collection._store.stream(0, 10)


def test_a_migration_under_way_is_checked_too(path, data, monkeypatch):
    monkeypatch.setattr(migration, "ITEMS_PER_CHUNK", 8)
    X, y = data.take(40)
    with Collection.open(path, HCOH(n_bits=12, random_state=0), "manual") as collection:
        collection.upsert(range(40), X, y)

        def vectors():
            yield from ((i, X[i, :3]) for i in range(20))
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            collection.migrate(vectors=vectors())
        assert collection.migration.n_done == 16
        assert collection.check().ok
    change(path, "UPDATE new_stream SET vector = x'00' WHERE id = 7")
    assert "the vector of item 7 does not match its checksum" in str(check_collection(path))
    change(path, "UPDATE settings SET value = '{}' WHERE name = 'migration'")
    assert "the setting 'migration' does not match its checksum" in str(check_collection(path))


# ---------------------------------------------------------------------- one damaged item


def test_listing_and_exporting_name_the_damaged_item_and_can_leave_it_out(file, tmp_path, caplog):
    change(file, "UPDATE stream SET checksum = 'x' WHERE id = 7")
    with Collection.open(file, readonly=True) as collection:
        with pytest.raises(DamagedError, match="item 7 does not match its checksum"):
            list(collection.items())
        with pytest.raises(DamagedError, match="item 7"):
            export_items(collection, tmp_path / "items.npz")
        assert export_items(collection, tmp_path / "items.npz", skip_damaged=True) == 299
        assert "item 7 does not match its checksum" in caplog.text
        assert 7 not in np.load(tmp_path / "items.npz")["ids"]


def test_an_item_on_a_page_that_sqlite_cannot_read_is_named_and_left_out(path, tmp_path, caplog):
    X = np.random.default_rng(0).normal(size=(20, 3000)).astype(np.float32)
    with Collection.open(path, LSH(8, random_state=0), "manual") as collection:
        collection.upsert(range(20), X)
    at = path.read_bytes().index(X[7].tobytes()[4000:4100]) // 4096 * 4096
    content = bytearray(path.read_bytes())
    content[at : at + 4] = b"\xff" * 4  # the number of the next page
    path.write_bytes(content)
    with Collection.open(path, readonly=True) as collection:
        with pytest.raises(FileFormatError, match=r"items.oh is damaged.*Restore it from a copy"):
            list(collection.items())
        assert export_items(collection, tmp_path / "items.npz", skip_damaged=True) == 19
    assert 7 not in np.load(tmp_path / "items.npz")["ids"]
    assert "item 7" in caplog.text


# ---------------------------------------------------------------------- the log of a killed writer


@pytest.fixture
def hot(path, data, tmp_path):
    """What a killed writer leaves: its last ten changes are in the log; and the number of items."""
    with Collection.open(path, HCOH(n_bits=12, random_state=0), "manual") as writer:
        writer.upsert(range(100), *data.take(100))
        writer._store._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for i in range(100, 110):
            writer.upsert(i, *(some[0] for some in data.take(1)))
        left = tmp_path / "left.oh"
        for suffix in ("", "-wal", "-shm"):
            shutil.copy(f"{path}{suffix}", f"{left}{suffix}")
    return left


def test_the_log_of_a_killed_writer_is_sound(hot):
    assert check_collection(hot).ok
    with Collection.open(hot) as collection:
        assert len(collection) == 110


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.3, 0.6])
def test_a_log_that_can_be_read_in_part_gives_a_state_that_was_stored(hot, data, share):
    log = Path(f"{hot}-wal")
    flip(log, int(share * log.stat().st_size))
    for readonly in (True, False):
        with Collection.open(hot, readonly=readonly) as collection:
            assert list(collection) == list(range(len(collection)))
            assert 100 <= len(collection) < 110
            assert collection.check().ok
            assert len(collection.search(data.take(1)[0][0], 200)) == len(collection)


# ---------------------------------------------------------------------- backup and restore


def test_a_backup_made_while_others_write_shows_one_moment(path, tmp_path, data):
    X, y = data.take(6000)
    backup = tmp_path / "monday.oh"
    with Collection.open(path, HCOH(n_bits=12, random_state=0), "manual") as collection:
        collection.upsert(range(3000), X[:3000], y[:3000])
        collection.refresh()
        started, calls = threading.Event(), []

        def write():
            started.wait()
            for i in range(3000, 6000, 50):
                collection.upsert(range(i, i + 50), X[i : i + 50], y[i : i + 50])

        def progress(*call):
            started.set()
            calls.append(call)

        writer = threading.Thread(target=write)
        writer.start()
        collection.backup(backup, progress=progress)
        with Collection.open(path, readonly=True) as reader:
            reader.backup(tmp_path / "tuesday.oh")
        writer.join()
        assert len(collection) == 6000
        assert calls[-1] == (2000, 2000)
        assert calls == sorted(calls)
    for file in (backup, tmp_path / "tuesday.oh"):
        with Collection.open(file, readonly=True) as copy:
            n_items = len(copy)
            assert 3000 <= n_items <= 6000
            assert n_items % 50 == 0
            assert np.array_equal([item.vectors for item in copy.items()], X[:n_items])
            assert len(copy.search(X[0], 10_000)) == n_items
    names = {"items.oh", "items.oh.lock", "items.oh-wal", "items.oh-shm", "monday.oh", "tuesday.oh"}
    assert {file.name for file in tmp_path.iterdir()} <= names  # nothing is left beside the backups


def test_a_backup_replaces_an_older_one_and_no_other_file(file, tmp_path):
    backup, other = tmp_path / "backup.oh", tmp_path / "letter.txt"
    other.write_text("dear reader")
    with Collection.open(file) as collection:
        collection.backup(backup)
        collection.delete(range(100))
        collection.backup(backup)
        for path, words in ((other, "is not a collection"), (file, "is the collection itself")):
            with pytest.raises(InvalidInputError, match=words):
                collection.backup(path)
        with pytest.raises(DataNotFoundError, match="There is no folder"):
            collection.backup(tmp_path / "nope" / "backup.oh")
    with Collection.open(backup) as copy:
        assert len(copy) == 200
        with Collection.open(file) as collection, pytest.raises(LockedError):
            collection.backup(backup)
    assert other.read_text() == "dear reader"


def test_a_damaged_collection_is_not_backed_up_over_a_sound_one(file, tmp_path):
    backup = tmp_path / "backup.oh"
    with Collection.open(file) as collection:
        collection.backup(backup)
    before = backup.read_bytes()
    change(file, "UPDATE payloads SET payload = '1' WHERE seq = 8")
    with Collection.open(file, readonly=True) as collection, pytest.raises(DamagedError, match="the payload of item 7"):
        collection.backup(backup)
    assert backup.read_bytes() == before
    assert not list(tmp_path.glob("*.part*"))


@pytest.mark.parametrize("older", [True, False], ids=["over an older one", "new"])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_backup_that_is_interrupted_leaves_nothing_beside_an_older_one(place, data, tmp_path, older, share, error):
    X, y = data.take(300)
    folder = tmp_path / "backups"
    folder.mkdir()
    backup = folder / "monday.oh"
    with place.open(HCOH(n_bits=12, random_state=0), "manual") as collection:
        collection.upsert(range(200), X[:200], y[:200])
        if older:
            collection.backup(backup)
        before = {file.name: file.read_bytes() for file in folder.iterdir()}
        collection.upsert(range(200, 300), X[200:], y[200:])

        def interrupt(done, total):
            if done >= share * total:
                raise error("stop")

        with pytest.raises(error, match="stop"):
            collection.backup(backup, progress=interrupt)
        assert {name: content for name, content in before.items() if not name.endswith(".lock")} == {
            file.name: file.read_bytes() for file in folder.iterdir() if file.suffix != ".lock"
        }
        collection.backup(backup)
        if place.store is None:
            with pytest.raises(error, match="stop"):
                Collection.restore(backup, folder / "restored.oh", progress=interrupt)
    assert {file.name for file in folder.iterdir()} <= {"monday.oh", "monday.oh.lock"}
    with Collection.open(backup) as copy:
        assert list(copy) == list(range(300))


def test_a_backup_is_restored_over_what_is_there_if_that_is_wanted(file, tmp_path, data):
    X, backup = data.take(3)[0], tmp_path / "backup.oh"
    known = answers(file, X)
    with Collection.open(file) as collection:
        collection.backup(backup)
        collection.delete(range(100))
        with pytest.raises(InvalidInputError, match="pass overwrite=True to replace it"):
            Collection.restore(backup, file)
        with pytest.raises(LockedError):
            Collection.restore(backup, file, overwrite=True)
    reader = Collection.open(file, readonly=True)
    Collection.restore(backup, file, overwrite=True)
    with pytest.raises(StorageError, match="replaced while it was open"):
        reader.search(X)
    reader.close()
    assert answers(file, X) == known
    with pytest.raises(DataNotFoundError):
        Collection.restore(tmp_path / "nope.oh", tmp_path / "new.oh")


def test_a_collection_whose_writer_has_not_emptied_its_log_is_replaced_by_a_backup(path, tmp_path):
    backup, ended = tmp_path / "backup.oh", tmp_path / "ended.oh"
    with Collection.open(path, HCOH(8, random_state=0)) as collection:
        collection.upsert([1, 2], [[1.0, 0.5], [-1.0, 0.5]], [0, 1])
        collection.backup(backup)
        for suffix in ("", "-wal"):  # what a process that was killed leaves
            shutil.copy(f"{path}{suffix}", f"{ended}{suffix}")
    Collection.restore(backup, ended, overwrite=True)
    with Collection.open(ended, readonly=True) as restored:
        assert list(restored) == [1, 2]


# ---------------------------------------------------------------------- compact


def test_compacting_shrinks_the_file_and_changes_nothing_else(path, data):
    X, y = data.take(5000)
    with Collection.open(path, HCOH(n_bits=12, random_state=0), "manual") as collection:
        collection.upsert(range(5000), X, y)
        collection.delete(range(4900))
        before = collection.search(X[:3], 200)
        assert collection.compact() > 500_000
        assert path.stat().st_size < 300_000  # mostly the ids that were deleted
        after = collection.search(X[:3], 200)
        assert (after.ids, after.distances) == (before.ids, before.distances)
        collection.upsert(0, X[0], y[0])
        assert collection.check().ok
    with Collection.open(path, readonly=True) as reader:
        assert len(reader) == 101
        with pytest.raises(StorageError, match="open it for writing"):
            reader.compact()


def test_the_state_of_the_hasher_does_not_count_as_space_that_is_taken_back(path, data):
    with Collection.open(path, HROH(8, n_components=256, random_state=0), "manual") as collection:
        collection.upsert(range(300), *data.take(300))
        collection.delete(range(290))
        assert collection.compact() >= 0


@pytest.mark.slow
def test_a_collection_in_postgresql_is_backed_up_to_a_file_and_compacted(server, tmp_path, data):
    X, y = data.take(500)
    backup = tmp_path / "backup.oh"
    with Collection.open("cared_for", HCOH(n_bits=12, random_state=0), "manual", store=server.url) as collection:
        collection.upsert(range(400), X[:400], y[:400], [{"n": i} for i in range(400)], checkpoint={"offset": 7})
        collection.refresh()
        collection.upsert(range(390, 500), X[390:], y[390:])
        collection.create_index("n")
        collection.delete(range(100))
        calls = []
        collection.backup(backup, progress=lambda *call: calls.append(call))
        assert calls[-1] == (2000, 2000)
        assert calls == sorted(calls)
        known, found = contents(collection), collection.search(X[:3], 500)
        learned, codes = collection.hasher.to_bytes(), collection.codes()
        assert collection.compact() >= 0
        assert collection.check().ok
        assert contents(collection) == known
    assert [file.name for file in tmp_path.iterdir()] == ["backup.oh"]
    with Collection.open(backup) as copy:
        assert copy.check().ok
        assert contents(copy) == known
        assert (copy.search(X[:3], 500).ids, copy.search(X[:3], 500).distances) == (found.ids, found.distances)
        assert copy.hasher.to_bytes() == learned
        assert copy.codes()[0] == codes[0] and np.array_equal(copy.codes()[1], codes[1])
        assert (copy.checkpoint("offset"), copy.indexes()) == (7, ["n"])
        assert copy.count({"n": {"$lt": 200}}) == 100
        copy.upsert(1000, X[0], y[0])
        copy.refresh()
        assert copy.check().ok


@pytest.mark.slow
def test_what_is_damaged_in_postgresql_is_named(server, data):
    with Collection.open("damaged", HCOH(n_bits=12, random_state=0), "manual", store=server.url) as collection:
        collection.upsert(range(50), *data.take(50))
        schema = "onlinehash_damaged"
        server.execute(f"UPDATE {schema}.payloads SET payload = '1' WHERE seq = 8")
        server.execute(f"UPDATE {schema}.codes SET codes = substr(codes, 2)")
        server.execute(f"UPDATE {schema}.settings SET value = '1' WHERE name = 'n_bits'")
        problems = "\n".join(collection.check().problems)
    for words in ("the payload of item 7", "codes do not match", "the setting 'n_bits'"):
        assert words in problems
