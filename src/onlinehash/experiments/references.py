"""References: methods to compare hashers with, whose size does not depend on a number of bits.

They learn like hashers, by ``partial_fit`` and ``snapshot``, from the same features: centred by the running mean of the
stream and scaled to unit length, or unchanged if the split has done that already.

========================  ==============================================  ===============================
name in a plan            stored per item                                 bits per item
========================  ==============================================  ===============================
``reference:float``       its features; ranked by cosine                  32 per feature
``reference:sign``        the signs of its features                       1 per feature
``reference:classifier``  the class that a linear classifier predicts     log2 of the classes, rounded up
``reference:hroh``        the class of HROH's highest score               log2 of the classes, rounded up
========================  ==============================================  ===============================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve

from onlinehash._validation import check_positive
from onlinehash.codes import pack_bits, pack_signs
from onlinehash.encoders import Encoder
from onlinehash.exceptions import NotLearnedError
from onlinehash.features import FeatureMap, StreamFeatures, make_features
from onlinehash.hashers import HROH
from onlinehash.types import Features, Labels

_CHUNK = 1 << 20  # elements of X processed at a time
_SCORES = 1 << 22  # scores in memory at a time


class Reference(ABC):
    """Base class of references: keeps the running mean of the stream."""

    def __init__(self, preprocess: Any = "running") -> None:
        self.preprocess = preprocess
        self._features: StreamFeatures | None = None

    @staticmethod
    @abstractmethod
    def stored_bits(n_features: int, n_classes: int) -> int:
        """Return the bits stored per item."""

    def partial_fit(self, X: Features, y: Labels | None = None) -> Reference:
        """Learn from the next rows of the stream; NaN is a missing label."""
        if self._features is None:
            self._features = make_features(self.preprocess, X.shape[1])
        for rows in _chunks(X):
            centred = np.empty_like(X[rows])
            self._features.learn(X[rows], centred)
            self._learn(centred, None if y is None else y[rows])
        return self

    @abstractmethod
    def snapshot(self) -> ReferenceEncoder:
        """Return an immutable encoder with the current state."""

    def _learn(self, X: Features, y: Labels | None) -> None:  # noqa: B027 (optional)
        """Learn from centred rows; most references have nothing to learn."""

    def _frozen_features(self) -> FeatureMap:
        if self._features is None:
            raise NotLearnedError(f"This {type(self).__name__} has not learned from any instance yet.")
        return self._features.freeze()


class ReferenceEncoder(NamedTuple):
    """Encode rows by a function: to packed codes, or to features that :func:`cosine_quality` ranks."""

    encode: Callable[[Features], NDArray[Any]]


class FloatReference(Reference):
    """Store the features themselves: exact search by cosine.

    Examples
    --------
    >>> reference = FloatReference().partial_fit(np.eye(3))
    >>> reference.snapshot().encode(np.eye(3)).shape, FloatReference.stored_bits(3, n_classes=2)
    ((3, 3), 96)
    """

    @staticmethod
    def stored_bits(n_features: int, n_classes: int) -> int:
        """Return 32 bits per feature."""
        return 32 * n_features

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder to centred features."""
        return ReferenceEncoder(self._frozen_features().transform)


