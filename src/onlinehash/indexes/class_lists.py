"""ClassListIndex: items by their most probable classes, in inverted lists."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.validation import check_choice, check_positive_int
from onlinehash.encoders.calibration import CLASSES_PER_LIST, ClassLists
from onlinehash.exceptions import InvalidInputError, counted
from onlinehash.indexes.index import Ties, check_different_ids, is_id, unknown_id
from onlinehash.indexes.kernels import mixed
from onlinehash.types import SearchResult


class ClassListIndex:
    """Search class lists exactly by the probability that two items have the same class.

    A list holds the 5 most probable classes of an item in 20 bytes; :meth:`onlinehash.Encoder.class_lists` makes it.
    The distance is 1 - sum of p_q(c) p_x(c) over the classes c of both lists. Every class has a list of its
    items, and a query reads those of its own classes only: with C classes that is about 1/C of all items for a
    query that is certain. Items that have no class in common with it are at distance 1.

    Changes cost O(1) per item. The first search after them makes the lists of all classes again, which takes about a
    second for a million items.

    Parameters
    ----------
    ties : {"id", "hash"}, default="id"
        Order of items at the same distance: by id, or by a hash of the id, which does not prefer old items.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from onlinehash import HROH
    >>> X, y = load_digits(return_X_y=True)
    >>> encoder = HROH(16, n_components=256, random_state=0).partial_fit(X[:1000], y[:1000]).snapshot()
    >>> index = ClassListIndex()
    >>> index.upsert(encoder.class_lists(X[1000:]), ids=np.arange(1000, len(X)))
    >>> found = index.search(encoder.class_lists(X[1500:1501]), k=5)
    >>> y[found.ids[0]] == y[1500]
    array([ True,  True,  True,  True,  True])
    """

    def __init__(self, ties: Ties = "id") -> None:
        check_choice("ties", ties, ("id", "hash"))
        self.ties = ties
        self._lists: dict[int, ClassLists] = {}  # by id
        self._make_lists()

    def __len__(self) -> int:
        return len(self._lists)

    def __contains__(self, id: object) -> bool:
        return is_id(id) and int(id) in self._lists

    def __repr__(self) -> str:
        return f"<ClassListIndex of {counted(len(self), 'item')}>"

    def upsert(self, lists: ArrayLike, ids: ArrayLike) -> None:
        """Insert items, or replace the lists of existing ids.

        Parameters
        ----------
        lists : array-like of uint32, shape (n_items, 5)
        ids : array-like of int, shape (n_items,)
            Distinct.
        """
        rows = _check_lists(lists)
        numbers = check_different_ids(ids, len(rows)).tolist()
        self._lists.update(zip(numbers, rows, strict=True))
        self._outdated = True

    def delete(self, ids: ArrayLike) -> None:
        """Delete items by id; if any id is unknown, nothing is deleted."""
        numbers = check_different_ids(ids).tolist()
        for id in numbers:
            if id not in self._lists:
                raise unknown_id(id, len(self))
        for id in numbers:
            del self._lists[id]
        self._outdated = True

    def search(self, lists: ArrayLike, k: int) -> SearchResult[NDArray[Any]]:
        """Find the k nearest items of every query.

        Parameters
        ----------
        lists : array-like of uint32, shape (n_queries, 5)
        k : int

        Returns
        -------
        result : SearchResult
            Ids and distances of shape (n_queries, min(k, number of items)), nearest first, then in the order of `ties`.
        """
        queries, k = _check_lists(lists), min(check_positive_int("k", k), len(self))
        if self._outdated:
            self._make_lists()
        ids, distances = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
        for q, query in enumerate(queries):
            rows, sums = self._sharing(query)
            if len(rows) < k:  # all others have nothing in common with the query
                rows = np.concatenate([rows, np.setdiff1d(np.arange(len(self._ids)), rows)])
                sums = np.pad(sums, (0, len(rows) - len(sums)))
            found = self._ids[rows]
            order = np.lexsort((mixed(found) if self.ties == "hash" else found, -sums))[:k]
            ids[q], distances[q] = found[order], 1.0 - sums[order] / 255.0**2
        return SearchResult(ids, distances)

    def _make_lists(self) -> None:
        """Make the lists of all classes."""
        self._ids, self._outdated = np.array(list(self._lists), np.int64), False
        lists = np.array(list(self._lists.values()), np.uint32).reshape(-1, CLASSES_PER_LIST)
        rows, places = np.nonzero(_chances(lists))
        order = np.argsort(lists[rows, places] >> 16, kind="stable")
        entries = lists[rows, places][order]
        self._rows, self._numbers, self._chances = rows[order], entries >> 16, _chances(entries)

    def _sharing(self, query: ClassLists) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return the rows of items that have a class in common with a query, and 255^2 times what they share."""
        rows, products = [np.empty(0, np.intp)], [np.empty(0, np.int64)]
        for entry in query[_chances(query) > 0]:
            start, stop = (np.searchsorted(self._numbers, entry >> 16, side) for side in ("left", "right"))
            rows.append(self._rows[start:stop])
            products.append(_chances(entry) * self._chances[start:stop])
        distinct, places = np.unique(np.concatenate(rows), return_inverse=True)
        return distinct, np.bincount(places, np.concatenate(products), len(distinct)).astype(np.int64)


def _chances(entries: Any) -> Any:
    """Return 255 times the probabilities of entries of lists."""
    return (entries >> 8 & 255).astype(np.int64)


def _check_lists(lists: ArrayLike) -> ClassLists:
    array = np.asarray(lists)
    if array.dtype != np.uint32 or array.ndim != 2 or array.shape[1] != CLASSES_PER_LIST:
        raise InvalidInputError(
            f"lists has dtype {array.dtype} and shape {array.shape}; class lists are uint32 of shape "
            f"(n, {CLASSES_PER_LIST}), as Encoder.class_lists returns them."
        )
    return array
