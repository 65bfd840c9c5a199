"""Reference that stores the signs of the features."""

from __future__ import annotations

import numpy as np

from onlinehash.codes import pack_signs
from onlinehash.experiments.references._base import Reference, ReferenceEncoder
from onlinehash.experiments.streams import chunks


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
        return ReferenceEncoder(lambda X: np.concatenate([pack_signs(features.transform(X[i])) for i in chunks(X)]))
