"""AdaptiveIndex: the exact index that suits the codes it holds."""

from __future__ import annotations

import numpy as np

from onlinehash.indexes.buckets import BucketIndex
from onlinehash.indexes.flat import FlatIndex
from onlinehash.indexes.index import Index
from onlinehash.types import Codes, Distances, Ids, QueryValues, SearchResult

_MIN_ITEMS_TO_CHOOSE = 1000  # below, a scan of anything takes no time
_ODD_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_ITEMS_PER_CODE = 2  # from which buckets are scanned faster


class AdaptiveIndex(Index):
    """Search codes with :class:`FlatIndex` or :class:`BucketIndex`, whichever suits them.

    The choice is made again each time the number of items has doubled. Searches and changes must not overlap.

    Examples
    --------
    >>> import numpy as np
    >>> index = AdaptiveIndex(n_bits=8)
    >>> index.upsert(np.ones((4000, 1), np.uint8))
    >>> index.kind, len(index)
    ('buckets', 4000)
    """

    def __init__(self, n_bits: int) -> None:
        super().__init__(n_bits)
        self._index: FlatIndex | BucketIndex = FlatIndex(n_bits)
        self._next_look = _MIN_ITEMS_TO_CHOOSE

    @property
    def kind(self) -> str:
        """How codes are searched: "flat" or "buckets"."""
        return "buckets" if isinstance(self._index, BucketIndex) else "flat"

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, id: object) -> bool:
        return id in self._index

    @property
    def ids(self) -> Ids:
        """Ids of all items."""
        return self._index.ids

    @property
    def codes(self) -> Codes:
        """Codes of all items, in the order of `ids`, read-only."""
        return self._index.codes

    def _get(self, ids: Ids) -> Codes:
        return self._index.get(ids)

    def _next_id(self) -> int:
        return int(self.ids.max()) + 1 if len(self) else 0

    def _put(self, codes: Codes, ids: Ids) -> None:
        if not len(self):
            self._choose(codes, ids)
        self._index._put(codes, ids)  # they are checked
        if len(self) >= self._next_look:
            self._choose(self.codes, self.ids)

    def _choose(self, codes: Codes, ids: Ids) -> None:
        """Choose the index for these items, and move those that are in the other."""
        if len(ids) < self._next_look:
            return
        self._next_look = 2 * len(ids)
        index = self._index
        n_distinct = index.n_buckets if isinstance(index, BucketIndex) and len(index) else _n_distinct(codes)
        kind = BucketIndex if _ITEMS_PER_CODE * n_distinct <= len(ids) else FlatIndex
        if not isinstance(index, kind):
            self._index = kind(self.n_bits)
            if len(index):
                self._index._put(codes, ids)

    def _drop(self, ids: Ids) -> None:
        self._index.delete(ids)

    def _search(self, queries: Codes, k: int, among: Ids | None) -> SearchResult:
        return self._index._search(queries, k, among)  # they are checked

    def _search_asymmetric(self, queries: QueryValues, k: int, among: Ids | None) -> SearchResult:
        return self._index._search_asymmetric(queries, k, among)

    def _range_search(self, queries: Codes, radius: int, among: Ids | None) -> list[tuple[Ids, Distances]]:
        return self._index._range_search(queries, radius, among)


def _n_distinct(codes: Codes) -> int:
    """Return how many codes are different, give or take a collision of 32 bits, which are sorted fast."""
    padded = np.zeros((len(codes), -(-codes.shape[1] // 8) * 8), np.uint8)
    padded[:, : codes.shape[1]] = codes
    mixed = np.zeros(len(codes), np.uint64)
    for words in padded.view(np.uint64).T:
        mixed = (mixed ^ words) * _ODD_MULTIPLIER
        mixed ^= mixed >> np.uint64(32)
    lower = np.sort(mixed.astype(np.uint32))
    return 1 + int(np.count_nonzero(lower[1:] != lower[:-1]))
