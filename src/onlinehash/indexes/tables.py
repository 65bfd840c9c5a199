"""Growing arrays that indexes keep besides codes: id tables, code numbers and buckets of ids."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.indexes import _bucket_kernels as kernels
from onlinehash.indexes._ids import is_id, unknown_id
from onlinehash.types import Codes, Ids

Numbers = NDArray[np.int32]

_CHUNK = 1 << 16  # codes numbered at a time: space is reserved for that many new ones
_LEAST = 64
_NO_IDS = np.empty(0, np.int64)


class CodeTable:
    """Number distinct codes from 0 in order of arrival."""

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._size = len(codes)
        self._table: Numbers | None = None  # made when a code is first numbered: a search needs none

    def __len__(self) -> int:
        return self._size

    @property
    def codes(self) -> Codes:
        """The distinct codes by number."""
        return self._codes[: self._size]

    def number(self, codes: Codes) -> Numbers:
        """Return the number of every code, new numbers for new codes."""
        numbers = np.empty(len(codes), np.int32)
        for start in range(0, len(codes), _CHUNK):
            chunk = np.ascontiguousarray(codes[start : start + _CHUNK])
            table = self._room_for(len(chunk))
            out = numbers[start : start + _CHUNK]
            self._size = kernels.number_codes(chunk, table, self._codes, self._size, out)
        return numbers

    def _room_for(self, n_more: int) -> Numbers:
        size = self._size + n_more
        self._codes = grown(self._codes, self._size, size)
        if self._table is None or 2 * size > len(self._table):
            self._table = _empty_table(size)
            known = self._codes[: self._size].copy()
            kernels.number_codes(known, self._table, self._codes, 0, np.empty(self._size, np.int32))
        return self._table


class IdTable:
    """Map int64 ids to numbers of rows or buckets in 24 to 48 bytes per id; a dict takes over 100."""

    def __init__(self, ids: Ids, numbers: Numbers) -> None:
        self._size = 0
        self._ids, self._table = np.empty(0, np.int64), np.empty(0, np.int32)
        self.put(ids, numbers)

    def __len__(self) -> int:
        return self._size

    def __contains__(self, id: object) -> bool:
        return is_id(id) and bool(self.find(np.array([id], np.int64))[0] >= 0)

    def find(self, ids: Ids) -> Numbers:
        """Return the number of every id, -1 where there is none."""
        out = np.empty(len(ids), np.int32)
        kernels.find_ids(ids, self._ids, self._table, out)
        return out

    def find_known(self, ids: Ids) -> Numbers:
        """Return the number of every id; all must exist."""
        numbers = self.find(ids)
        if (numbers < 0).any():
            raise unknown_id(int(ids[np.argmax(numbers < 0)]), len(self))
        return numbers

    def put(self, ids: Ids, numbers: Numbers) -> None:
        """Set the number of every id."""
        size = self._size + len(ids)
        if 3 * size >= 2 * len(self._table):
            old_ids, old = self._ids, self._table
            self._table = _empty_table(size)
            self._ids = np.empty(len(self._table), np.int64)
            kernels.put_ids(old_ids[old >= 0], old[old >= 0], self._ids, self._table)
        self._size += kernels.put_ids(ids, numbers, self._ids, self._table)

    def drop(self, ids: Ids) -> None:
        """Remove ids; all must exist."""
        kernels.drop_ids(ids, self._ids, self._table)
        self._size -= len(ids)


class Members:
    """Keep the sorted ids of all buckets in one array.

    A bucket that outgrows its space moves to the end of the array, with space for 1.5 times its size; its old space is
    not reused. ``pool`` is the array and ``end`` the length in use.
    """

    def __init__(self, sizes: NDArray[np.int64] = _NO_IDS, ids: Ids = _NO_IDS) -> None:
        self._starts, self._sizes, self._rooms = np.cumsum(sizes) - sizes, sizes, sizes.copy()
        self._n_buckets = len(sizes)
        self.pool, self.end = ids, len(ids)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Start of the ids of each bucket in the pool."""
        return self._starts[: self._n_buckets]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of ids in each bucket."""
        return self._sizes[: self._n_buckets]

    def insert(self, buckets: Numbers, ids: Ids, n_buckets: int) -> None:
        """Insert sorted new ids into their buckets, and set the number of buckets to ``n_buckets``."""
        self._own(n_buckets)
        order, used, bounds = by_bucket(buckets)
        sizes = self._sizes[used] + np.diff(bounds)
        rooms = sizes + sizes // 2
        end = self.end + int(rooms[sizes > self._rooms[used]].sum())
        self.pool = grown(self.pool, self.end, end)
        where = self._starts, self._sizes, self._rooms
        self.end = kernels.insert_members(used, bounds, ids[order], rooms, self.pool, self.end, *where)

    def remove(self, buckets: Numbers, ids: Ids) -> None:
        """Remove sorted ids from their buckets."""
        self._own(self._n_buckets)
        order, used, bounds = by_bucket(buckets)
        kernels.remove_members(used, bounds, ids[order], self.pool, self._starts, self._sizes)

    def of(self, buckets: Any) -> Ids:
        """Return the concatenated ids of some buckets."""
        return members(self.pool, self.starts[buckets], self.sizes[buckets])

    def _own(self, n_buckets: int) -> None:
        """Reserve space for buckets, and copy ids that are read-only."""
        old = self._n_buckets
        self.pool = grown(self.pool, self.end, self.end)
        self._starts, self._sizes, self._rooms = (
            grown(array, old, n_buckets) for array in (self._starts, self._sizes, self._rooms)
        )
        for array in (self._starts, self._sizes, self._rooms):
            array[old:n_buckets] = 0
        self._n_buckets = n_buckets


def members(pool: Ids, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> Ids:
    """Return the concatenated ids of buckets in a pool."""
    out = np.empty(int(sizes.sum()), np.int64)
    kernels.copy_members(pool, starts, sizes, out)
    return out


def rows_to_move(freed: Numbers, size: int) -> tuple[Numbers, NDArray[np.int64]]:
    """Return the freed rows below ``size``, and the rows from ``size`` on, not freed themselves, to move there."""
    stays = np.ones(len(freed), bool)
    stays[freed[freed >= size] - size] = False
    return freed[freed < size], size + np.flatnonzero(stays)


def grown(array: NDArray[Any], size: int, wanted: int) -> NDArray[Any]:
    """Return the array if it is writable and long enough, else a longer copy of its first ``size`` rows."""
    if wanted <= len(array) and array.flags.writeable:
        return array
    longer = np.empty((max(wanted, 3 * size // 2), *array.shape[1:]), array.dtype)
    longer[:size] = array[:size]
    return longer


def by_bucket(buckets: Numbers) -> tuple[NDArray[np.int64], Numbers, NDArray[np.int64]]:
    """Return a stable order by bucket, the buckets that occur, and the bounds of each in that order."""
    order, scratch = np.arange(len(buckets)), np.empty(len(buckets), np.int64)
    kernels.order_by_bucket(buckets.view(np.uint32), int(buckets.max(initial=0)), order, scratch)
    ordered = buckets[order]
    heads = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    bounds = np.concatenate(([0], heads, [len(buckets)])) if len(buckets) else np.zeros(1, np.int64)
    return order, ordered[bounds[:-1]], bounds


def _empty_table(size: int) -> Numbers:
    return np.full(1 << (2 * max(size, _LEAST)).bit_length(), -1, np.int32)
