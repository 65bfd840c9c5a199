import numpy as np
import pytest

from onlinehash import BucketIndex, FlatIndex, hamming_distances
from onlinehash.exceptions import FileFormatError, InvalidInputError
from onlinehash.indexes.tables import CodeTable, IdTable


def both(n_bits):
    return BucketIndex(n_bits), FlatIndex(n_bits)


def random_codes(n, n_bytes=1, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, n_bytes), dtype=np.uint8)


def assert_same(found, expected):
    assert np.array_equal(found.ids, expected.ids)
    assert np.array_equal(found.distances, expected.distances)


def test_items_of_one_code_share_a_bucket():
    index = BucketIndex(8)
    index.upsert(np.array([[1], [2], [1], [1]], np.uint8), [9, 4, -3, 7])
    assert index.n_buckets == 2
    assert index.ids.tolist() == [-3, 7, 9, 4]
    assert index.codes.tolist() == [[1], [1], [1], [2]]
    assert repr(index) == "<BucketIndex of 4 codes of 8 bits in 2 buckets>"


def test_ties_are_ordered_by_id_across_buckets():
    index, oracle = both(16)
    one_bit = (1 << np.arange(16)).astype("<u2").view(np.uint8).reshape(16, 2)  # all at distance 1 from zero
    ids = np.random.default_rng(0).permutation(16_000)
    for each in (index, oracle):
        each.upsert(np.repeat(one_bit, 1000, axis=0), ids)
    query = np.zeros((1, 2), np.uint8)
    for k in (1, 10, 2500, 16_000):
        assert index.search(query, k).ids[0].tolist() == list(range(k))
        assert_same(index.search(query, k), oracle.search(query, k))
    assert index.range_search(query, 1)[0].ids.tolist() == list(range(16_000))


@pytest.mark.parametrize("n_bytes", [1, 2, 3, 4, 8, 16, 33])
def test_search_equals_the_full_scan_when_no_code_repeats_and_when_all_do(n_bytes):
    for codes in (random_codes(2000, n_bytes), np.repeat(random_codes(3, n_bytes), 600, axis=0)):
        index, oracle = both(8 * n_bytes)
        queries = random_codes(5, n_bytes, 1)
        soft = np.random.default_rng(0).uniform(-1, 1, (5, 8 * n_bytes))
        for each in (index, oracle):
            each.upsert(codes)
        for k in (1, 50, 5000):
            assert_same(index.search(queries, k), oracle.search(queries, k))
            assert_same(index.search(soft, k, asymmetric=True), oracle.search(soft, k, asymmetric=True))


def test_a_bucket_grows_from_both_ends_and_the_middle():
    index = BucketIndex(8)
    rng = np.random.default_rng(0)
    ids = rng.permutation(3000)
    for batch in np.split(ids, np.sort(rng.integers(0, 3000, 40))):
        index.upsert(np.full((len(batch), 1), 5, np.uint8), batch)
    assert index.n_buckets == 1
    assert index.ids.tolist() == list(range(3000))


def test_what_is_left_behind_is_won_back():
    index, oracle = both(32)
    queries = random_codes(3, 4, 99)
    for step in range(30):  # every item gets a new code over and over
        codes = random_codes(2000, 4, step)
        for each in (index, oracle):
            each.upsert(codes, np.arange(2000))
        assert len(index._codes) <= 3 * 2000 + 1024
        assert index._members.end <= 3 * 2000 + 1024
        assert_same(index.search(queries, 30), oracle.search(queries, 30))
    index.delete(np.arange(1999))
    assert len(index._codes) < 1100
    assert index.get([1999]).tolist() == oracle.get([1999]).tolist()


def test_a_code_whose_items_have_gone_can_come_back():
    index = BucketIndex(8)
    index.upsert(np.array([[7], [9]], np.uint8), [1, 2])
    index.delete([1])
    assert index.search(np.array([[7]], np.uint8), 5).ids.tolist() == [[2]]
    assert index.n_buckets == 1
    index.upsert(np.array([[7]], np.uint8), [3])
    assert index.search(np.array([[7]], np.uint8), 5).ids.tolist() == [[3, 2]]


def test_replacing_an_item_by_itself_changes_nothing():
    index = BucketIndex(8)
    codes = random_codes(500)
    index.upsert(codes)
    before = index.ids
    index.upsert(codes, np.arange(500))
    assert np.array_equal(index.ids, before)
    assert len(index) == 500


def test_ids_run_out_at_the_largest_integer():
    for index in both(8):
        index.upsert(random_codes(1), [np.iinfo(np.int64).max])
        with pytest.raises(InvalidInputError, match="pass ids"):
            index.upsert(random_codes(1))


