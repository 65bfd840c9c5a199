"""Growing hash tables: from ids to rows, and from codes to numbers.

They are open-addressed, a power of two long and never full; a slot with a negative value is free.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.kernels import kernel
from onlinehash.indexes.index import is_id, unknown_id
from onlinehash.types import Codes, Ids

Numbers = NDArray[np.int32]

_CODES_AT_A_TIME = 1 << 16  # space is reserved for that many new ones
_MIN_SLOTS = 64
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: neighbouring ids land far apart


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
        for start in range(0, len(codes), _CODES_AT_A_TIME):
            chunk = np.ascontiguousarray(codes[start : start + _CODES_AT_A_TIME])
            table = self._room_for(len(chunk))
            out = numbers[start : start + _CODES_AT_A_TIME]
            self._size = _number_codes(chunk, table, self._codes, self._size, out)
        return numbers

    def _room_for(self, n_more: int) -> Numbers:
        size = self._size + n_more
        self._codes = grown(self._codes, self._size, size)
        if self._table is None or 2 * size > len(self._table):
            self._table = _empty_table(size)
            known = self._codes[: self._size].copy()
            _number_codes(known, self._table, self._codes, 0, np.empty(self._size, np.int32))
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
        _find_ids(ids, self._ids, self._table, out)
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
            _put_ids(old_ids[old >= 0], old[old >= 0], self._ids, self._table)
        self._size += _put_ids(ids, numbers, self._ids, self._table)

    def drop(self, ids: Ids) -> None:
        """Remove ids; all must exist."""
        _drop_ids(ids, self._ids, self._table)
        self._size -= len(ids)


def grown(array: NDArray[Any], size: int, wanted: int) -> NDArray[Any]:
    """Return the array if it is writable and long enough, else a longer copy of its first ``size`` rows, then zeros."""
    if wanted <= len(array) and array.flags.writeable:
        return array
    longer = np.zeros((max(wanted, 3 * size // 2), *array.shape[1:]), array.dtype)
    longer[:size] = array[:size]
    return longer


def _empty_table(size: int) -> Numbers:
    return np.full(1 << (2 * max(size, _MIN_SLOTS)).bit_length(), -1, np.int32)


@kernel(inner=True)
def _slot(number: Any, table: Any) -> Any:
    """Return the preferred slot of a 64-bit number."""
    mixed = np.uint64(number) * _GOLDEN
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(table.shape[0] - 1))


@kernel()
def _number_codes(codes: Any, table: Any, distinct: Any, n_distinct: int, out: Any) -> int:
    """Write the bucket of every code, giving new codes the next numbers; return how many there are then."""
    mask = table.shape[0] - 1
    width = codes.shape[1]
    for i in range(codes.shape[0]):
        mixed = np.uint64(0)
        for byte in range(width):
            mixed = (mixed ^ np.uint64(codes[i, byte])) * np.uint64(0x100000001B3)
        slot = _slot(mixed, table)
        while True:
            bucket = table[slot]
            if bucket < 0:
                bucket = n_distinct
                table[slot] = bucket
                for byte in range(width):
                    distinct[bucket, byte] = codes[i, byte]
                n_distinct += 1
                break
            same = True
            for byte in range(width):
                same &= distinct[bucket, byte] == codes[i, byte]
            if same:
                break
            slot = (slot + 1) & mask
        out[i] = bucket
    return n_distinct


@kernel(inner=True)
def _find(id: int, table_ids: Any, table: Any) -> Any:
    """Return the slot of an id, or the free one it would get."""
    slot = _slot(id, table)
    while table[slot] >= 0 and table_ids[slot] != id:
        slot = (slot + 1) & (table.shape[0] - 1)
    return slot


@kernel()
def _find_ids(ids: Any, table_ids: Any, table: Any, out: Any) -> None:
    """Write the value of every id, -1 where it is not in the table."""
    for i in range(ids.shape[0]):
        out[i] = table[_find(ids[i], table_ids, table)]


@kernel()
def _put_ids(ids: Any, values: Any, table_ids: Any, table: Any) -> int:
    """Set the value of every id; return how many of them are new."""
    n_new = 0
    for i in range(ids.shape[0]):
        slot = _find(ids[i], table_ids, table)
        n_new += table[slot] < 0
        table_ids[slot] = ids[i]
        table[slot] = values[i]
    return n_new


@kernel()
def _drop_ids(ids: Any, table_ids: Any, table: Any) -> None:
    """Remove ids that are in the table, closing the gaps so that every other id is still found."""
    mask = table.shape[0] - 1
    for i in range(ids.shape[0]):
        hole = _find(ids[i], table_ids, table)
        slot = (hole + 1) & mask
        while table[slot] >= 0:
            detour = (slot - _slot(table_ids[slot], table)) & mask
            if detour >= (slot - hole) & mask:  # the hole lies on this id's way
                table_ids[hole], table[hole] = table_ids[slot], table[slot]
                hole = slot
            slot = (slot + 1) & mask
        table[hole] = -1
