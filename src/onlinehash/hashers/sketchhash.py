"""SketchHash: online sketching hashing (Leng, Wu, Cheng, Bai, Lu, CVPR 2015)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from onlinehash._validation import check_choice, check_positive_int
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers._base import Traits
from onlinehash.hashers._sketch import SketchHasher
from onlinehash.types import Features


class SketchHash(SketchHasher):
    """Hash along the principal directions of the stream, found from a small sketch of it and rotated at random.

    Labels are ignored. Of every batch A with mean m, the rows ``A - m`` and one row ``sqrt(n b / (n + b)) (m - mu)``
    for the shift of the mean mu of the n rows before go into a frequent-directions sketch B of l rows, so that
    ``B^T B`` stays close to the scatter matrix of the stream. With V the first r right singular vectors of B and Q a
    random rotation, which shares the variance among the bits, the code of x is ``sign((x - mu) V Q)``.

    Costs O(n_features sketch_size) an instance and, whatever the length of the stream, O(n_features sketch_size)
    memory; a snapshot costs O(n_features sketch_size^2).

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes ("r"); at most the number of features.
    sketch_size : int, default=200
        Rows of the sketch ("l"), even and at least ``n_bits``. After a shrink half of them are left: with less than
        twice ``n_bits`` some directions may be missing, and are random then. Published: 200, for Places 100.
    batch_size : int, default=50
        Rows that are centred and sketched together ("b"). Published: 50.
    variant : {"as_described", "as_released"}, default="as_described"
        The published code forgets sketch, mean and count after each batch, so that its hash functions are those of the
        last 50 rows, without an intercept; ``"as_released"`` does the same, and needs ``batch_size >= n_bits``.
    preprocess, random_state, output
        As in :class:`HCOH`.

    Attributes
    ----------
    sketch_ : ndarray of shape (n_rows, n_features)
        Rows of the sketch in use.
    mean_ : ndarray of shape (n_features,)
        Mean of the preprocessed rows.

    Notes
    -----
    As in the published code, a sketch that was full once counts as full at the start of every batch: it shrinks once a
    batch, also where rows are free.

    Ours: the rotation, drawn anew for every batch as published, is made only when a snapshot asks for it, and such that
    codes do not depend on the signs of singular vectors. Directions that the rows seen so far do not determine are
    random. Rows that do not fill a batch are learned by a snapshot as a shorter one; ``"as_released"``, for which they
    would be all that is known, leaves them out after the first batch.

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
    traits: ClassVar[Traits] = Traits(
        takes="batches of 50",
        cost="O(d sketch_size)",
        memory="O(d sketch_size)",
        shines="no labels, many features",
    )
    supervised: ClassVar[bool] = False

    def __init__(
        self,
        n_bits: int = 32,
        *,
        sketch_size: int = 200,
        batch_size: int = 50,
        variant: str = "as_described",
        preprocess: str | ArrayLike = "running",
        random_state: Any = None,
        output: str = "codes",
    ) -> None:
        self.n_bits = n_bits
        self.sketch_size = sketch_size
        self.batch_size = batch_size
        self.variant = variant
        self.preprocess = preprocess
        self.random_state = random_state
        self.output = output

    def _start(self, n_features: int) -> None:
        super()._start(n_features)
        check_choice("variant", self.variant, ("as_described", "as_released"))
        if self._forgets() and self._batch_rows() < self.n_bits:
            raise InvalidInputError(
                f"batch_size={self.batch_size} is less than n_bits={self.n_bits}; variant='as_released' knows only the "
                f"last batch, which has no more directions than rows. Use batch_size={self.n_bits + 1} or more, or "
                "variant='as_described'."
            )

    def _batch_rows(self) -> int:
        return check_positive_int("batch_size", self.batch_size)

    def _forgets(self) -> bool:
        return self.variant == "as_released"

    def _is_waiting(self) -> bool:
        return super()._is_waiting() and not (self._forgets() and self._n_batches)

    def _sketch_batch(self, rows: Features) -> None:
        sketch, moments = self._sketch, self._moments
        if self._forgets():
            sketch.forget()
        if sketch.filled:
            sketch.n_rows = len(sketch.rows)
        centred, shift = moments.add(rows)
        # As released, the shift is a row of zeros there: it takes its place in the sketch all the same.
        sketch.append(centred if self._n_batches == 0 else np.vstack([centred, shift]))
        if self._forgets():
            moments.mean[:] = 0.0
            moments.n_seen = 0
