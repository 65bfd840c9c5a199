import numpy as np
import pytest
from tests.reference import hamming as reference

from onlinehash import FlatIndex, hamming_distances
from onlinehash.exceptions import FileFormatError, InvalidCodesError, InvalidInputError, UnknownIdError


def random_codes(n, n_bytes=1, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, n_bytes), dtype=np.uint8)


@pytest.mark.parametrize("n_bytes", [1, 2, 3, 4, 8, 16, 32, 33])
@pytest.mark.parametrize("k", [1, 10, 700, 5000])
def test_search_equals_a_full_sort(n_bytes, k):
    codes, queries = random_codes(1500, n_bytes, 1), random_codes(4, n_bytes, 2)
    index = FlatIndex(8 * n_bytes)
    index.upsert(codes)
    found = index.search(queries, k)
    distances = hamming_distances(queries, codes)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    assert np.array_equal(found.ids, order)
    assert np.array_equal(found.distances, np.take_along_axis(distances, order, axis=1))


@pytest.mark.parametrize("n_bytes", [1, 4, 12, 16, 24, 32, 40])
@pytest.mark.parametrize("n_queries", [1, 2, 40])
def test_search_of_many_tiles_equals_a_full_sort(n_bytes, n_queries, monkeypatch):
    monkeypatch.setattr("onlinehash.indexes.flat._MIN_DISTANCES_PER_THREAD", 100_000)  # 40 queries use several threads
    codes, queries = random_codes(7000, n_bytes, 1), random_codes(n_queries, n_bytes, 2)
    index = FlatIndex(8 * n_bytes)
    index.upsert(codes, np.arange(7000)[::-1])
    found = index.search(queries, 10)
    distances = hamming_distances(queries, codes[::-1])
    order = np.argsort(distances, axis=1, kind="stable")[:, :10]
    assert np.array_equal(found.ids, order)
    assert np.array_equal(found.distances, np.take_along_axis(distances, order, axis=1))


def test_search_orders_ties_by_id_whatever_the_storage_order():
    rng = np.random.default_rng(0)
    ids = rng.permutation(5000)
    codes = random_codes(5000)
    index = FlatIndex(8)
    index.upsert(codes, ids)
    index.delete(ids[::3])
    items = {int(id): codes[i] for i, id in enumerate(ids) if i % 3}
    for query, found in zip(codes[:5], index.search(codes[:5], 40), strict=True):
        expected = reference.ranking(query, items)[:40]
        assert list(zip(found.distances.tolist(), found.ids.tolist(), strict=True)) == expected


def test_ties_stay_ordered_by_id_when_the_last_items_take_free_places():
    index = FlatIndex(8)
    index.upsert(np.zeros((1000, 1), np.uint8))  # ids rise until items are removed
    index.delete(np.arange(0, 1000, 3))
    kept = [id for id in range(1000) if id % 3]
    assert index.search(np.zeros((1, 1), np.uint8), 400).ids[0].tolist() == kept[:400]


def test_radius_search_includes_the_radius_and_orders_by_distance_then_id():
    codes = random_codes(3000, 2)
    index = FlatIndex(16)
    index.upsert(codes[::-1], np.arange(3000)[::-1])
    items = dict(enumerate(codes))
    for query, found in zip(codes[:3], index.range_search(codes[:3], 4), strict=True):
        expected = [pair for pair in reference.ranking(query, items) if pair[0] <= 4]
        assert list(zip(found.distances.tolist(), found.ids.tolist(), strict=True)) == expected


def test_adding_a_known_id_replaces_its_code():
    index = FlatIndex(8)
    index.upsert(random_codes(4), [1, 2, 3, 4])
    index.upsert(np.array([[255], [0]], np.uint8), [3, 9])
    assert len(index) == 5
    assert index.get([3, 9]).tolist() == [[255], [0]]


def test_ids_are_numbered_on_from_the_largest():
    index = FlatIndex(8)
    index.upsert(random_codes(2))
    index.upsert(random_codes(1), [10])
    index.upsert(random_codes(2))
    assert index.ids.tolist() == [0, 1, 10, 11, 12]


def test_an_empty_index_finds_nothing():
    index = FlatIndex(8)
    assert index.search(random_codes(3), 5).ids.shape == (3, 0)
    assert [len(found) for found in index.range_search(random_codes(3), 8)] == [0, 0, 0]
    assert index.search(random_codes(0), 5).ids.shape == (0, 0)
    index.upsert(np.empty((0, 1), np.uint8))
    assert len(index) == 0


def test_fewer_than_k_items_give_as_many_as_there_are():
    index = FlatIndex(8)
    index.upsert(random_codes(3))
    assert index.search(random_codes(2), 10).ids.shape == (2, 3)


def test_refused_changes_leave_the_index_as_it_was():
    index = FlatIndex(8)
    index.upsert(random_codes(3), [1, 2, 3])
    before = index.codes.copy()
    for call, error, message in [
        (lambda: index.upsert(random_codes(2), [4, 4]), InvalidInputError, "twice"),
        (lambda: index.upsert(random_codes(2), [4]), InvalidInputError, "ids has length 1, but codes has length 2"),
        (lambda: index.upsert(random_codes(1), ["a"]), InvalidInputError, "integers"),
        (lambda: index.upsert(random_codes(1), [1.5]), InvalidInputError, "integers"),
        (lambda: index.upsert(random_codes(1, 2)), InvalidCodesError, "2 bytes per row, but 8 bits take 1"),
        (lambda: index.upsert(np.zeros((1, 1))), InvalidCodesError, "dtype float64"),
        (lambda: index.delete([2, 7]), UnknownIdError, "no item with id 7"),
        (lambda: index.delete([2, 2]), InvalidInputError, "twice"),
        (lambda: index.get([8]), UnknownIdError, "no item with id 8"),
        (lambda: index.search(random_codes(1), 0), InvalidInputError, "k=0"),
        (lambda: index.search(random_codes(1, 3), 1), InvalidCodesError, "3 bytes"),
        (lambda: index.range_search(random_codes(1), -1), InvalidInputError, "radius=-1"),
        (lambda: FlatIndex(0), InvalidInputError, "n_bits=0"),
    ]:
        with pytest.raises(error, match=message):
            call()
        assert index.ids.tolist() == [1, 2, 3]
        assert np.array_equal(index.codes, before)