def test_files_of_other_indexes_are_refused_by_name(tmp_path):
    for index, other, kind in [(BucketIndex, FlatIndex, "buckets"), (FlatIndex, BucketIndex, "flat")]:
        index(8).save(tmp_path / "index.ohi")
        with pytest.raises(FileFormatError, match=f"kind '{kind}'"):
            other.load(tmp_path / "index.ohi")
        assert len(index.load(tmp_path / "index.ohi", mmap=True)) == 0


def test_a_mapped_index_stays_on_disk_until_it_is_changed(tmp_path):
    index = BucketIndex(16)
    index.upsert(random_codes(5000, 2) & 15)
    index.delete(np.arange(100))
    index.save(tmp_path / "index.ohi")
    again = BucketIndex.load(tmp_path / "index.ohi", mmap=True)
    assert_same(again.search(random_codes(3, 2), 7), index.search(random_codes(3, 2), 7))
    assert 4000 in again
    assert not again._members.pool.flags.writeable
    again.upsert(random_codes(1, 2))
    assert again._members.pool.flags.writeable
    assert 5000 in again


def test_ids_that_collide_in_the_table_are_told_apart():
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.concatenate([np.arange(-2000, 2000) << 40, np.arange(1, 4000)]))
    table, expected = IdTable(ids[:1], np.zeros(1, np.int32)), {int(ids[0]): 0}
    for step in range(60):
        some = rng.choice(ids, 400, replace=False)
        if step % 3 < 2:
            numbers = rng.integers(0, 1000, 400).astype(np.int32)
            table.put(some, numbers)
            expected.update(zip(some.tolist(), numbers.tolist(), strict=True))
        else:
            some = np.array([id for id in some.tolist() if id in expected])
            table.drop(some)
            for id in some.tolist():
                del expected[id]
        assert len(table) == len(expected)
        assert table.find(ids).tolist() == [expected.get(id, -1) for id in ids.tolist()]


def test_codes_are_numbered_in_order_of_arrival():
    codes = np.arange(200_000, dtype="<u4").view(np.uint8).reshape(-1, 4)
    table = CodeTable(codes[:10])
    assert table.number(codes).tolist() == list(range(200_000))
    assert table.number(codes[::-1][:5]).tolist() == [199_999, 199_998, 199_997, 199_996, 199_995]
    assert np.array_equal(table.codes, codes)


def test_empty_buckets_near_a_query_hide_nothing():
    codes = np.arange(3000, dtype="<u2").view(np.uint8).reshape(-1, 2)
    index = BucketIndex(16)
    index.upsert(codes)
    gone = np.concatenate([np.arange(start, start + 8) for start in range(0, 3000, 512)])  # the nearest of every tile
    index.delete(gone)
    flat = FlatIndex(16)
    flat.upsert(np.delete(codes, gone, axis=0), np.delete(np.arange(3000), gone))
    query = np.zeros((1, 2), np.uint8)
    for k in (1, 3, 5):
        assert np.array_equal(index.search(query, k).ids, flat.search(query, k).ids)


@pytest.mark.parametrize("n_bytes", [1, 8, 32])
def test_a_filter_over_many_tiles_finds_what_a_full_sort_finds(n_bytes):
    codes, queries = random_codes(7000, n_bytes), random_codes(3, n_bytes, 1)
    allowed = np.random.default_rng(2).permutation(8000)[:3000]  # some of them unknown
    known = np.sort(allowed[allowed < 7000])
    for index in both(8 * n_bytes):
        index.upsert(codes)
        for k in (5, 2900):
            found = index.search(queries, k, ids=allowed)
            order = np.argsort(hamming_distances(queries, codes[known]), axis=1, kind="stable")[:, :k]
            assert np.array_equal(found.ids, known[order])


def test_the_benchmark_measures_every_kind_of_change(monkeypatch):
    pytest.importorskip("faiss")
    from benchmarks import bench_buckets

    monkeypatch.setattr(bench_buckets, "N", 300)
    monkeypatch.setattr(bench_buckets, "BATCH", 10)
    codes = np.random.default_rng(0).integers(0, 256, (300, 4), np.uint8)
    buckets, flat = BucketIndex(32), FlatIndex(32)
    for index in (buckets, flat):
        index.upsert(codes)
    rows = bench_buckets.changes(buckets, flat, codes)
    assert [row.meaning.split(",")[0] for row in rows] == ["add", "delete", "replace"]
    assert len(buckets) == len(flat) == 300
