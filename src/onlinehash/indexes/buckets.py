"""BucketIndex: the exact scan of distinct codes, for codes that repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._validation import check_codes
from onlinehash.codes import code_width
from onlinehash.exceptions import counted
from onlinehash.indexes._ids import rising
from onlinehash.indexes._memory import MemoryIndex, View
from onlinehash.indexes.tables import CodeTable, IdTable, Members, Numbers, by_bucket, members
from onlinehash.types import Codes, Ids

_SPARE = 1024  # unused ids or codes that are not worth compacting


class BucketIndex(MemoryIndex):
    """Search packed codes exactly, by scanning each distinct code once and expanding the nearest.

    Learned codes repeat. Items with equal codes share a bucket; a search reads the distinct codes, and the ids of near
    buckets only: the better the hasher, the faster. Results equal those of :class:`FlatIndex`, including ties. Adding
    and removing cost O(1) per item, and a move of the larger ids of its bucket. An item takes about 40 bytes.

    Parameters
    ----------
    n_bits : int
        Length of the codes.

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

    def __init__(self, n_bits: int) -> None:
        super().__init__(n_bits)
        self._codes = CodeTable(np.empty((0, code_width(self.n_bits)), np.uint8))
        self._members = Members()
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
        return self._members.of(slice(None))

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
        doomed = np.sort(ids)
        table = self._numbers()
        self._members.remove(table.find_known(doomed), doomed)
        table.drop(doomed)
        self._size -= len(doomed)
        self._n_emptied += len(doomed)
        self._pack()

    # ------------------------------------------------------------------ storage

    def _items(self) -> tuple[Ids, Numbers]:
        sizes = self._members.sizes
        return self.ids, np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)

    def _next_id(self) -> int:
        starts, sizes = self._members.starts, self._members.sizes
        largest = self._members.pool[(starts + sizes - 1)[sizes > 0]]
        return int(largest.max()) + 1 if len(largest) else 0

    def _view(self, among: Ids | None) -> View:
        codes, members = self._codes.codes, self._members
        if among is None:
            return View(codes, members.pool, self._size, members.starts, members.sizes)
        buckets = self._numbers().find(among)
        ids = among[buckets >= 0]
        order, used, bounds = by_bucket(buckets[buckets >= 0])
        return View(codes[used], ids[order], len(ids), bounds[:-1], np.diff(bounds))

    def _ids_of(self, view: View, rows: NDArray[np.int64]) -> tuple[Ids, Any]:
        sizes = view.sizes[rows]
        return members(view.pool, view.starts[rows], sizes), sizes

    def _arrays(self) -> dict[str, NDArray[Any]]:
        kept = np.flatnonzero(self._members.sizes)
        return {"codes": self._codes.codes[kept], "sizes": self._members.sizes[kept], "ids": self.ids}

    def _restore(self, arrays: dict[str, NDArray[Any]], path: str) -> None:
        self._codes = CodeTable(check_codes(arrays["codes"], self.n_bits))
        self._members = Members(np.array(arrays["sizes"]), arrays["ids"])

    def _pack(self) -> None:
        """Compact the arrays once most of their space is unused."""
        n_codes, is_tight = len(self._codes), self._members.end <= 3 * self._size + _SPARE
        if is_tight and n_codes <= 2 * (n_codes - self._n_emptied) + _SPARE:
            return
        n_buckets = self.n_buckets
        self._n_emptied = n_codes - n_buckets
        if is_tight and n_codes <= 2 * n_buckets + _SPARE:
            return
        self._n_emptied = 0
        kept, ids = np.flatnonzero(self._members.sizes), self.ids
        buckets = np.repeat(np.arange(n_buckets, dtype=np.int32), self._members.sizes[kept])
        self._codes, self._members = CodeTable(self._codes.codes[kept]), Members()
        self._members.insert(buckets, ids, n_buckets)
        self._table = IdTable(ids, buckets)
