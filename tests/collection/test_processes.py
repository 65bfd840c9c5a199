import os
import subprocess
import sys

import pytest
from tests.collection.brute import pairs, ranking
from tests.collection.places import FilePlace

from onlinehash import HCOH
from onlinehash.collection import Never
from onlinehash.collection.stores import sqlite
from onlinehash.exceptions import LockedError, StorageError


def test_a_second_writer_is_refused_with_the_pid_of_the_first(small, place):
    with pytest.raises(LockedError, match=f"process {os.getpid()}.*readonly=True"):
        place.open()
    program = f"from onlinehash import Collection; {place.source()}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"is open for writing already (process {os.getpid()}" in run.stderr
    small[0].close()
    place.open().close()


def test_another_process_may_read_while_one_writes(small, place):
    collection, X, _ = small
    program = f"""
import numpy as np
from onlinehash import Collection
with {place.source(readonly=True)} as items:
    print(len(items), items.search(np.array({X[0].tolist()}, np.float32), 5).keys)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == f"40 {collection.search(X[0], 5).keys}\n"


def same(reader, writer, queries):
    assert len(reader) == len(writer)
    assert list(reader) == list(writer)
    for query in queries:
        assert pairs(reader.search(query, 1000)) == pairs(writer.search(query, 1000)) == ranking(reader, query)
        assert reader.search(query, 1000, labels=1).keys == writer.search(query, 1000, labels=1).keys
    left, right = reader.stats(), writer.stats()
    assert (left.n_items, left.n_searchable, left.n_learned) == (right.n_items, right.n_searchable, right.n_learned)
    assert (left.version, left.n_bits, left.method) == (right.version, right.n_bits, right.method)


@pytest.mark.parametrize("keys", [lambda i: i, "item {}".format], ids=["int", "str"])
@pytest.mark.parametrize("tombstones", [100_000, 3])
def test_a_reader_follows_all_that_is_committed(place, data, monkeypatch, keys, tombstones):
    monkeypatch.setattr(sqlite, "_TOMBSTONES", tombstones)
    X, y = data.take(60)
    names = [keys(i) for i in range(60)]
    writer = place.open(HCOH(n_bits=12, random_state=0), Never())
    with writer, place.open(readonly=True) as reader:
        assert reader.search(X[0]).keys == []
        writer.add(names[:5], X[:5])
        assert len(reader) == 5
        assert reader.stats().n_searchable == 0
        writer.add(names[5:30], X[5:30], y[5:30])
        same(reader, writer, X[:3])
        writer.add(names[30:40], X[30:40], y[30:40])
        writer.delete(names[:4])
        writer.add(names[2:6], X[40:44], y[40:44])
        same(reader, writer, X[:3])
        writer.delete(names[2:12])
        same(reader, writer, X[:3])
        writer.update(names[20:22], X[50:52])
        writer.refresh()
        same(reader, writer, X[:3])
        writer.change_hasher(20)
        same(reader, writer, X[:3])
        assert reader.hasher.n_seen_ == writer.hasher.n_seen_


def test_a_reader_may_not_write(small, place):
    _, X, y = small
    with place.open(readonly=True) as reader:
        assert reader.readonly
        for call in (
            lambda: reader.add(1, X[0], y[0]),
            lambda: reader.update(1, payload=1),
            lambda: reader.delete(1),
            reader.refresh,
            lambda: reader.change_hasher(8),
        ):
            with pytest.raises(StorageError, match="readonly=True"):
                call()
        assert len(reader.get([1, 2])) == 2


def test_a_reader_follows_an_item_that_was_deleted_twice(place, data):
    X, y = data.take(20)
    with place.open(HCOH(n_bits=12, random_state=0), Never()) as writer, place.open(readonly=True) as reader:
        writer.add(range(20), X, y)
        same(reader, writer, X[:2])
        writer.delete(7)
        writer.add(7, X[3], y[3])
        writer.delete(7)
        same(reader, writer, X[:2])
        writer.add(7, X[4], y[4])
        same(reader, writer, X[:2])


def test_a_forked_process_is_refused_and_harms_nothing(tmp_path, data):
    place = FilePlace(tmp_path)
    X, y = data.take(40)
    collection = place.open(HCOH(n_bits=12, random_state=0), Never())
    collection.add(range(40), X, y)
    program = os.fork()
    if not program:
        calls = (
            lambda: collection.search(X[0]),
            lambda: collection.add(99, X[0], y[0]),
            lambda: collection.delete(1),
            lambda: collection.get(1),
            collection.stats,
        )
        refused = 0
        for call in calls:
            try:
                call()
            except StorageError as error:
                refused += "fork" in str(error)
        collection.close()
        os._exit(len(calls) - refused)
    assert os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]) == 0
    collection.add(99, X[0], y[0])
    assert pairs(collection.search(X[0], 100)) == ranking(collection, X[0])
    collection.close()
    with place.open() as again:
        assert len(again) == 41
