"""Hashers that take sample weights."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike

from onlinehash.hashers._base import OnlineHasher


class WeightedHasher(OnlineHasher):
    """Base class of methods that take ``sample_weight``.

    Examples
    --------
    >>> from onlinehash import HCOH, HROH
    >>> issubclass(HROH, WeightedHasher), HROH.takes_weights, HCOH.takes_weights
    (True, True, False)
    """

    takes_weights: ClassVar[bool] = True

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Discard what was learned and learn from X; see :meth:`partial_fit`."""
        return self._fit(X, y, sample_weight)

    def partial_fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from the next instances of the stream: one row or many.

        Parameters
        ----------
        X, y : as in every hasher
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights, not all of them 0. A row of weight 2 adds as much to the sums as two rows, and a row
            of weight 0 is left out. Only the sums are weighted: rows are counted, and with ``preprocess="running"``
            averaged, as single rows, because the mean moves between two equal rows, which one row of weight 2 cannot
            repeat.
        """
        return self._partial_fit(X, y, sample_weight)
