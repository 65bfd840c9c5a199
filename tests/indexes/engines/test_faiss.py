import sys
from functools import partial

import faiss
import numpy as np
import pytest

from onlinehash import FlatIndex
from onlinehash.checks import index_checks, recall
from onlinehash.exceptions import FileFormatError, InvalidInputError, MissingExtraError
from onlinehash.indexes.engines import FaissIndex

pytestmark = pytest.mark.slow

LISTS = partial(FaissIndex, n_lists=8, n_probes=2)
ALL_LISTS = partial(FaissIndex, n_lists=8, n_probes=8)


@pytest.fixture(autouse=True)
def one_thread():
    """Several threads that wait for each other on a busy machine take many times as long."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


def clustered_codes(n, seed=0, n_centres=200):
    """Codes around centres, one bit in 12 flipped."""
    centres = np.random.default_rng(0).integers(0, 2, (n_centres, 64), dtype=np.uint8)
    rng = np.random.default_rng(seed)
    bits = centres[rng.integers(0, n_centres, n)] ^ (rng.random((n, 64)) < 1 / 12)
    return np.packbits(bits, axis=1, bitorder="little")


def assert_same(found, expected):
    assert np.array_equal(found.ids, expected.ids)
    assert np.array_equal(found.distances, expected.distances)


@pytest.mark.parametrize("check", list(index_checks()), ids=lambda check: check.__name__)
@pytest.mark.parametrize("make_index", [FaissIndex, ALL_LISTS], ids=["one", "all of 8"])
def test_a_search_of_all_lists_keeps(make_index, check, few_widths):
    check(make_index)


@pytest.mark.parametrize("check", list(index_checks(exact=False)), ids=lambda check: check.__name__)
def test_a_search_of_some_lists_keeps(check, few_widths):
    check(LISTS)


def test_some_lists_hold_most_of_the_nearest():
    index, oracle = FaissIndex(64, n_lists=100, n_probes=10), FlatIndex(64)
    for each in (index, oracle):
        each.upsert(clustered_codes(20_000))
        each.delete(np.arange(0, 20_000, 3))
        each.upsert(clustered_codes(5000, seed=1), np.arange(5000))
    queries = clustered_codes(50, seed=2)
    assert recall(index, oracle, queries, 10) > 0.99
    index.n_probes = 1
    assert 0.7 < recall(index, oracle, queries, 10) < 0.99
    index.n_probes = 1000
    assert_same(index.search(queries, 30), oracle.search(queries, 30))


def test_lists_are_learned_when_there_are_enough_codes():
    index, oracle = FaissIndex(64, n_lists=20, n_probes=1), FlatIndex(64)
    queries = clustered_codes(10, seed=2)
    for start in range(0, 1500, 300):
        codes = clustered_codes(300, seed=start)
        index.upsert(codes)
        oracle.upsert(codes)
        assert index.learned == (len(index) >= 39 * 20)
        if not index.learned:
            assert_same(index.search(queries, 9), oracle.search(queries, 9))
    assert repr(index) == "<FaissIndex of 1500 codes of 64 bits in 20 lists>"
    assert repr(FaissIndex(8, 3)) == "<FaissIndex of 0 codes of 8 bits in 3 lists, not yet learned>"
    assert repr(FaissIndex(8)) == "<FaissIndex of 0 codes of 8 bits>"
    index.delete(index.ids)
    assert index.learned
    assert index.search(queries, 3).ids.shape == (10, 0)


def test_lists_learned_from_a_sample_are_the_same_every_time():
    twins = [FaissIndex(64, n_lists=4, n_probes=1) for _ in range(2)]
    for index in twins:
        index.upsert(clustered_codes(3000))
    queries = clustered_codes(10, seed=2)
    assert_same(*(index.search(queries, 20) for index in twins))


def test_queries_whose_lists_hold_too_few_are_answered_by_a_full_scan():
    index, oracle = FaissIndex(64, n_lists=20, n_probes=1), FlatIndex(64)
    for each in (index, oracle):
        each.upsert(clustered_codes(1000))
    queries = clustered_codes(5, seed=2)
    assert_same(index.search(queries, 900), oracle.search(queries, 900))


def test_ties_at_the_last_place_go_to_the_smallest_ids():
    index = FaissIndex(8)
    ids = np.random.default_rng(0).permutation(3000)
    index.upsert(np.repeat(np.array([[0], [1], [3]], np.uint8), 1000, axis=0), ids)
    expected = [*sorted(ids[:1000]), *sorted(ids[1000:2000])[:7]]
    assert index.search(np.zeros((1, 1), np.uint8), 1007).ids[0].tolist() == expected


def test_ties_by_hash_are_a_fair_draw_from_the_lists_that_are_read():
    index, oracle = FaissIndex(64, n_lists=4, n_probes=1, ties="hash"), FlatIndex(64, ties="hash")
    few = clustered_codes(4)
    codes = few[np.random.default_rng(0).integers(0, 4, 2000)]
    for each in (index, oracle):
        each.upsert(codes)
    assert index.learned
    found, expected = index.search(few, 10), oracle.search(few, 10)
    assert_same(found, expected)
    assert found.ids.max() > 1500


def test_every_id_but_one_can_be_had():
    index = FaissIndex(8)
    index.upsert(np.zeros((4, 1), np.uint8), [-1, 0, 2**63 - 1, -(2**63)])
    assert index.search(np.zeros((1, 1), np.uint8), 9).ids.tolist() == [[-(2**63), -1, 0, 2**63 - 1]]
    with pytest.raises(InvalidInputError, match="the one integer that faiss has no room for"):
        index.upsert(np.zeros((1, 1), np.uint8), [-6148914691236517206])
    assert len(index) == 4


def test_settings_are_checked():
    for settings, message in [
        ({"n_lists": 0}, "n_lists=0"),
        ({"n_probes": 0}, "n_probes=0"),
        ({"n_lists": 2.5}, "2.5"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            FaissIndex(8, **settings)
    index = FaissIndex(8, 4)
    with pytest.raises(InvalidInputError, match="n_probes"):
        index.n_probes = -1
    assert index.n_probes == 16


@pytest.mark.parametrize("n_items", [0, 100, 1000])
def test_a_file_keeps_the_lists_and_their_settings(tmp_path, n_items):
    index = FaissIndex(64, n_lists=20, n_probes=3, ties="hash")
    index.upsert(clustered_codes(n_items))
    index.save(tmp_path / "index.ohi")
    again = FaissIndex.load(tmp_path / "index.ohi")
    assert (again.n_lists, again.n_probes, again.ties, again.learned) == (20, 3, "hash", n_items == 1000)
    for each in (index, again):
        each.upsert(clustered_codes(900, seed=1), np.arange(50, 950))
    assert_same(again.search(clustered_codes(9, seed=2), 20), index.search(clustered_codes(9, seed=2), 20))


def test_files_of_other_indexes_are_refused_by_name(tmp_path):
    path = tmp_path / "index.ohi"
    FlatIndex(8).save(path)
    with pytest.raises(FileFormatError, match="kind 'flat', not 'faiss'"):
        FaissIndex.load(path)


def test_a_missing_faiss_is_named_with_the_way_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.delitem(sys.modules, "onlinehash.indexes.engines.faiss")
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[faiss\]'"):
        from onlinehash.indexes.engines import FaissIndex  # noqa: F401


def test_our_answers_are_those_of_faiss_itself():
    codes, queries = clustered_codes(5000), clustered_codes(20, seed=2)
    index, theirs = FaissIndex(64), faiss.IndexBinaryFlat(64)
    index.upsert(codes)
    theirs.add(codes)
    assert np.array_equal(index.search(queries, 50).distances, theirs.search(queries, 50)[0])
