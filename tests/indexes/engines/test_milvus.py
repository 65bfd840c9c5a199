"""An index in Milvus: here Milvus Lite, in a file and asked over TCP."""

import itertools
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
from tests.servers.milvus import milvus as server_of_ours

from onlinehash import FlatIndex
from onlinehash.checks import check_index
from onlinehash.exceptions import (
    InvalidInputError,
    MissingExtraError,
    StorageError,
    UnknownIdError,
)
from onlinehash.indexes.engines import MilvusIndex, milvus

pytestmark = pytest.mark.slow

NAMES = (f"codes_{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def server():
    with server_of_ours() as running:
        yield running


def codes(n, seed=0):
    """Return 16-bit codes of which half are among a few."""
    bits = np.random.default_rng(seed).integers(0, 2, (n, 16), dtype=np.uint8)
    bits[::2, 2:] = 0
    return np.packbits(bits, axis=1, bitorder="little")


def test_a_change_is_seen_by_the_next_read(server):
    index = MilvusIndex(16, server.uri, name=next(NAMES))
    for k in range(30):
        index.upsert(codes(2))
        assert len(index.ids) == k + 2
        index.delete([2 * k])
        assert len(index.ids) == k + 1


def test_it_keeps_the_promises_of_an_index(server, few_widths):
    check_index(lambda n_bits: MilvusIndex(n_bits, server.uri, name=next(NAMES)))  # ties by hash: see below


@pytest.mark.parametrize("ties", ["id", "hash"])
def test_answers_beyond_the_limits_of_milvus_are_exact(server, monkeypatch, ties):
    limits = {"MAX_ROWS": 64, "_ROWS_PER_WRITE": 50, "_MAX_IDS": 50, "_MAX_HITS": 100, "_SPARE_ROWS": 3}
    for name, value in limits.items():
        monkeypatch.setattr(milvus, name, value)
    ids = np.random.default_rng(1).permutation(600) - 300
    oracle = FlatIndex(16, ties)
    with MilvusIndex(16, server.uri, name=next(NAMES), ties=ties) as index:
        for each in (index, oracle):
            each.upsert(codes(600), ids)
        queries = codes(4, seed=2)
        for k in (1, 5, 31, 32, 33, 64, 65, 599, 1000):
            for some in (None, ids[::2], ids[:50]):
                found, expected = index.search(queries, k, ids=some), oracle.search(queries, k, ids=some)
                assert np.array_equal(found.ids, expected.ids), k
                assert np.array_equal(found.distances, expected.distances)
        for radius in (0, 1, 7, 16, 10**9):
            found, expected = index.range_search(queries, radius), oracle.range_search(queries, min(radius, 16))
            assert [one.ids.tolist() for one in found] == [one.ids.tolist() for one in expected]
        assert np.array_equal(np.sort(index.ids), np.sort(ids))
        index.upsert(codes(3))
        assert sorted(index.ids.tolist())[-3:] == [300, 301, 302]
        index.delete(ids[:555])
        assert len(index) == 48
        assert repr(index) == "<MilvusIndex of 48 codes of 16 bits>"


def test_a_file_holds_what_was_added_and_is_for_one_process(tmp_path):
    file = tmp_path / "items.db"
    with MilvusIndex(16, file) as index, MilvusIndex(16, str(file)) as same:
        index.upsert(codes(5), [5, 4, 3, 2, 1])
        assert len(same) == 5
        index.close()
        index.close()
        assert len(same) == 5
        with pytest.raises(StorageError, match=r"items.db is closed"):
            len(index)
    use = f"from onlinehash.indexes.engines import MilvusIndex; index = MilvusIndex(16, {str(file)!r})"
    other = subprocess.Popen(
        [sys.executable, "-c", f"{use}; print('held', flush=True); input(); index.close()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdout.readline() == b"held\n"
    with pytest.raises(StorageError, match=r"Milvus Lite serves one process at a time.* run a Milvus server"):
        MilvusIndex(16, file)
    other.communicate(b"\n")
    with MilvusIndex(16, file) as again:
        assert np.array_equal(again.get([1, 5]), codes(5)[[4, 0]])
        with pytest.raises(UnknownIdError, match="no item with id 9 in this index of 5"):
            again.delete([1, 9])
        with pytest.raises(
            InvalidInputError, match="codes of 16 bits', not 'onlinehash: codes of 12 bits'; name another"
        ):
            MilvusIndex(12, file)
        with pytest.raises(InvalidInputError, match="not 'onlinehash: codes of 16 bits, hashed ids'; name another"):
            MilvusIndex(16, file, ties="hash")


@pytest.mark.parametrize(
    ("error", "uri", "words"),
    [
        (InvalidInputError, "items.sqlite", "ends in .db"),
        (InvalidInputError, "a b.db", "ends in .db"),
        (InvalidInputError, "x" * 40 + ".db", "at most 36"),
        (InvalidInputError, "", "ends in .db"),
        (InvalidInputError, "ftp://host/items.db", "neither http"),
        (InvalidInputError, "http://", "names no host"),
        (StorageError, "nowhere/items.db", "There is no folder"),
        (StorageError, "text.db", "If the file is damaged, delete it"),
        (StorageError, "http://me:secret@127.0.0.1:1", r"Milvus at 127.0.0.1:1: "),
    ],
)
def test_a_bad_uri_is_told_without_the_password(tmp_path, monkeypatch, error, uri, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(milvus, "_CONNECT_SECONDS", 0.5)
    (tmp_path / "text.db").write_text("not a database")
    with pytest.raises(error, match=words) as caught:
        MilvusIndex(16, uri)
    assert "secret" not in str(caught.value)


def test_names_are_checked(server):
    for name in ("", "a b", "1a", "a.b", "x" * 300, "ä"):
        with pytest.raises(InvalidInputError, match="letters, digits and _"):
            MilvusIndex(16, server.uri, name=name)


def test_what_is_missing_is_named_with_the_way_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    monkeypatch.delitem(sys.modules, "onlinehash.indexes.engines.milvus")
    with pytest.raises(
        MissingExtraError, match=r"pymilvus is not installed. In a clone of onlinehash, run: pip install '\.\[milvus\]'"
    ):
        import_module("onlinehash.indexes.engines.milvus")
