"""Quality of a Hamming ranking: average precision and precision, with ties treated fairly.

Codes of r bits have only r + 1 distances, so most of a ranking is ties, whose order is arbitrary. By default, every
measure is its expectation over all orders of the ties, in closed form; ``ties="stable"`` takes them in storage order,
as the published code does.

Everything follows from the number of all and of relevant items at each distance. Nothing is sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._validation import check_choice, check_codes, check_non_negative_int, check_same_width
from onlinehash.codes import kernels
from onlinehash.codes.hamming import as_long_words, distance_buffer
from onlinehash.metrics._relevance import Relevance, by_group
from onlinehash.metrics._ties import Counts, Scores, TiedRanking, average


class RadiusPrecision(NamedTuple):
    """Precision within a Hamming radius, and the share of queries that found nothing there.

    Examples
    --------
    >>> RadiusPrecision(0.5, 0.0).precision
    0.5
    """

    precision: float
    empty_rate: float


class Ranking(TiedRanking):
    """Rank a database for every query by Hamming distance; items with the label of the query are relevant.

    Costs one pass over the database per query: O(n_queries n_items) popcounts, and O(n_queries n_bits) memory.

    Parameters
    ----------
    query_codes : array-like of uint8, shape (n_queries, n_bytes)
    query_labels : array-like of shape (n_queries,), or several labels per row
    database_codes : array-like of uint8, shape (n_items, n_bytes)
    database_labels : array-like of shape (n_items,), or several labels per row
        Lists of labels, or a 0/1 indicator matrix; items that share a label are then relevant.
    ties : {"expected", "stable"}, default="expected"

    Attributes
    ----------
    total, relevant : ndarray of int64, shape (n_queries, n_distances)
        Number of all and of relevant items at each distance.

    Examples
    --------
    >>> codes = np.array([[0b00], [0b01], [0b01], [0b11]], np.uint8)
    >>> ranking = Ranking(codes[:1], ["cat"], codes, ["cat", "cat", "dog", "dog"])
    >>> round(ranking.mean_average_precision(), 4)  # the two items at distance 1 tie
    0.9167
    >>> ranking.precision_at(2)
    0.75
    >>> ranking.recall_at(2)
    0.75
    >>> ranking.precision_within(1)
    RadiusPrecision(precision=0.6666666666666666, empty_rate=0.0)
    """

    def __init__(
        self,
        query_codes: ArrayLike,
        query_labels: ArrayLike,
        database_codes: ArrayLike,
        database_labels: ArrayLike,
        *,
        ties: str = "expected",
    ) -> None:
        self.ties = check_choice("ties", ties, ("expected", "stable"))
        queries, codes = check_codes(query_codes), check_codes(database_codes)
        check_same_width(queries, codes)
        self._relevance = Relevance(query_labels, len(queries), database_labels, len(codes))
        self._queries, self._words = as_long_words(queries), as_long_words(codes)
        self._buffer = distance_buffer(codes.shape[1])
        self.n_items = len(codes)
        shape = (len(queries), codes.shape[1] * 8 + 1)
        self.total: Counts = np.zeros(shape, np.int64)
        self.relevant: Counts = np.zeros(shape, np.int64)
        scratch = np.zeros((4, shape[1]), np.int64)
        for rows, query_groups, groups in self._relevance:
            order, bounds = by_group(groups)
            total, relevant = self.total[rows], self.relevant[rows]
            kernels.count_by_distance(
                self._queries[rows], query_groups, self._words[order], bounds, self._buffer, scratch, total, relevant
            )

    def precision_within(self, radius: int) -> RadiusPrecision:
        """Return the mean precision among items at most ``radius`` away, and the share of queries with no such item.

        An empty result counts as 0. Ties do not matter.
        """
        radius = check_non_negative_int("radius", radius)
        total = self.total[:, : radius + 1].sum(axis=1)
        relevant = self.relevant[:, : radius + 1].sum(axis=1)
        precision = average(relevant, total)[0]
        return RadiusPrecision(float(precision.mean()), float((total == 0).mean()))

    def _groups(self) -> Iterator[tuple[Counts, Counts]]:
        yield self.total, self.relevant

    def _scores(self, k: int, denominator: str) -> tuple[Scores, Scores]:
        if self.ties == "expected":
            return super()._scores(k, denominator)
        sums, found = self._stable(k)
        return average(sums, found if denominator == "found" else np.minimum(k, self.relevant.sum(axis=1)))

    def _hits(self, k: int) -> NDArray[Any]:
        return super()._hits(k) if self.ties == "expected" else self._stable(k)[1]

    def _stable(self, k: int) -> tuple[Scores, Counts]:
        """Return the sum of precisions and the number of relevant items among the first k, ties in storage order."""
        sums, found = np.zeros(len(self._queries)), np.zeros(len(self._queries), np.int64)
        for rows, query_groups, groups in self._relevance:
            counts, out = (self.total[rows], self.relevant[rows]), (sums[rows], found[rows])
            kernels.rank_in_storage_order(
                self._queries[rows], query_groups, self._words, groups, *counts, k, self._buffer, *out
            )
        return sums, found


def mean_average_precision(
    query_codes: ArrayLike,
    query_labels: ArrayLike,
    database_codes: ArrayLike,
    database_labels: ArrayLike,
    *,
    k: int | None = None,
    denominator: str = "possible",
    ties: str = "expected",
) -> float:
    """Return the mean average precision of a Hamming ranking; see :class:`Ranking`.

    Examples
    --------
    >>> codes = np.array([[0], [1], [3]], np.uint8)
    >>> mean_average_precision(codes[:1], [0], codes, [0, 1, 0])
    0.8333333333333333
    """
    ranking = Ranking(query_codes, query_labels, database_codes, database_labels, ties=ties)
    return ranking.mean_average_precision(k, denominator=denominator)


def precision_at_k(
    query_codes: ArrayLike,
    query_labels: ArrayLike,
    database_codes: ArrayLike,
    database_labels: ArrayLike,
    *,
    k: int,
    ties: str = "expected",
) -> float:
    """Return the mean share of relevant items among the k nearest; see :class:`Ranking`.

    Examples
    --------
    >>> codes = np.array([[0], [1], [3]], np.uint8)
    >>> precision_at_k(codes[:1], [0], codes, [0, 1, 0], k=2)
    0.5
    """
    return Ranking(query_codes, query_labels, database_codes, database_labels, ties=ties).precision_at(k)


def recall_at_k(
    query_codes: ArrayLike,
    query_labels: ArrayLike,
    database_codes: ArrayLike,
    database_labels: ArrayLike,
    *,
    k: int,
    ties: str = "expected",
) -> float:
    """Return the mean share of all relevant items that is among the k nearest; see :class:`Ranking`.

    For one query, this is the number of relevant items among the k nearest, divided by the number of relevant items in
    the database. Queries without relevant items are left out of the mean. Where the k-th place falls among tied items,
    the number found is its expectation over all orders of the ties. The best possible value is below 1 if a query
    has more than k relevant items.

    Examples
    --------
    >>> codes = np.array([[0], [1], [3]], np.uint8)
    >>> recall_at_k(codes[:1], [0], codes, [0, 1, 0], k=2)
    0.5
    """
    return Ranking(query_codes, query_labels, database_codes, database_labels, ties=ties).recall_at(k)


def precision_within_radius(
    query_codes: ArrayLike,
    query_labels: ArrayLike,
    database_codes: ArrayLike,
    database_labels: ArrayLike,
    *,
    radius: int,
) -> RadiusPrecision:
    """Return the precision within a Hamming radius and the share of queries that found nothing; see :class:`Ranking`.

    Examples
    --------
    >>> codes = np.array([[0], [1], [3]], np.uint8)
    >>> precision_within_radius(codes[:1], [0], codes, [0, 1, 0], radius=1)
    RadiusPrecision(precision=0.5, empty_rate=0.0)
    """
    return Ranking(query_codes, query_labels, database_codes, database_labels).precision_within(radius)
