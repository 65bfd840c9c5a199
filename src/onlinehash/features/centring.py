"""Centring and scaling to unit length, with a fixed mean or the running mean of the stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from onlinehash._internal.kernels import kernel, read_only
from onlinehash._internal.validation import check_choice
from onlinehash.exceptions import InvalidInputError
from onlinehash.types import Features

MIN_SQUARES, MAX_SQUARES = 1e-60, 1e60
"""Squared lengths between which no square, and no scale in single precision, overflows or vanishes."""


@dataclass(frozen=True, eq=False)
class Identity:
    """Leave features as they are.

    Examples
    --------
    >>> Identity().transform(np.array([[1.0, 2.0]]))
    array([[1., 2.]])
    """

    n_inputs: ClassVar[int | None] = None  # takes rows of any width

    def transform(self, X: Features) -> Features:
        """Return X itself."""
        return X

    def learn(self, X: Features, out: Features) -> None:
        """Copy X to the head of ``out``; there is nothing to learn."""
        out[: len(X), : X.shape[1]] = X

    def freeze(self) -> Identity:
        """Return the map itself."""
        return self


@dataclass(frozen=True, eq=False)
class Centring:
    """Subtract a fixed mean and scale every row to unit length; a row that equals the mean stays zero.

    Parameters
    ----------
    mean : ndarray of float64, shape (n_features,)

    Examples
    --------
    >>> Centring(np.array([1.0, 0.0])).transform(np.array([[4.0, 4.0], [1.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """

    mean: NDArray[np.float64]

    @property
    def n_inputs(self) -> int:
        """Number of input features."""
        return len(self.mean)

    def transform(self, X: Features) -> Features:
        """Return the centred rows of X in its own precision."""
        out = np.empty(X.shape, X.dtype)
        self.learn(X, out)
        return out

    def learn(self, X: Features, out: Features) -> None:
        """Write the centred rows of X to the head of ``out``; the mean is fixed."""
        if X.shape[1] != len(self.mean) or len(out) < len(X) or out.shape[1] < X.shape[1]:
            raise _misfit(X, self.mean, out)
        if not _centre(read_only(X), read_only(self.mean), out):
            _scale_odd(out[: len(X), : X.shape[1]])

    def freeze(self) -> Centring:
        """Return the map itself."""
        return self


class RunningCentring:
    """Centre every instance by the mean of all instances up to and including it.

    Parameters
    ----------
    mean : ndarray of float64, shape (n_features,)
        Mean of the instances seen, always in double precision.
    n_seen : int

    Examples
    --------
    >>> centring = RunningCentring(np.zeros(2))
    >>> rows = np.empty((2, 2))
    >>> centring.learn(np.array([[1.0, 1.0], [3.0, 1.0]]), out=rows)
    >>> rows
    array([[0., 0.],
           [1., 0.]])
    >>> centring.mean
    array([2., 1.])
    """

    def __init__(self, mean: NDArray[np.float64], n_seen: float = 0) -> None:
        self.mean = mean
        self.n_seen = n_seen

    def learn(self, X: Features, out: Features, weights: NDArray[np.float64] | None = None) -> None:
        """Update the mean row by row, and write the centred rows to the head of ``out``; weights repeat rows."""
        n_rows, n_features = X.shape
        if n_features != len(self.mean) or len(out) < n_rows or out.shape[1] < n_features:
            raise _misfit(X, self.mean, out)
        if weights is None:
            shares = 1.0 / np.arange(self.n_seen + 1.0, self.n_seen + n_rows + 0.5)
            self.n_seen += n_rows
        else:
            seen = self.n_seen + np.cumsum(weights)
            shares = weights / seen
            self.n_seen = float(seen[-1])
        if not _centre_running(read_only(X), self.mean, shares, out, np.empty(n_features, out.dtype)):
            _scale_odd(out[:n_rows, :n_features])

    def freeze(self) -> Centring:
        """Return the map with the current mean."""
        return Centring(self.mean.copy())


StreamFeatures = Identity | Centring | RunningCentring
"""The feature map of a hasher: ``learn(X, out)`` updates it, ``freeze()`` returns the map of an encoder."""


def make_features(preprocess: Any, n_features: int, dtype: DTypeLike = np.float64) -> StreamFeatures:
    """Build the map that ``preprocess`` names: "running", "unit" (length, not centred), "none", or a fixed mean.

    Examples
    --------
    >>> make_features("none", 3)
    Identity()
    """
    if isinstance(preprocess, str):
        check_choice("preprocess", preprocess, ("running", "unit", "none"))
        if preprocess == "none":
            return Identity()
        return (RunningCentring if preprocess == "running" else Centring)(np.zeros(n_features))
    try:
        mean = np.array(preprocess, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"preprocess={preprocess!r} is not 'running', 'unit', 'none' or a mean vector."
        ) from error
    if mean.shape != (n_features,):
        raise InvalidInputError(f"preprocess is a mean of shape {mean.shape}; X needs ({n_features},).")
    if not (np.abs(mean) <= np.finfo(dtype).max / 4.0).all():
        raise InvalidInputError(
            f"preprocess is a mean that contains NaN, inf or values too large for {np.dtype(dtype)}."
        )
    return Centring(mean)


def _misfit(X: Features, mean: NDArray[np.float64], out: Features) -> InvalidInputError:
    """Return the error of shapes that do not fit: compiled loops do not check."""
    return InvalidInputError(
        f"X of shape {X.shape}, a mean of shape {mean.shape} and an output of shape {out.shape} do not fit; the mean "
        "has one value per feature, and the output holds all rows."
    )


def _scale_odd(rows: Features) -> None:
    """Scale the rows that the loops below leave alone, in place: those that are very short or long, but not zero."""
    with np.errstate(over="ignore"):
        squares = np.square(rows, dtype=np.float64).sum(axis=1)
    usual = (squares > 2.0 * MIN_SQUARES) & (squares < MAX_SQUARES / 2.0)  # the loops add in another order
    for i in np.flatnonzero(~usual):
        row = rows[i].astype(np.float64)  # the scale of a very short row is beyond single precision
        if row.any():
            row /= np.abs(row).max()
            rows[i] = row / np.linalg.norm(row)


@kernel(fastmath={"contract", "reassoc", "nsz"})
def _centre(X: Any, mean: Any, out: Any) -> bool:
    n_rows, n_features = X.shape
    all_usual = True
    for i in range(n_rows):
        x, row = X[i], out[i]
        squares = 0.0
        for f in range(n_features):
            centred = x[f] - mean[f]
            row[f] = centred
            squares += centred * centred
        is_usual = (squares > MIN_SQUARES) & (squares < MAX_SQUARES)
        if is_usual:
            scale = row.dtype.type(1.0 / np.sqrt(squares))
            for f in range(n_features):
                row[f] *= scale
        all_usual &= is_usual
    return all_usual


@kernel()
def _centre_running(X: Any, mean: Any, shares: Any, out: Any, spare: Any) -> bool:
    n_rows = X.shape[0]
    all_usual = True
    for i in range(0, n_rows, 2):
        x1, share1, out1 = X[i], 0.0, spare  # the last row has no second
        if i + 1 < n_rows:
            x1, share1, out1 = X[i + 1], shares[i + 1], out[i + 1]
        all_usual &= _centre_pair(X[i], x1, mean, shares[i], share1, out[i], out1)
    return all_usual


@kernel(fastmath={"contract", "reassoc", "nsz"}, inner=True)
def _centre_pair(x0: Any, x1: Any, mean: Any, share0: float, share1: float, out0: Any, out1: Any) -> bool:
    """Move the mean by two rows, and write them less the mean, at unit length: it is read and written once for both."""
    n_features = x0.shape[0]
    squares0, squares1 = 0.0, 0.0
    for f in range(n_features):
        mean0 = mean[f] + (x0[f] - mean[f]) * share0
        mean1 = mean0 + (x1[f] - mean0) * share1
        mean[f] = mean1
        centred0, centred1 = x0[f] - mean0, x1[f] - mean1
        out0[f], out1[f] = centred0, centred1
        squares0 += centred0 * centred0
        squares1 += centred1 * centred1
    is_usual0 = (squares0 > MIN_SQUARES) & (squares0 < MAX_SQUARES)
    is_usual1 = (squares1 > MIN_SQUARES) & (squares1 < MAX_SQUARES)
    scale0 = out0.dtype.type(1.0 / np.sqrt(squares0) if is_usual0 else 1.0)
    scale1 = out1.dtype.type(1.0 / np.sqrt(squares1) if is_usual1 else 1.0)
    for f in range(n_features):
        out0[f] *= scale0
    for f in range(n_features):
        out1[f] *= scale1
    return is_usual0 & is_usual1
