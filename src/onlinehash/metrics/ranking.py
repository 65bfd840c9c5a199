"""Quality of a Hamming ranking: average precision and precision, with ties treated fairly.

Codes of r bits have only r + 1 distances, so most of a ranking is ties, and the order among them decides nothing a user
could rely on. By default every measure is its expectation over all orders of the ties, in closed form;
``ties="stable"`` takes them in storage order, as the published code does.

Everything follows from the number of all and of relevant items at each distance. Nothing is sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from onlinehash._validation import check_choice, check_codes, check_positive_int, check_same_width, check_targets
from onlinehash.codes import _kernels
from onlinehash.codes.hamming import distance_buffer, same_words
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError
from onlinehash.types import Labels, LabelSets

Counts = NDArray[np.int64]
Scores = NDArray[np.float64]


class RadiusPrecision(NamedTuple):
    """Precision within a Hamming radius, and how many queries found nothing there."""

    precision: float
    empty_rate: float


class Ranking:
    """Rank a database for every query by Hamming distance; relevant is what has the query's label.

    Costs one pass over the database a query: O(n_queries n_items) popcounts, and O(n_queries n_bits) memory.

    Parameters
    ----------
    query_codes : array-like of uint8, shape (n_queries, n_bytes)
    query_labels : array-like of shape (n_queries,), or several labels a row
    database_codes : array-like of uint8, shape (n_items, n_bytes)
    database_labels : array-like of shape (n_items,), or several labels a row
        Lists of labels, or a 0/1 indicator matrix; relevant is then what shares a label.
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
        if not len(queries) or not len(codes):
            raise InvalidInputError(f"There are {len(queries)} queries and {len(codes)} items; both need at least one.")
        self._queries, self._words = same_words(queries, codes)
        self._buffer = distance_buffer(codes.shape[1])
        self.n_items = len(codes)
        shape = (len(queries), codes.shape[1] * 8 + 1)
        self.total: Counts = np.zeros(shape, np.int64)
        self.relevant: Counts = np.zeros(shape, np.int64)
        self._relevance = _relevance(query_labels, len(queries), database_labels, len(codes))
        scratch = np.zeros((4, shape[1]), np.int64)
        for rows, query_groups, groups in self._relevance:
            by_group = np.argsort(groups, kind="stable")
            bounds = np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=2))])
            total, relevant = self.total[rows], self.relevant[rows]
            _kernels.count_by_distance(
                self._queries[rows], query_groups, self._words[by_group], bounds, self._buffer, scratch, total, relevant
            )

    # ------------------------------------------------------------------ measures

    def mean_average_precision(self, k: int | None = None, *, denominator: str = "possible") -> float:
        """Return the mean of :meth:`average_precision` over the queries that have one.

        Parameters
        ----------
        k : int, optional
            Look at the k nearest only.
        denominator : {"possible", "found"}, default="possible"
            Divide by the number of relevant items that k places could hold, ``min(k, n_relevant)``; or, as
            published, by those found among the k, leaving out queries that found none. The second flatters.
        """
        scores, weights = self._scores(k, denominator)
        return float(scores.sum() / weights.sum()) if weights.any() else float("nan")

    def average_precision(self, k: int | None = None, *, denominator: str = "possible") -> Scores:
        """Return the average precision of every query; NaN where it is not defined, for want of relevant items."""
        scores, weights = self._scores(k, denominator)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(weights > 0, scores / weights, np.nan))

    def precision_at(self, k: int) -> float:
        """Return the mean share of relevant items among the k nearest (all of them if there are fewer)."""
        k = min(check_positive_int("k", k), self.n_items)
        if self.ties == "stable":
            return float(self._stable(k)[1].mean() / k)
        slots = self._until(k)[2]
        return float((self._shares() * slots).sum(axis=1).mean() / k)

    def precision_within(self, radius: int) -> RadiusPrecision:
        """Return the mean precision among items at most ``radius`` away, and the share of queries with no such item.

        An empty result counts as 0. Ties play no part.
        """
        if not isinstance(radius, (int, np.integer)) or radius < 0:
            raise InvalidInputError(f"radius={radius!r} is not an integer of at least 0.")
        total = self.total[:, : radius + 1].sum(axis=1)
        relevant = self.relevant[:, : radius + 1].sum(axis=1)
        precision = np.divide(relevant, total, out=np.zeros(len(total)), where=total > 0)
        return RadiusPrecision(float(precision.mean()), float((total == 0).mean()))

    # ------------------------------------------------------------------ how

    def _scores(self, k: int | None, denominator: str) -> tuple[Scores, Scores]:
        """Return AP times the chance that it is defined, and that chance."""
        check_choice("denominator", denominator, ("possible", "found"))
        k = self.n_items if k is None else min(check_positive_int("k", k), self.n_items)
        if denominator == "found" and self.ties == "expected" and k < self.n_items:
            return self._expected_over_found(k)
        if self.ties == "stable":
            sums, found = self._stable(k)
        else:
            sums, found = self._expected_sums(k).sum(axis=1), self.relevant.sum(axis=1)
        possible = np.minimum(k, self.relevant.sum(axis=1))
        divisor = possible if denominator == "possible" else found
        scores = np.divide(sums, divisor, out=np.zeros(len(sums)), where=divisor > 0)
        return scores, (divisor > 0).astype(np.float64)

    def _until(self, k: int) -> tuple[Counts, Counts, Counts]:
        """Return items and relevant items nearer than each distance, and how many places of the first k it fills."""
        before = np.cumsum(self.total, axis=1) - self.total
        before_relevant = np.cumsum(self.relevant, axis=1) - self.relevant
        return before, before_relevant, np.clip(k - before, 0, self.total)

    def _expected_sums(self, k: int) -> Scores:
        """Return, for each distance, the expected sum of precisions at the relevant places up to k."""
        before, before_relevant, slots = self._until(k)
        sums = _precision_sum(before, before_relevant, slots, self.relevant, self.total, _harmonic(self.n_items))
        return np.asarray(self._shares() * sums)

    def _shares(self) -> Scores:
        """Return the share of relevant items at each distance."""
        return np.divide(self.relevant, self.total, out=np.zeros(self.total.shape), where=self.total > 0)

    def _expected_over_found(self, k: int) -> tuple[Scores, Scores]:
        """Divide by the relevant items found among the first k, which the order of the last ties decides.

        The k-th place falls among ``t`` tied items of which ``r`` are relevant and ``j`` make it: the number ``h`` of
        relevant ones among the ``j`` is hypergeometric, and given ``h`` the sum has the same closed form.
        """
        before, before_relevant, slots = self._until(k)
        sums, harmonic = self._expected_sums(k), _harmonic(self.n_items)
        scores, weights = np.zeros(len(before)), np.zeros(len(before))
        for q in range(len(before)):
            last = int(np.flatnonzero(slots[q])[-1])
            t, r, j = int(self.total[q, last]), int(self.relevant[q, last]), int(slots[q, last])
            h = np.arange(max(0, j - (t - r)), min(j, r) + 1)
            tail = h / j * _precision_sum(before[q, last], before_relevant[q, last], j, h, j, harmonic)
            found = before_relevant[q, last] + h
            chance = np.where(found > 0, _hypergeometric(h, t, r, j), 0.0)
            scores[q] = (chance * (sums[q, :last].sum() + tail)) @ (1.0 / np.maximum(found, 1))
            weights[q] = chance.sum()
        return scores, weights

    def _stable(self, k: int) -> tuple[Scores, Counts]:
        """Return the sum of precisions and the number of relevant items among the first k, ties in storage order."""
        sums, found = np.zeros(len(self._queries)), np.zeros(len(self._queries), np.int64)
        for rows, query_groups, groups in self._relevance:
            counts, out = (self.total[rows], self.relevant[rows]), (sums[rows], found[rows])
            _kernels.rank_in_storage_order(
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


class _Relevance:
    """Which items are relevant to which queries, as groups: an item is relevant to a query of its own group.

    Iterating gives queries (a slice), their groups, and the group of every item. Single labels are groups, for all
    queries at once; for several labels a row, each query has two groups of its own.
    """

    def __init__(self, query_labels: Labels | LabelSets, labels: Labels | LabelSets) -> None:
        self._single = not isinstance(query_labels, LabelSets) and not isinstance(labels, LabelSets)
        if self._single:
            self._groups = _group(np.asarray(query_labels), np.asarray(labels))
        else:
            self._members = _members(_as_sets(query_labels), _as_sets(labels))

    def __iter__(self) -> Iterator[tuple[slice, Counts, Counts]]:
        if self._single:
            yield slice(None), *self._groups
            return
        queries, items = self._members
        for q, member in enumerate(queries):
            yield slice(q, q + 1), np.ones(1, np.int64), (items @ member > 0).astype(np.int64)


def _relevance(query_labels: ArrayLike, n_queries: int, labels: ArrayLike, n_items: int) -> _Relevance:
    sides = []
    for y, n in ((query_labels, n_queries), (labels, n_items)):
        targets, labelled = check_targets(y, n)
        if labelled is not None and not isinstance(targets, LabelSets):
            raise InvalidLabelsError(
                "y has rows without a label; what is relevant to them is not known. Leave them out."
            )
        sides.append(targets)
    return _Relevance(*sides)


def _group(query_labels: Labels, labels: Labels) -> tuple[Counts, Counts]:
    """Return the number of every label among those of the database; -1 for a query label that is not there."""
    if query_labels.dtype.kind != labels.dtype.kind:
        raise InvalidLabelsError(
            "Queries and database have labels of different kinds; use integers or strings for both."
        )
    names, groups = np.unique(labels, return_inverse=True)
    places = np.minimum(np.searchsorted(names, query_labels), len(names) - 1)
    return np.where(names[places] == query_labels, places, -1), groups.astype(np.int64)


def _as_sets(labels: Labels | LabelSets) -> LabelSets:
    return labels if isinstance(labels, LabelSets) else LabelSets((label,) for label in labels.tolist())


def _members(*sides: LabelSets) -> list[NDArray[np.float32]]:
    """Return an indicator matrix for each side, over the labels of all of them."""
    columns = {label: i for i, label in enumerate(dict.fromkeys(x for side in sides for row in side for x in row))}
    members = [np.zeros((len(side), max(1, len(columns))), np.float32) for side in sides]
    for member, side in zip(members, sides, strict=True):
        for row, labels in zip(member, side, strict=True):
            row[[columns[label] for label in labels]] = 1.0
    return members


def _harmonic(n: int) -> Scores:
    """Return the harmonic numbers H_0 to H_n."""
    return np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, n + 1))])


def _precision_sum(before: Any, before_relevant: Any, slots: Any, relevant: Any, total: Any, harmonic: Scores) -> Any:
    """Sum over the places p = 1..slots of a tie the expected precision there, given that place p holds a relevant item.

    Of the p - 1 tied items before it, a share c = (relevant - 1) / (total - 1) is relevant on average, so the
    sum is that of (before_relevant + 1 + c (p - 1)) / (before + p).
    """
    others = np.divide(
        relevant - 1,
        total - 1,
        out=np.zeros(np.broadcast(relevant, total).shape),
        where=np.asarray(total) > 1,
    )
    reciprocals = harmonic[before + slots] - harmonic[before]
    return (before_relevant + 1 - others * (before + 1)) * reciprocals + others * slots


def _hypergeometric(h: Counts, total: int, relevant: int, drawn: int) -> Scores:
    """Return the chance of h relevant items among ``drawn`` of ``total`` items that hold ``relevant`` relevant ones."""

    def log_choose(n: Any, k: Any) -> Any:
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    log_chance = log_choose(relevant, h) + log_choose(total - relevant, drawn - h) - log_choose(total, drawn)
    return np.asarray(np.exp(log_chance))
