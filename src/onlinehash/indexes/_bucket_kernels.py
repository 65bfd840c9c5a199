"""Compiled loops over buckets: hash tables that number codes and find ids, and the sorted ids of every bucket.

The ids of all buckets lie in one array, the pool. Bucket ``b`` holds ``pool[starts[b] : starts[b] + sizes[b]]``,
sorted, with space for ``rooms[b]``. Tables are open-addressed, a power of two long and never full; a slot with a
negative value is free.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinehash._kernel import kernel
from onlinehash.codes.kernels import order_by_digit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: neighbouring ids land far apart


@kernel(inner=True)
def _slot(number: Any, table: Any) -> Any:
    """Return the preferred slot of a 64-bit number."""
    mixed = np.uint64(number) * _GOLDEN
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(table.shape[0] - 1))


@kernel()
def number_codes(codes: Any, table: Any, distinct: Any, n_distinct: int, out: Any) -> int:
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
def find_ids(ids: Any, table_ids: Any, table: Any, out: Any) -> None:
    """Write the value of every id, -1 where it is not in the table."""
    for i in range(ids.shape[0]):
        out[i] = table[_find(ids[i], table_ids, table)]


@kernel()
def put_ids(ids: Any, values: Any, table_ids: Any, table: Any) -> int:
    """Set the value of every id; return how many of them are new."""
    n_new = 0
    for i in range(ids.shape[0]):
        slot = _find(ids[i], table_ids, table)
        n_new += table[slot] < 0
        table_ids[slot] = ids[i]
        table[slot] = values[i]
    return n_new


@kernel()
def drop_ids(ids: Any, table_ids: Any, table: Any) -> None:
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


@kernel()
def order_by_bucket(buckets: Any, largest: int, order: Any, scratch: Any) -> None:
    """Sort ``order`` by bucket, of which ``largest`` is the last, stably; ``scratch`` has its size."""
    counts = np.empty((1 << 11) + 1, np.int64)
    shift = 0
    while largest >> shift:
        order_by_digit(buckets, np.uint32(shift), order, counts, scratch)
        for i in range(order.shape[0]):
            order[i] = scratch[i]
        shift += 11


@kernel()
def insert_members(
    buckets: Any, bounds: Any, ids: Any, new_rooms: Any, pool: Any, end: int, starts: Any, sizes: Any, rooms: Any
) -> int:
    """Merge sorted ids into buckets; a bucket without space moves to the end of the pool. Return the new end.

    Bucket ``buckets[g]`` gets ``ids[bounds[g] : bounds[g + 1]]``, and ``new_rooms[g]`` if it moves.
    """
    for g in range(buckets.shape[0]):
        bucket, first, new = buckets[g], bounds[g], bounds[g + 1] - 1
        source = starts[bucket]
        old = source + sizes[bucket] - 1
        sizes[bucket] += bounds[g + 1] - first
        if sizes[bucket] > rooms[bucket]:
            rooms[bucket] = new_rooms[g]
            starts[bucket] = end
            end += new_rooms[g]
        place = starts[bucket] + sizes[bucket] - 1
        while new >= first:  # from the back, so that nothing is overwritten before it is read
            if old >= source and pool[old] > ids[new]:
                pool[place] = pool[old]
                old -= 1
            else:
                pool[place] = ids[new]
                new -= 1
            place -= 1
        if starts[bucket] != source:
            for i in range(old - source + 1):
                pool[starts[bucket] + i] = pool[source + i]
    return end


@kernel()
def remove_members(buckets: Any, bounds: Any, ids: Any, pool: Any, starts: Any, sizes: Any) -> None:
    """Remove sorted ids from the buckets that hold them, given as in :func:`insert_members`."""
    for g in range(buckets.shape[0]):
        bucket, doomed, last = buckets[g], bounds[g], bounds[g + 1]
        members = pool[starts[bucket] : starts[bucket] + sizes[bucket]]
        place = np.searchsorted(members, ids[doomed])
        for i in range(place, members.shape[0]):
            if doomed < last and members[i] == ids[doomed]:
                doomed += 1
            else:
                members[place] = members[i]
                place += 1
        sizes[bucket] = place


@kernel()
def copy_members(pool: Any, starts: Any, sizes: Any, out: Any) -> None:
    """Write the ids of the given buckets one after the other."""
    place = 0
    for b in range(starts.shape[0]):
        for i in range(starts[b], starts[b] + sizes[b]):
            out[place] = pool[i]
            place += 1
