"""GpuIndex: on a GPU where there is one, and on a stand-in for CuPy everywhere."""

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.indexes.engines.cuda_on_cpu import Kernels
from tests.indexes.engines.cupy_stand_in import find_bound, scan, scan_asymmetric, stand_in, take_nearest
from tests.servers import program
from tests.thorough import times

from onlinehash import HROH, Collection, FlatIndex
from onlinehash.checks import index_checks
from onlinehash.exceptions import DeviceError, InvalidInputError, MissingExtraError

pytestmark = pytest.mark.slow


def has_gpu():
    try:
        import cupy

        return cupy.cuda.runtime.getDeviceCount() > 0
    except Exception:
        return False


needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(not has_gpu(), reason="There is no GPU.")]


@pytest.fixture(params=["stand-in", "little room", pytest.param("gpu", marks=needs_gpu)])
def gpu(request):
    """The module of GpuIndex; with little room, scans are cut into parts and often overflow."""
    if request.param == "gpu":
        from onlinehash.indexes.engines import gpu

        yield gpu
        return
    with stand_in() as module:
        if request.param == "little room":
            module._MAX_KEYS, module._FIRST_DISTANCES, module._MAX_ROWS_TO_COUNT = 1 << 9, 1 << 8, 1 << 8
            module._MIN_SAMPLE_ROWS, module._MAX_SINGLE_KEYS, module._EXPECTED_SINGLE_KEYS = 64, 150, 150
        yield module


def codes_of(n, n_bits, seed, distinct=None):
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (distinct or n, n_bits), dtype=np.uint8)
    return np.packbits(bits if distinct is None else bits[rng.integers(0, distinct, n)], axis=1, bitorder="little")


def assert_same(found, expected):
    assert np.array_equal(found.distances, expected.distances)
    assert np.array_equal(found.ids, expected.ids)


@pytest.mark.parametrize("check", list(index_checks()), ids=lambda check: check.__name__)
def test_gpu_index_keeps(gpu, check, request, few_widths):
    if "[stand-in" in request.node.name:
        pytest.skip("It takes long, and passes with little room.")
    check(gpu.GpuIndex)


