"""GpuIndex: codes in the memory of a GPU, searched exactly. The CUDA kernels are in ``gpu.cu``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.arrays import device_memory, is_on_device, to_host
from onlinehash._internal.validation import check_codes, check_query_values
from onlinehash.codes import code_width
from onlinehash.codes.distances import byte_tables
from onlinehash.exceptions import DeviceError, InvalidInputError, counted, needs_extra
from onlinehash.indexes.flat import FlatIndex
from onlinehash.indexes.index import Ties
from onlinehash.types import Codes, Distances, Ids, QueryValues, SearchResult

with needs_extra("cupy", "gpu"):
    import cupy

__all__ = ["GpuIndex", "cupy", "demand_gpu"]

Scan = Callable[[int, int, tuple[Any, ...]], None]  # writes the keys of a range of rows

TILE = 64  # rows that a scan reads together; it starts at a multiple of them
MAX_SINGLE_K = 256  # the largest k for which one scan answers one query
_MAX_BITS = 256
_MAX_ITEMS = 2**31 - TILE
_MAX_KEYS = 1 << 24  # that one scan may write
_FIRST_DISTANCES = 1 << 21  # computed in full, over all queries, before there is a bound
_QUERY_SHIFT = 41  # bits below the number of the query in a key: 9 of a Hamming distance, 32 of a row
_ASYMMETRIC_SHIFT = 63  # there is one query, and a distance takes 31 bits
_THREADS_PER_BLOCK = 256
_BLOCKS_PER_PROCESSOR = 128  # where one waits for keys to be written, others go on
_TABLE_BLOCKS_PER_PROCESSOR = 32  # fewer, where each loads a table first
_MAX_ROWS_TO_COUNT = 1 << 18  # up to this many, the distances of one query to all rows are counted, else to a sample
_MIN_SAMPLE_ROWS = 1 << 16  # in each part of a sample
_MAX_SINGLE_KEYS = 1 << 16  # that the scan for one query may write, which one block looks through
_EXPECTED_SINGLE_KEYS = 1 << 13  # within the bound that a sample gives, on average


class _Tiles(NamedTuple):
    """Items to search: codes in whole tiles, ids as stored, how many, and whether those rise with the row."""

    words: Any
    ids: Any
    n_items: int
    ordered: bool


class GpuIndex(FlatIndex):
    """Search packed codes exactly by Hamming distance on one GPU, by scanning all of them.

    A search reads every code once per batch of up to 256 queries. It computes the distances to some rows first; the
    k-th smallest bounds the distances that are worth keeping. One query is compared with codes by counting bits, which
    takes as long as reading them; several are multiplied with codes by the tensor cores.

    Codes and queries may be NumPy arrays, or arrays of PyTorch or CuPy on the GPU, which stay there. Results are NumPy
    arrays. Items are added, replaced and deleted in place, with O(1) cost per item.

    The GPU holds the code, in whole words of 4 bytes, and 8 bytes per item. Sorted ids in the memory of the host, 12
    bytes per item and more for those that have changed, find rows. They are sorted when that is first needed: to
    delete, to replace, for ``get`` and ``ids=``, but not to add items with rising ids. What it saves,
    :class:`onlinehash.FlatIndex` loads as well, and vice versa.

    Parameters
    ----------
    n_bits : int
        Length of the codes, up to 256.
    ties : {"id", "hash"}, default="id"
        Order of items at the same distance: by id, or by a hash of the id, which does not prefer old items.

    Examples
    --------
    ::

        index = GpuIndex(n_bits=64)
        index.upsert(encoder.encode(X))  # X may be a tensor on the GPU
        index.search(encoder.encode(queries), k=10).ids
    """

    _stored = staticmethod(cupy.asarray)

    def __init__(self, n_bits: int, ties: Ties = "id") -> None:
        super().__init__(n_bits, ties)
        if self.n_bits > _MAX_BITS:
            raise InvalidInputError(f"n_bits={n_bits} is more than the {_MAX_BITS} that GpuIndex takes; use FlatIndex.")
        demand_gpu()
        self._tensor = int(cupy.cuda.Device().compute_capability) >= 80  # tensor cores multiply 8-bit integers
        self._n_bytes, self._n_words = code_width(self.n_bits), -(-self.n_bits // 32)
        self._max_queries = 256 if self._n_words <= 4 else 128  # that fit into the shared memory of one scan
        self._codes: Any = cupy.zeros((0, self._n_words), np.uint32)  # as words
        self._ids: Any = cupy.zeros(0, np.int64)  # or their hashes, if those order ties
        self._single, self._single_lock = SingleQuery(self._n_words), Lock()

    @property
    def codes(self) -> Codes:
        """Codes of all items, in storage order, read-only: a copy on the host."""
        codes = self._as_codes(self._codes[: self._size])
        codes.flags.writeable = False
        return codes

    def _get(self, ids: Ids) -> Codes:
        return self._as_codes(super()._get(ids))

    # ------------------------------------------------------------------ ids

    def _ids_of(self, rows: Any) -> Ids:
        return self._plain_ids(self._ids[rows])

    def _stored_ids(self, ids: Ids) -> Any:
        return self._stored(self._tie_keys(ids))

    def _plain_ids(self, stored: Any) -> Ids:
        """Return ids from the GPU as they were given."""
        return self._ids_of_keys(cupy.asnumpy(stored))

    # ------------------------------------------------------------------ codes

    @staticmethod
    def _check_codes(codes: Any, n_bits: int | None = None, *, on_device: bool = True) -> Any:
        if not is_on_device(codes):
            return check_codes(codes, n_bits)
        packed = codes if isinstance(codes, cupy.ndarray) else cupy.from_dlpack(codes)
        return check_codes(packed, n_bits, on_device=on_device)

    def _check_values(self, values: ArrayLike) -> QueryValues:
        return check_query_values(to_host(values) if is_on_device(values) else values, self.n_bits)

    def _as_words(self, codes: Any) -> Any:
        """Return codes as rows of words on the GPU."""
        there = cupy.asarray(codes)
        if self._n_bytes % 4:
            padded = cupy.zeros((len(there), 4 * self._n_words), np.uint8)
            padded[:, : self._n_bytes] = there
            there = padded
        return cupy.ascontiguousarray(there).view(np.uint32).reshape(len(there), self._n_words)

    def _as_codes(self, words: Any) -> Codes:
        """Return rows of words as codes on the host."""
        plain = np.ascontiguousarray(cupy.asnumpy(words))
        return plain.view(np.uint8).reshape(len(plain), 4 * self._n_words)[:, : self._n_bytes].copy()

    # ------------------------------------------------------------------ changing

    def _put(self, codes: Any, ids: Ids) -> None:
        if len(ids):
            with device_memory(f"{counted(len(ids), 'code')} of {self.n_bits} bits"):
                super()._put(self._as_words(codes), ids)

    def _make_room(self, size: int) -> None:
        """Make room for items: half as many again, or only these where there is no memory for more."""
        if size > _MAX_ITEMS:
            raise InvalidInputError(f"{size} items are more than the {_MAX_ITEMS} that a GpuIndex holds; use several.")
        if size <= len(self._codes):
            return
        try:
            self._grow(max(size, 3 * self._size // 2))
        except Exception as error:
            if type(error).__name__ != "OutOfMemoryError":
                raise
            self._grow(size)

    def _grow(self, size: int) -> None:
        whole = -(-size // TILE) * TILE
        words, ids = cupy.zeros((whole, self._n_words), np.uint32), cupy.zeros(whole, np.int64)
        words[: self._size], ids[: self._size] = self._codes[: self._size], self._ids[: self._size]
        self._codes, self._ids = words, ids

    # ------------------------------------------------------------------ searching

    def _tiles(self, among: Ids | None) -> _Tiles:
        if among is None:
            return _Tiles(self._codes, self._ids, self._size, self._ordered and self.ties == "id")
        rows = self._find(among)
        n_items = int(np.count_nonzero(rows >= 0))
        words = cupy.zeros((-(-n_items // TILE) * TILE, self._n_words), np.uint32)
        words[:n_items] = self._codes[cupy.asarray(rows[rows >= 0])]
        return _Tiles(words, self._stored_ids(among[rows >= 0]), n_items, self.ties == "id")

    def _search(self, queries: Any, k: int, among: Ids | None) -> SearchResult[NDArray[Any]]:
        chosen = self._tiles(among)
        k = min(k, chosen.n_items)
        found: SearchResult[NDArray[Any]] = SearchResult(
            np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.int32)
        )
        if not found.ids.size:
            return found
        at_once = max(1, min(self._max_queries, _MAX_KEYS // k))
        with device_memory(f"A search for {counted(k, 'item')}"):
            for start in range(0, len(queries), at_once):
                rows = slice(start, min(start + at_once, len(queries)))
                if len(queries[rows]) == 1 and k <= MAX_SINGLE_K:
                    with self._single_lock:
                        near = self._single.nearest(chosen, cupy.asnumpy(queries[start]), k)
                    if near is not None:
                        found.ids[start], found.distances[start] = self._plain_ids(near[0]), near[1]
                        continue
                some = self._as_words(queries[rows])
                scan_some = partial(scan, chosen.words, some, self._tensor and len(some) > 1)
                keys = self._nearest_keys(chosen, scan_some, len(some), k, _QUERY_SHIFT)
                found.ids[rows] = self._plain_ids(chosen.ids[_rows_of(keys)]).reshape(-1, k)
                found.distances[rows] = _distances_of(cupy.asnumpy(keys), _QUERY_SHIFT).reshape(-1, k)
        return found

    def _search_asymmetric(self, queries: QueryValues, k: int, among: Ids | None) -> SearchResult[NDArray[Any]]:
        chosen = self._tiles(among)
        k = min(k, chosen.n_items)
        found: SearchResult[NDArray[Any]] = SearchResult(
            np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
        )
        if not found.ids.size:
            return found
        with device_memory(f"A search for {counted(k, 'item')}"):
            for rows, tables in byte_tables(queries):
                for q, table in zip(range(rows.start, rows.stop), cupy.asarray(tables), strict=True):
                    scan_one = partial(scan_asymmetric, chosen.words, table)
                    keys = self._nearest_keys(chosen, scan_one, 1, k, _ASYMMETRIC_SHIFT)
                    found.ids[q] = self._plain_ids(chosen.ids[_rows_of(keys)])
                    found.distances[q] = _distances_of(cupy.asnumpy(keys), _ASYMMETRIC_SHIFT).view(np.float32)
        return found

    def _range_search(self, queries: Any, radius: int, among: Ids | None) -> list[tuple[Ids, Distances]]:
        chosen = self._tiles(among)
        found: list[tuple[Ids, Distances]] = []
        for start in range(0, len(queries), self._max_queries):
            some = self._as_words(queries[start : start + self._max_queries])
            scan_some = partial(scan, chosen.words, some, self._tensor and len(some) > 1)
            with device_memory("A search within a radius"):
                bounds = cupy.full(len(some), min(radius, self.n_bits) + 1, np.int32)
                parts, first, step = [cupy.zeros(0, np.uint64)], 0, max(chosen.n_items, 1)
                while first < chosen.n_items:
                    last = min(first + step, chosen.n_items)
                    part, last = self._keys(scan_some, first, last, bounds, bounds, 0)
                    parts.append(part)
                    first, step = last, max(TILE, last - first)
                sorted_keys = _in_order(cupy.concatenate(parts), chosen)
                ids, keys = self._plain_ids(chosen.ids[_rows_of(sorted_keys)]), cupy.asnumpy(sorted_keys)
            cuts = np.searchsorted(keys >> np.uint64(_QUERY_SHIFT), np.arange(1, len(some), dtype=np.uint64))
            found += zip(np.split(ids, cuts), np.split(_distances_of(keys, _QUERY_SHIFT), cuts), strict=True)
        return found

    def _nearest_keys(self, chosen: _Tiles, scan: Scan, n_queries: int, k: int, shift: int) -> Any:
        """Return the keys of the k nearest items of every query, in order.

        Ever more rows are scanned at a time, each time with the bound that those before have given: the number of keys
        stays about the same. Where ids rise with the row, a later item at the bound cannot win.
        """
        n_items = chosen.n_items
        bounds = cupy.full(n_queries, (1 << (shift - 32)) - 1, np.int32)
        limits = cupy.full(n_queries, np.iinfo(np.int64).max, np.int64)
        last = min(n_items, _whole_tiles(max(k, _FIRST_DISTANCES // (n_queries if n_queries > 1 else 16))))
        best, first = cupy.zeros(0, np.uint64), 0
        growth = max(4, _MAX_KEYS // (8 * k * n_queries))
        while first < n_items:
            ids = 0 if chosen.ordered or not first else chosen.ids
            keys, first = self._keys(scan, first, last, bounds, limits, ids)
            last = min(n_items, _whole_tiles(first * growth))
            if len(keys):
                best = _first_k(_in_order(cupy.concatenate([best, keys]), chosen), n_queries, min(k, first), shift)
            if first >= k:
                worst = best[k - 1 :: k]
                bounds = _distances_of(worst, shift)
                limits = limits if chosen.ordered else chosen.ids[_rows_of(worst)]
        return best

    def _keys(self, scan: Scan, first: int, last: int, bounds: Any, limits: Any, ids: Any) -> tuple[Any, int]:
        """Return the keys of rows from ``first`` on, and the row up to which there was room for them."""
        n_queries = len(bounds)
        room = max(min(_MAX_KEYS, n_queries * (last - first)), n_queries * TILE)
        keys, count = cupy.empty(room, np.uint64), cupy.zeros(1, np.uint64)
        while True:
            scan(first, last, (bounds, limits, ids, keys, room, count))
            found = int(count[0])
            if found <= room:
                return keys[:found], last
            last = first + _whole_tiles((last - first) // 2)
            count[0] = 0

    # ------------------------------------------------------------------ saving

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"codes": self.codes, "ids": self.ids}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.upsert(arrays["codes"], arrays["ids"])


class SingleQuery:
    """Find the nearest items of one query at a time, with memory for its kernels; counts are zero between searches.

    Parameters
    ----------
    n_words : int
        Words of 32 bits per code.
    """

    def __init__(self, n_words: int) -> None:
        self.query = cupy.zeros((1, n_words), np.uint32)
        self.sampled = cupy.zeros(2 * (32 * n_words + 1), np.uint32)
        self.bound, self.limit = cupy.zeros(1, np.int32), cupy.zeros(1, np.int64)
        self.keys, self.count = cupy.zeros(_MAX_SINGLE_KEYS, np.uint64), cupy.zeros(1, np.uint64)
        self.given: NDArray[np.uint32] = _pinned(n_words, np.uint32)
        self.out: NDArray[np.uint64] = _pinned(2 + 2 * _MAX_SINGLE_KEYS, np.uint64)

    def nearest(self, chosen: _Tiles, query: Codes, k: int) -> tuple[Ids, Distances] | None:
        """Return the ids and distances of the k nearest items of a query, or None if too many are as near as they."""
        self.given.view(np.uint8)[: len(query)] = query
        self.query.set(self.given[None])
        find_bound(chosen, k, self)
        wanted = self.bound, self.limit, chosen.ids, self.keys, len(self.keys), self.count
        scan(chosen.words, self.query, False, 0, chosen.n_items, wanted)
        take_nearest(self, chosen.ids, k)
        cupy.cuda.get_current_stream().synchronize()
        n_taken, n_keys = self.out[:2].tolist()
        if n_keys > len(self.keys):
            return None
        taken = self.out[2 : 2 + 2 * n_taken].reshape(-1, 2).copy()
        ids, distances = taken[:, 1].view(np.int64), taken[:, 0] >> np.uint64(32)
        order = np.lexsort((ids, distances))[:k]
        return ids[order], distances[order].astype(np.int32)


def _pinned(size: int, dtype: Any) -> NDArray[Any]:
    """Return zeros in memory of the host that the GPU reads and writes."""
    array: NDArray[Any] = np.frombuffer(cupy.cuda.alloc_pinned_memory(size * np.dtype(dtype).itemsize), dtype, size)
    array[:] = 0
    return array


def demand_gpu() -> None:
    """Raise if CuPy finds no GPU."""
    try:
        n_devices = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        raise DeviceError(f"CuPy cannot use a GPU: {error}. Install NVIDIA's driver, or use FlatIndex.") from error
    if not n_devices:
        raise DeviceError("CuPy finds no GPU on this machine; use FlatIndex.")


def _whole_tiles(n_rows: int) -> int:
    return max(TILE, n_rows // TILE * TILE)


def _rows_of(keys: Any) -> Any:
    return (keys & np.uint64(2**32 - 1)).astype(np.int64)


def _distances_of(keys: Any, shift: int) -> Any:
    """Return the distances in keys as int32: numbers of bits, or the bits of floating-point numbers."""
    return ((keys >> np.uint64(32)) & np.uint64((1 << (shift - 32)) - 1)).astype(np.int32)


def _in_order(keys: Any, chosen: _Tiles) -> Any:
    """Return keys by query, distance and id."""
    if chosen.ordered:
        return cupy.sort(keys)
    return keys[cupy.lexsort(cupy.stack([chosen.ids[_rows_of(keys)], (keys >> np.uint64(32)).astype(np.int64)]))]


def _first_k(keys: Any, n_queries: int, k: int, shift: int) -> Any:
    """Return the first k keys of every query."""
    starts = cupy.searchsorted(keys >> np.uint64(shift), cupy.arange(n_queries, dtype=np.uint64))
    return keys[(starts[:, None] + cupy.arange(k)[None, :]).ravel()]


# ---------------------------------------------------------------------- kernels


@cache
def _kernel(name: str, device: int, n_words: int, n_bytes: int = 1, n_queries: int = 1) -> Any:
    """Return a compiled kernel for codes of a width."""
    ahead = 4 if n_queries == 1 and n_words <= 4 else 1
    options = (f"-DW={n_words}", f"-DN_BYTES={n_bytes}", f"-DQ={n_queries}", f"-DAHEAD={ahead}", "--std=c++17")
    return cupy.RawModule(code=Path(__file__).with_name("gpu.cu").read_text(), options=options).get_function(name)


@cache
def _n_multiprocessors(device: int) -> int:
    return int(cupy.cuda.Device(device).attributes["MultiProcessorCount"])


def _blocks(device: int, n_rows: int, rows_per_block: int, per_processor: int) -> tuple[int]:
    return (min(per_processor * _n_multiprocessors(device), -(-n_rows // rows_per_block)),)


def scan(words: Any, queries: Any, tensor: bool, first: int, last: int, wanted: tuple[Any, ...]) -> None:
    """Write the keys of rows from ``first`` to ``last`` that are near enough to queries; several on tensor cores.

    ``wanted`` are the bound and the limit of every query, the ids or 0, the keys to write, how many there is room for,
    and how many were found, which may be more.
    """
    (n_queries, n_words), n_rows, threads = queries.shape, last - first, (_THREADS_PER_BLOCK,)
    device = cupy.cuda.Device().id
    if tensor:
        blocks = _blocks(device, n_rows, TILE // 2 * _THREADS_PER_BLOCK // 32, _TABLE_BLOCKS_PER_PROCESSOR)
        given = words, first, last, queries, cupy.int32(n_queries), *wanted
        shared = -(-n_queries // 8) * (2 * n_words + 2) * 32 * 4
        _kernel("scan_tensor", device, n_words)(blocks, threads, given, shared_mem=shared)
        return
    at_once = 1 if n_queries == 1 else 16 if n_words <= 2 else 4
    kernel = _kernel("scan", device, n_words, n_queries=at_once)
    blocks = _blocks(device, n_rows, _THREADS_PER_BLOCK, _BLOCKS_PER_PROCESSOR)
    for start in range(0, n_queries, at_once):
        kernel(blocks, threads, (words, first, last, queries, cupy.int32(start), cupy.int32(n_queries), *wanted))


def scan_asymmetric(words: Any, table: Any, first: int, last: int, wanted: tuple[Any, ...]) -> None:
    """Write the keys of rows whose asymmetric distance to one query, given as a table, is small enough."""
    device = cupy.cuda.Device().id
    kernel = _kernel("scan_asymmetric", device, words.shape[1], table.shape[0])
    blocks = _blocks(device, last - first, _THREADS_PER_BLOCK, _TABLE_BLOCKS_PER_PROCESSOR)
    kernel(blocks, (_THREADS_PER_BLOCK,), (words, first, last, table, *wanted))


def find_bound(chosen: _Tiles, k: int, single: SingleQuery) -> None:
    """Find the bound and the limit for a scan that keeps at least k items, and not many more."""
    n_first, n_spread, stride = sample(chosen.n_items, k)
    n_words, device = chosen.words.shape[1], cupy.cuda.Device().id
    given = chosen.words, n_first, n_spread, stride, single.query, single.sampled
    _kernel("count_distances", device, n_words)(_blocks(device, n_first + n_spread, 256, 8), (256,), given)
    is_limited = cupy.int32(chosen.ordered and n_first < chosen.n_items)
    found = single.sampled, k, chosen.ids, n_first, is_limited, single.bound, single.limit
    _kernel("find_bound", device, n_words)((1,), (256,), found)


def sample(n_items: int, k: int) -> tuple[int, int, int]:
    """Return the numbers of rows at the start and in spread tiles whose distances are counted, and tiles per tile."""
    if n_items <= _MAX_ROWS_TO_COUNT:
        return n_items, 0, 1
    wanted = n_items // 1024, n_items * k // _EXPECTED_SINGLE_KEYS
    n_first, n_spread = (max(_MIN_SAMPLE_ROWS, some // TILE * TILE) for some in wanted)
    return n_first, n_spread, (n_items // TILE - n_first // TILE) // (n_spread // TILE)


def take_nearest(single: SingleQuery, ids: Any, k: int) -> None:
    """Write how many items are as near as the k-th, how many keys there are, and the key and the id of each item."""
    given = single.keys, single.count, len(single.keys), ids, k, single.sampled, single.out.ctypes.data
    _kernel("take_nearest", cupy.cuda.Device().id, single.query.shape[1])((1,), (1024,), given)
