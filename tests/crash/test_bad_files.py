"""Files and folders that cannot be used: a clear error, and nothing is lost."""

import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from onlinehash import HCOH, Collection
from onlinehash.collection.stores.sql import SqlStore
from onlinehash.collection.stores.sqlite import SCHEMA
from onlinehash.exceptions import FileFormatError, StorageError

pytestmark = pytest.mark.slow

X = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)
Y = np.arange(200) % 3


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "items.oh"
    with Collection.open(path, HCOH(n_bits=8, random_state=0), "manual") as collection:
        collection.upsert(range(200), X, Y)
    return path


def assert_whole(path, n=200):
    with Collection.open(path) as collection:
        assert len(collection) == n
        assert np.array_equal([item.vectors for item in collection.get(range(200))], X)
        assert len(collection.search(X[0], 1000)) == n


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.99])
def test_a_truncated_file_is_refused_and_left_as_it_is(path, share, readonly):
    whole = path.read_bytes()
    part = whole[: int(len(whole) * share)]
    path.write_bytes(part)
    with pytest.raises(FileFormatError, match="damaged"), Collection.open(path, readonly=readonly) as collection:
        list(collection.items())
    assert path.read_bytes() == part
    path.write_bytes(whole)
    assert_whole(path)


@pytest.mark.parametrize("content", [b"not a database, but a text\n" * 100, b"PK\x03\x04" + bytes(5000)])
def test_a_file_of_another_kind_is_refused_and_left_as_it_is(tmp_path, content):
    path = tmp_path / "letter.txt"
    path.write_bytes(content)
    for readonly in (False, True):
        with pytest.raises(FileFormatError, match="not a collection"):
            Collection.open(path, "hcoh", readonly=readonly)
    assert path.read_bytes() == content


def test_a_database_of_another_program_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE items (name)")
    connection.commit()
    connection.close()
    content = path.read_bytes()
    for readonly in (False, True):
        with pytest.raises(FileFormatError, match="not a collection that onlinehash wrote"):
            Collection.open(path, "hcoh", readonly=readonly)
    assert path.read_bytes() == content


def test_a_newer_schema_is_refused_and_left_as_it_is(path):
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    connection.close()
    for readonly in (False, True):
        with pytest.raises(FileFormatError, match=r"has schema 4; this version reads 3. Upgrade onlinehash"):
            Collection.open(path, readonly=readonly)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {SCHEMA}")
    connection.close()
    assert_whole(path)


@pytest.mark.parametrize(("schema", "release"), [(1, "0.1.0"), (2, "0.2.0")])
def test_a_file_of_an_earlier_release_is_refused_with_the_way_to_carry_it_over(path, schema, release):
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {schema}")
    connection.close()
    for readonly in (False, True):
        with pytest.raises(FileFormatError, match=rf"by onlinehash {release}.*collection export items.oh items.npz"):
            Collection.open(path, readonly=readonly)


def test_an_empty_file_becomes_a_collection(tmp_path):
    path = tmp_path / "empty.oh"
    path.touch()
    with Collection.open(path, "hcoh") as collection:
        collection.upsert(1, X[0], 1)
    with Collection.open(path) as collection:
        assert len(collection) == 1


FULL_DISK = """
import resource, sys
import numpy as np
from onlinehash import Collection
from onlinehash.exceptions import StorageError

X = np.load(sys.argv[2])
with Collection.open(sys.argv[1]) as items:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
    n_stored = len(items)
    try:
        for start in range(1000, 100_000, 50):
            items.upsert(range(start, start + 50), X[:50], np.arange(50) % 3)
            n_stored += 50
    except StorageError as error:
        assert "cannot be written" in str(error) and "make room" in str(error), error
    else:
        raise AssertionError("the disk was never full")
    assert len(items) == n_stored == len(items.search(X[0], 100_000)), (len(items), n_stored)
    learned = items.hasher.n_samples_seen_
    assert learned == n_stored
    for call in (lambda: items.upsert(7, X[0], 1), lambda: items.delete(range(200)), items.refresh):
        try:
            call()
        except StorageError:
            pass
    n_stored = len(items)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    items.upsert(999_999, X[0], 1)
    items.refresh()
    assert len(items) == n_stored + 1 == len(items.search(X[0], 100_000))
print(n_stored + 1)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_full_disk_is_told_and_what_was_stored_stays(path, tmp_path):
    np.save(tmp_path / "X.npy", X)
    limit = path.stat().st_size + 300_000
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, path, tmp_path / "X.npy", str(limit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not run.returncode, run.stderr
    with Collection.open(path) as collection:
        assert len(collection) == int(run.stdout)
        assert len(collection.search(X[0], 100_000)) == len(collection)


READ_ONLY_FOLDER = """
import os, sys
from pathlib import Path
from onlinehash.collection.stores.sqlite import SqliteStore
from onlinehash.exceptions import StorageError

path = Path(sys.argv[1])
if os.geteuid() == 0:
    os.setuid(65534)  # root may write anywhere
for name in (path, path.with_name("new.oh")):
    try:
        SqliteStore(name)
    except StorageError as error:
        assert "Cannot write to" in str(error) and "readonly=True" in str(error), error
    else:
        raise AssertionError("a folder that cannot be written to was")
store = SqliteStore(path, readonly=True)
seqs = store.items().seqs.tolist()
print(store.head().n_items, len(store.rows(seqs)))
store.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs folders that are read-only")
def test_a_backup_can_be_read_in_a_read_only_folder(path):
    with tempfile.TemporaryDirectory() as name:  # not below a folder of pytest, which others may not enter
        folder = Path(name)
        with Collection.open(path, readonly=True) as items:
            items.backup(folder / "items.oh")
        folder.chmod(0o555)
        run = subprocess.run(
            [sys.executable, "-c", READ_ONLY_FOLDER, folder / "items.oh"], capture_output=True, text=True, check=False
        )
        folder.chmod(0o755)
        assert [file.name for file in folder.iterdir()] == ["items.oh"]
    assert run.stdout == "200 200\n", run.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs folders that are read-only")
def test_a_collection_that_is_no_backup_is_refused_in_a_read_only_folder(path):
    program = """
import os, sys
from onlinehash import Collection

if os.geteuid() == 0:
    os.setuid(65534)  # root may write anywhere
Collection.open(sys.argv[1], readonly=True)
"""
    with tempfile.TemporaryDirectory() as name:  # not below a folder of pytest, which others may not enter
        folder = Path(name)
        shutil.copy(path, folder / "items.oh")
        folder.chmod(0o555)
        command = [sys.executable, "-c", program, folder / "items.oh"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        folder.chmod(0o755)
    assert "StorageError" in run.stderr and "may not write to its folder" in run.stderr and "backup" in run.stderr


def test_a_failed_commit_leaves_memory_as_the_file_is(path, monkeypatch):
    with Collection.open(path) as collection:
        learned = collection.hasher.to_bytes()

        def full(self, *columns):
            raise StorageError("no room")

        with monkeypatch.context() as patch:
            patch.setattr(SqlStore, "put", full)
            with pytest.raises(StorageError, match="no room"):
                collection.upsert(range(500, 520), X[:20], Y[:20])
        assert len(collection) == len(collection.search(X[0], 1000)) == 200
        assert collection.hasher.to_bytes() == learned
        collection.upsert(500, X[0], Y[0])
        assert collection.hasher.n_samples_seen_ == 201
    assert_whole(path, 201)
