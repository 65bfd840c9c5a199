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
            Non-negative weights; a row of weight 2 counts as much as two rows.
        """
        return self._partial_fit(X, y, sample_weight)
