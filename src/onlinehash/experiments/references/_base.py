"""Base class of references."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash.codes import pack_bits
from onlinehash.encoders import Encoder
from onlinehash.exceptions import NotLearnedError
from onlinehash.experiments.streams import chunks, labelled_rows
from onlinehash.features import FeatureMap, StreamFeatures, make_features
from onlinehash.types import Features, Labels


class Reference(ABC):
    """Base class of references: keeps the running mean of the stream."""

    def __init__(self, preprocess: Any = "running") -> None:
        self.preprocess = preprocess
        self._features: StreamFeatures | None = None

    @staticmethod
    def stored_bits(n_features: int, n_classes: int) -> int | None:
        """Return the bits stored per item; None if it takes ``n_bits`` and ``random_state`` as a hasher does."""
        return None

    def partial_fit(self, X: Features, y: Labels | None = None) -> Reference:
        """Learn from the next rows of the stream; NaN is a missing label."""
        if self._features is None:
            self._features = make_features(self.preprocess, X.shape[1])
        for rows in chunks(X):
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


class KeepingReference(Reference):
    """Base class of references that keep all labelled rows of the stream."""

    def __init__(self, preprocess: Any = "running") -> None:
        super().__init__(preprocess)
        self._rows: list[Features] = []
        self._labels: list[Labels] = []

    def partial_fit(self, X: Features, y: Labels | None = None) -> Reference:
        """Keep the next labelled rows of the stream; NaN is a missing label."""
        super().partial_fit(X, y)
        if y is not None:
            X, y = labelled_rows(X, y)
            self._rows.append(X.copy())
            self._labels.append(y.copy())
        return self

    def _kept(self) -> tuple[FeatureMap, Features, Labels]:
        """Return the current preprocessing, and all rows kept, preprocessed, with their labels."""
        features = self._frozen_features()
        if not sum(map(len, self._labels)):
            raise NotLearnedError(f"This {type(self).__name__} has not seen a label yet.")
        rows = np.concatenate([features.transform(part) for part in self._rows])
        return features, rows, np.concatenate(self._labels)


class ReferenceEncoder(NamedTuple):
    """Encode rows by a function: to packed codes, or to features that :func:`cosine_quality` ranks."""

    encode: Callable[[Features], NDArray[Any]]


def class_encoder(scores: Encoder) -> ReferenceEncoder:
    """Return an encoder to the class of the highest score, one-hot."""
    classes = np.arange(scores.n_bits)
    return ReferenceEncoder(lambda X: pack_bits(classes == scores.project(X).argmax(axis=1)[:, np.newaxis]))


def class_bits(n_features: int, n_classes: int) -> int:
    """Return the bits of a class index."""
    return max(1, (n_classes - 1).bit_length())
