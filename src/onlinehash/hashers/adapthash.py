"""AdaptHash: adaptive hashing for fast similarity search (Cakir and Sclaroff, ICCV 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onlinehash._internal.validation import check_positive
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers._base import Changeable, Features, Labels, OnlineHasher
from onlinehash.hashers._mixins import BatchHasher, LinearHasher


@dataclass(eq=False, repr=False, kw_only=True)
class AdaptHash(LinearHasher, BatchHasher):
    """Learn from consecutive pairs: correct the most confident wrong bits of a pair, and keep the bits apart.

    For a pair with s = +1 (same label) or -1 and Hamming distance D, the loss is ``max(0, D - (1 - alpha) r)`` for
    s = +1 and ``max(0, alpha r - D)`` for s = -1. If it is positive, the ``ceil(loss)`` most confident wrong bits
    take a gradient step on ``(f(v)^T f(u) - r s)^2``, where f is a sigmoid from -1 to 1 and v, u are the projections;
    all bits are pulled towards orthogonality, and columns are scaled to unit length.

    Costs O(n_features n_bits^2) per pair with a loss, O(n_features n_bits) otherwise.

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes ("r").
    alpha : float, default=0.8
        Desired distance of dissimilar pairs as a fraction of the bits, from 0 to 1. Published: 0.8 for MNIST, 0.9 for
        CIFAR-10 and Places.
    regularisation : float, default=0.01
        Weight of the orthogonality ("lambda"); not multiplied by the learning rate.
    learning_rate : float, default=0.2
        Step size ("eta"). Published: 0.2 for MNIST, 0.1 for CIFAR-10 and Places.
    preprocess, init, random_state, output
        As in :class:`HCOH`.

    References
    ----------
    F. Cakir, S. Sclaroff. Adaptive Hashing for Fast Similarity Search. ICCV 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from onlinehash import AdaptHash
    >>> X, y = load_digits(return_X_y=True)
    >>> AdaptHash(n_bits=16, random_state=0).partial_fit(X, y).transform(X).shape
    (1797, 2)
    """

    name: ClassVar[str] = "adapthash"
    changeable: ClassVar[Changeable] = {**OnlineHasher.changeable, "learning_rate": check_positive}

    whole_batches = True  # nothing can be learned from half a pair
    batch_size = 2
    _saved = ("_weights",)

    alpha: float = 0.8
    regularisation: float = 0.01
    learning_rate: float = 0.2

    def _start(self, n_features: int) -> None:
        if not 0 <= self.alpha <= 1:
            raise InvalidInputError(f"alpha={self.alpha} is not between 0 and 1.")
        if self.regularisation != 0:
            check_positive("regularisation", self.regularisation)
        self._start_weights(n_features)

    def _learn_batch(self, rows: Features, labels: Labels) -> None:
        projections = rows @ self._weights
        bits = projections > 0
        differ = bits[0] != bits[1]
        similar = bool(labels[0] == labels[1])
        distance = int(differ.sum())
        n_bits = self.n_bits
        loss = distance - (1 - self.alpha) * n_bits if similar else self.alpha * n_bits - distance
        if loss <= 0:
            return
        wrong = np.flatnonzero(differ if similar else ~differ)
        confidence = np.abs(projections[:, wrong]).max(axis=0)
        chosen = wrong[np.argsort(-confidence, kind="stable")[: int(np.ceil(loss))]]
        # f(a) = 2 / (1 + exp(-a)) - 1 = tanh(a / 2), and its derivative is (1 - f^2) / 2.
        f = np.tanh(projections / 2)
        slope = (1 - f * f) / 2
        error = 2 * (f[0] @ f[1] - n_bits * (1 if similar else -1))
        weights, gram = self._weights, self._weights.T @ self._weights
        pull = self.regularisation * (gram - np.eye(n_bits, dtype=self._dtype))
        new = weights - weights @ pull
        steps = np.stack([f[1, chosen] * slope[0, chosen], f[0, chosen] * slope[1, chosen]])
        new[:, chosen] -= self._dtype.type(self.learning_rate) * error * (rows.T @ steps)
        self._weights = new / np.linalg.norm(new, axis=0)
