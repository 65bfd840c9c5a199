"""Quality of a ranking by Hamming or asymmetric distance: average precision, with ties treated fairly.

Codes of r bits have only r + 1 distances, so most of a ranking is ties, whose order is arbitrary. By default, every
measure is its expectation over all orders of the ties, in closed form; ``ties="stable"`` takes them in storage order,
as the published code does.

Everything follows from the number of all and of relevant items at each distance. By Hamming distance, nothing is
sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.validation import (
    check_choice,
    check_codes,
    check_non_negative_int,
    check_query_values,
    check_targets,
)
from onlinehash.codes import kernels
from onlinehash.codes.distances import as_words, table_distances
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError
from onlinehash.metrics._ties import Counts, Scores, TiedRanking, average
from onlinehash.types import Labels, LabelSets

_KINDS = "Queries and database have labels of different kinds; use integers or strings for both."


class Relevance:
    """Groups of queries and items: an item is relevant to a query of the same group.

    Iteration yields a slice of the queries, their groups, and the group of every item. Single labels are groups, for
    all queries at once; for several labels per row, each query has two groups of its own.
    """

    def __init__(self, query_labels: ArrayLike, n_queries: int, labels: ArrayLike, n_items: int) -> None:
        if not n_queries or not n_items:
            raise InvalidInputError(f"There are {n_queries} queries and {n_items} items; both need at least one.")
        sides = _checked(query_labels, n_queries), _checked(labels, n_items)
        self._single = not any(isinstance(side, LabelSets) for side in sides)
        if self._single:
            self._groups = _group(*sides)
        else:
            self._members = _members(*map(_as_sets, sides))

    def __iter__(self) -> Iterator[tuple[slice, Counts, Counts]]:
        if self._single:
            yield slice(None), *self._groups
            return
        queries, items = self._members
        for q, member in enumerate(queries):
            yield slice(q, q + 1), np.ones(1, np.int64), (items @ member > 0).astype(np.int64)


def _checked(y: ArrayLike, n_rows: int) -> Any:
    targets, labelled = check_targets(y, n_rows)
    if labelled is not None and not isinstance(targets, LabelSets):
        raise InvalidLabelsError("y has rows without a label, for which relevance is undefined. Leave them out.")
    return targets


def _group(query_labels: Labels, labels: Labels) -> tuple[Counts, Counts]:
    """Return the number of every label among those of the database; -1 for an unknown query label."""
    if query_labels.dtype.kind != labels.dtype.kind:
        raise InvalidLabelsError(_KINDS)
    names, groups = np.unique(labels, return_inverse=True)
    places = np.minimum(np.searchsorted(names, query_labels), len(names) - 1)
    return np.where(names[places] == query_labels, places, -1), groups.astype(np.int64)


def _as_sets(labels: Labels | LabelSets) -> LabelSets:
    return labels if isinstance(labels, LabelSets) else LabelSets((label,) for label in labels.tolist())


def _members(*sides: LabelSets) -> list[NDArray[np.float32]]:
    """Return an indicator matrix for each side, over the labels of all of them."""
    if len({type(x) for side in sides for row in side for x in row}) > 1:
        raise InvalidLabelsError(_KINDS)
    columns = {label: i for i, label in enumerate(dict.fromkeys(x for side in sides for row in side for x in row))}
    members = [np.zeros((len(side), max(1, len(columns))), np.float32) for side in sides]
    for member, side in zip(members, sides, strict=True):
        for row, labels in zip(member, side, strict=True):
            row[[columns[label] for label in labels]] = 1.0
    return members


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
        queries = check_codes(query_codes)
        codes = check_codes(database_codes, 8 * queries.shape[1])
        self._relevance = Relevance(query_labels, len(queries), database_labels, len(codes))
        self._queries, self._words = as_words(queries), as_words(codes)
        self._buffer = np.empty(kernels.TILE, np.uint16 if codes.shape[1] < 1 << 13 else np.uint32)
        self.n_items = len(codes)
        shape = (len(queries), codes.shape[1] * 8 + 1)
        self.total: Counts = np.zeros(shape, np.int64)
        self.relevant: Counts = np.zeros(shape, np.int64)
        for rows, query_groups, groups in self._relevance:
            counts = self.total[rows], self.relevant[rows]
            kernels.count_by_distance(self._queries[rows], query_groups, self._words, groups, self._buffer, *counts)

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


class AsymmetricRanking(TiedRanking):
    """Rank a database for every query by asymmetric distance; items with the label of the query are relevant.

    Items with equal codes tie, as do codes at exactly the same distance; every measure is its expectation over all
    orders of the ties, as in :class:`Ranking`, which is the case of queries of -1 and +1.

    Costs, for each measure, one sort of the items per query: some milliseconds for 60 000. Nothing of size (n_queries,
    n_items) is kept.

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
        self._codes = codes

    def _groups(self) -> Iterator[tuple[Counts, Counts]]:
        for rows, query_groups, groups in self._relevance:
            for query, group in zip(self._queries[rows], query_groups, strict=True):
                distances = table_distances(query[None], self._codes)[0]
                _, places, total = np.unique(distances, return_inverse=True, return_counts=True)
                relevant = np.bincount(places, groups == group, len(total))
                yield total[None], relevant[None].astype(np.int64)


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
