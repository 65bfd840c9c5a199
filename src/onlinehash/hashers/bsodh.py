"""BSODH: balanced similarity for online discrete hashing (Lin et al., AAAI 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import check_positive
from onlinehash.hashers._base import Features, Labels
from onlinehash.hashers._mixins import BatchHasher, LinearHasher, Matrix, WithNumberedClasses


@dataclass(eq=False, repr=False, kw_only=True)
class BSODH(WithNumberedClasses, LinearHasher, BatchHasher):
    """Learn codes of every new batch from their similarity to all earlier items, then regress them on the features.

    For a batch with features X and codes B, and earlier items with codes E, the inner products ``B E^T`` should be
    ``eta_s r`` where labels agree and ``-eta_d r`` where they differ, and X W should be B. Codes are found bit by bit
    (discrete cyclic descent), then those of the earlier items are updated, and W is a ridge regression.

    Costs O(n_features^2 + n_bits^2) per instance. The paper keeps all earlier items. Those of the same class and code
    change together, so each such group is kept once: O((n_classes + batch_size) n_bits) memory, and the same result.

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

    whole_batches = True  # the regression uses one batch only: a few rows would replace what a whole batch taught
    _saved: ClassVar[tuple[str, ...]] = ("_numbers", "_weights", "_codes", "_classes_of", "_members")
    _positive: ClassVar[tuple[str, ...]] = ("similar_weight", "fit_weight", "regularisation")

    batch_size: int = 2000
    similar_weight: float = 1.2
    dissimilar_weight: float = 0.2
    fit_weight: float = 0.5
    regularisation: float = 0.3

    def _start(self, n_features: int) -> None:
        for name in self._positive:
            check_positive(name, getattr(self, name))
        if self.dissimilar_weight != 0:
            check_positive("dissimilar_weight", self.dissimilar_weight)
        self._start_weights(n_features)
        self._numbers = {}
        # Groups of earlier items of equal class and code, in order of their first items.
        self._members = np.zeros(0, np.int64)
        self._classes_of = np.zeros(0, np.int64)
        self._codes = np.zeros((0, self.n_bits))

    def _learn_batch(self, rows: Features, labels: Labels) -> None:
        numbers = self._number(labels.tolist())
        X = rows.astype(np.float64)
        codes = _signs(X @ self._weights)
        if len(self._codes):
            known, first = np.unique(self._classes_of, return_index=True)
            start = np.zeros((len(self._numbers), self.n_bits))
            start[known] = self._codes[first]  # a row starts from the code of the first item of its class
            codes = np.where(np.isin(numbers, known)[:, None], start[numbers], codes)
            repeated = self._members[:, None] * self._codes
            wanted = self._wanted_codes(self._sums_of(repeated, self._classes_of))[numbers]
            codes = descend(codes, wanted + self.fit_weight * X @ self._weights, self._codes.T @ repeated)
            self._recode_earlier_items(codes, numbers)
            ridge = self.fit_weight * X.T @ X + self.regularisation * np.eye(X.shape[1])
            self._set_weights(np.linalg.solve(ridge, self.fit_weight * X.T @ codes))
        self._group(
            np.vstack([self._codes, codes]),
            np.concatenate([self._classes_of, numbers]),
            np.concatenate([self._members, np.ones(len(codes), np.int64)]),
        )

    def _set_weights(self, weights: NDArray[Any]) -> None:
        self._weights = weights.astype(self._dtype)

    def _wanted_codes(self, sums: Matrix) -> Matrix:
        """Return what the labels of a batch ask for, one row per class, by the sums of the codes of earlier items."""
        return self.n_bits * self._similarities(sums)

    def _recode_earlier_items(self, codes: Matrix, numbers: NDArray[np.int64]) -> None:
        """Update the code of all earlier items of every class by their similarity to the batch."""
        recoded = _signs(self._similarities(self._sums_of(codes, numbers)))
        self._group(recoded[self._classes_of], self._classes_of, self._members)

    def _sums_of(self, codes: Matrix, numbers: NDArray[np.int64]) -> Matrix:
        """Return the sum of the codes of each class."""
        sums = np.zeros((len(self._numbers), self.n_bits))
        np.add.at(sums, numbers, codes)
        return sums

    def _similarities(self, sums: Matrix) -> Matrix:
        """Return the rows of S times the codes of items, whose sums per class are given, one row per class."""
        both = self.similar_weight + self.dissimilar_weight
        return np.asarray(both * sums - self.dissimilar_weight * sums.sum(axis=0))

    def _group(self, codes: Matrix, classes_of: NDArray[np.int64], members: NDArray[np.int64]) -> None:
        """Keep items as groups of equal class and code."""
        both = np.column_stack([classes_of, codes])
        _, first, group = np.unique(both, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        self._codes, self._classes_of = codes[first[order]], classes_of[first[order]]
        self._members = np.bincount(group.ravel(), members).astype(np.int64)[order]


def descend(codes: Matrix, wanted: Matrix, gram: Matrix) -> Matrix:
    """Return codes found bit by bit (discrete cyclic descent), each given the others."""
    np.fill_diagonal(gram, 0.0)
    for k in range(codes.shape[1]):
        codes[:, k] = _signs(wanted[:, k] - codes @ gram[k])
    return codes


def _signs(values: NDArray[Any]) -> Matrix:
    return np.where(values >= 0, 1.0, -1.0)
