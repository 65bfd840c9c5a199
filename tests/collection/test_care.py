"""Check, back up, restore and compact: damage is found and named, and a sound collection is never called damaged."""

import random
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from onlinehash import HCOH, HROH, LSH, Collection
from onlinehash.collection import Never, check_collection, export_items
from onlinehash.collection.stores.sqlite_log import unreadable_commits
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
    with Collection.open(path, HCOH(n_bits=12, random_state=0), Never()) as collection:
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
    with place.open(HCOH(n_bits=12, random_state=0), Never()) as collection:
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
        assert 0 < collection.check(sample=50).n_encoded < 120
        assert check_collection(place.name, store=place.store) == report


@pytest.mark.parametrize("hasher", [HROH(24, n_components=64, random_state=0), LSH(64, random_state=0)], ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_codes_made_one_at_a_time_are_those_of_the_encoder(path, hasher, dtype):
    X = np.random.default_rng(0).normal(loc=3.0, size=(300, 100))
    with Collection.open(path, hasher, Never(), vector_dtype=dtype) as collection:
        collection.upsert(range(200), X[:200], np.arange(200) % 5)
        collection.refresh()
        for i in range(200, 300):
            collection.upsert(i, X[i], i % 5)
        assert collection.check().problems == ()


def test_a_generation_that_is_being_made_is_checked_too(items):
    with items._exclusive(), items._store.writing():
        items._store.begin_generation(items.encoder.to_bytes())
    assert items.check().ok
    ((number,),) = items._store._query("SELECT max(number) FROM generations")
    with items._store.writing():
        items._store._writer.execute(f"INSERT INTO codes_{number} VALUES (99, 99, x'0011223344')")
    (problem,) = items.check().problems
    assert f"codes_{number}" in problem


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("UPDATE items SET vectors = zeroblob(24) WHERE id = 7", "the vector of item 7 does not match its checksum"),
        ("UPDATE items SET vectors = 'x' WHERE id = 7", "the vector of item 7 does not match its checksum"),
        ("UPDATE items SET checksums = 'x' WHERE id = 7", "item 7 cannot be read"),
        ("UPDATE items SET payload = '1' WHERE id = 7", "the payload of item 7 does not match its checksum"),
        ("UPDATE items SET labels = '9' WHERE id = 7", "item 7 does not match its checksum"),
        ("UPDATE codes_1 SET codes = x'00' WHERE seq = 1", "in the table codes_1, the row of 1 does not match"),
        ("DELETE FROM codes_1 WHERE seq = 1", "of 300 codes"),
        ("UPDATE ids SET labels = '9' WHERE id = 7", "7 does not match"),
        ("DELETE FROM ids WHERE id = 7", "it has 299 of 300 ids"),
        ("DELETE FROM items WHERE id = 7", "item 7 is not where it should be"),
        ("UPDATE hasher SET state = x'00'", "the row of 0 does not match its checksum"),
        ("UPDATE generations SET encoder = x'00'", "the row of 1 does not match its checksum"),
        ("UPDATE settings SET value = '\"lsh\"' WHERE name = 'method'", "the setting 'method' does not match"),
        ("INSERT INTO deleted VALUES (1, 1, 1)", "in the table deleted, the row of 1 does not match"),
    ],
)
def test_what_is_damaged_is_named(file, sql, words):
    change(file, sql)
    report = check_collection(file)
    assert any(words in problem for problem in report.problems), report
    assert not any("Restore" in problem or str(file) in problem for problem in report.problems)


def test_all_damaged_items_are_listed(file):
    for id in (3, 250, 299):
        change(file, "UPDATE items SET payload = '1' WHERE id = ?", id)
    with Collection.open(file, readonly=True) as collection:
        report = collection.check()
    expected = tuple(f"the payload of item {id} does not match its checksum" for id in (3, 250, 299))
    assert (report.problems, report.n_items) == (expected, 297)


def test_codes_of_another_encoder_are_noticed(items):
    other = HCOH(n_bits=12, random_state=1).partial_fit(*map(np.asarray, ([[1.0] * 6, [-1.0] * 6], [0, 1]))).snapshot()
    with items._store.writing():
        items._store._put_blob("generations", 1, other.to_bytes())
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
        store, query = collection._store, collection._store._query
        store._query = lambda sql, *values: query(sql, *values)[:: -1 if "FROM items" in sql else 1]
        with pytest.raises(DamagedError, match="rows of the table items are not in order"):
            store.stream(0, 10, retired=True)


def test_a_migration_under_way_is_checked_too(path, data):
    X, y = data.take(40)
    with Collection.open(path, HCOH(n_bits=12, random_state=0), Never()) as collection:
        collection.upsert(range(40), X, y)

        def vectors():
            yield from ((i, X[i, :3]) for i in range(20))
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            collection.migrate(vectors=vectors())
        assert collection.migration is not None
        assert collection.check().ok
        n_new = collection._store.n_new_vectors()
    if n_new:
        change(path, "UPDATE new_vectors SET vectors = x'00' WHERE seq = 1")
    change(path, "UPDATE new_hasher SET state = x'00'")
    assert "new_hasher" in str(check_collection(path))


# ---------------------------------------------------------------------- one damaged item


