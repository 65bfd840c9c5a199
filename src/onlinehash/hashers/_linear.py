"""What linear methods share: one matrix of hash functions, and where it starts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.encoders import Encoder
from onlinehash.exceptions import InvalidInputError
from onlinehash.features import FeatureMap
from onlinehash.hashers._base import OnlineHasher


class LinearHasher(OnlineHasher):
    """Base of methods whose hash functions are the columns of one matrix, ``_weights``."""

    init: Any
    _weights: NDArray[Any]

    def _start_weights(self, n_inputs: int) -> None:
        self._weights = starting_weights(self.init, n_inputs, self.n_bits, self.seed_).astype(self._dtype)

    @property
    def weights_(self) -> NDArray[Any]:
        """Hash functions, one a column, in the precision of the first batch; whole batches only."""
        self._demand_learned()
        return self._weights.copy()

    def _frozen_features(self) -> FeatureMap:
        """Return what happens to a row before it is projected, as it is now."""
        return self._features.freeze()

    def _encoder(self) -> Encoder:
        return Encoder(self._weights.copy(), None, self._frozen_features(), self.version_, self.name)


def starting_weights(init: Any, n_inputs: int, n_bits: int, seed: int) -> NDArray[np.float64]:
    """Return the given matrix, or Gaussian columns of unit length ("LSH").

    Examples
    --------
    >>> np.linalg.norm(starting_weights("random", 5, 2, seed=0), axis=0)
    array([1., 1.])
    """
    if isinstance(init, str):
        if init != "random":
            raise InvalidInputError(f"init={init!r} is not 'random' or a matrix of shape (n_features, n_bits).")
        weights = np.random.default_rng([seed, n_inputs, n_bits]).standard_normal((n_inputs, n_bits))
        return np.asarray(weights / np.linalg.norm(weights, axis=0))
    weights = np.asarray(init, np.float64)
    if weights.shape != (n_inputs, n_bits):
        raise InvalidInputError(f"init has shape {weights.shape}; (n_features, n_bits) is ({n_inputs}, {n_bits}).")
    if not np.isfinite(weights).all():
        raise InvalidInputError("init contains NaN or inf.")
    return weights
