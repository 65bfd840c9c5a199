"""FaissIndex: inverted lists of faiss, exact with one list, approximate with many."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import check_positive_int
from onlinehash.codes import code_width
from onlinehash.exceptions import InvalidInputError, counted, needs_extra
from onlinehash.indexes.flat import FlatIndex
from onlinehash.indexes.index import Ties
from onlinehash.types import Codes, Distances, Ids, SearchResult

with needs_extra("faiss", "faiss"):
    import faiss

_LEAST, _MOST = 39, 256  # training codes per list: faiss warns below the first and samples above the second
_NONE = np.iinfo(np.int32).max  # the distance of a missing result of faiss
_RESERVED = np.int64(-6_148_914_691_236_517_206)
_MASK = ~_RESERVED  # faiss uses -1 for no item: ids are ids ^ _MASK, which maps an unused id to -1


class FaissIndex(FlatIndex):
    """Search packed codes by Hamming distance with faiss, in one list of all items or in the nearest of many lists.

    Without ``n_lists`` a search reads every code and is exact. With ``n_lists`` it reads the ``n_probes`` lists whose
    centres are nearest to the query: the nearest items may be in another list, and the choice among items at the last
    distance is left to faiss, which prefers old ones, unless ``ties="hash"``. Searches with ``ids``, queries whose
    lists hold fewer than k items, and exact searches that have to break ties use the scan of
    :class:`~onlinehash.FlatIndex`.

    Lists are trained on the first codes, once there are 39 per list (at most 256 per list are used); until then every
    search is exact. They are not trained again: after a change of encoder, fill a new index.

    Adding, replacing and removing cost O(1) per item, or one distance per centre with many lists. An item takes about
    100 bytes, its code twice among them: faiss stores codes by list, and ids and filters need them by id.
    A file of the index has the lists in the format of faiss.
    A search uses as many threads as ``faiss.omp_set_num_threads`` allows; on a busy machine, one is faster.

    Parameters
    ----------
    n_bits : int
        Length of the codes.
    n_lists : int, optional
        Number of lists; the square root of the number of items, or a few times that. One exact list by default.
    n_probes : int
        Number of lists that a search reads: more find more of the nearest, in proportionally more time. May be set
        on the index at any time; :func:`onlinehash.checks.recall` measures the effect.
    ties : {"id", "hash"}, default="id"
        Order of items at the same distance: by id, or by a hash of the id, which does not prefer old items.

    Examples
    --------
    >>> index = FaissIndex(n_bits=8)
    >>> index.upsert(np.array([[0b0000], [0b0001], [0b0111]], np.uint8), ids=[10, 20, 30])
    >>> found = index.search(np.array([[0b0011]], np.uint8), k=2)
    >>> found.ids, found.distances
    (array([[20, 30]]), array([[1, 1]], dtype=int32))
    """

    _kind = "faiss"
    _parameters = ("n_bits", "n_lists", "n_probes", "ties")

    def __init__(self, n_bits: int, n_lists: int | None = None, n_probes: int = 16, ties: Ties = "id") -> None:
        super().__init__(n_bits, ties)
        self.n_lists = None if n_lists is None else check_positive_int("n_lists", n_lists)
        self._lists: Any = None  # of faiss, once they are trained
        self.n_probes = n_probes
        if n_lists is None:
            self._learn_lists(np.zeros((1, code_width(self.n_bits)), np.uint8))

    def __repr__(self) -> str:
        lists = "" if self.n_lists is None else f" in {counted(self.n_lists, 'list')}"
        return f"{super().__repr__()[:-1]}{lists}{'' if self.learned else ', not yet learned'}>"

    @property
    def learned(self) -> bool:
        """Whether the lists are trained."""
        return self._lists is not None

    @property
    def n_probes(self) -> int:
        """Number of lists that a search reads; may be set at any time."""
        return self._n_probes

    @n_probes.setter
    def n_probes(self, n_probes: int) -> None:
        self._n_probes = check_positive_int("n_probes", n_probes)
        if self._lists is not None:
            self._lists.nprobe = min(n_probes, self._lists.nlist)

    # ------------------------------------------------------------------ changing

    def _put(self, codes: Codes, ids: Ids) -> None:
        if (ids == _RESERVED).any():
            raise InvalidInputError(f"ids holds {_RESERVED}, the one integer that faiss has no room for; use another.")
        size = len(self)
        super()._put(codes, ids)
        if self._lists is not None:
            if len(self) < size + len(ids):  # faiss would keep the old code beside the new
                self._drop_from_lists(ids)
            self._put_in_lists(codes, ids)
        elif self.n_lists is not None and len(self) >= _LEAST * self.n_lists:
            n_codes = min(len(self), _MOST * self.n_lists)
            self._learn_lists(self.codes[np.sort(np.random.default_rng(0).choice(len(self), n_codes, replace=False))])
            self._put_in_lists(self.codes, self.ids)

    def _drop(self, ids: Ids) -> None:
        super()._drop(ids)
        if self._lists is not None:
            self._drop_from_lists(ids)

    # ------------------------------------------------------------------ searching

    def _search(self, queries: Codes, k: int, among: Ids | None) -> SearchResult[NDArray[Any]]:
        k = min(k, len(self))
        if among is not None or self._lists is None or not k or not len(queries):
            return super()._search(queries, k, among)
        # One more than requested shows whether faiss chose among items at the same distance.
        distances, ids = self._lists.search(np.ascontiguousarray(queries), k + 1)
        ids, distances, beyond = ids[:, :k] ^ _MASK, distances[:, :k], distances[:, k]
        order = np.lexsort((self._tie_keys(ids), distances))
        found = SearchResult(np.take_along_axis(ids, order, axis=1), np.take_along_axis(distances, order, axis=1))
        unsettled, tied = distances[:, -1] == _NONE, distances[:, -1] == beyond
        if self.n_probes >= self._lists.nlist:
            unsettled |= tied
        elif self.ties == "hash":
            for q in np.flatnonzero(tied & ~unsettled):
                near, far = self._range_search(queries[q : q + 1], int(distances[q, -1]), None)[0]
                found.ids[q], found.distances[q] = near[:k], far[:k]
        if unsettled.any():
            exact = super()._search(queries[unsettled], k, None)
            found.ids[unsettled], found.distances[unsettled] = exact.ids, exact.distances
        return found

    def _range_search(self, queries: Codes, radius: int, among: Ids | None) -> list[tuple[Ids, Distances]]:
        if among is not None or self._lists is None or not len(queries):
            return super()._range_search(queries, radius, among)
        bounds, distances, ids = self._lists.range_search(np.ascontiguousarray(queries), min(radius, self.n_bits) + 1)
        ids, distances = ids ^ _MASK, distances.astype(np.int32)
        found = []
        for start, stop in pairwise(bounds.tolist()):
            order = start + np.lexsort((self._tie_keys(ids[start:stop]), distances[start:stop]))
            found.append((ids[order], distances[order]))
        return found

    # ------------------------------------------------------------------ saving

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = super()._arrays()
        return arrays if self._lists is None else arrays | {"lists": faiss.serialize_index_binary(self._lists)}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        if "lists" in arrays:
            self._lists = faiss.deserialize_index_binary(np.array(arrays["lists"]))

    # ------------------------------------------------------------------ storage

    def _learn_lists(self, codes: Codes) -> None:
        """Make empty lists around centres trained on codes; a single list takes the first code."""
        n_lists, n_bits = self.n_lists or 1, 8 * code_width(self.n_bits)
        centres = faiss.IndexBinaryFlat(n_bits)
        lists: Any = faiss.IndexBinaryIVF(centres, n_bits, n_lists)
        if n_lists == 1:
            centres.add(codes[:1])
            lists.is_trained = True
        else:
            lists.train(codes)
        lists.set_direct_map_type(lists.direct_map.Hashtable)
        lists.nprobe = min(self.n_probes, n_lists)
        self._lists = lists

    def _put_in_lists(self, codes: Codes, ids: Ids) -> None:
        self._lists.add_with_ids(np.ascontiguousarray(codes), ids ^ _MASK)

    def _drop_from_lists(self, ids: Ids) -> None:
        """Remove ids from their lists; ids in no list are ignored."""
        self._lists.remove_ids(faiss.IDSelectorArray(ids ^ _MASK))
