import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import asymmetric as reference

from onlinehash import FlatIndex, asymmetric_distances, pack_bits, unpack_signs
from onlinehash.exceptions import InvalidCodesError, InvalidInputError


def random_problem(n_queries, n_items, n_bits, seed=0):
    rng = np.random.default_rng(seed)
    return np.tanh(rng.normal(size=(n_queries, n_bits))), pack_bits(rng.integers(0, 2, (n_items, n_bits)))


@pytest.mark.parametrize("n_bits", [3, 8, 13, 32, 64, 100])
@pytest.mark.parametrize("k", [1, 10, 700, 5000])
def test_soft_search_equals_a_full_sort(n_bits, k):
    soft, codes = random_problem(4, 1500, n_bits)
    index = FlatIndex(n_bits)
    index.upsert(codes)
    found = index.search(soft, k, asymmetric=True)
    distances = asymmetric_distances(soft, codes)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    assert found.distances.dtype == np.float32
    assert np.array_equal(found.ids, order)
    assert np.array_equal(found.distances, np.take_along_axis(distances, order, axis=1))


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 20), st.integers(1, 40), st.integers(0, 10**6))
def test_soft_search_orders_ties_by_id_whatever_the_storage_order(n_bits, k, seed):
    rng = np.random.default_rng(seed)
    soft = rng.integers(-4, 5, (2, n_bits)) / 4  # sums of quarters are exact: ties are ties
    codes = pack_bits(rng.integers(0, 2, (60, n_bits)))
    ids = rng.permutation(60)
    index = FlatIndex(n_bits)
    index.upsert(codes, ids)
    index.delete(ids[::3])
    items = {int(id): codes[i].tolist() for i, id in enumerate(ids) if i % 3}
    for query, found in zip(soft, index.search(soft, k, asymmetric=True), strict=True):
        expected = reference.nearest(query, items, k)
        assert list(zip(found.distances.tolist(), found.ids.tolist(), strict=True)) == expected


def test_many_items_with_few_codes_are_found_in_the_order_of_their_ids():
    soft, codes = random_problem(3, 5000, 4)
    ids = np.random.default_rng(1).permutation(5000)
    index = FlatIndex(4)
    index.upsert(codes, ids)
    found = index.search(soft, 900, asymmetric=True)
    distances = asymmetric_distances(soft, codes)
    for q in range(3):
        assert np.array_equal(found.ids[q], ids[np.lexsort((ids, distances[q]))[:900]])


@pytest.mark.parametrize("n_bits", [12, 64])
def test_sure_queries_find_what_packed_ones_find(n_bits):
    codes = random_problem(1, 2000, n_bits)[1]
    index = FlatIndex(n_bits)
    index.upsert(codes, np.random.default_rng(2).permutation(2000))
    found, expected = index.search(unpack_signs(codes[:9], n_bits), 30, asymmetric=True), index.search(codes[:9], 30)
    assert np.array_equal(found.ids, expected.ids)
    assert np.array_equal(found.distances, expected.distances)


def test_more_queries_than_are_in_work_at_a_time_find_the_same():
    soft, codes = random_problem(150, 90, 10)
    index = FlatIndex(10)
    index.upsert(codes)
    found = index.search(soft, 5, asymmetric=True)
    assert np.array_equal(found.ids[140:143], index.search(soft[140:143], 5, asymmetric=True).ids)


def test_empty_and_small_indexes_give_what_they_have(tmp_path):
    soft, codes = random_problem(2, 3, 8)
    index = FlatIndex(8)
    assert index.search(soft, 5, asymmetric=True).ids.shape == (2, 0)
    index.upsert(codes)
    assert index.search(soft, 5, asymmetric=True).ids.shape == (2, 3)
    assert index.search(soft[:0], 5, asymmetric=True).ids.shape == (0, 3)
    index.save(tmp_path / "i.ohi")
    mapped = FlatIndex.load(tmp_path / "i.ohi", mmap=True)
    assert np.array_equal(
        mapped.search(soft, 5, asymmetric=True).distances, index.search(soft, 5, asymmetric=True).distances
    )


def test_bad_asymmetric_queries_are_named():
    index = FlatIndex(12)
    for soft, k, error, message in [
        (np.zeros((1, 11)), 1, InvalidCodesError, "The queries have 11 values per row, but codes have 12 bits"),
        (np.full((1, 12), np.nan), 1, InvalidCodesError, "The queries hold nan at row 0, bit 0"),
        (np.full((1, 12), 2), 1, InvalidCodesError, "The queries hold 2 at row 0"),
        (np.zeros((1, 2), np.uint8), 1, InvalidCodesError, "dtype uint8"),
        (np.zeros((1, 12)), 0, InvalidInputError, "k=0"),
    ]:
        with pytest.raises(error, match=message):
            index.search(soft, k, asymmetric=True)
