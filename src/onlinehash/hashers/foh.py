"""FOH: fast online hashing with multi-label projection (Jia et al., AAAI 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onlinehash._validation import check_positive
from onlinehash.encoders import Encoder
from onlinehash.hashers._batches import BatchHasher
from onlinehash.hashers._linear import LinearHasher
from onlinehash.hashers._numbering import Numbering, WithNumberedClasses
from onlinehash.hashers._traits import Traits
from onlinehash.types import Features, Labels


@dataclass(eq=False, repr=False, kw_only=True)
class FOH(WithNumberedClasses, LinearHasher, BatchHasher):
    """Learn codes of every new batch from their similarity to all earlier items and from their labels.

    :class:`BSODH` with two additions: codes are also regressed on the labels, and the hash functions are the mean over
    all batches. For a batch with features X, one-hot labels L and codes B, and earlier items with codes E::

        Q = r S E + sigma X W + theta L P
        for k = 1..r:   b_k <- sign(q_k - sum over j != k of b_j (e_j^T e_k))
        E <- sign(2 (r S^T B + mu L_e P) - E B^T B)
        P <- (theta L^T L + mu L_e^T L_e + tau I)^-1 (theta L^T B + mu L_e^T E)
        W <- sigma (sigma X^T X + lambda I)^-1 X^T B;   codes = sign(x mean(W))

    with S = eta_s for equal labels and -eta_d for others. Costs O(n_features^2 + n_bits^2) per instance. Earlier items
    of the same class and code change together, so each such group is kept once.

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes ("r").
    batch_size : int, default=2000
        Number of instances per batch ("n_t"). The first batch is only hashed, at random.
    similar_weight : float, default=1.6
        "eta_s".
    dissimilar_weight : float, default=0.2
        "eta_d".
    fit_weight : float, default=0.8
        Weight of X W = B ("sigma").
    label_weight : float, default=1.2
        Weight of L P = B ("theta").
    earlier_label_weight : float, default=0.5
        The same for the earlier items ("mu").
    regularisation : float, default=0.6
        Ridge of the regression on the features ("lambda").
    label_regularisation : float, default=0.6
        Ridge of the regression on the labels ("tau").
    preprocess, init, random_state, output
        As in :class:`HCOH`.

    References
    ----------
    W. Jia, Y. Cao, J. Liu, J. Gui. Fast Online Hashing with Multi-Label Projection. AAAI 2023.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from onlinehash import FOH
    >>> X, y = load_digits(return_X_y=True)
    >>> FOH(n_bits=16, batch_size=200, random_state=0).partial_fit(X, y).transform(X).shape
    (1797, 2)
    """

    name: ClassVar[str] = "foh"
    traits: ClassVar[Traits] = Traits(
        takes="batches of 2000",
        cost="O(d^2 + r^2)",
        memory="O(d r), and r per group of equal codes of a class",
        shines="large batches, few classes",
    )

    whole_batches = True  # a regression uses one batch only, and all batches have the same weight in the mean
    _saved = ("weights", "sum", "label_codes", "codes", "classes_of", "members")

    batch_size: int = 2000
    similar_weight: float = 1.6
    dissimilar_weight: float = 0.2
    fit_weight: float = 0.8
    label_weight: float = 1.2
    earlier_label_weight: float = 0.5
    regularisation: float = 0.6
    label_regularisation: float = 0.6

    def _start(self, n_features: int) -> None:
        super()._start(n_features)
        weights = ("similar_weight", "fit_weight", "label_weight", "earlier_label_weight")
        for name in (*weights, "regularisation", "label_regularisation"):
            check_positive(name, getattr(self, name))
        if self.dissimilar_weight != 0:
            check_positive("dissimilar_weight", self.dissimilar_weight)
        self._start_weights(n_features)
        self._sum = self._weights.astype(np.float64)
        self._numbering = Numbering()
        self._label_codes = np.zeros((0, self.n_bits))  # "P"
        # Groups of earlier items of equal class and code, in order of their first items.
        self._members = np.zeros(0, np.int64)
        self._classes_of = np.zeros(0, np.int64)
        self._codes = np.zeros((0, self.n_bits))

    def _learn_batch(self, rows: Features, labels: Labels) -> None:
        numbers = self._numbering.numbers(labels)
        self._draw_label_codes()
        X = rows.astype(np.float64)
        codes = _signs(X @ self._weights)
        if len(self._members):
            codes = self._discrete_codes(X, codes, numbers)
            self._recode_earlier_items(codes, numbers)
            self._project_labels(codes, numbers)
            ridge = self.fit_weight * X.T @ X + self.regularisation * np.eye(X.shape[1])
            weights = np.linalg.solve(ridge, self.fit_weight * X.T @ codes)
            self._weights = weights.astype(self._dtype)
            self._sum += weights
        self._remember(codes, numbers, np.ones(len(codes), np.int64))

    def _draw_label_codes(self) -> None:
        """Give new classes a random row of P; every class has a generator of its own."""
        for number in range(len(self._label_codes), len(self._numbering)):
            row = np.random.default_rng([self.seed_, number, 6]).standard_normal((1, self.n_bits))
            self._label_codes = np.vstack([self._label_codes, row / np.linalg.norm(row)])

    def _discrete_codes(self, X: NDArray[Any], codes: NDArray[Any], numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Return the codes of a batch, found bit by bit; a row starts from the code of the first item of its class."""
        known, first = np.unique(self._classes_of, return_index=True)
        start = np.zeros((len(self._numbering), self.n_bits))
        start[known] = self._codes[first]
        codes = np.where(np.isin(numbers, known)[:, None], start[numbers], codes)
        similarity = self.n_bits * self._similarities(self._members[:, None] * self._codes, self._classes_of, numbers)
        wanted = similarity + self.fit_weight * X @ self._weights + self.label_weight * self._label_codes[numbers]
        gram = self._codes.T @ (self._members[:, None] * self._codes)
        np.fill_diagonal(gram, 0.0)
        for k in range(self.n_bits):
            codes[:, k] = _signs(wanted[:, k] - codes @ gram[k])
        return codes

    def _recode_earlier_items(self, codes: NDArray[Any], numbers: NDArray[np.int64]) -> None:
        similarity = self.n_bits * self._similarities(codes, numbers, self._classes_of)
        # Differs from the released code, which subtracts this term: it should pull codes towards their labels.
        labels = self.earlier_label_weight * self._label_codes[self._classes_of]
        recoded = _signs(2 * (similarity + labels) - self._codes @ (codes.T @ codes))
        classes_of, members = self._classes_of, self._members
        self._codes, self._classes_of, self._members = recoded[:0], classes_of[:0], members[:0]
        self._remember(recoded, classes_of, members)

    def _similarities(
        self, codes: NDArray[Any], classes_of: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> NDArray[Any]:
        """Return S times codes: those of rows of classes ``numbers`` with items of classes ``classes_of``."""
        sums = np.zeros((len(self._numbering), self.n_bits))
        np.add.at(sums, classes_of, codes)
        both = self.similar_weight + self.dissimilar_weight
        return np.asarray(both * sums[numbers] - self.dissimilar_weight * sums.sum(axis=0))

    def _project_labels(self, codes: NDArray[Any], numbers: NDArray[np.int64]) -> None:
        """Regress the codes on the labels; classes do not overlap, so that each is a mean of its own."""
        sums, counts = np.zeros((len(self._numbering), self.n_bits)), np.zeros(len(self._numbering))
        np.add.at(sums, numbers, self.label_weight * codes)
        np.add.at(counts, numbers, self.label_weight)
        np.add.at(sums, self._classes_of, self.earlier_label_weight * self._members[:, None] * self._codes)
        np.add.at(counts, self._classes_of, self.earlier_label_weight * self._members)
        self._label_codes = sums / (counts + self.label_regularisation)[:, None]

    def _remember(self, codes: NDArray[Any], numbers: NDArray[np.int64], members: NDArray[np.int64]) -> None:
        """Add items to the groups of equal class and code."""
        classes_of = np.concatenate([self._classes_of, numbers])
        codes = np.vstack([self._codes, codes])
        both = np.column_stack([classes_of, codes])
        _, first, group = np.unique(both, axis=0, return_index=True, return_inverse=True)
        counts = np.bincount(group.ravel(), np.concatenate([self._members, members])).astype(np.int64)
        order = np.argsort(first)
        self._codes, self._classes_of = codes[first[order]], classes_of[first[order]]
        self._members = counts[order]

    def _encoder(self) -> Encoder:
        # The mean but for a factor, on which codes do not depend.
        return Encoder(self._sum.astype(self._dtype), None, self._frozen_features(), self.version_, self.name)


def _signs(values: NDArray[Any]) -> NDArray[np.float64]:
    return np.where(values >= 0, 1.0, -1.0)