@pytest.mark.parametrize(
    ("n_bits", "distinct", "ties"),
    [(8, None, "id"), (8, 5, "hash"), (100, None, "hash"), (100, 5, "id"), (256, None, "id"), (256, 5, "hash")],
)
def test_any_changes_and_searches_are_those_of_flat_index(gpu, n_bits, distinct, ties):
    rng = np.random.default_rng(n_bits)
    index, flat = gpu.GpuIndex(n_bits, ties), FlatIndex(n_bits, ties)
    for step in range(15):
        size = int(rng.integers(1, 200))
        codes = codes_of(size, n_bits, step, distinct)
        ids = None if step % 4 == 0 else rng.choice(2000, size, replace=False)
        doomed = rng.permutation(flat.ids)[: size // 2] if step % 3 == 2 else []
        for each in (index, flat):
            each.upsert(codes, ids)
            each.delete(doomed[: len(flat)])
        queries = codes_of(int(rng.integers(1, 20)), n_bits, 100 + step, distinct)
        for k in (1, 40):
            assert_same(index.search(queries, k), flat.search(queries, k))
            assert_same(index.search(queries[:1], k), flat.search(queries[:1], k))
        for found, expected in zip(*(each.range_search(queries, n_bits // 3) for each in (index, flat)), strict=True):
            assert_same(found, expected)


def test_items_of_one_code_come_by_id_in_any_order_of_storage(gpu):
    index = gpu.GpuIndex(16)
    ids = np.random.default_rng(0).permutation(5000)
    index.upsert(np.zeros((5000, 2), np.uint8), ids)
    for n_queries, k in ((3, 700), (1, 90)):
        assert index.search(np.zeros((n_queries, 2), np.uint8), k).ids.tolist() == [list(range(k))] * n_queries


def test_items_of_one_code_come_by_hash_in_rising_order_of_storage(gpu):
    index, flat = gpu.GpuIndex(16, ties="hash"), FlatIndex(16, ties="hash")
    for each in (index, flat):
        each.upsert(np.zeros((5000, 2), np.uint8))
        each.upsert(np.zeros((100, 2), np.uint8))
    assert np.array_equal(index.ids, np.arange(5100)) and 5099 in index
    for n_queries, k in ((3, 700), (1, 90)):
        queries, some = np.zeros((n_queries, 2), np.uint8), np.arange(0, 5100, 3)
        assert_same(index.search(queries, k), flat.search(queries, k))
        assert_same(index.search(queries, k, ids=some), flat.search(queries, k, ids=some))


def test_one_query_is_answered_by_one_scan_among_many_items(gpu, monkeypatch):
    scans, scan_of = [], gpu.scan
    monkeypatch.setattr(gpu, "scan", lambda *given: (scans.append(1), scan_of(*given)))
    monkeypatch.setattr(gpu, "_MAX_ROWS_TO_COUNT", 1 << 10)
    monkeypatch.setattr(gpu, "_MIN_SAMPLE_ROWS", 1 << 9)
    monkeypatch.setattr(gpu, "_MAX_SINGLE_KEYS", 1 << 12)
    ids = np.concatenate([np.arange(-5000, 5000), [2**63 - 1]])
    codes, queries = codes_of(10_001, 64, 0), codes_of(9, 64, 1)
    codes[-1] = queries[-1]
    for order in (np.arange(10_001), np.random.default_rng(0).permutation(10_001)):
        index, flat = gpu.GpuIndex(64), FlatIndex(64)
        for each in (index, flat):
            each.upsert(codes[order], ids[order])
        for query in queries:
            assert_same(index.search(query[None], 10), flat.search(query[None], 10))
            assert_same(index.search(query[None], 10, ids=ids[::2]), flat.search(query[None], 10, ids=ids[::2]))
    assert len(scans) == 36


def test_more_items_than_there_is_memory_for_are_refused_and_nothing_is_lost(monkeypatch):
    class OutOfMemoryError(MemoryError):
        pass

    with stand_in() as gpu:
        index = gpu.GpuIndex(64)
        index.upsert(codes_of(100, 64, 0))
        zeros = gpu.cupy.zeros

        def scarce(shape, dtype):
            if np.prod(shape) > 1000:
                raise OutOfMemoryError(f"no room for {shape}")
            return zeros(shape, dtype)

        monkeypatch.setattr(gpu.cupy, "zeros", scarce)
        with pytest.raises(DeviceError, match=r"2000 codes of 64 bits does not fit .* memory of the GPU"):
            index.upsert(codes_of(2000, 64, 1), np.arange(50, 2050))
        assert np.array_equal(index.codes, codes_of(100, 64, 0))
        index.upsert(codes_of(100, 64, 1))  # room for these alone, not for half as many again
        assert len(index) == 200

        def scarcer(ids):
            raise OutOfMemoryError(f"no room for {ids}")

        assert 500 not in index
        monkeypatch.setattr(gpu.GpuIndex, "_stored", staticmethod(scarcer))
        with pytest.raises(DeviceError, match="1 code of 64 bits does not fit"):
            index.upsert(codes_of(1, 64, 2), [500])
        assert 500 not in index and len(index) == 200

        for n_times in range(4):  # of the arrays that replacing and adding take, the last does not fit
            room = iter([True] * n_times)
            there = staticmethod(lambda array, room=room: array if next(room, False) else scarcer(array))
            monkeypatch.setattr(gpu.GpuIndex, "_stored", there)
            with pytest.raises(DeviceError, match="2 codes of 64 bits does not fit"):
                index.upsert(codes_of(2, 64, 2), [0, 500])
            assert 500 not in index and np.array_equal(index.codes[:100], codes_of(100, 64, 0))


def test_what_is_missing_is_said(monkeypatch):
    with stand_in() as gpu:
        monkeypatch.setattr(gpu.cupy.cuda.runtime, "getDeviceCount", lambda: 0)
        with pytest.raises(DeviceError, match="no GPU on this machine"):
            gpu.GpuIndex(8)
        monkeypatch.setattr(gpu.cupy.cuda.runtime, "getDeviceCount", lambda: 1 // 0)
        with pytest.raises(DeviceError, match=r"cannot use a GPU: .* Install NVIDIA's driver"):
            gpu.GpuIndex(8)
        with pytest.raises(InvalidInputError, match="more than the 256"):
            gpu.GpuIndex(257)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(MissingExtraError, match=r"cupy is not installed.*'\.\[gpu\]'"):
        from onlinehash.indexes.engines import GpuIndex  # noqa: F401


@pytest.mark.parametrize("ties", ["id", "hash"])
def test_a_file_is_read_by_both_indexes(gpu, tmp_path, ties):
    index = gpu.GpuIndex(20, ties)
    index.upsert(codes_of(70, 20, 0), np.arange(70)[::-1])
    index.save(tmp_path / "index.ohi")
    flat = FlatIndex.load(tmp_path / "index.ohi")
    queries = codes_of(4, 20, 1)
    assert_same(flat.search(queries, 9), index.search(queries, 9))
    flat.save(tmp_path / "flat.ohi")
    assert flat.ties == ties
    assert_same(gpu.GpuIndex.load(tmp_path / "flat.ohi").search(queries, 9), index.search(queries, 9))


@pytest.mark.parametrize("where", ["stand-in", pytest.param("gpu", marks=needs_gpu)])
def test_a_collection_is_searched_on_the_gpu_as_in_memory(tmp_path, where, request):
    if where == "stand-in":
        request.getfixturevalue("stood_in")
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 12)), rng.integers(0, 5, 400)
    hasher = HROH(16, n_components=32, random_state=0)
    with (
        Collection.open(tmp_path / "gpu.oh", hasher, search="gpu") as there,
        Collection.open(tmp_path / "memory.oh", HROH(16, n_components=32, random_state=0)) as here,
    ):
        for each in (there, here):
            for start in range(0, 300, 60):
                each.upsert(range(start, start + 60), X[start : start + 60], y[start : start + 60])
            each.delete(range(20, 40))
            each.upsert(range(100), X[300:], y[300:])
            each.refresh()
        for options in ({}, {"labels": 2}, {"ids": list(range(50))}, {"asymmetric": True}):
            found, expected = (each.search(X[:5], 20, **options) for each in (there, here))
            assert found.ids == expected.ids
        assert there.stats().index == "gpu"
    with Collection.open(tmp_path / "memory.oh", search="gpu") as again:
        assert len(again.search(X[0], 10).ids) == 10
    with pytest.raises(InvalidInputError, match="gpu takes no options"):
        Collection.open(tmp_path / "memory.oh", search="gpu:3")


@pytest.fixture
def stood_in():
    with stand_in():
        yield


@pytest.mark.parametrize(
    "n_bytes, at_once, ahead", times([(8, 1, 4), (9, 4, 1)], [(8, 1, 4), (2, 16, 1), (9, 4, 1), (32, 4, 1)])
)
def test_kernels_write_the_keys_that_they_should(tmp_path, n_bytes, at_once, ahead):
    program("g++", "g++")
    with stand_in() as gpu:
        source, sample = Path(gpu.__file__).with_name("gpu.cu").read_text(), gpu.sample
    n_words = -(-n_bytes // 4)
    compiled = Kernels(source, tmp_path, n_words, n_bytes, at_once, ahead)
    rng = np.random.default_rng(n_bytes)
    codes, queries = np.zeros((320, 4 * n_words), np.uint8), np.zeros((11, 4 * n_words), np.uint8)
    for each in (codes, queries):
        each[:, :n_bytes] = rng.integers(0, 256, (len(each), n_bytes))
    words, query_words = codes.view(np.uint32), queries.view(np.uint32)
    bounds = rng.integers(3 * n_bytes, 5 * n_bytes, 11).astype(np.int32)
    limits, ids = rng.integers(0, 320, 11), rng.permutation(320)
    for some in (0, ids):
        for first, last in ((0, 300), (64, 317)):
            expected = keys_of(scan, words, (query_words, False), first, last, bounds, limits, some)
            for tensor in (False, True):
                found = keys_of(compiled.scan, words, (query_words, tensor), first, last, bounds, limits, some)
                assert np.array_equal(found, expected)
    table = rng.random((n_bytes, 256), dtype=np.float32)
    bound = np.array([np.float32(n_bytes / 2).view(np.int32)])
    found, expected = (
        keys_of(each, words, (table,), 64, 317, bound, limits[:1], 0)
        for each in (compiled.scan_asymmetric, scan_asymmetric)
    )
    assert 0 < len(found) < 253
    assert np.array_equal(found, expected)

    for n_items, k, ordered in ((300, 7, True), (1, 1, False)):
        split = sample if k == 1 else lambda n_items, k: (64, 128, 1)
        singles = [gpu.SingleQuery(n_words) for _ in range(2)]
        for single, find in zip(singles, (compiled.find_bound, find_bound), strict=True):
            single.query.set(query_words[:1])
            find(split, (words, ids, n_items, ordered), k, single)
        assert (singles[0].bound, singles[0].limit) == (singles[1].bound, singles[1].limit)
    keys = ((bounds.astype(np.uint64) - np.uint64(3 * n_bytes)) << np.uint64(32)) + np.arange(11, dtype=np.uint64)
    for most in (11, 10):
        singles = [gpu.SingleQuery(n_words) for _ in range(2)]
        for single, take in zip(singles, (compiled.take_nearest, take_nearest), strict=True):
            single.keys, single.count[0] = keys[:most].copy(), 11
            take(single, ids, 4)
            assert not single.count.any() and not single.sampled.any()
        n_found = int(singles[0].out[0])
        assert n_found == singles[1].out[0] == (0 if most == 10 else np.sum(bounds <= np.sort(bounds)[3]))
        found, expected = (sorted(single.out[1 : 2 + 2 * n_found]) for single in singles)
        assert found == expected


def keys_of(function, words, queries, first, last, bounds, limits, ids):
    keys, count = np.zeros(10_000, np.uint64), np.zeros(1, np.uint64)
    function(words, *queries, first, last, (bounds, limits, ids, keys, len(keys), count))
    return np.sort(keys[: int(count[0])])