def test_listing_and_exporting_name_the_damaged_item_and_can_leave_it_out(file, tmp_path, caplog):
    change(file, "UPDATE items SET checksums = 'x' WHERE id = 7")
    with Collection.open(file, readonly=True) as collection:
        with pytest.raises(DamagedError, match=r"item 7 cannot be read.*all other items can still be read"):
            list(collection.items())
        with pytest.raises(DamagedError, match="item 7"):
            export_items(collection, tmp_path / "items.npz")
        assert export_items(collection, tmp_path / "items.npz", skip_damaged=True) == 299
        assert "item 7 cannot be read" in caplog.text
        assert 7 not in np.load(tmp_path / "items.npz")["ids"]


def test_an_item_on_a_page_that_sqlite_cannot_read_is_named(path):
    X = np.random.default_rng(0).normal(size=(20, 3000)).astype(np.float32)
    with Collection.open(path, LSH(8, random_state=0), Never()) as collection:
        collection.upsert(range(20), X)
    at = path.read_bytes().index(X[7].tobytes()[4000:4100]) // 4096 * 4096
    content = bytearray(path.read_bytes())
    content[at : at + 4] = b"\xff" * 4  # the number of the next page
    path.write_bytes(content)
    with Collection.open(path, readonly=True) as collection, pytest.raises(DamagedError, match="item 7 cannot be read"):
        list(collection.items())


# ---------------------------------------------------------------------- the log of a killed writer


@pytest.fixture
def hot(path, data, tmp_path):
    """What a killed writer leaves: its last ten changes are in the log; and the number of items."""
    with Collection.open(path, HCOH(n_bits=12, random_state=0), Never()) as writer:
        writer.upsert(range(100), *data.take(100))
        writer._store._empty_log()
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


@pytest.mark.parametrize("known", [True, False], ids=["with its index", "without"])
@pytest.mark.parametrize("share", [0.0, 0.0001, 0.3, 0.6])
def test_a_log_that_sqlite_would_read_in_part_is_refused(hot, tmp_path, share, known):
    log = Path(f"{hot}-wal")
    flip(log, int(share * log.stat().st_size))
    if not known:
        Path(f"{hot}-shm").unlink()
    (problem,) = check_collection(hot).problems
    assert "left.oh-wal" in problem
    for readonly in (True, False):
        with pytest.raises(DamagedError, match="or more of them cannot be read"):
            Collection.open(hot, readonly=readonly)
    Collection.restore(hot, tmp_path / "rest.oh", partial=True)
    with Collection.open(tmp_path / "rest.oh") as collection:
        assert 100 <= len(collection) < 110
        assert collection.check().ok


def test_only_the_index_tells_the_last_change_from_one_that_was_interrupted(hot):
    log = Path(f"{hot}-wal")
    flip(log, log.stat().st_size - 10)
    assert unreadable_commits(hot) == 1
    assert unreadable_commits(hot, shared=False) == 0
    whole = log.read_bytes()
    log.write_bytes(whole[:-5000])  # interrupted while it was written
    assert unreadable_commits(hot, shared=False) == 0


# ---------------------------------------------------------------------- backup and restore


def test_a_backup_made_while_others_write_shows_one_moment(path, tmp_path, data):
    X, y = data.take(6000)
    backup = tmp_path / "monday.oh"
    with Collection.open(path, HCOH(n_bits=12, random_state=0), Never()) as collection:
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
    change(file, "UPDATE items SET payload = '1' WHERE id = 7")
    with Collection.open(file, readonly=True) as collection, pytest.raises(DamagedError, match="the payload of item 7"):
        collection.backup(backup)
    assert backup.read_bytes() == before
    assert not list(tmp_path.glob("*.part*"))


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
    with Collection.open(path, HCOH(n_bits=12, random_state=0), Never()) as collection:
        collection.upsert(range(5000), X, y)
        collection.delete(range(4900))
        before = collection.search(X[:3], 200)
        calls = []
        freed = collection.compact(progress=lambda *call: calls.append(call))
        assert calls[-1][0] == calls[-1][1]
        assert freed > 500_000
        assert path.stat().st_size < 300_000  # mostly the ids that were deleted
        after = collection.search(X[:3], 200)
        assert (after.ids, after.distances) == (before.ids, before.distances)
        collection.upsert(0, X[0], y[0])
        assert collection.check().ok
    with Collection.open(path, readonly=True) as reader:
        assert len(reader) == 101
        with pytest.raises(StorageError, match="open it for writing to compact it"):
            reader.compact()


def test_the_state_of_the_hasher_does_not_count_as_space_that_is_taken_back(path, data):
    with Collection.open(path, HROH(8, n_components=256, random_state=0), Never()) as collection:
        collection.upsert(range(300), *data.take(300))
        collection.delete(range(290))
        assert collection.compact() >= 0


@pytest.mark.slow
def test_postgresql_is_backed_up_and_compacted_by_its_own_programs(server, tmp_path, data):
    with Collection.open("cared_for", HCOH(n_bits=12, random_state=0), store=server.url) as collection:
        collection.upsert(range(50), *data.take(50))
        with pytest.raises(InvalidInputError, match="pg_dump --schema=onlinehash_cared_for"):
            collection.backup(tmp_path / "backup.oh")
        with pytest.raises(InvalidInputError, match=r'VACUUM FULL "onlinehash_cared_for"\.items'):
            collection.compact()
        server.execute("UPDATE onlinehash_cared_for.items SET payload = '1' WHERE id = 7")
        server.execute("UPDATE onlinehash_cared_for.codes_1 SET code = ~code WHERE id = 8")
        server.execute("UPDATE onlinehash_cared_for.settings SET value = '1' WHERE name = 'n_bits'")
        problems = "\n".join(collection.check().problems)
    for words in ("the item with id 7", "the code of item 8", "the setting 'n_bits'"):
        assert words in problems
