"""Several processes and one collection: one writes, others read, and what goes wrong is said in one sentence."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from tests.collection.brute import pairs, ranking

from onlinehash import HCOH, Collection
from onlinehash.collection.stores import sql
from onlinehash.exceptions import LockedError, StorageError


def test_a_second_writer_is_refused_with_the_pid_of_the_first(small, place):
    with pytest.raises(LockedError, match=f"process {os.getpid()}.*readonly=True"):
        place.open()
    small[0].close()
    place.open().close()


@pytest.mark.slow
def test_another_process_may_read_while_one_writes_and_is_refused_as_a_writer(small, place):
    collection, X, _ = small
    program = f"""
import numpy as np
from onlinehash import Collection
with {place.source(readonly=True)} as items:
    print(len(items), items.search(np.array({X[0].tolist()}, np.float32), 5).ids)
{place.source()}
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.stdout == f"40 {collection.search(X[0], 5).ids}\n"
    assert f"is open for writing already (process {os.getpid()}" in run.stderr


def same(reader, writer, queries):
    assert len(reader) == len(writer)
    assert list(reader) == list(writer)
    for query in queries:
        assert pairs(reader.search(query, 1000)) == pairs(writer.search(query, 1000)) == ranking(reader, query)
        assert reader.search(query, 1000, labels=1).ids == writer.search(query, 1000, labels=1).ids
    left, right = reader.stats(), writer.stats()
    assert (left.n_items, left.n_searchable, left.n_learned) == (right.n_items, right.n_searchable, right.n_learned)
    assert (left.version, left.n_bits, left.method) == (right.version, right.n_bits, right.method)


@pytest.mark.parametrize("ids", [lambda i: i, "item {}".format], ids=["int", "str"])
@pytest.mark.parametrize("n_followed", [1_000_000, 3])
def test_a_reader_follows_all_that_is_committed(place, data, monkeypatch, ids, n_followed):
    monkeypatch.setattr(sql, "FOLLOWED", n_followed)
    X, y = data.take(60)
    names = [ids(i) for i in range(60)]
    writer = place.open(HCOH(n_bits=12, random_state=0), "manual")
    with writer, place.open(readonly=True) as reader:
        assert reader.search(X[0]).ids == []
        writer.upsert(names[:5], X[:5])
        assert len(reader) == 5
        assert reader.stats().n_searchable == 0
        writer.upsert(names[5:30], X[5:30], y[5:30])
        same(reader, writer, X[:3])
        writer.upsert(names[30:40], X[30:40], y[30:40])
        writer.delete(names[:4])
        writer.upsert(names[2:6], X[40:44], y[40:44])
        same(reader, writer, X[:3])
        writer.delete(names[2:12])
        same(reader, writer, X[:3])
        writer.update(names[20:22], X[50:52])
        writer.refresh()
        same(reader, writer, X[:3])
        writer.change_hasher(20)
        same(reader, writer, X[:3])
        assert reader.hasher.n_samples_seen_ == writer.hasher.n_samples_seen_


def test_a_reader_may_not_write(small, place):
    _, X, y = small
    with place.open(readonly=True) as reader:
        assert reader.readonly
        for call in (
            lambda: reader.upsert(1, X[0], y[0]),
            lambda: reader.update(1, payload=1),
            lambda: reader.delete(1),
            reader.refresh,
            lambda: reader.change_hasher(8),
            lambda: reader.create_index("colour"),
            lambda: reader.migrate(vectors=[]),
            reader.abandon_migration,
            reader.compact,
        ):
            with pytest.raises(StorageError, match="readonly=True"):
                call()
        assert len(reader.get([1, 2])) == 2


def test_a_reader_follows_an_id_that_is_deleted_twice(small, place):
    writer, X, y = small
    with place.open(readonly=True) as reader:
        writer.delete(7)
        writer.upsert(7, X[0], y[0])
        writer.delete(7)
        same(reader, writer, X[:3])
        writer.upsert(7, X[7], y[7])
        same(reader, writer, X[:3])


def test_a_second_writer_is_refused_whatever_the_path_is_called(items, path, monkeypatch):
    (path.parent / "folder").mkdir()
    (path.parent / "link.oh").symlink_to(path)
    (path.parent / "other").symlink_to(path.parent)
    monkeypatch.chdir(path.parent / "folder")
    for name in ("../items.oh", "../link.oh", "../other/items.oh", "../folder/../items.oh"):
        with pytest.raises(LockedError, match=f"process {os.getpid()}"):
            Collection.open(name)
        with Collection.open(name, readonly=True) as reader:
            assert len(reader) == 40


