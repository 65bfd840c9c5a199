"""OSH: online supervised hashing with error-correcting codewords (Cakir, Bargal, Sclaroff, CVIU 2017)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.kernels import kernel
from onlinehash._internal.validation import check_choice
from onlinehash.hashers._base import Features, LabelSets, Targets, Weights
from onlinehash.hashers._block import CodewordHasher, subtract_earlier


@dataclass(eq=False, repr=False, kw_only=True)
class OSH(CodewordHasher):
    """Learn to hash every instance to a random codeword of its class, bit by bit by boosting.

    With the codeword c of the class and the margins m_k = w_k^T x, boosting goes through the bits in order; the weight
    of a bit is larger if the bits before it have achieved less::

        a = 0;  for k = 1..r:   w_k <- w_k + eta exp(-a) exp(-c_k m_k) c_k x;   a <- a + c_k (new w_k)^T x

    The hinge loss moves all bits with c_k m_k < 1 by eta c_k x. Both cost O(n_features n_bits) per instance: the
    margins of the new columns follow from m and the length of x, so boosting needs no second pass over the features.

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes.
    learning_rate : float, default=0.1
        Step size ("eta").
    loss : {"boosting", "hinge"}, default="boosting"
        The paper uses boosting; hinge was better on all data sets tried.
    variant : {"as_described", "as_released"}, default="as_described"
        The published code forgets the codewords of the classes after every call, so that all classes are learned
        towards the same one. ``"as_released"`` does the same, to reproduce published tables.
    codebook : "random", "hadamard", or mapping from label to -1/+1 codeword of n_bits, default="random"
    preprocess, init, random_state, output
        As in :class:`HCOH`.

    References
    ----------
    F. Cakir, S. A. Bargal, S. Sclaroff. Online Supervised Hashing. Computer Vision and Image Understanding 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from onlinehash import OSH
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = OSH(n_bits=16, loss="hinge", random_state=0).partial_fit(X[:1000], y[:1000])
    >>> bool(hasher.score(X[1000:], y[1000:]) > 0.7)
    True
    """

    name: ClassVar[str] = "osh"

    learning_rate: float = 0.1
    loss: str = "boosting"
    variant: str = "as_described"
    codebook: str | Mapping[int | str, ArrayLike] = "random"

    def _start(self, n_features: int) -> None:
        check_choice("loss", self.loss, ("boosting", "hinge"))
        check_choice("variant", self.variant, ("as_described", "as_released"))
        super()._start(n_features)

    def _learn(self, X: Features, targets: Targets, weights: Weights) -> None:
        if isinstance(targets, LabelSets):  # one update for every label of a row
            X = np.repeat(X, [len(labels) for labels in targets], axis=0)
            targets = np.array([label for labels in targets for label in labels])
        if self.variant == "as_released":
            targets = np.repeat(np.array(self._classes.labels[:1]), len(X))
        super()._learn(X, targets, weights)

    def _replay(self, projections: NDArray[Any], gram: NDArray[Any], targets: NDArray[Any], batch_size: int) -> None:
        rate = self._dtype.type(self.learning_rate)
        _replay(projections, gram, targets, rate, self.loss == "boosting")


# Keeps the weights finite where the exponential loss diverges: on rows far from unit length, such as raw pixels. Rows
# of unit length never reach it.
_LARGEST_EXPONENT = 30.0


@kernel()
def _replay(projections: Any, gram: Any, targets: Any, rate: Any, boosting: bool) -> None:
    n_rows, n_bits = projections.shape
    for i in range(n_rows):
        subtract_earlier(projections, gram, i, i)
        row = projections[i]
        achieved = 0.0
        for b in range(n_bits):
            c = targets[i, b]
            margin = c * row[b]
            push = rate * (1.0 if margin < 1 else 0.0)
            if boosting:
                push = rate * math.exp(min(-achieved - margin, _LARGEST_EXPONENT))
                achieved += margin + push * gram[i, i]
            row[b] = -push * c
