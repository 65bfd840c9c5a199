"""The sums behind HROH: ridge regression from sums over a stream, in the memory of the host or of a GPU."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from onlinehash._internal.arrays import (
    DeviceArray,
    Place,
    cholesky,
    cholesky_solve,
    device_memory,
    is_on_device,
    to_host,
)
from onlinehash._internal.kernels import kernel
from onlinehash._internal.threads import single_threaded_products
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError
from onlinehash.features import Fourier, place_features
from onlinehash.hashers._base import Arrays, Features

if TYPE_CHECKING:
    from onlinehash.hashers._class_bits import SettlingClasses

Matrix = NDArray[np.float64]

HOST = Place("numpy", "cpu", "cpu")
"""The memory of the host, where sums are NumPy arrays."""

CONSTANT = 0.5
"""Value of the feature that does the centring: the penalty on it is soft."""

ROWS_PER_BLOCK = 256
"""Rows that wait on the host to be summed together."""

ROWS_PER_SUM = 1024  # summed at once where they come at once; on a device more
ROWS_PER_SUM_ON_DEVICE = 1 << 15
VALUES_PER_SUM_ON_DEVICE = 1 << 27
FIRST_SETTLING = 1024  # instances after which codewords are fixed for the first time; then at every doubling
NOTHING = 1e-6  # what rounding may leave of a class whose rows were unlearned
ROWS_FOR_REGRESSION = 50  # rows per class from which on regression alone gives scores; below, so do class means
CLASSES_FOR_ANGLES = 256  # above this, the weight of class means falls with the square of the number of classes

_N_PROBES = 16  # random right-hand sides that stand for all classes, and for the trace
_PENALTIES = np.power(10.0, np.arange(-6, 5) / 2)  # to choose from, for rows of unit length
_FIRST_PENALTY = 4  # place of the one that is tried first
_TOLERATED_ERROR = 1.02
_ANGLE_PENALTY = 1.0 / 3.0  # times the square root of the number of rows, for rows of unit length
_MOST_ANGLES = 0.99  # angles sum to 0: a bit that all codewords share would be the sign of rounding
_ROWS_PER_SOLVE = 256
_ROUNDING = 1e-10  # of the sums of squares, after any number of additions
_MEMBERS = ("owner", "number", "share", "weight")


def next_settling(n_summed: int) -> int:
    """Return the number of instances at which codewords are fixed next.

    Examples
    --------
    >>> next_settling(0), next_settling(1024), next_settling(3000)
    (1024, 2048, 4096)
    """
    return max(FIRST_SETTLING, 1 << n_summed.bit_length())


@dataclass(frozen=True)
class Members:
    """Which classes rows belong to, and how much each row counts.

    Row ``owner[j]`` belongs to class ``number[j]`` with a share of ``share[j]``. The shares of a row sum to 1, and its
    entries follow those of the row before; a row of one class has one entry.
    """

    owner: NDArray[np.intp]
    number: NDArray[np.intp]
    share: Matrix
    weight: Matrix

    @classmethod
    def of_none(cls) -> Members:
        """Return the members of no rows."""
        return cls(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0), np.empty(0))

    def between(self, start: int, stop: int) -> Members:
        """Return the members of a range of rows."""
        entries = slice(*np.searchsorted(self.owner, (start, stop)))
        return Members(self.owner[entries] - start, self.number[entries], self.share[entries], self.weight[start:stop])

    def followed_by(self, other: Members, n_rows: int) -> Members:
        """Return the members of these ``n_rows`` rows followed by others."""
        later = replace(other, owner=other.owner + n_rows)
        return Members(*(np.concatenate([getattr(each, name) for each in (self, later)]) for name in _MEMBERS))

    def negative(self) -> Members:
        """Return the members with which the same rows are taken out."""
        return replace(self, weight=-self.weight)

    def counts(self, n_classes: int) -> Matrix:
        """Return the total weight of the rows of each class."""
        return np.asarray(np.bincount(self.number, self.share * self.weight[self.owner], n_classes), np.float64)


class RidgeStatistics:
    """All that ridge regression on class codewords needs to know of a stream, whatever the codewords.

    Sums in double precision: they may be added to those of another stream, and rows may be taken out again. What grows
    with the square of the features is at a place: on the host, or on a device of an array library.

    Attributes
    ----------
    gram : array of shape (n_inputs, n_inputs)
        Sum of w z z^T over rows z of weight w.
    sums : array of shape (n_classes, n_inputs)
        Sum of w z over the rows of each class.
    counts : ndarray of shape (n_classes,)
        Sum of w over the rows of each class.
    total, squares : float
        Sum of w, and of w times the squared shares of a row's classes: both the number of rows where
        every row counts 1 and has one class.

    Examples
    --------
    >>> statistics = RidgeStatistics(1)
    >>> statistics.add(np.array([[2.0], [3.0]]), Members(np.arange(2), np.array([0, 0]), np.ones(2), np.ones(2)))
    >>> statistics.gram, statistics.sums
    (array([[13.]]), array([[5.]]))
    """

    def __init__(self, n_inputs: int, place: Place = HOST) -> None:
        self.place, self.n_inputs = place, n_inputs
        with device_memory(f"A matrix of {n_inputs} x {n_inputs} sums"):
            self.gram: DeviceArray = self._zeros(n_inputs)
        self.sums: DeviceArray = self._zeros(0)
        self.counts: Matrix = np.zeros(0)
        self.total = 0.0
        self.squares = 0.0

    def _zeros(self, n_rows: int) -> DeviceArray:
        xp = self.place.xp
        return xp.zeros((n_rows, self.n_inputs), dtype=xp.float64, device=self.place.device)

    def trace(self) -> float:
        """Return the trace of the Gram matrix."""
        return float(self.place.xp.linalg.trace(self.gram))

    def add(self, rows: DeviceArray, members: Members, *, decay: float = 1.0) -> None:
        """Add rows, or subtract those of negative weights, after multiplying the sums by ``decay``."""
        place, xp, weights = self.place, self.place.xp, members.weight
        self.grow(int(members.number.max(initial=-1)) + 1)
        scaled = rows if (weights == 1.0).all() else rows * place.put(np.sqrt(np.abs(weights)))[:, None]
        if (weights >= 0.0).all():
            product = scaled.T @ scaled
        else:
            added, taken = (
                xp.take(scaled, place.put(np.flatnonzero(each)), axis=0) for each in (weights > 0, weights < 0)
            )
            product = added.T @ added - taken.T @ taken
        shares = members.share * weights[members.owner]
        sums = None
        if place != HOST:
            if len(members.owner) != len(weights):  # rows of several classes come once for each
                rows = xp.take(rows, place.put(members.owner), axis=0)
            is_of = place.put(members.number)[:, None] == place.put(np.arange(len(self.counts)))[None, :]
            sums = (xp.astype(is_of, xp.float64) * place.put(shares)[:, None]).T @ rows
        # All that needs memory is done: from here on nothing fails.
        if decay != 1.0:
            self.gram *= decay
            self.sums *= decay
            self.counts *= decay
        self.gram += product
        if sums is None:
            _add_to_classes(rows, members.owner, members.number, shares, self.sums)
        else:
            self.sums += sums
        self.counts += np.bincount(members.number, shares, len(self.counts))
        self.total = decay * self.total + float(weights.sum())
        self.squares = decay * self.squares + float(shares @ members.share)

    def merge(self, other: RidgeStatistics, numbers: NDArray[np.intp]) -> None:
        """Add the sums of another stream, wherever they are; its class ``i`` is class ``numbers[i]`` here."""
        self.grow(int(numbers.max(initial=-1)) + 1)
        numbers = numbers[: len(other.counts)]
        sums = np.zeros((len(self.counts), self.n_inputs))
        sums[numbers] = on_host(other.sums)
        self.gram += self.place.to(other.gram, "float64")
        self.sums += self.place.put(sums)
        self.counts[numbers] += other.counts
        self.total += other.total
        self.squares += other.squares

    def move(self, number: int, into: int) -> None:
        """Add the sums of a class to those of another, and leave it nothing."""
        self.grow(into + 1)
        for each in (self.sums, self.counts):
            each[into] += each[number]
            each[number] = 0.0

    def grow(self, n_classes: int) -> None:
        """Make room for more classes."""
        more = n_classes - len(self.counts)
        if more > 0:
            self.sums = self.place.xp.concat([self.sums, self._zeros(more)], axis=0)
            self.counts = np.concatenate([self.counts, np.zeros(more)])

    def leading(self, n_inputs: int) -> RidgeStatistics:
        """Return a copy of the statistics of the first ``n_inputs`` features, on the host."""
        part = RidgeStatistics(n_inputs)
        part.gram = np.array(on_host(self.gram[:n_inputs, :n_inputs]))
        part.sums, part.counts = np.array(on_host(self.sums[:, :n_inputs])), self.counts.copy()
        part.total, part.squares = self.total, self.squares
        return part

    @property
    def seen(self) -> NDArray[np.intp]:
        """Numbers of the classes that have rows."""
        return np.flatnonzero(self.counts > NOTHING)

    def class_sums(self, classes: NDArray[np.intp]) -> Matrix:
        """Return the sums of some classes, on the host."""
        return np.asarray(on_host(self.sums)[classes])

    def demand_sums_of_rows(self, tolerance: float) -> None:
        """Raise if these are the sums of no rows, beyond a tolerance in squares: after too much was taken out.

        Over any rows, A - sum of S_c S_c^T / n_c, the scatter around the class means, has no negative eigenvalue, and a
        class without rows has no sum. Costs one Cholesky factor.
        """
        seen = self.seen
        gone = np.delete(on_host(self.sums), seen, axis=0)
        means = self.place.put(self.class_sums(seen) / np.sqrt(self.counts[seen])[:, None])
        if np.square(gone).sum() > tolerance or self._factor(self.gram - means.T @ means, tolerance) is None:
            raise InvalidInputError(
                "These rows were not learned with these labels and weights: without them, the sums would be those of "
                "no rows at all. Nothing was unlearned."
            )

    def _factor(self, matrix: DeviceArray, diagonal: float) -> DeviceArray | None:
        """Return the Cholesky factor of a matrix plus a multiple of the identity, or None if it has none."""
        xp = self.place.xp
        if self.place == HOST:
            system = matrix.copy()
            system.flat[:: self.n_inputs + 1] += diagonal
            try:
                with single_threaded_products():
                    return np.linalg.cholesky(system)
            except np.linalg.LinAlgError:
                return None
        with device_memory(f"A Cholesky factor of {self.n_inputs} features"):
            identity = xp.eye(self.n_inputs, dtype=xp.float64, device=self.place.device)
            return cholesky(matrix + float(diagonal) * identity)

    def factored(self, penalty: float) -> RidgeFactor:
        """Return A + penalty I, for the Gram matrix A, as a Cholesky factor, or by the factor of A if rows are few.

        Raises :class:`InvalidInputError` when the sums are those of no set of rows, after rows were taken out that had
        never been added.
        """
        if self.place == HOST and 0.0 < self.total < self.n_inputs / 4:
            with single_threaded_products():
                columns, order, rank, _ = lapack.dpstrf(self.gram.T, lower=1)
            narrow = np.tril(columns[:, :rank])[np.argsort(order)]
            if abs(np.square(narrow).sum() - self.trace()) <= _ROUNDING * self.trace():
                return FewRowsFactor(narrow, penalty)
        lower = self._factor(self.gram, penalty)
        if lower is None:
            raise InvalidInputError(
                "The statistics are not those of any rows. Were rows unlearned that had not been learned?"
            )
        return RidgeFactor(self.place, lower)

    def balanced(self, power: float) -> RidgeStatistics:
        """Return the statistics in which class c counts as n_c^power rows, scaled to the same total.

        ::

            A' = A + sum (w_c - n_c) mu_c mu_c^T,   S'_c = w_c mu_c

        with the means mu_c of the classes; the scatter within classes is the same. These where all counts are equal.

        Examples
        --------
        >>> statistics = RidgeStatistics(1)
        >>> rows, ones = np.array([[2.0], [2.0], [2.0], [2.0], [1.0]]), np.ones(5)
        >>> statistics.add(rows, Members(np.arange(5), np.array([0, 0, 0, 0, 1]), ones, ones))
        >>> balanced = statistics.balanced(0.0)
        >>> balanced.counts, balanced.sums.ravel(), balanced.gram
        (array([2.5, 2.5]), array([5. , 2.5]), array([[12.5]]))
        """
        seen = self.seen
        known = self.counts[seen]
        if power == 1.0 or not len(seen) or (known == known[0]).all():
            return self
        weights = known**power
        weights *= known.sum() / weights.sum()
        twin, factors = copy.deepcopy(self), np.zeros(len(self.counts))
        factors[seen] = (weights - known) / known**2
        twin.gram += self.sums.T @ (self.sums * self.place.put(factors)[:, None])
        factors[seen] = weights / known
        twin.sums = self.sums * self.place.put(factors)[:, None]
        twin.counts = self.counts * factors
        return twin

    def choose_penalty(self, seed: int, classes: NDArray[np.intp]) -> float:
        """Return the least penalty whose generalised cross-validation error is within 2 % of the best.

        That error, of squared residuals over squared residual degrees of freedom, follows from the sums: no row is held
        out. Random combinations of the classes stand for all codewords, and random signs for the trace, so that
        the choice does not depend on the number of bits. Bits are signs, which suffer more from shrinking than
        from noise: hence the least of the good penalties, not the best.

        ``classes`` holds the numbers of the classes that have rows, in an order that does not depend on the stream;
        otherwise the random combinations would.
        """
        length = self.trace()
        if not (self.total > 0.0 and length > 0.0):
            return 1.0  # all rows were forgotten
        scale = length / self.total
        rng = np.random.default_rng([seed, 6])
        signs = np.array([-1.0, 1.0])
        noise: Matrix = rng.choice(signs, (self.n_inputs, _N_PROBES))
        towards = self.class_sums(classes).T @ rng.choice(signs, (len(classes), _N_PROBES))

        @cache
        def error(place: int) -> float:
            return self._error(scale * _PENALTIES[place], noise, towards)

        best, last = _FIRST_PENALTY, len(_PENALTIES) - 1
        while best > 0 and error(best - 1) < error(best):
            best -= 1
        while best < last and error(best + 1) < error(best):
            best += 1
        least = best
        while least > 0 and error(least - 1) <= _TOLERATED_ERROR * error(best):
            least -= 1
        return float(scale * _PENALTIES[least])

    def _error(self, penalty: float, noise: Matrix, towards: Matrix) -> float:
        """Return the generalised cross-validation error of a penalty, up to a factor."""
        solved = self.factored(penalty).solve(np.hstack([noise, towards]))
        inverse, weights = solved[:, :_N_PROBES], solved[:, _N_PROBES:]
        free = self.total - len(noise) + penalty * float((inverse * noise).sum()) / _N_PROBES
        # |t - z w|^2 = |t|^2 - 2 b.w + w (A + p) w - p |w|^2, and (A + p) w = b
        residual = (
            self.squares * _N_PROBES - float((weights * towards).sum()) - penalty * float(np.square(weights).sum())
        )
        return max(residual, 0.0) / max(free, 1e-9 * self.total) ** 2


def angle_weight(n_classes: int, rows_per_class: float) -> float:
    """Return the weight of angles between rows and class means in the scores of classes.

    Examples
    --------
    >>> [round(angle_weight(150, rows_per_class), 2) for rows_per_class in (1, 3, 10, 50)]
    [0.99, 0.72, 0.41, 0.0]
    >>> round(angle_weight(512, 3), 2), angle_weight(5000, 3)
    (0.18, 0.0)
    """
    if not 1 < n_classes <= 10 * CLASSES_FOR_ANGLES:  # less than .01 is not worth a second factor
        return 0.0
    few_rows = 1.0 - np.log(max(1.0, rows_per_class)) / np.log(ROWS_FOR_REGRESSION)
    weight = few_rows * min(1.0, CLASSES_FOR_ANGLES / n_classes) ** 2
    return float(np.clip(weight, 0.0, _MOST_ANGLES))


class RidgeFactor:
    """A Gram matrix with a penalty, as its lower Cholesky factor."""

    def __init__(self, place: Place, lower: DeviceArray) -> None:
        self._place, self._lower = place, lower
        n = lower.shape[0]  # strips: products run beside other threads, while SciPy's solves hold the interpreter
        self._strips = [slice(i, min(i + _ROWS_PER_SOLVE, n)) for i in range(0, n, _ROWS_PER_SOLVE)]

    def solve(self, columns: Matrix) -> Matrix:
        """Return the inverse times columns."""
        lower = self._lower
        if self._place != HOST:
            return to_host(cholesky_solve(lower, self._place.put(columns)))
        solved = self._half_solved(columns)
        for at in reversed(self._strips):
            rest = solved[at] - lower[at.stop :, at].T @ solved[at.stop :]
            solved[at] = solve_triangular(lower[at, at], rest, lower=True, trans=1, check_finite=False)
        return solved

    def leverages(self, rows: DeviceArray) -> Matrix:
        """Return z times the inverse times z^T of every row z."""
        if self._place != HOST:
            return to_host(self._place.xp.sum(rows.T * cholesky_solve(self._lower, rows.T), axis=0))
        return np.asarray(np.square(self._half_solved(rows.T)).sum(axis=0))

    def _half_solved(self, columns: Matrix) -> Matrix:
        solved, lower = np.array(columns, np.float64), self._lower
        for at in self._strips:
            rest = solved[at] - lower[at, : at.start] @ solved[: at.start]
            solved[at] = solve_triangular(lower[at, at], rest, lower=True, check_finite=False)
        return solved


class FewRowsFactor(RidgeFactor):
    """A Gram matrix L L^T of few rows with a penalty p: its inverse is (I - L (L^T L + p I)^-1 L^T) / p.

    L has a column per row that was added, so that it takes O(m) where a Cholesky factor takes O(m^3).

    Examples
    --------
    >>> FewRowsFactor(np.array([[2.0], [0.0]]), penalty=1.0).solve(np.eye(2))
    array([[0.2, 0. ],
           [0. , 1. ]])
    """

    def __init__(self, narrow: Matrix, penalty: float) -> None:
        self._narrow, self._penalty = narrow, penalty
        super().__init__(HOST, np.linalg.cholesky(narrow.T @ narrow + penalty * np.eye(narrow.shape[1])))

    def solve(self, columns: Matrix) -> Matrix:
        """Return the inverse times columns."""
        return np.asarray(columns - self._narrow @ super().solve(self._narrow.T @ columns)) / self._penalty

    def leverages(self, rows: DeviceArray) -> Matrix:
        """Return z times the inverse times z^T of every row z."""
        return np.asarray(np.square(rows).sum(axis=1) - super().leverages(rows @ self._narrow)) / self._penalty


class RidgeSolution:
    """Scores of classes: columns of weights W = (A' + penalty I)^-1 S'^T, from sums that are balanced.

    With ``angles``, where the C classes have fewer than 50 rows on average, n, the angles between rows and class means
    have a weight of f = (1 - ln n / ln 50) min(1, 256 / C)^2, at most .99, and the scores of regression the rest::

        (1 - f) z W + f (a - mean of a) / g,   a_c = z B^-1 mu_c / sqrt(mu_c B^-1 mu_c)

    B = A' plus a larger penalty, sqrt(N) / 3 for N rows of unit length, and g makes 1 the mean score of rows for their
    own class. Of few rows, regression learns how they differ by chance.

    Parameters
    ----------
    statistics : RidgeStatistics
    balance : float
        As ``power`` of :meth:`RidgeStatistics.balanced`.
    penalty : float, optional
        Chosen if it is None.
    seed, classes
        As for :meth:`RidgeStatistics.choose_penalty`.
    angles : bool
    """

    def __init__(
        self,
        statistics: RidgeStatistics,
        balance: float,
        penalty: float | None,
        seed: int,
        classes: NDArray[np.intp],
        angles: bool,
    ) -> None:
        balanced = statistics.balanced(balance)
        self._balance, self._place, self._classes = balance, statistics.place, classes
        self._counts, self._balanced_counts = statistics.counts, balanced.counts
        self._sums = on_host(balanced.sums)
        self.penalty = penalty or balanced.choose_penalty(seed, classes)
        penalties, self._angle_weight = [self.penalty], 0.0
        if angles and len(classes):
            self._angle_weight = angle_weight(len(classes), statistics.counts[classes].mean())
        if self._angle_weight:
            penalties.append(_ANGLE_PENALTY * balanced.trace() / np.sqrt(balanced.total))
        self._solved = [(each, factor := balanced.factored(each), factor.solve(self._sums.T)) for each in penalties]
        if self._angle_weight:
            columns = self._solved[1][2]
            self._lengths = np.full(len(self._counts), np.inf)
            self._lengths[classes] = np.sqrt((self._sums[classes] * columns[:, classes].T).sum(axis=1))
            centred = self._angles(columns, self._lengths)[:, classes]
            own = float(((self._sums[classes] * centred.T).sum(axis=1) / balanced.counts[classes]).mean())
            self._angle_weight, self._scale = (self._angle_weight, 1.0 / own) if own > NOTHING else (0.0, 1.0)

    def _angles(self, scores: Matrix, lengths: Matrix) -> Matrix:
        """Return scores, a column per class, divided by lengths and less their mean; 0 for classes without rows."""
        angles = scores / lengths
        mean = angles[:, self._classes].mean(axis=1, keepdims=True)
        return np.asarray(np.where(np.isinf(lengths), 0.0, angles - mean))

    def _blended(self, scores: Sequence[Matrix], lengths: Matrix | None = None) -> Matrix:
        """Return scores of regression and of angles together; both have a column per class."""
        if not self._angle_weight:
            return scores[0]
        angles = self._angles(scores[1], self._lengths if lengths is None else lengths)
        return (1.0 - self._angle_weight) * scores[0] + (self._angle_weight * self._scale) * angles

    @property
    def columns(self) -> Matrix:
        """Weights of the scores, a column per class."""
        return self._blended([columns for _, _, columns in self._solved])

    def products(self, classes: NDArray[np.intp], columns: Matrix) -> Matrix:
        """Return the products of the scores of classes, summed over rows, times columns: W^T A' W V."""
        explained = self._blended([self._sums.T - penalty * weights for penalty, _, weights in self._solved])
        return np.asarray(explained[:, classes].T @ (self.columns[:, classes] @ columns))

    def scores_without(self, rows: DeviceArray, members: Members) -> Matrix:
        """Return the scores that rows would have, had they not been added to the sums.

        Without a row z of class c, A' and S'_c change by multiples of products of z and mu_c alone, so the new scores
        follow from products that are known: with V = [z, mu_c], and B the change of A' in terms of V,

            (A' + V B V^T)^-1 = A'^-1 - A'^-1 V (I + B K)^-1 B V^T A'^-1,   K = V^T A'^-1 V

        where A' includes the penalty. A row of several classes has one mean for each. Where every class counts as it
        is, this is y - (y - s) / (1 - h), with the leverage h = z A'^-1 z^T. Of the lengths of class means, those of
        other classes are taken to be the same.
        """
        parts = [self._without(rows, members, factor, columns) for _, factor, columns in self._solved]
        return self._blended([scores for scores, _ in parts], parts[-1][1])

    def _without(
        self, rows: DeviceArray, members: Members, factor: RidgeFactor, columns: Matrix
    ) -> tuple[Matrix, Matrix]:
        """Return the scores by one penalty of rows that are left out, and the lengths of the class means then."""
        scores = on_host(rows @ self._place.put(columns))
        classes, places = np.unique(members.number, return_inverse=True)
        leverages, between = factor.leverages(rows), self._sums[classes] @ columns
        without, sizes = scores.copy(), np.bincount(members.owner, minlength=len(scores))
        lengths = np.tile(self._lengths, (len(scores), 1)) if self._angle_weight else np.empty_like(scores)
        for n_own in np.unique(sizes).tolist():
            at = np.flatnonzero(sizes == n_own)
            entries = np.isin(members.owner, at)
            own, place, share = (each[entries].reshape(-1, n_own) for each in (members.number, places, members.share))
            n, w = self._counts[own], self._balanced_counts[own]
            left = np.where(n - share > NOTHING, n - share, np.inf)  # a class of one row has no mean without it
            moved = share / left  # by this much of mu - z the mean of the class moves
            w_left = np.where(np.isinf(left), 0.0, w * (left / n) ** self._balance)
            K = np.empty((len(at), n_own + 1, n_own + 1))
            K[:, 0, 0] = leverages[at]
            K[:, 0, 1:] = K[:, 1:, 0] = scores[at[:, None], own] / w
            K[:, 1:, 1:] = between[place[:, :, None], own[:, None, :]] / (w[:, :, None] * w[:, None, :])
            towards = np.concatenate([scores[at][:, None, :], between[place] / w[:, :, None]], axis=1)
            B, sums = np.zeros_like(K), np.zeros((len(at), n_own, n_own + 1))
            for i in range(n_own):
                old, off, new = np.zeros((3, len(at), n_own + 1))  # mu, z - mu, and the mean without z
                old[:, i + 1], off[:, 0], off[:, i + 1] = 1.0, 1.0, -1.0
                new[:, 0], new[:, i + 1] = -moved[:, i], 1.0 + moved[:, i]
                for weight, each in ((-w[:, i], old), (-moved[:, i] * n[:, i], off), (w_left[:, i], new)):
                    B += weight[:, None, None] * each[:, :, None] * each[:, None, :]
                sums[:, i] = w_left[:, i, None] * new
            change = K @ np.linalg.solve(np.eye(n_own + 1) + B @ K, B)
            without[at] -= (change[:, :1] @ towards)[:, 0]
            K -= change @ K
            without[at[:, None], own] = (sums @ K[:, :1].swapaxes(1, 2))[:, :, 0]
            squares = np.einsum("nij,njk,nik->ni", sums, K, sums)
            lengths[at[:, None], own] = np.where(squares > 0.0, np.sqrt(np.maximum(squares, 0.0)), np.inf)
        return without, lengths


class StreamSums:
    """Add rows to ridge statistics in blocks, and let classes settle on codewords as rows come in.

    ``n_features`` is the width of the preprocessed rows, which ``features`` map; a constant follows as the last
    feature. ``n_summed`` rows have ever been added to the statistics, and ``n_waiting`` more wait for their block. On a
    device none waits, because even one row fills a GPU, and features are computed in double precision.
    """

    def __init__(self, n_features: int, features: Fourier | None, decay: float, place: Place = HOST) -> None:
        self._n_features, self._features, self._decay, self.place = n_features, features, decay, place
        n_inputs = (n_features if features is None else features.n_outputs) + 1
        self.statistics = RidgeStatistics(n_inputs, place)
        self.members = Members.of_none()
        self.n_waiting = 0
        self.n_summed = 0
        self._block: Matrix = np.full((ROWS_PER_BLOCK if place == HOST else 0, n_inputs), CONSTANT)
        self._rows_per_sum = ROWS_PER_SUM
        self._map: Any = None
        if place != HOST:
            self._rows_per_sum = min(ROWS_PER_SUM_ON_DEVICE, max(1, VALUES_PER_SUM_ON_DEVICE // n_inputs))
            self._map = None if features is None else place_features(features, place, "float64")

    def moved_to(self, place: Place) -> StreamSums:
        """Return the sums at another place; no row waits."""
        moved = StreamSums(self._n_features, self._features, self._decay, place)
        moved.statistics.merge(self.statistics, np.arange(len(self.statistics.counts)))
        moved.n_summed = self.n_summed
        return moved

    def learn(self, rows: Any, members: Members, classes: SettlingClasses) -> None:
        """Add preprocessed rows; on the host, an incomplete block waits."""
        start, n_rows = 0, rows.shape[0]
        with device_memory(f"The features of {min(self._rows_per_sum, n_rows)} rows"):
            while start < n_rows:
                to_settling = next_settling(self.n_summed) - self.n_summed
                many = not self.n_waiting and n_rows - start >= self._rows_per_sum
                if many or self.place != HOST:
                    stop = min(n_rows, start + min(self._rows_per_sum, to_settling))
                    self._sum(self.mapped(rows[start:stop, :]), members.between(start, stop), classes)
                else:
                    block = min(ROWS_PER_BLOCK, to_settling)
                    stop = min(n_rows, start + block - self.n_waiting)
                    last = self.n_waiting + stop - start
                    self._write(rows[start:stop], self._block[self.n_waiting : last])
                    self.members = self.members.followed_by(members.between(start, stop), self.n_waiting)
                    self.n_waiting = last
                    if last == block:
                        self.flush(classes)
                start = stop

    def flush(self, classes: SettlingClasses) -> None:
        """Add the rows that wait."""
        if self.n_waiting:
            self._sum(self._block[: self.n_waiting], self.members, classes)
            self.members, self.n_waiting = Members.of_none(), 0

    def merge(self, other: StreamSums, numbers: Any, classes: SettlingClasses) -> None:
        """Add the sums of another stream, of which no row waits; its class ``i`` is class ``numbers[i]`` here."""
        self.statistics.merge(other.statistics, numbers)
        self._count(other.n_summed, classes)

    def subtract(self, rows: Features, members: Members) -> None:
        """Take preprocessed rows out; raise if what is left cannot be the sums of any rows."""
        before, n_rows = self.statistics.trace(), rows.shape[0]
        for start in range(0, n_rows, self._rows_per_sum):
            stop = min(start + self._rows_per_sum, n_rows)
            self.statistics.add(self.mapped(rows[start:stop, :]), members.between(start, stop).negative())
        # Rows may be computed a little differently than when they were learned: those on a device perhaps on the host.
        eps = np.finfo(np.float32 if is_on_device(rows) else rows.dtype).eps
        taken = before - self.statistics.trace()
        self.statistics.demand_sums_of_rows(float(np.sqrt(eps)) * taken + _ROUNDING * before)

    def demand_enough(self, to_unlearn: Members, labels: list[int | str]) -> None:
        """Raise if a class has fewer rows than are to be unlearned."""
        learned, lost = self.counts(len(labels)), to_unlearn.counts(len(labels))
        worst = int(np.argmin(learned - lost))
        if lost[worst] > learned[worst] + NOTHING:
            raise InvalidLabelsError(
                f"There are {lost[worst]:g} rows of class {labels[worst]!r} to unlearn, but only "
                f"{learned[worst]:g} were learned."
            )

    def counts(self, n_classes: int) -> Matrix:
        """Return the total weight of the rows of each class, those that wait included."""
        counts = self.members.counts(n_classes)
        counts[: len(self.statistics.counts)] += self.statistics.counts
        return counts

    def complete(self, n_inputs: int | None = None) -> RidgeStatistics:
        """Return the statistics, or those of the first ``n_inputs`` features, with the rows that wait."""
        if n_inputs is None and not self.n_waiting:
            return self.statistics
        statistics = copy.deepcopy(self.statistics) if n_inputs is None else self.statistics.leading(n_inputs)
        if self.n_waiting:
            waiting = np.ascontiguousarray(self._block[: self.n_waiting, :n_inputs])
            self._add_to(statistics, waiting, self.members)
        return statistics

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON part and arrays."""
        sums = self.statistics
        arrays: Arrays = {
            "gram": lapack.dtrttp(on_host(sums.gram), uplo="L")[0],
            "sums": on_host(sums.sums),
            "counts": sums.counts,
            "waiting_rows": self._block[: self.n_waiting],
        }
        arrays |= {f"waiting_{name}": getattr(self.members, name) for name in _MEMBERS}
        return {"total": sums.total, "squares": sums.squares, "n_summed": self.n_summed}, arrays

    def restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Take back what :meth:`state` returned."""
        sums = self.statistics
        lower = np.tril(lapack.dtpttr(sums.n_inputs, arrays["gram"], uplo="L")[0])
        sums.gram = lower + np.tril(lower, -1).T
        sums.sums, sums.counts = np.array(arrays["sums"]), np.array(arrays["counts"])
        sums.total, sums.squares, self.n_summed = state["total"], state["squares"], state["n_summed"]
        self.members = Members(*(arrays[f"waiting_{name}"] for name in _MEMBERS))
        self.n_waiting = len(arrays["waiting_rows"])
        self._block[: self.n_waiting] = arrays["waiting_rows"]

    def mapped(self, rows: Any) -> Any:
        """Return the features of preprocessed rows, the constant last."""
        xp, place = self.place.xp, self.place
        if place != HOST:
            rows = place.to(rows, "float64")
            constant = xp.full((rows.shape[0], 1), CONSTANT, dtype=xp.float64, device=place.device)
            return xp.concat([rows if self._map is None else self._map(rows), constant], axis=1)
        mapped = np.full((len(rows), self.statistics.n_inputs), CONSTANT)
        self._write(rows, mapped)
        return mapped

    def _write(self, rows: Features, out: Matrix) -> None:
        """Write the features of preprocessed rows; they are computed in the precision of the stream."""
        out[:, :-1] = rows if self._features is None else self._features.map(rows)

    def _sum(self, rows: Matrix, members: Members, classes: SettlingClasses) -> None:
        self._add_to(self.statistics, rows, members)
        self._count(len(members.weight), classes)

    def _count(self, n_rows: int, classes: SettlingClasses) -> None:
        """Count rows that were added; when enough have been, let classes settle on their codewords."""
        settling = next_settling(self.n_summed)
        self.n_summed += n_rows
        if self.n_summed >= settling and classes.provisional:
            classes.settle(self.statistics)

    def _add_to(self, statistics: RidgeStatistics, rows: Matrix, members: Members) -> None:
        """Add rows to statistics, which fade by the decay of as many rows."""
        n_rows = len(members.weight)
        if self._decay < 1.0:
            faded = members.weight * self._decay ** np.arange(n_rows - 1.0, -1.0, -1.0)
            members = replace(members, weight=faded)
        with single_threaded_products(n_rows):
            statistics.add(rows, members, decay=self._decay**n_rows)


def on_host(array: DeviceArray) -> Matrix:
    """Return an array of the host, or the copy there of one on a device."""
    return to_host(array) if is_on_device(array) else array


@kernel()
def _add_to_classes(rows: Any, owner: Any, number: Any, shares: Any, sums: Any) -> None:
    for j in range(len(owner)):
        row, total, share = rows[owner[j]], sums[number[j]], shares[j]
        for f in range(len(row)):
            total[f] += share * row[f]
