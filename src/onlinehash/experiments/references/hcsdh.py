"""HC-SDH: kernel ridge regression on Hadamard codes, from all rows at once (Koutaki, Shirai, Ambai, 2018)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve

from onlinehash._validation import check_positive, check_positive_int
from onlinehash.codebooks import ClassTable, make_codebook
from onlinehash.encoders import Encoder
from onlinehash.experiments.references._base import KeepingReference, ReferenceEncoder
from onlinehash.features import Anchors, squared_distances

_ROWS = 2000  # rows mapped at a time


class HCSDHReference(KeepingReference):
    """Learn from all rows of the stream at once: Hadamard codewords, regressed on Gaussian similarities to anchors.

    The batch method that HROH is closest to: supervised discrete hashing has an exact solution if the codes of the
    classes are rows of a Hadamard matrix. It keeps the whole stream, since its anchors are drawn from all of it.

    Parameters
    ----------
    preprocess : as in hashers
    n_bits : int, default=32
    n_anchors : int, default=1000
        Drawn at random from the stream.
    regularisation : float, default=1.0
        The ridge ("lambda").
    codebook : "hadamard", or mapping from label to -1/+1 codeword, default="hadamard"
    random_state : int, default=0

    References
    ----------
    G. Koutaki, K. Shirai, M. Ambai. Hadamard Coding for Supervised Discrete Hashing. IEEE Transactions on Image
    Processing 27(11), 2018.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> HCSDHReference("none", n_bits=8).partial_fit(X, y).snapshot().encode(X[:2]).shape
    (2, 1)
    """

    def __init__(
        self,
        preprocess: Any = "running",
        *,
        n_bits: int = 32,
        n_anchors: int = 1000,
        regularisation: float = 1.0,
        codebook: Any = "hadamard",
        random_state: int = 0,
    ) -> None:
        super().__init__(preprocess)
        self.n_anchors = check_positive_int("n_anchors", n_anchors)
        self.regularisation = check_positive("regularisation", regularisation)
        self.random_state = random_state
        self._codebook = make_codebook(codebook, n_bits, random_state)

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder fitted to all rows so far."""
        features, rows, labels = self._kept()
        classes = ClassTable(self._codebook)
        classes.admit(labels)
        targets = classes.targets(labels)
        chosen = rows[np.random.default_rng([self.random_state, 9]).permutation(len(rows))[: self.n_anchors]]
        width = 2 * (float(squared_distances(rows[:_ROWS], chosen).mean()) or 1.0)
        anchors = Anchors(chosen, width, constant=True, inner=features)  # type: ignore[arg-type]
        plain = Anchors(chosen, width, constant=True)
        n = plain.n_outputs
        gram, cross = self.regularisation * np.eye(n), np.zeros((n, targets.shape[1]))
        for start in range(0, len(rows), _ROWS):
            kernel = plain.transform(rows[start : start + _ROWS].astype(np.float64))
            gram += kernel.T @ kernel
            cross += kernel.T @ targets[start : start + _ROWS]
        weights = solve(gram, cross, assume_a="pos").astype(rows.dtype)
        return ReferenceEncoder(Encoder(weights, None, anchors).encode)
