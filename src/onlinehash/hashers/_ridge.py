"""Ridge regression from sums over a stream: the sums, the penalty they ask for, and the solution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from onlinehash._kernel import kernel
from onlinehash._lapack import add_gram, factor, solve
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers._block import aligned_zeros, block_rows, lower_gram, subtract_products, write_products

Matrix = NDArray[np.float64]

_N_PROBES = 16  # random right-hand sides that stand for all classes, and for the trace
_GRID = np.power(10.0, np.arange(-6, 5) / 2)  # penalties to choose from, for rows of unit length
_START = 4
_TOLERANCE = 1.02
_STRIP = 96
_SINGLE = np.dtype(np.float32)
NOTHING = 1e-6  # what rounding may leave of a class whose rows were unlearned


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
        return Members(
            np.concatenate([self.owner, other.owner + n_rows]),
            np.concatenate([self.number, other.number]),
            np.concatenate([self.share, other.share]),
            np.concatenate([self.weight, other.weight]),
        )

    def fits(self, n_rows: int) -> bool:
        """Return whether all entries belong to one of ``n_rows`` rows and to a class."""
        return not len(self.owner) or bool(
            self.owner.min() >= 0 and self.owner.max() < n_rows and self.number.min() >= 0
        )

    def times(self, factors: Matrix) -> Members:
        """Return a copy with the weights scaled."""
        return replace(self, weight=self.weight * factors)

    def counts(self, n_classes: int) -> Matrix:
        """Return the total weight of the rows of each class."""
        return np.asarray(np.bincount(self.number, self.share * self.weight[self.owner], n_classes), np.float64)

    def targets(self, codewords: NDArray[Any]) -> Matrix:
        """Return the mean codeword of every row, shape (n_rows, n_bits).

        Examples
        --------
        >>> members = Members(np.array([0, 0]), np.array([0, 1]), np.array([0.5, 0.5]), np.ones(1))
        >>> members.targets(np.array([[1, 1], [1, -1]]))
        array([[1., 0.]])
        """
        targets = np.zeros((len(self.weight), codewords.shape[1]))
        np.add.at(targets, self.owner, self.share[:, None] * codewords[self.number])
        return targets


class RidgeStatistics:
    """All that ridge regression on class codewords needs to know of a stream, whatever the codewords.

    Sums in double precision: they may be added to those of another stream, and rows may be taken out again.

    Attributes
    ----------
    gram : ndarray of shape (n_inputs, n_inputs)
        Sum of w z z^T over rows z of weight w; the lower triangle.
    sums : ndarray of shape (n_classes, n_inputs)
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

    def __init__(self, n_inputs: int) -> None:
        self.gram: Matrix = np.zeros((n_inputs, n_inputs), order="F")
        self.sums: Matrix = np.zeros((0, n_inputs))
        self.counts: Matrix = np.zeros(0)
        self.total = 0.0
        self.squares = 0.0

    @property
    def n_inputs(self) -> int:
        """Number of features."""
        return len(self.gram)

    def trace(self) -> float:
        """Return the trace of the Gram matrix."""
        return float(np.trace(self.gram))

    def on_host(self) -> RidgeStatistics:
        """Return the statistics in the memory of the host: these."""
        return self

    def add(self, rows: Matrix, members: Members, *, sign: float = 1.0, decay: float = 1.0) -> None:
        """Add rows, or with ``sign=-1`` subtract them, after multiplying the sums by ``decay``."""
        entries = {len(members.owner), len(members.number), len(members.share)}
        if rows.shape != (len(members.weight), self.sums.shape[1]) or len(entries) > 1 or not members.fits(len(rows)):
            raise InvalidInputError(
                f"Rows of shape {rows.shape} do not fit the classes of {len(members.weight)} rows, and sums of "
                f"{self.sums.shape[1]} features."
            )
        self.grow(int(members.number.max(initial=-1)) + 1)
        weights = members.weight
        scaled = rows if (weights == 1.0).all() else rows * np.sqrt(weights)[:, None]
        self.gram = add_gram(sign, scaled, decay, self.gram)
        if decay != 1.0:
            self.sums *= decay
            self.counts *= decay
        shares = sign * members.share * weights[members.owner]
        _add_to_classes(rows, members.owner, members.number, shares, self.sums, self.counts)
        self.total = decay * self.total + sign * float(weights.sum())
        self.squares = decay * self.squares + float(shares @ members.share)

    def merge(self, other: RidgeStatistics, numbers: NDArray[np.intp]) -> None:
        """Add the sums of another stream; its class ``i`` is class ``numbers[i]`` here."""
        self.grow(int(numbers.max(initial=-1)) + 1)
        self.gram += other.gram
        self.sums[numbers[: len(other.sums)]] += other.sums
        self.counts[numbers[: len(other.counts)]] += other.counts
        self.total += other.total
        self.squares += other.squares

    def grow(self, n_classes: int) -> None:
        """Make room for more classes."""
        more = n_classes - len(self.counts)
        if more > 0:
            self.sums = np.vstack([self.sums, np.zeros((more, self.sums.shape[1]))])
            self.counts = np.concatenate([self.counts, np.zeros(more)])

    def leading(self, n_inputs: int) -> RidgeStatistics:
        """Return a copy of the statistics of the first ``n_inputs`` features."""
        part = RidgeStatistics(n_inputs)
        part.gram = self.gram[:n_inputs, :n_inputs].copy(order="F")
        part.sums, part.counts = self.sums[:, :n_inputs].copy(), self.counts.copy()
        part.total, part.squares = self.total, self.squares
        return part

    @property
    def seen(self) -> NDArray[np.intp]:
        """Numbers of the classes that have rows."""
        return np.flatnonzero(self.counts > NOTHING)

    def demand_sums_of_rows(self, tolerance: float) -> None:
        """Raise if these are the sums of no rows, beyond a tolerance in squares: after too much was taken out.

        Over any rows, A - sum of S_c S_c^T / n_c, the scatter around the class means, has no negative eigenvalue, and a
        class without rows has no sum. Costs one Cholesky factor.
        """
        gone = np.delete(self.sums, self.seen, axis=0)
        if np.square(gone).sum() > tolerance or not self._is_scatter(tolerance):
            raise InvalidInputError(
                "These rows were not learned with these labels and weights: without them, the sums would be those of "
                "no rows at all. Nothing was unlearned."
            )

    def _is_scatter(self, tolerance: float) -> bool:
        """Return whether the scatter around the class means, plus a tolerance, has a Cholesky factor."""
        scatter = self.gram.copy(order="F")
        means = self.sums[self.seen] / np.sqrt(self.counts[self.seen])[:, None]
        scatter = add_gram(-1.0, means, 1.0, scatter)
        scatter[np.diag_indices_from(scatter)] += tolerance
        return factor(scatter) is not None

    def towards(self, codewords: NDArray[Any]) -> Matrix:
        """Return the sum of z t^T over all rows, for the codewords t of their classes."""
        n_classes = len(self.counts)
        return np.asarray(self.sums.T @ codewords[:n_classes].astype(np.float64))

    def factor(self, penalty: float) -> RidgeFactor:
        """Return the Cholesky factor of the Gram matrix plus ``penalty`` times the identity.

        Raises :class:`InvalidInputError` when the sums are those of no set of rows, after rows were taken out that had
        never been added.
        """
        system = self.gram.copy(order="F")
        system[np.diag_indices_from(system)] += penalty
        lower = factor(system)
        if lower is None:
            raise InvalidInputError(
                "The statistics are not those of any rows. Were rows unlearned that had not been learned?"
            )
        return RidgeFactor(lower, penalty)

    def choose_penalty(self, seed: int, classes: NDArray[np.intp]) -> float:
        """Return the least penalty whose generalised cross-validation error is within 2 % of the best.

        That error, of squared residuals over squared residual degrees of freedom, follows from the sums: no row is held
        out. Random combinations of the classes stand for all codewords, and random signs for the trace, so that
        the choice does not depend on the number of bits. Bits are signs, which suffer more from shrinking than
        from noise: hence the least of the good penalties, not the best.

        ``classes`` holds the numbers of the classes that have rows, in an order that does not depend on the stream;
        otherwise the random combinations would.
        """
        rng = np.random.default_rng([seed, 6])
        signs = np.array([-1.0, 1.0])
        noise: Matrix = rng.choice(signs, (self.n_inputs, _N_PROBES))
        towards = self.sums[classes].T @ rng.choice(signs, (len(classes), _N_PROBES))
        length = self.trace()
        if not (self.total > 0.0 and length > 0.0):
            return 1.0  # all rows were forgotten
        scale = length / self.total
        errors: dict[int, float] = {}

        def error(place: int) -> float:
            if place not in errors:
                errors[place] = self._error(scale * _GRID[place], noise, towards)
            return errors[place]

        best, last = _START, len(_GRID) - 1
        while best > 0 and error(best - 1) < error(best):
            best -= 1
        while best < last and error(best + 1) < error(best):
            best += 1
        least = best
        while least > 0 and error(least - 1) <= _TOLERANCE * error(best):
            least -= 1
        return float(scale * _GRID[least])

    def _error(self, penalty: float, noise: Matrix, towards: Matrix) -> float:
        """Return the generalised cross-validation error of a penalty, up to a factor."""
        factor = self.factor(penalty)
        solved = factor.solve(np.hstack([noise, towards]))
        inverse, weights = solved[:, :_N_PROBES], solved[:, _N_PROBES:]
        free = self.total - len(noise) + penalty * float((inverse * noise).sum()) / _N_PROBES
        # |t - z w|^2 = |t|^2 - 2 b.w + w (A + p) w - p |w|^2, and (A + p) w = b
        residual = (
            self.squares * _N_PROBES - float((weights * towards).sum()) - penalty * float(np.square(weights).sum())
        )
        return max(residual, 0.0) / max(free, 1e-9 * self.total) ** 2


