"""BSODH: balanced similarity for online discrete hashing (Lin et al., AAAI 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onlinehash._validation import check_positive
from onlinehash.hashers._batches import BatchHasher
from onlinehash.hashers._linear import LinearHasher
from onlinehash.hashers._numbering import Numbering, WithNumberedClasses
from onlinehash.hashers._traits import Traits
from onlinehash.types import Features, Labels


@dataclass(eq=False, repr=False, kw_only=True)
class BSODH(WithNumberedClasses, LinearHasher, BatchHasher):
    """Learn codes of every new batch from their similarity to all earlier items, then regress them on the features.

    For a batch with features X and codes B, and earlier items with codes E, the inner products ``B E^T`` should be
    ``eta_s r`` where labels agree and ``-eta_d r`` where they differ, and X W should be B. Codes are found bit by bit
    (discrete cyclic descent), then those of the earlier items are updated, and W is a ridge regression.

    Costs O(n_features^2 + n_bits^2) per instance. The paper keeps all earlier items. They enter only through E^T E
    and, per class, their number and the sum of their codes, so only these are kept: O(n_classes n_bits) memory, and the
    same result.

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes ("r").
    batch_size : int, default=2000
        Number of instances per batch ("n_t"). The first batch is only hashed, at random.
    similar_weight : float, default=1.2
        "eta_s".
    dissimilar_weight : float, default=0.2
        "eta_d"; less than ``similar_weight``, since most pairs are dissimilar.
    fit_weight : float, default=0.5
        Weight of X W = B ("sigma").
    regularisation : float, default=0.3
        Ridge of the regression ("lambda").
    preprocess, init, random_state, output
        As in :class:`HCOH`.

    References
    ----------
    M. Lin, R. Ji, H. Liu, X. Sun, Y. Wu, Y. Wu. Towards Optimal Discrete Online Hashing with Balanced Similarity.
    AAAI 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from onlinehash import BSODH
    >>> X, y = load_digits(return_X_y=True)
    >>> BSODH(n_bits=16, batch_size=200, random_state=0).partial_fit(X, y).transform(X).shape
    (1797, 2)
    """

    name: ClassVar[str] = "bsodh"
    traits: ClassVar[Traits] = Traits(
        takes="batches of 2000", cost="O(d^2 + r^2)", memory="O(d r + classes r)", shines="large batches, few classes"
    )

    whole_batches = True  # the regression uses one batch only: a few rows would replace what a whole batch taught
    _saved = ("weights", "counts", "codes", "sums", "gram")

    batch_size: int = 2000
    similar_weight: float = 1.2
    dissimilar_weight: float = 0.2
    fit_weight: float = 0.5
    regularisation: float = 0.3

    def _start(self, n_features: int) -> None:
        super()._start(n_features)
        for name in ("similar_weight", "fit_weight", "regularisation"):
            check_positive(name, getattr(self, name))
        if self.dissimilar_weight != 0:
            check_positive("dissimilar_weight", self.dissimilar_weight)
        self._start_weights(n_features)
        self._numbering = Numbering()
        self._counts = np.zeros(0)  # earlier items of each class
        self._codes = np.zeros((0, self.n_bits))  # the code of the first of them
        self._sums = np.zeros((0, self.n_bits))  # the sum of their codes
        self._gram = np.zeros((self.n_bits, self.n_bits))  # E^T E

    def _learn_batch(self, rows: Features, labels: Labels) -> None:
        numbers = self._numbering.numbers(labels)
        self._grow(len(self._numbering))
        X = rows.astype(np.float64)
        codes = np.where(X @ self._weights >= 0, 1.0, -1.0)
        if self._counts.any():
            codes = self._discrete_codes(X, codes, numbers)
            self._recode_earlier_items(codes, numbers)
            ridge = self.fit_weight * X.T @ X + self.regularisation * np.eye(X.shape[1])
            self._weights = np.linalg.solve(ridge, self.fit_weight * X.T @ codes).astype(self._dtype)
        self._remember(codes, numbers)

    def _discrete_codes(self, X: NDArray[Any], codes: NDArray[Any], numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Return the codes of a batch, found bit by bit; a row starts from the code of an item of its class."""
        known = self._counts[numbers] > 0
        codes[known] = self._codes[numbers[known]]
        similar = self.n_bits * (self.similar_weight + self.dissimilar_weight) * self._sums[numbers]
        dissimilar = self.n_bits * self.dissimilar_weight * self._sums.sum(axis=0)
        wanted = similar - dissimilar + self.fit_weight * X @ self._weights
        gram = self._gram - np.diag(np.diag(self._gram))
        for k in range(self.n_bits):
            codes[:, k] = np.where(wanted[:, k] - codes @ gram[k] >= 0, 1.0, -1.0)
        return codes

    def _recode_earlier_items(self, codes: NDArray[Any], numbers: NDArray[np.int64]) -> None:
        """Update the code of all earlier items of every class by their similarity to the batch."""
        in_batch = np.zeros_like(self._sums)
        np.add.at(in_batch, numbers, codes)
        scores = (self.similar_weight + self.dissimilar_weight) * in_batch
        scores -= self.dissimilar_weight * in_batch.sum(axis=0)
        self._codes = np.where(scores >= 0, 1.0, -1.0)
        self._sums = self._counts[:, None] * self._codes
        self._gram = self._codes.T @ self._sums

    def _remember(self, codes: NDArray[Any], numbers: NDArray[np.int64]) -> None:
        """Add a batch to the earlier items."""
        new, first = np.unique(numbers, return_index=True)
        fresh = self._counts[new] == 0
        self._codes[new[fresh]] = codes[first[fresh]]
        np.add.at(self._counts, numbers, 1)
        np.add.at(self._sums, numbers, codes)
        self._gram += codes.T @ codes

    def _grow(self, n_classes: int) -> None:
        more = n_classes - len(self._counts)
        if more > 0:
            self._counts = np.concatenate([self._counts, np.zeros(more)])
            self._codes = np.vstack([self._codes, np.zeros((more, self.n_bits))])
            self._sums = np.vstack([self._sums, np.zeros((more, self.n_bits))])
