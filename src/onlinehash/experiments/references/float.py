"""Reference that stores the features themselves."""

from __future__ import annotations

from onlinehash.experiments.references._base import Reference, ReferenceEncoder


class FloatReference(Reference):
    """Store the features themselves: exact search by cosine.

    Examples
    --------
    >>> import numpy as np
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