class RidgeFactor:
    """The Cholesky factor L of A + penalty I, which solves for any right-hand side, and for a few rows more.

    Parameters
    ----------
    lower : ndarray of shape (n_inputs, n_inputs)
        L, in Fortran order; what is above its diagonal is never read.
    penalty : float
    """

    def __init__(self, lower: Matrix, penalty: float) -> None:
        self.lower = lower
        self.penalty = penalty
        self._strips: _Strips | None = None

    def solve(self, towards: Matrix) -> Matrix:
        """Return (A + penalty I)^-1 times the columns given."""
        return solve(self.lower, towards)

    def solve_with(self, weights: Matrix, rows: Matrix, counts: Matrix, targets: Matrix) -> Matrix:
        """Return the solution after a few rows more, from the solution without them.

        With U the new rows times the roots of what they count, and t their targets likewise, the solution moves by
        (A + p)^-1 U^T (I + U (A + p)^-1 U^T)^-1 (t - U w). That takes one triangular solve with the rows
        instead of a new factor; single precision is enough for a small change.
        """
        n_rows, n_inputs = rows.shape
        roots = np.sqrt(counts)[:, None]
        if self._strips is None:
            self._strips = _Strips(self.lower)
        half = block_rows(n_rows, n_inputs, _SINGLE)
        half[:, :n_inputs] = rows
        outputs = half[:, :n_inputs] @ weights.astype(_SINGLE)
        half *= roots.astype(_SINGLE)
        self._strips.solve(half)
        inner = np.zeros((n_rows, n_rows), _SINGLE)  # only the lower triangle is written and read
        lower_gram(half, n_rows, n_inputs, inner)
        np.fill_diagonal(inner, inner.diagonal() + 1)
        residuals = lapack.dposv(inner.astype(np.float64), roots * (targets - outputs), lower=1)[1]
        return np.asarray(weights + self._strips.solve_transposed(residuals.T.astype(_SINGLE) @ half).T)