def test_a_writer_whose_lock_file_was_deleted_does_not_write_over_another(items, path, data):
    X, y = data.take(3)
    path.with_name("items.oh.lock").unlink()
    with Collection.open(path) as second:
        second.upsert(50, X[0], y[0])
        for _ in range(2):
            with pytest.raises(StorageError, match=r"was changed by another writer.*close it, and open it again"):
                items.upsert(60, X[1], y[1])
        second.upsert(51, X[2], y[2])
    items.close()
    with Collection.open(path) as again:
        assert list(again) == [*range(40), 50, 51]
        assert again.stats().n_searchable == again.hasher.n_samples_seen_ == 42
        assert again.check().ok


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be moved there")
@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_a_file_that_is_gone_is_neither_written_nor_read(items, path, data, tmp_path, how):
    X, y = data.take(2)
    copy = path.with_name("copy.oh")
    with Collection.open(path, readonly=True) as reader:
        if how == "replaced":
            items.backup(copy)
            copy.replace(path)
        elif how == "moved":
            path.rename(copy)
        else:
            path.unlink()
        for call in (
            lambda: items.upsert(40, X[0], y[0]),
            lambda: items.delete(1),
            lambda: items.get(1),
            lambda: list(items.items()),
            lambda: items.count({"a": 1}),
            lambda: items.search(X[0], include=["payload"]),
            lambda: items.backup(tmp_path / "backup.oh"),
            lambda: reader.search(X[0]),
            lambda: reader.get(1),
            lambda: len(reader),
        ):
            with pytest.raises(StorageError, match="was moved, deleted or replaced while it was open; close the"):
                call()
    items.close()
    assert not (tmp_path / "backup.oh").exists()
    assert path.exists() is (how == "replaced")
    if how == "replaced":
        with Collection.open(path) as again:
            assert list(again) == list(range(40))


def in_a_fork(call):
    """Return what a call tells in a forked child."""
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        try:
            told = call()
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(send, str(told).encode())
        os._exit(0)
    os.close(send)
    with os.fdopen(receive) as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return told


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@needs_fork
def test_a_forked_child_is_refused_with_one_clear_error_and_harms_nothing(items, path, data, tmp_path):
    X, y = data.take(3)
    for call in (
        lambda: items.upsert(40, X[0], y[0]),
        lambda: items.delete(1),
        lambda: items.get(1),
        lambda: 1 in items,
        lambda: items.search(X[0]),
        lambda: list(items.items()),
        lambda: len(items),
        lambda: items.count({"a": 1}),
        lambda: items.backup(tmp_path / "backup.oh"),
        items.check,
        items.stats,
        items.refresh,
        lambda: Collection.open(path),
        lambda: Collection.open(path, readonly=True),
        lambda: Collection.open(tmp_path / "another.oh", "hcoh"),
    ):
        told = in_a_fork(call)
        assert told.startswith("StorageError: ") and "forked while a collection was open" in told, told
        assert "'spawn' or 'forkserver', or fork before you open a collection" in told
    assert in_a_fork(items.close) == "None"
    assert not [*tmp_path.glob("another*"), *tmp_path.glob("backup*")]
    items.upsert(40, X[0], y[0])
    with pytest.raises(LockedError):
        Collection.open(path)
    items.close()
    with Collection.open(path) as again:
        assert list(again) == list(range(41))
        assert again.check().ok


FORK_FIRST = """
import os, sys
from onlinehash import Collection
from pathlib import Path
path = Path(sys.argv[1])
with Collection.open(path) as items:
    items.upsert(40, [1.0] * 6, 1)
child = os.fork()
with Collection.open(path, readonly=bool(child)) as items:
    if not child:
        items.upsert(41, [1.0] * 6, 1)
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
with Collection.open(path) as items:
    assert list(items) == list(range(42))
print("both")
"""


@pytest.mark.slow
@needs_fork
def test_a_process_may_fork_before_it_opens_and_after_it_has_closed(items, path):
    items.close()
    run = subprocess.run([sys.executable, "-c", FORK_FIRST, path], capture_output=True, text=True, check=False)
    assert run.stdout == "both\n", run.stderr


ORPHAN = """
import os, sys, time
from onlinehash import Collection
items = Collection.open(sys.argv[1])
if not os.fork():
    sys.stdout.close()
    os.close(1)
    sys.stdin.read()  # outlives the writer
    sys.exit()
print("open", flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
@needs_fork
def test_a_child_does_not_keep_the_lock_of_a_dead_writer(items, path, data):
    items.close()
    X, y = data.take(1)
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout.read() == "open\n"
        run.wait()
        with Collection.open(path) as again:  # while the child lives
            again.upsert(40, X[0], y[0])
            run.stdin.close()
            assert len(again) == 41
    with Collection.open(path) as again:
        assert list(again) == list(range(41))


def test_a_writer_opens_while_a_backup_holds_an_old_state(items, path, data):
    X, y = data.take(300)
    with closing(sqlite3.connect(path)) as backup:
        backup.execute("BEGIN")
        assert backup.execute("SELECT count(*) FROM items").fetchone() == (40,)
        items.upsert(range(40, 300), X[40:], y[40:])
        items.close()
        with Collection.open(path) as again:  # the file itself cannot be brought up to date yet
            assert list(again) == list(range(300))
            again.upsert(300, X[0], y[0])
        assert backup.execute("SELECT count(*) FROM items").fetchone() == (40,)
    with Collection.open(path) as again:
        assert list(again) == list(range(301))
