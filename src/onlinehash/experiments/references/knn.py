"""Reference that stores the class of the nearest neighbours among the vectors learned from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._validation import check_positive_int
from onlinehash.codes import pack_bits
from onlinehash.experiments.references._base import KeepingReference, ReferenceEncoder, class_bits
from onlinehash.experiments.streams import chunks
from onlinehash.types import Codes, Features

_SCORES = 1 << 24  # scores in memory at a time


class NeighboursReference(KeepingReference):
    """Store the most frequent class among the nearest vectors, by cosine, that were learned from with a label.

    It keeps the whole stream, and encoding costs a product with all of it. Of equally frequent classes, the one whose
    members have the higher total cosine counts.

    Parameters
    ----------
    preprocess : as in hashers
    n_neighbors : int, default=10

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> NeighboursReference("none", n_neighbors=3).partial_fit(X, y).snapshot().encode(X[:2])  # one bit per class
    array([[1],
           [2]], dtype=uint8)
    """

    def __init__(self, preprocess: Any = "running", *, n_neighbors: int = 10) -> None:
        super().__init__(preprocess)
        self.n_neighbors = check_positive_int("n_neighbors", n_neighbors)

    stored_bits = staticmethod(class_bits)

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder to the class of the nearest neighbours, one-hot."""
        features, kept, labels = self._kept()
        rows, (names, numbers) = _unit(kept), np.unique(labels, return_inverse=True)
        return ReferenceEncoder(lambda X: self._encode(features.transform(X), rows, numbers, len(names)))

    def _encode(self, X: Features, rows: Features, numbers: NDArray[np.intp], n_classes: int) -> Codes:
        n_neighbors = min(self.n_neighbors, len(rows))
        codes = []
        for some in chunks(X, _SCORES, len(rows)):
            scores = _unit(X[some]) @ rows.T
            nearest = np.argpartition(scores, len(rows) - n_neighbors, axis=1)[:, len(rows) - n_neighbors :]
            # A cosine is at most 1, so that its share cannot outweigh another neighbour.
            weights = 1 + (1 + np.take_along_axis(scores, nearest, axis=1)) / (3 * n_neighbors)
            votes = np.zeros((len(scores), n_classes))
            np.add.at(votes, (np.arange(len(scores))[:, np.newaxis], numbers[nearest]), weights)
            codes.append(pack_bits(np.arange(n_classes) == votes.argmax(axis=1)[:, np.newaxis]))
        return np.concatenate(codes)


def _unit(X: Features) -> Features:
    """Return rows scaled to unit length; zero rows stay."""
    X = X.copy()
    for rows in chunks(X):
        lengths = np.linalg.norm(X[rows], axis=1, keepdims=True)
        X[rows] /= np.where(lengths > 0, lengths, 1)
    return X
