"""GpuIndex: codes in the memory of a GPU, searched exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._arrays import device_memory, is_on_device, to_host
from onlinehash._validation import check_codes, check_query_values
from onlinehash.codes import code_width
from onlinehash.codes.asymmetric import byte_tables
from onlinehash.exceptions import DeviceError, InvalidCodesError, InvalidInputError, counted
from onlinehash.indexes.engines import gpu_kernels as kernels
from onlinehash.indexes.engines import gpu_single
from onlinehash.indexes.engines.gpu_kernels import TILE, cupy
from onlinehash.indexes.flat import FlatIndex
from onlinehash.types import Codes, Distances, Ids, QueryValues, SearchResult

__all__ = ["GpuIndex", "cupy", "demand_gpu"]

_MOST_BITS = 256
_MOST_ITEMS = 2**31 - TILE
_ROOM = 1 << 24  # keys that one scan may write
_FIRST = 1 << 21  # distances computed in full, over all queries, before there is a bound
_LOW = np.uint64(2**32 - 1)
_ASYMMETRIC = 63  # bits below the number of the query, of which there is one

Scan = Callable[[int, int, tuple[Any, ...]], None]
"""Writes the keys of a range of rows; see :mod:`onlinehash.indexes.engines.gpu_kernels`."""


class _View(NamedTuple):
    """Items to search: codes in whole tiles, ids, how many, and whether ids rise with the row."""

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

    The GPU holds the code, in whole words of 4 bytes, and 8 bytes per item. A table in the memory of the host, of 24 to
    48 bytes per item, finds ids. It is made when it is first needed: to delete, to replace, for ``get`` and ``ids=``,
    but not to add items with rising ids. What it saves, :class:`onlinehash.FlatIndex` loads as well, and vice versa.

    Parameters
    ----------
    n_bits : int
        Length of the codes, up to 256.

    Examples
    --------
    ::

        index = GpuIndex(n_bits=64)
        index.upsert(encoder.encode(X))  # X may be a tensor on the GPU
        index.search(encoder.encode(queries), k=10).ids
    """

    _stored, _on_host = staticmethod(cupy.asarray), staticmethod(cupy.asnumpy)

    def __init__(self, n_bits: int) -> None:
        super().__init__(n_bits)
        if self.n_bits > _MOST_BITS:
            raise InvalidInputError(
                f"n_bits={n_bits} is more than the {_MOST_BITS} that GpuIndex takes; use FlatIndex."
            )
        demand_gpu()
        self._tensor = kernels.has_tensor_cores()
        self._n_bytes, self._n_words = code_width(self.n_bits), -(-self.n_bits // 32)
        self._codes: Any = cupy.zeros((0, self._n_words), np.uint32)  # as words
        self._ids: Any = cupy.zeros(0, np.int64)
        self._single = gpu_single.SingleSearch(self._n_words)

    @property
    def codes(self) -> Codes:
        """Codes of all items, in storage order, read-only: a copy on the host."""
        codes = self._as_codes(self._codes[: self._size])
        codes.flags.writeable = False
        return codes

    def _get(self, ids: Ids) -> Codes:
        return self._as_codes(super()._get(ids))

    # ------------------------------------------------------------------ codes

    def _check_codes(self, codes: ArrayLike) -> Any:
        if not is_on_device(codes):
            return check_codes(codes, self.n_bits)
        packed = codes if isinstance(codes, cupy.ndarray) else cupy.from_dlpack(codes)
        if packed.dtype != np.uint8:
            raise InvalidCodesError(f"codes has dtype {packed.dtype}; packed codes are uint8.")
        if packed.ndim != 2 or packed.shape[1] != self._n_bytes:
            raise InvalidCodesError(
                f"codes has shape {packed.shape}, but {self.n_bits} bits take {self._n_bytes} bytes."
            )
        if self.n_bits % 8 and bool((packed[:, -1] >> (self.n_bits % 8)).any()):
            raise InvalidCodesError(f"codes has bits set beyond bit {self.n_bits}; those padding bits must be zero.")
        return packed

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
        if size > _MOST_ITEMS:
            raise InvalidInputError(f"{size} items are more than the {_MOST_ITEMS} that a GpuIndex holds; use several.")
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

    def _tiles(self, among: Ids | None) -> _View:
        if among is None:
            return _View(self._codes, self._ids, self._size, self._ordered)
        rows = self._numbers().find(among)
        n_items = int(np.count_nonzero(rows >= 0))
        words = cupy.zeros((-(-n_items // TILE) * TILE, self._n_words), np.uint32)
        words[:n_items] = self._codes[cupy.asarray(rows[rows >= 0])]
        return _View(words, cupy.asarray(among[rows >= 0]), n_items, True)

    def _scan(self, view: _View, queries: Any) -> Scan:
        """Return the scan for queries given as words."""
        tensor = self._tensor and len(queries) > 1
        return lambda first, last, wanted: kernels.scan(view.words, first, last, queries, wanted, tensor=tensor)

    def _search(self, queries: Any, k: int, among: Ids | None) -> SearchResult:
        view = self._tiles(among)
        k = min(k, view.n_items)
        found = SearchResult(np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.int32))
        if not found.ids.size:
            return found
        at_once = max(1, min(kernels.most_queries(self._n_words), _ROOM // k))
        with device_memory(f"A search for {counted(k, 'item')}"):
            for start in range(0, len(queries), at_once):
                rows = slice(start, min(start + at_once, len(queries)))
                if len(queries[rows]) == 1 and k <= gpu_single.MOST_NEIGHBOURS:
                    query = cupy.asnumpy(queries[start])
                    near = self._single.nearest(view.words, view.ids, view.n_items, query, k, ordered=view.ordered)
                    if near is not None:
                        found.ids[start], found.distances[start] = near
                        continue
                some = self._as_words(queries[rows])
                keys = self._nearest_keys(view, self._scan(view, some), len(some), k, kernels.SHIFT)
                found.ids[rows] = cupy.asnumpy(view.ids[_rows_of(keys)]).reshape(-1, k)
                found.distances[rows] = _distances_of(cupy.asnumpy(keys), kernels.SHIFT).reshape(-1, k)
        return found

    def _search_asymmetric(self, queries: QueryValues, k: int, among: Ids | None) -> SearchResult:
        view = self._tiles(among)
        k = min(k, view.n_items)
        found = SearchResult(np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32))
        if not found.ids.size:
            return found
        with device_memory(f"A search for {counted(k, 'item')}"):
            for rows, tables in byte_tables(queries):
                for q, table in zip(range(rows.start, rows.stop), cupy.asarray(tables), strict=True):
                    keys = self._nearest_keys(view, _asymmetric_scan(view, table), 1, k, _ASYMMETRIC)
                    found.ids[q] = cupy.asnumpy(view.ids[_rows_of(keys)])
                    found.distances[q] = _distances_of(cupy.asnumpy(keys), _ASYMMETRIC).view(np.float32)
        return found

    def _range_search(self, queries: Any, radius: int, among: Ids | None) -> list[tuple[Ids, Distances]]:
        view, shift, at_once = self._tiles(among), kernels.SHIFT, kernels.most_queries(self._n_words)
        found: list[tuple[Ids, Distances]] = []
        for start in range(0, len(queries), at_once):
            some = self._as_words(queries[start : start + at_once])
            with device_memory("A search within a radius"):
                bounds = cupy.full(len(some), min(radius, self.n_bits) + 1, np.int32)
                keys, first, step = [cupy.zeros(0, np.uint64)], 0, max(view.n_items, 1)
                while first < view.n_items:
                    part, last = self._keys(self._scan(view, some), first, min(first + step, view.n_items), bounds)
                    keys.append(part)
                    first, step = last, max(TILE, last - first)
                sorted_keys = _in_order(cupy.concatenate(keys), view)
                ids = cupy.asnumpy(view.ids[_rows_of(sorted_keys)])
            plain = cupy.asnumpy(sorted_keys)
            cuts = np.searchsorted(plain >> np.uint64(shift), np.arange(1, len(some), dtype=np.uint64))
            distances = _distances_of(plain, shift)
            found += zip(np.split(ids, cuts), np.split(distances, cuts), strict=True)
        return found

    def _nearest_keys(self, view: _View, scan: Scan, n_queries: int, k: int, shift: int) -> Any:
        """Return the keys of the k nearest items of every query, in order.

        Ever more rows are scanned at a time, each time with the bound that those before have given: the number of keys
        stays about the same. Where ids rise with the row, a later item at the bound cannot win.
        """
        n_items = view.n_items
        bounds = cupy.full(n_queries, (1 << (shift - 32)) - 1, np.int32)
        limits = cupy.full(n_queries, np.iinfo(np.int64).max, np.int64)
        last = min(n_items, _whole_tiles(max(k, (_FIRST if n_queries > 1 else _FIRST >> 4) // n_queries)))
        best, first = cupy.zeros(0, np.uint64), 0
        growth = max(4, _ROOM // (8 * k * n_queries))
        while first < n_items:
            keys, first = self._keys(scan, first, last, bounds, limits, None if view.ordered or not first else view.ids)
            last = min(n_items, _whole_tiles(first * growth))
            if len(keys):
                best = _first_k(_in_order(cupy.concatenate([best, keys]), view), n_queries, min(k, first), shift)
            if first >= k:
                worst = best[k - 1 :: k]
                bounds = _distances_of(worst, shift)
                limits = limits if view.ordered else view.ids[_rows_of(worst)]
        return best

    def _keys(
        self, scan: Scan, first: int, last: int, bounds: Any, limits: Any = None, ids: Any = None
    ) -> tuple[Any, int]:
        """Return the keys of rows from ``first`` on, and the row up to which there was room for them."""
        n_queries = len(bounds)
        room = max(min(_ROOM, n_queries * (last - first)), n_queries * TILE)
        keys, count = cupy.empty(room, np.uint64), cupy.zeros(1, np.uint64)
        while True:
            scan(
                first,
                last,
                (bounds, bounds if limits is None else limits, 0 if ids is None else ids, keys, room, count),
            )
            found = int(count[0])
            if found <= room:
                return keys[:found], last
            last = first + _whole_tiles((last - first) // 2)
            count[0] = 0

    # ------------------------------------------------------------------ saving

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"codes": self.codes, "ids": self.ids}

    def _restore(self, arrays: dict[str, NDArray[Any]], path: str) -> None:
        self.upsert(arrays["codes"], arrays["ids"])


def demand_gpu() -> None:
    """Raise if CuPy finds no GPU."""
    try:
        n_devices = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        raise DeviceError(f"CuPy cannot use a GPU: {error}. Install NVIDIA's driver, or use FlatIndex.") from error
    if not n_devices:
        raise DeviceError("CuPy finds no GPU on this machine; use FlatIndex.")


def _asymmetric_scan(view: _View, table: Any) -> Scan:
    return lambda first, last, wanted: kernels.scan_asymmetric(view.words, first, last, table, wanted)


def _whole_tiles(n_rows: int) -> int:
    return max(TILE, n_rows // TILE * TILE)


def _rows_of(keys: Any) -> Any:
    return (keys & _LOW).astype(np.int64)


def _distances_of(keys: Any, shift: int) -> Any:
    """Return the distances in keys as int32: numbers of bits, or the bits of floating-point numbers."""
    return ((keys >> np.uint64(32)) & np.uint64((1 << (shift - 32)) - 1)).astype(np.int32)


def _in_order(keys: Any, view: _View) -> Any:
    """Return keys by query, distance and id."""
    if view.ordered:
        return cupy.sort(keys)
    return keys[cupy.lexsort(cupy.stack([view.ids[_rows_of(keys)], (keys >> np.uint64(32)).astype(np.int64)]))]


def _first_k(keys: Any, n_queries: int, k: int, shift: int) -> Any:
    """Return the first k keys of every query."""
    if n_queries == 1:
        return keys[:k]
    starts = cupy.searchsorted(keys >> np.uint64(shift), cupy.arange(n_queries, dtype=np.uint64))
    return keys[(starts[:, None] + cupy.arange(k)[None, :]).ravel()]