class _Strips:
    """A lower triangle L in single precision, prepared for solves that are products of flat matrices.

    A strip of rows [M D], with D on the diagonal, is kept as [-D^-1 M, D^-1]: times what is solved before the strip and
    the right-hand side in it, that is the solution in the strip. Faster than the triangular solves of BLAS; right-hand
    sides are rows here.
    """

    def __init__(self, lower: Matrix) -> None:
        n_rows = len(lower)
        self._lower = block_rows(n_rows, n_rows, _SINGLE)
        self._lower[:, :n_rows] = lower
        self._strips = [slice(start, min(start + _STRIP, n_rows)) for start in range(0, n_rows, _STRIP)]
        for at in self._strips:
            inverse = np.tril(lapack.strtri(self._lower[at, at], lower=1)[0])
            self._lower[at, : at.start] = -inverse @ self._lower[at, : at.start]
            self._lower[at, at] = inverse

    def solve(self, rows: NDArray[np.float32]) -> None:
        """Multiply the rows of a block by L^-T, in place."""
        for at in self._strips:
            solved = np.empty((len(rows), at.stop - at.start), _SINGLE)
            write_products(rows, self._lower[at], at.stop, solved)
            rows[:, at] = solved

    def solve_transposed(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the rows of a block times L^-1, without its unused columns."""
        n_rows, n_inputs = len(rows), len(self._lower)
        solved = aligned_zeros(-(-n_rows // 4) * 4, rows.shape[1], _SINGLE)
        solved[:n_rows] = rows
        for at in reversed(self._strips):
            left = -solved[:, at].T
            solved[:, at] = 0.0
            subtract_products(solved.T, self._lower[at], at.stop, np.ascontiguousarray(left))
        return solved[:n_rows, :n_inputs]


@kernel()
def _add_to_classes(rows: Any, owner: Any, number: Any, shares: Any, sums: Any, counts: Any) -> None:
    for j in range(len(owner)):
        row, total, share = rows[owner[j]], sums[number[j]], shares[j]
        counts[number[j]] += share
        for f in range(len(row)):
            total[f] += share * row[f]