class SignReference(Reference):
    """Store the sign of every centred feature: a code without learning.

    Examples
    --------
    >>> SignReference("none").partial_fit(np.eye(3)).snapshot().encode(np.array([[1.0, -1.0, 2.0]]))
    array([[5]], dtype=uint8)
    """

    @staticmethod
    def stored_bits(n_features: int, n_classes: int) -> int:
        """Return one bit per feature."""
        return n_features

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder to one bit per feature, packed."""
        features = self._frozen_features()
        return ReferenceEncoder(lambda X: np.concatenate([pack_signs(features.transform(X[i])) for i in _chunks(X)]))


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

    @staticmethod
    def stored_bits(n_features: int, n_classes: int) -> int:
        """Return the bits of a class index."""
        return max(1, (n_classes - 1).bit_length())

    def _learn(self, X: Features, y: Labels | None) -> None:
        if y is None:
            return
        labelled = ~np.isnan(y) if y.dtype.kind == "f" else np.ones(len(y), bool)
        inputs, labels = np.hstack([X[labelled].astype(np.float64), np.ones((labelled.sum(), 1))]), y[labelled]
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
        return _class_encoder(Encoder(weights[:-1], weights[-1], features))


class HROHReference(Reference):
    """Store the class that HROH predicts: the one with the highest of the scores that its codes are computed from.

    Parameters
    ----------
    preprocess : as in HROH
    random_state : int, default=0

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> HROHReference("unit").partial_fit(X, y).snapshot().encode(X[:2])
    array([[1],
           [2]], dtype=uint8)
    """

    def __init__(self, preprocess: Any = "unit", *, random_state: int = 0) -> None:
        super().__init__(preprocess)
        self._hasher = HROH(8, sharpness=1.0, assignment="arrival", preprocess=preprocess, random_state=random_state)

    @staticmethod
    def stored_bits(n_features: int, n_classes: int) -> int:
        """Return the bits of a class index."""
        return ClassifierReference.stored_bits(n_features, n_classes)

    def partial_fit(self, X: Features, y: Labels | None = None) -> HROHReference:
        """Learn from the next rows of the stream; NaN is a missing label."""
        if y is not None:
            self._hasher.partial_fit(X, y)
        return self

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder to the class of the highest score, one-hot."""
        return _class_encoder(replace(self._hasher.snapshot(), codewords=None))


def _class_encoder(scores: Encoder) -> ReferenceEncoder:
    """Return an encoder to the class of the highest score, one-hot."""
    classes = np.arange(scores.n_bits)
    return ReferenceEncoder(lambda X: pack_bits(classes == scores.project(X).argmax(axis=1)[:, np.newaxis]))


REFERENCES: dict[str, type[Reference]] = {
    "reference:float": FloatReference,
    "reference:sign": SignReference,
    "reference:classifier": ClassifierReference,
    "reference:hroh": HROHReference,
}


def cosine_quality(
    queries: Features,
    query_labels: Labels,
    items: Features,
    labels: Labels,
    *,
    map_at: int | None,
    precision_at: int,
) -> tuple[float, float, float]:
    """Return mAP, precision and recall of the ranking by cosine; equal scores stay in storage order.

    Precision and recall are those of the first ``precision_at``. As published, mAP@k divides by the relevant items
    found, and queries without any are left out. Costs O(n_queries n_items (n_features + log n_items)); queries are
    processed in blocks.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", items, items))
    lengths[lengths == 0] = 1
    depth = len(items) if map_at is None else min(map_at, len(items))
    places = np.arange(1, depth + 1)
    averages, precisions, recalls = [], [], []
    n_relevant = Counter(labels.tolist())
    step = max(1, _SCORES // len(items))
    for start in range(0, len(queries), step):
        scores = queries[start : start + step] @ items.T
        scores /= lengths
        for row, label in zip(scores, query_labels[start : start + step], strict=True):
            relevant = labels[_best(row, max(depth, precision_at))] == label
            precisions.append(relevant[:precision_at].mean())
            if n_relevant[label]:
                recalls.append(relevant[:precision_at].sum() / n_relevant[label])
            found = relevant[:depth]
            if found.any():
                averages.append((np.cumsum(found) / places)[found].mean())
    mean_average_precision, precision, recall = (
        float(np.mean(values)) if values else float("nan") for values in (averages, precisions, recalls)
    )
    return mean_average_precision, precision, recall


def _best(scores: NDArray[Any], n: int) -> NDArray[np.intp]:
    """Return the places of the n highest scores, highest first, equal ones in storage order."""
    if n >= len(scores):
        return np.argsort(-scores, kind="stable")
    last = np.partition(scores, len(scores) - n)[len(scores) - n]
    places = np.flatnonzero(scores >= last)  # more than n where the last one ties
    return places[np.argsort(-scores[places], kind="stable")[:n]]


def _chunks(X: Features) -> Iterator[slice]:
    step = max(1, _CHUNK // X.shape[1])
    return (slice(start, start + step) for start in range(0, len(X), step))
