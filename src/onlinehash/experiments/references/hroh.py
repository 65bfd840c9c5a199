"""Reference that stores the class predicted by HROH."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onlinehash.experiments.references._base import Reference, ReferenceEncoder, class_bits, class_encoder
from onlinehash.hashers import HROH
from onlinehash.types import Features, Labels


class HROHReference(Reference):
    """Store the class that HROH predicts: the one with the highest of the scores that its codes are computed from.

    Parameters
    ----------
    preprocess : as in HROH
    random_state : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> HROHReference("unit").partial_fit(X, y).snapshot().encode(X[:2])
    array([[1],
           [2]], dtype=uint8)
    """

    def __init__(self, preprocess: Any = "unit", *, random_state: int = 0) -> None:
        super().__init__(preprocess)
        self._hasher = HROH(8, sharpness=1.0, assignment="arrival", preprocess=preprocess, random_state=random_state)

    stored_bits = staticmethod(class_bits)

    def partial_fit(self, X: Features, y: Labels | None = None) -> HROHReference:
        """Learn from the next rows of the stream; NaN is a missing label."""
        if y is not None:
            self._hasher.partial_fit(X, y)
        return self

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder to the class of the highest score, one-hot."""
        return class_encoder(replace(self._hasher.snapshot(), codewords=None))
