"""LSH: random projections; only the mean is learned."""

from __future__ import annotations

from typing import ClassVar

from onlinehash.hashers._base import Features, Targets, Weights
from onlinehash.hashers._mixins import LinearHasher


class LSH(LinearHasher):
    """Hash by the signs of random projections (Charikar 2002): the baseline for all learners.

    Only the running mean is learned: O(n_features) per instance. Labels are ignored.

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes.
    preprocess, init, random_state, output
        As in :class:`HCOH`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import LSH
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> LSH(n_bits=16, random_state=0).partial_fit(X).transform(X).shape
    (100, 2)
    """

    name: ClassVar[str] = "lsh"
    supervised: ClassVar[bool] = False

    def _start(self, n_features: int) -> None:
        self._start_weights(n_features)

    def _learn(self, X: Features, targets: Targets, weights: Weights) -> None:
        self._preprocessed(X)
