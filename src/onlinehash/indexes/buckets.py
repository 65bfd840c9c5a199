"""BucketIndex: the exact scan of distinct codes, for codes that repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.kernels import kernel
from onlinehash._internal.validation import check_codes
from onlinehash.codes import code_width
from onlinehash.exceptions import counted
from onlinehash.indexes.index import rising
from onlinehash.indexes.memory import Candidates, MemoryIndex, TieOrder, concatenated
from onlinehash.indexes.tables import CodeTable, IdTable, Numbers, grown
from onlinehash.types import Codes, Ids

_MAX_UNUSED = 1024  # ids or codes whose space is not worth compacting
_NO_ROWS = np.empty(0, np.int64)


class BucketIndex(MemoryIndex):
    """Search packed codes exactly, by scanning each distinct code once and expanding the nearest.

    Learned codes repeat. Items with equal codes share a bucket; a search reads the distinct codes, and the ids of near
    buckets only: the better the hasher, the faster. Results equal those of :class:`FlatIndex`, including ties. Adding
    and removing cost O(1) per item, and a move of the larger ids of its bucket. An item takes about 40 bytes.

    Parameters
    ----------
    n_bits : int
        Length of the codes.
    ties : {"id", "hash"}, default="id"
        Order of items at the same distance. With "hash", it is an order that looks random and is always the same, so
        that the first k are a fair draw: with ids in order of arrival, "id" always prefers old items.

    Examples
    --------
    >>> index = BucketIndex(n_bits=8)
    >>> index.upsert(np.array([[0b0001], [0b0111], [0b0001]], np.uint8), ids=[10, 20, 5])
    >>> len(index), index.n_buckets
    (3, 2)
    >>> found = index.search(np.array([[0b0011]], np.uint8), k=2)
    >>> found.ids, found.distances
    (array([[ 5, 10]]), array([[1, 1]], dtype=int32))
    """

    _kind = "buckets"

    def __init__(self, n_bits: int, ties: TieOrder = "id") -> None:
        super().__init__(n_bits, ties)
        self._codes = CodeTable(np.empty((0, code_width(self.n_bits)), np.uint8))
        self._members = _Members()
        self._n_emptied = 0  # at least as many buckets as have no items

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]} in {counted(self.n_buckets, 'bucket')}>"

    @property
    def n_buckets(self) -> int:
        """Number of distinct codes that have items."""
        return int(np.count_nonzero(self._members.sizes))

    @property
    def ids(self) -> Ids:
        """Ids of all items, bucket by bucket."""
        return concatenated(self._members.pool, self._members.starts, self._members.sizes)

    @property
    def codes(self) -> Codes:
        """Codes of all items, in the order of `ids`, read-only."""
        codes = np.repeat(self._codes.codes, self._members.sizes, axis=0)
        codes.flags.writeable = False
        return codes

    def _get(self, ids: Ids) -> Codes:
        return self._codes.codes[self._numbers().find_known(ids)]

    # ------------------------------------------------------------------ changing

    def _put(self, codes: Codes, ids: Ids) -> None:
        if not rising(ids):
            order = np.argsort(ids)
            codes, ids = codes[order], ids[order]
        table = self._numbers()
        before, after = table.find(ids), self._codes.number(codes)
        moved = (before >= 0) & (before != after)
        if moved.any():
            self._members.remove(before[moved], ids[moved])
            self._n_emptied += int(moved.sum())
        fresh = before != after
        self._members.insert(after[fresh], ids[fresh], len(self._codes))
        table.put(ids, after)
        self._size += int(np.count_nonzero(before < 0))
        self._pack()

    def _drop(self, ids: Ids) -> None:
        gone = np.sort(ids)
        table = self._numbers()
        self._members.remove(table.find_known(gone), gone)
        table.drop(gone)
        self._size -= len(gone)
        self._n_emptied += len(gone)
        self._pack()

    # ------------------------------------------------------------------ storage

    def _items(self) -> tuple[Ids, Numbers]:
        sizes = self._members.sizes
        return self.ids, np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)

    def _candidates(self, among: Ids | None) -> Candidates:
        codes, members = self._codes.codes, self._members
        if among is None:
            return Candidates(codes, members.pool, self._size, members.starts, members.sizes)
        buckets = self._numbers().find(among)
        ids = among[buckets >= 0]
        order, used, bounds = _by_bucket(buckets[buckets >= 0])
        return Candidates(codes[used], ids[order], len(ids), bounds[:-1], np.diff(bounds))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        kept = np.flatnonzero(self._members.sizes)
        return {"codes": self._codes.codes[kept], "sizes": self._members.sizes[kept], "ids": self.ids}

    def _restore(self, arrays: dict[str, NDArray[Any]], path: str) -> None:
        self._codes = CodeTable(check_codes(arrays["codes"], self.n_bits))
        self._members = _Members(np.array(arrays["sizes"]), arrays["ids"])

    def _pack(self) -> None:
        """Compact the arrays once most of their space is unused."""
        n_codes, is_tight = len(self._codes), self._members.end <= 3 * self._size + _MAX_UNUSED
        if is_tight and n_codes <= 2 * (n_codes - self._n_emptied) + _MAX_UNUSED:
            return
        n_buckets = self.n_buckets
        self._n_emptied = n_codes - n_buckets
        if is_tight and n_codes <= 2 * n_buckets + _MAX_UNUSED:
            return
        self._n_emptied = 0
        kept, ids = np.flatnonzero(self._members.sizes), self.ids
        buckets = np.repeat(np.arange(n_buckets, dtype=np.int32), self._members.sizes[kept])
        self._codes, self._members = CodeTable(self._codes.codes[kept]), _Members()
        self._members.insert(buckets, ids, n_buckets)
        self._table = IdTable(ids, buckets)


class _Members:
    """Keep the sorted ids of all buckets in one array.

    A bucket that outgrows its space moves to the end of the array, with space for 1.5 times its size; its old space is
    not reused. ``pool`` is the array and ``end`` the length in use.
    """

    def __init__(self, sizes: NDArray[np.int64] = _NO_ROWS, ids: Ids = _NO_ROWS) -> None:
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
        order, used, bounds = _by_bucket(buckets)
        sizes = self._sizes[used] + np.diff(bounds)
        rooms = sizes + sizes // 2
        end = self.end + int(rooms[sizes > self._rooms[used]].sum())
        self.pool = grown(self.pool, self.end, end)
        where = self._starts, self._sizes, self._rooms
        self.end = _insert_members(used, bounds, ids[order], rooms, self.pool, self.end, *where)

    def remove(self, buckets: Numbers, ids: Ids) -> None:
        """Remove sorted ids from their buckets."""
        self._own(self._n_buckets)
        order, used, bounds = _by_bucket(buckets)
        _remove_members(used, bounds, ids[order], self.pool, self._starts, self._sizes)

    def _own(self, n_buckets: int) -> None:
        """Reserve space for buckets, and copy ids that are read-only."""
        self.pool = grown(self.pool, self.end, self.end)
        arrays = self._starts, self._sizes, self._rooms
        self._starts, self._sizes, self._rooms = (grown(array, self._n_buckets, n_buckets) for array in arrays)
        self._n_buckets = n_buckets


def _by_bucket(buckets: Numbers) -> tuple[NDArray[np.int64], Numbers, NDArray[np.int64]]:
    """Return a stable order by bucket, the buckets that occur, and the bounds of each in that order."""
    order = np.argsort(buckets, kind="stable")
    used, firsts = np.unique(buckets[order], return_index=True)
    return order, used, np.append(firsts, len(buckets))


@kernel()
def _insert_members(
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
def _remove_members(buckets: Any, bounds: Any, ids: Any, pool: Any, starts: Any, sizes: Any) -> None:
    """Remove sorted ids from the buckets that hold them, given as in :func:`_insert_members`."""
    for g in range(buckets.shape[0]):
        bucket, gone, last = buckets[g], bounds[g], bounds[g + 1]
        members = pool[starts[bucket] : starts[bucket] + sizes[bucket]]
        place = np.searchsorted(members, ids[gone])
        for i in range(place, members.shape[0]):
            if gone < last and members[i] == ids[gone]:
                gone += 1
            else:
                members[place] = members[i]
                place += 1
        sizes[bucket] = place
