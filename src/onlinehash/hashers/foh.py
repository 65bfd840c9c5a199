"""FOH: fast online hashing with multi-label projection (Jia et al., AAAI 2023)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onlinehash.hashers._base import Encoder
from onlinehash.hashers._mixins import Matrix
from onlinehash.hashers.bsodh import BSODH


@dataclass(eq=False, repr=False, kw_only=True)
class FOH(BSODH):
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

    _saved = (
        "_numbers", "_weights", "_sum", "_label_codes", "_codes", "_classes_of", "_members"
    )  # fmt: skip
    _positive = (*BSODH._positive, "label_weight", "earlier_label_weight", "label_regularisation")

    similar_weight: float = 1.6
    fit_weight: float = 0.8
    label_weight: float = 1.2
    earlier_label_weight: float = 0.5
    regularisation: float = 0.6
    label_regularisation: float = 0.6

    def _start(self, n_features: int) -> None:
        super()._start(n_features)
        self._sum = self._weights.astype(np.float64)
        self._label_codes = np.zeros((0, self.n_bits))  # "P"

    def _set_weights(self, weights: NDArray[Any]) -> None:
        super()._set_weights(weights)
        self._sum += weights

    def _number(self, labels: Iterable[int | str]) -> NDArray[np.int64]:
        """Give new classes a random row of P, too; every class has a generator of its own."""
        numbers = super()._number(labels)
        for number in range(len(self._label_codes), len(self._numbers)):
            row = np.random.default_rng([self.seed_, number, 6]).standard_normal((1, self.n_bits))
            self._label_codes = np.vstack([self._label_codes, row / np.linalg.norm(row)])
        return numbers

    def _wanted_codes(self, sums: Matrix) -> Matrix:
        """Do as BSODH, and ask for the codes of the labels."""
        return super()._wanted_codes(sums) + self.label_weight * self._label_codes

    def _recode_earlier_items(self, codes: Matrix, numbers: NDArray[np.int64]) -> None:
        """Update the codes of the groups by their similarity to the batch, then regress all codes on the labels."""
        similarity = self.n_bits * self._similarities(self._sums_of(codes, numbers))
        # Differs from the released code, which subtracts the second term: it should pull codes towards their labels.
        pull = (similarity + self.earlier_label_weight * self._label_codes)[self._classes_of]
        recoded = np.where(2 * pull - self._codes @ (codes.T @ codes) >= 0, 1.0, -1.0)
        self._group(recoded, self._classes_of, self._members)
        # Classes do not overlap, so that the regression is a mean per class.
        sums = self._sums_of(self.label_weight * codes, numbers)
        np.add.at(sums, self._classes_of, self.earlier_label_weight * self._members[:, None] * self._codes)
        counts = np.zeros(len(self._numbers))
        np.add.at(counts, numbers, self.label_weight)
        np.add.at(counts, self._classes_of, self.earlier_label_weight * self._members)
        self._label_codes = sums / (counts + self.label_regularisation)[:, None]

    def _encoder(self) -> Encoder:
        # The mean but for a factor, on which codes do not depend.
        return Encoder(self._sum.astype(self._dtype), None, self._frozen_features(), self.version_, self.name)
