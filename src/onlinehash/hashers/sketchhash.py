"""SketchHash: online sketching hashing (Leng, Wu, Cheng, Bai, Lu, CVPR 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from onlinehash._internal.validation import check_choice
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers._base import Features, Targets, Weights
from onlinehash.hashers._principal import SketchHasher


@dataclass(eq=False, repr=False, kw_only=True)
class SketchHash(SketchHasher):
    """Hash along the randomly rotated principal directions of a small sketch of the stream.

    Labels are ignored. Of every batch A of b rows with mean m, the rows ``A - m`` and one row
    ``sqrt(n b / (n + b)) (m - mu)`` for the shift of the mean mu of the n rows before are added to a
    frequent-directions sketch B of l rows, so that ``B^T B`` approximates the scatter matrix of the stream. With V the
    first r right singular vectors of B and Q a random rotation, which distributes the variance over the bits, the code
    of x is ``sign((x - mu) V Q)``.

    Costs O(n_features sketch_size) per instance and O(n_features sketch_size^2) per snapshot. Memory is
    O(n_features sketch_size).

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes ("r"); at most the number of features.
    sketch_size : int, default=200
        Rows of the sketch ("l"), even and at least ``n_bits``. Below twice ``n_bits``, directions may be missing, which
        are then random. Published: 200, for Places 100.
    batch_size : int, default=50
        Rows that are centred and sketched together ("b"). Published: 50.
    variant : {"as_described", "as_released"}, default="as_described"
        The published code resets the sketch, the mean and the count after each batch, so that its hash functions are
        those of the last batch, without an intercept; ``"as_released"`` does the same, and needs
        ``batch_size >= n_bits``.
    preprocess, random_state, output
        As in :class:`HCOH`.

    Attributes
    ----------
    sketch_ : ndarray of shape (n_rows, n_features)
        Rows of the sketch in use.
    mean_ : ndarray of shape (n_features,)
        Mean of the preprocessed rows.

    References
    ----------
    C. Leng, J. Wu, J. Cheng, X. Bai, H. Lu. Online Sketching Hashing. CVPR 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from onlinehash.hashers.sketchhash import SketchHash
    >>> X, _ = load_digits(return_X_y=True)
    >>> SketchHash(n_bits=16, random_state=0).partial_fit(X).transform(X).shape
    (1797, 2)
    """

    name: ClassVar[str] = "sketchhash"

    batch_size: int = 50
    variant: str = "as_described"

    def _start(self, n_features: int) -> None:
        super()._start(n_features)
        check_choice("variant", self.variant, ("as_described", "as_released"))
        self._forgets = self.variant == "as_released"
        if self._forgets and self._batch_rows() < self.n_bits:
            raise InvalidInputError(
                f"batch_size={self.batch_size} is less than n_bits={self.n_bits}; variant='as_released' knows only the "
                f"last batch, which has no more directions than rows. Use batch_size={self.n_bits + 1} or more, or "
                "variant='as_described'."
            )

    def _finish(self, X: Features, targets: Targets, weights: Weights) -> None:
        if self._forgets and self._n_batches:
            self._preprocessed(X)
        else:
            super()._finish(X, targets, weights)

    def _learn_batch(self, rows: Features, labels: Any) -> None:
        sketch, moments = self._sketch, self._moments
        if self._forgets:
            sketch.forget()
        if sketch.filled:  # as published, it shrinks once per batch, even if rows are free
            sketch.n_rows = len(sketch.rows)
        centred, shift = moments.add(rows)
        # With "as_released" the shift is a row of zeros, which is appended as published.
        sketch.append(centred if self._n_batches == 0 else np.vstack([centred, shift]))
        if self._forgets:
            moments.mean[:] = 0.0
            moments.n_seen = 0
        self._n_batches += 1
