"""Measures of rankings with ties, as expectations over all orders of the ties, in closed form.

A ranking is a sequence of groups of tied items, nearest first. Every measure follows from the number of all and of
relevant items in each group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import check_choice, check_positive_int

Counts = NDArray[np.int64]
Scores = NDArray[np.float64]


class TiedRanking(ABC):
    """Measures of a ranking, independent of what is ranked."""

    n_items: int

    @abstractmethod
    def _groups(self) -> Iterator[tuple[Counts, Counts]]:
        """Yield, for some queries at a time, the number of all and of relevant items in each group, nearest first.

        Both are of shape (queries, groups). Groups may be empty.
        """

    def mean_average_precision(self, k: int | None = None, *, denominator: str = "possible") -> float:
        """Return the mean of :meth:`average_precision` over the queries that have one.

        Parameters
        ----------
        k : int, optional
            Use the k nearest only.
        denominator : {"possible", "found"}, default="possible"
            Divide by the number of relevant items that k places could hold, ``min(k, n_relevant)``; or, as
            published, by those found among the k, leaving out queries that found none. The second is too optimistic.
        """
        scores, weights = self._checked_scores(k, denominator)
        return float(scores.sum() / weights.sum()) if weights.any() else float("nan")

    def average_precision(self, k: int | None = None, *, denominator: str = "possible") -> Scores:
        """Return the average precision of every query; NaN where there are no relevant items."""
        scores, weights = self._checked_scores(k, denominator)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(weights > 0, scores / weights, np.nan))

    def precision_at(self, k: int) -> float:
        """Return the mean share of relevant items among the k nearest (all of them if there are fewer)."""
        return float(self.precisions_at(k).mean())

    def precisions_at(self, k: int) -> Scores:
        """Return the share of relevant items among the k nearest for every query."""
        k = min(check_positive_int("k", k), self.n_items)
        return np.asarray(self._hits(k) / k)

    def recall_at(self, k: int) -> float:
        """Return the mean share of all relevant items that is among the k nearest (all of them if there are fewer).

        Queries without relevant items are left out of the mean; it is NaN if no query has any. The best possible value
        is below 1 if a query has more than k relevant items.
        """
        k = min(check_positive_int("k", k), self.n_items)
        n_relevant = np.concatenate([relevant.sum(axis=1) for _, relevant in self._groups()])
        shares, defined = average(self._hits(k), n_relevant)
        return float(shares.sum() / defined.sum()) if defined.any() else float("nan")

    def _checked_scores(self, k: int | None, denominator: str) -> tuple[Scores, Scores]:
        check_choice("denominator", denominator, ("possible", "found"))
        return self._scores(self.n_items if k is None else min(check_positive_int("k", k), self.n_items), denominator)

    def _scores(self, k: int, denominator: str) -> tuple[Scores, Scores]:
        """Return AP times the chance that it is defined, and that chance."""
        harmonic, measure = _harmonic(self.n_items), _over_possible
        if denominator == "found" and k < self.n_items:  # all relevant items are found among all
            measure = _over_found
        scores, weights = zip(*(measure(*groups, k, harmonic) for groups in self._groups()), strict=True)
        return np.concatenate(scores), np.concatenate(weights)

    def _hits(self, k: int) -> NDArray[Any]:
        """Return the expected number of relevant items among the first k of every query."""
        return np.concatenate([_expected_hits(*groups, k) for groups in self._groups()])


def average(sums: Scores, divisor: Counts) -> tuple[Scores, Scores]:
    """Divide where the denominator is not 0, and return where that is."""
    return np.divide(sums, divisor, out=np.zeros(len(sums)), where=divisor > 0), (divisor > 0).astype(np.float64)


def _until(total: Counts, relevant: Counts, k: int) -> tuple[Counts, Counts, Counts]:
    """Return items and relevant items nearer than each group, and how many places of the first k it fills."""
    before = np.cumsum(total, axis=1) - total
    before_relevant = np.cumsum(relevant, axis=1) - relevant
    return before, before_relevant, np.clip(k - before, 0, total)


def _shares(total: Any, relevant: Any) -> Scores:
    """Return the share of relevant items in each group; 0 where there are none."""
    zeros = np.zeros(np.broadcast(relevant, total).shape)
    return np.asarray(np.divide(relevant, total, out=zeros, where=np.greater(total, 0)))


def _expected_hits(total: Counts, relevant: Counts, k: int) -> Scores:
    """Return the expected number of relevant items among the first k."""
    return np.asarray((_shares(total, relevant) * _until(total, relevant, k)[2]).sum(axis=1))


def _expected_sums(total: Counts, relevant: Counts, k: int, harmonic: Scores) -> Scores:
    """Return, for each group, the expected sum of precisions at the relevant places up to k."""
    before, before_relevant, slots = _until(total, relevant, k)
    sums = _precision_sum(before, before_relevant, slots, relevant, total, harmonic)
    return np.asarray(_shares(total, relevant) * sums)


def _over_possible(total: Counts, relevant: Counts, k: int, harmonic: Scores) -> tuple[Scores, Scores]:
    """Divide by the relevant items that the first k places could hold."""
    sums = _expected_sums(total, relevant, k, harmonic).sum(axis=1)
    return average(sums, np.minimum(k, relevant.sum(axis=1)))


def _over_found(total: Counts, relevant: Counts, k: int, harmonic: Scores) -> tuple[Scores, Scores]:
    """Divide by the relevant items found among the first k, which the order of the last ties decides.

    The k-th place falls among ``t`` tied items of which ``r`` are relevant and ``j`` are in front: the number ``h`` of
    relevant ones among the ``j`` is hypergeometric, and given ``h`` the sum has the same closed form.
    """
    before, before_relevant, slots = _until(total, relevant, k)
    sums = _expected_sums(total, relevant, k, harmonic)
    scores, weights = np.zeros(len(before)), np.zeros(len(before))
    for q in range(len(before)):
        last = int(np.flatnonzero(slots[q])[-1])
        t, r, j = int(total[q, last]), int(relevant[q, last]), int(slots[q, last])
        h = np.arange(max(0, j - (t - r)), min(j, r) + 1)
        tail = h / j * _precision_sum(before[q, last], before_relevant[q, last], j, h, j, harmonic)
        found = before_relevant[q, last] + h
        chance = np.where(found > 0, _hypergeometric(h, t, r, j), 0.0)
        scores[q] = (chance * (sums[q, :last].sum() + tail)) @ (1.0 / np.maximum(found, 1))
        weights[q] = chance.sum()
    return scores, weights


def _harmonic(n: int) -> Scores:
    """Return the harmonic numbers H_0 to H_n."""
    return np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, n + 1))])


def _precision_sum(before: Any, before_relevant: Any, slots: Any, relevant: Any, total: Any, harmonic: Scores) -> Any:
    """Sum over the places p = 1..slots of a tie the expected precision there, given that place p holds a relevant item.

    Of the p - 1 tied items before it, a share c = (relevant - 1) / (total - 1) is relevant on average, so the
    sum is that of (before_relevant + 1 + c (p - 1)) / (before + p).
    """
    others = _shares(total - 1, relevant - 1)
    reciprocals = harmonic[before + slots] - harmonic[before]
    return (before_relevant + 1 - others * (before + 1)) * reciprocals + others * slots


def _hypergeometric(h: Counts, total: int, relevant: int, drawn: int) -> Scores:
    """Return the chance of h relevant items among ``drawn`` of ``total`` items that hold ``relevant`` relevant ones."""
    from scipy.special import gammaln

    def log_choose(n: Any, k: Any) -> Any:
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    log_chance = log_choose(relevant, h) + log_choose(total - relevant, drawn - h) - log_choose(total, drawn)
    return np.asarray(np.exp(log_chance))
