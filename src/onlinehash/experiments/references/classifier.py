"""Reference that stores the class predicted by a linear classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve

from onlinehash._validation import check_positive
from onlinehash.encoders import Encoder
from onlinehash.exceptions import NotLearnedError
from onlinehash.experiments.references._base import Reference, ReferenceEncoder, class_bits, class_encoder
from onlinehash.experiments.streams import labelled_rows
from onlinehash.types import Features, Labels


class ClassifierReference(Reference):
    """Store the predicted class only: items of the class predicted for the query are found first.

    The classifier is ridge regression on the classes from the statistics of the stream, A = sum z z^T and
    S_c = sum of z over class c, with z the features and a constant: W = (A + lambda I)^-1 S^T. The order
    of the stream matters only through the running mean. Costs O(n_features^2) per instance.

    Parameters
    ----------
    preprocess : as in hashers
    regularisation : float, default=1.0
        The ridge ("lambda").

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> ClassifierReference("none").partial_fit(X, y).snapshot().encode(X[:2])  # one bit per class
    array([[1],
           [2]], dtype=uint8)
    """

    def __init__(self, preprocess: Any = "running", *, regularisation: float = 1.0) -> None:
        super().__init__(preprocess)
        self.regularisation = check_positive("regularisation", regularisation)
        self._gram: NDArray[np.float64] | None = None
        self._sums: dict[Any, NDArray[np.float64]] = {}

    stored_bits = staticmethod(class_bits)

    def _learn(self, X: Features, y: Labels | None) -> None:
        if y is None:
            return
        X, labels = labelled_rows(X, y)
        inputs = np.hstack([X.astype(np.float64), np.ones((len(X), 1))])
        if self._gram is None:
            self._gram = np.zeros((inputs.shape[1], inputs.shape[1]))
        self._gram += inputs.T @ inputs
        for label in np.unique(labels).tolist():
            self._sums[label] = self._sums.get(label, 0.0) + inputs[labels == label].sum(axis=0)

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder to the predicted class, one-hot: the Hamming distance is 0 for the same class."""
        features = self._frozen_features()
        if self._gram is None or not self._sums:
            raise NotLearnedError("This ClassifierReference has not seen a label yet.")
        ridge = self._gram + self.regularisation * np.eye(len(self._gram))
        weights = solve(ridge, np.array(list(self._sums.values())).T, assume_a="pos")
        return class_encoder(Encoder(weights[:-1], weights[-1], features))