def test_saved_and_mapped_indexes_search_alike_and_a_mapped_one_can_change(tmp_path):
    index = FlatIndex(20)
    codes = random_codes(500, 3)
    codes[:, 2] &= 0b1111
    index.upsert(codes, np.random.default_rng(1).permutation(500))
    index.save(tmp_path / "i.ohi")
    expected = index.search(codes[:5], 20)
    for mmap in (False, True):
        again = FlatIndex.load(tmp_path / "i.ohi", mmap=mmap)
        assert np.array_equal(again.search(codes[:5], 20).ids, expected.ids)
        again.upsert(codes[:0], [])
        again.delete([])
        assert again._codes.flags.writeable == (not mmap)
        again.delete(again.ids[:10])
        again.upsert(codes[:1], [9999])
        assert 9999 in again
        assert len(again) == 491
    assert len(FlatIndex.load(tmp_path / "i.ohi")) == 500
    assert repr(again) == "<FlatIndex of 491 codes of 20 bits>"
    FlatIndex(8).save(tmp_path / "empty.ohi")
    assert len(FlatIndex.load(tmp_path / "empty.ohi", mmap=True)) == 0


def test_one_code_is_not_called_codes():
    index = FlatIndex(8)
    index.upsert(random_codes(1))
    assert repr(index) == "<FlatIndex of 1 code of 8 bits>"


def test_a_foreign_file_is_not_an_index(tmp_path):
    (tmp_path / "x").write_bytes(b"nothing")
    with pytest.raises(FileFormatError):
        FlatIndex.load(tmp_path / "x")


def test_memory_mapped_codes_are_accepted(tmp_path):
    np.save(tmp_path / "codes.npy", random_codes(100, 8))
    mapped = np.load(tmp_path / "codes.npy", mmap_mode="r")
    index = FlatIndex(64)
    index.upsert(mapped)
    assert index.search(mapped[:1], 1).ids.tolist() == [[0]]


def test_codes_handed_out_cannot_be_written_to():
    index = FlatIndex(8)
    index.upsert(random_codes(3))
    with pytest.raises(ValueError, match="read-only"):
        index.codes[0] = 1


@pytest.mark.parametrize("n_items", [1280, 1283])
@pytest.mark.parametrize("n_bits", [192, 256])
def test_wide_codes_are_found_through_their_tiles(n_bits, n_items):
    codes = np.random.default_rng(n_bits).integers(0, 256, (n_items, n_bits // 8), dtype=np.uint8)
    index = FlatIndex(n_bits)
    index.upsert(codes)
    for queries in (codes[-1:], codes[-20:] ^ 1):
        distances = hamming_distances(queries, codes)
        found = index.search(queries, k=5)  # fewer than tiles
        nearest = np.argsort(distances, axis=1, kind="stable")[:, :5]
        np.testing.assert_array_equal(found.ids, nearest)
        np.testing.assert_array_equal(found.distances, np.take_along_axis(distances, nearest, axis=1))


def test_ids_run_out_at_the_largest_integer():
    index = FlatIndex(8)
    index.upsert(random_codes(1), [np.iinfo(np.int64).max])
    with pytest.raises(InvalidInputError, match="pass ids"):
        index.upsert(random_codes(1))


@pytest.mark.parametrize("n_bytes", [1, 8, 32])
def test_a_filter_over_many_tiles_finds_what_a_full_sort_finds(n_bytes):
    codes, queries = random_codes(7000, n_bytes), random_codes(3, n_bytes, 1)
    allowed = np.random.default_rng(2).permutation(8000)[:3000]  # some of them unknown
    known = np.sort(allowed[allowed < 7000])
    index = FlatIndex(8 * n_bytes)
    index.upsert(codes)
    for k in (5, 2900):
        found = index.search(queries, k, ids=allowed)
        order = np.argsort(hamming_distances(queries, codes[known]), axis=1, kind="stable")[:, :k]
        assert np.array_equal(found.ids, known[order])


def test_ids_are_found_after_many_changes_in_any_order():
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.concatenate([np.arange(-2000, 2000) << 40, np.arange(1, 4000)]))
    index, expected = FlatIndex(16), {}
    for step in range(60):
        some = rng.choice(ids, 400, replace=False)
        if step % 3 < 2:
            codes = random_codes(400, 2, step)
            index.upsert(codes, some)
            expected.update(zip(some.tolist(), codes.tolist(), strict=True))
        else:
            some = np.array([id for id in some.tolist() if id in expected])
            index.delete(some)
            for id in some.tolist():
                del expected[id]
        assert dict(zip(index.ids.tolist(), index.codes.tolist(), strict=True)) == expected
        assert [id in index for id in ids[:50].tolist()] == [id in expected for id in ids[:50].tolist()]
        known = rng.permutation(list(expected))
        assert index.get(known).tolist() == [expected[id] for id in known.tolist()]
