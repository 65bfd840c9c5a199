"""Quality of an asymmetric ranking: real-valued queries against packed codes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from onlinehash._validation import check_codes, check_query_values
from onlinehash.codes import kernels
from onlinehash.codes.asymmetric import table_distances
from onlinehash.codes.hamming import as_words
from onlinehash.metrics._relevance import Relevance, by_group
from onlinehash.metrics._ties import Counts, TiedRanking
from onlinehash.types import Codes

_CHUNK = 1 << 20  # distances computed at a time: bounded memory


class AsymmetricRanking(TiedRanking):
    """Rank a database for every query by asymmetric distance; items with the label of the query are relevant.

    Items with equal codes tie, as do codes at exactly the same distance; every measure is its expectation over all
    orders of the ties, as in :class:`Ranking`, which is the case of queries of -1 and +1.

    Costs, for each measure, one sort of the distinct codes per query, O(n_queries n_distinct). A bounded
    number of queries is processed at a time, and nothing of size (n_queries, n_items) is kept.

    Parameters
    ----------
    query_values : array-like of shape (n_queries, n_bits)
        Values from -1 to 1, as :meth:`onlinehash.Encoder.encode_asymmetric` returns.
    query_labels : array-like of shape (n_queries,), or several labels per row
    database_codes : array-like of uint8, shape (n_items, ceil(n_bits / 8))
    database_labels : array-like of shape (n_items,), or several labels per row
        Lists of labels, or a 0/1 indicator matrix; items that share a label are then relevant.

    Examples
    --------
    >>> codes = np.array([[0b01], [0b10], [0b10], [0b11]], np.uint8)
    >>> ranking = AsymmetricRanking([[0.2, 0.9]], ["cat"], codes, ["dog", "cat", "dog", "cat"])
    >>> round(ranking.mean_average_precision(), 4)  # the two items with code 10 come second and tie
    0.9167
    >>> ranking.precision_at(2)
    0.75
    """

    def __init__(
        self,
        query_values: ArrayLike,
        query_labels: ArrayLike,
        database_codes: ArrayLike,
        database_labels: ArrayLike,
    ) -> None:
        self._queries = check_query_values(query_values)
        codes = check_codes(database_codes, self._queries.shape[1])
        self._relevance = Relevance(query_labels, len(self._queries), database_labels, len(codes))
        self.n_items = len(codes)
        self._distinct, self._row_of = _distinct(codes)
        self._sizes = np.bincount(self._row_of)

    def _groups(self) -> Iterator[tuple[Counts, Counts]]:
        step = max(1, _CHUNK // len(self._distinct))
        for rows, query_groups, groups in self._relevance:
            queries = self._queries[rows]
            order, bounds = by_group(groups)
            members = self._row_of[order]
            for start in range(0, len(queries), step):
                chunk = slice(start, start + step)
                distances = table_distances(queries[chunk], self._distinct)
                total, relevant = np.zeros(distances.shape, np.int64), np.zeros(distances.shape, np.int64)
                # The bits of floating-point numbers that are not negative, read as integers, are in the same order.
                width = kernels.count_by_rank(
                    distances.view(np.uint32), self._sizes, query_groups[chunk], members, bounds, total, relevant
                )
                yield total[:, :width], relevant[:, :width]


def _distinct(codes: Codes) -> tuple[Codes, Counts]:
    """Return the distinct codes, and for each item the row of its code."""
    words = as_words(codes)
    order = np.lexsort(words.T)
    starts = np.ones(len(codes), bool)
    starts[1:] = (words[order[1:]] != words[order[:-1]]).any(axis=1)
    row_of = np.empty(len(codes), np.int64)
    row_of[order] = np.cumsum(starts) - 1
    return np.ascontiguousarray(codes[order[starts]]), row_of
