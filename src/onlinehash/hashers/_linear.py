"""Linear hashers: one matrix of hash functions, and its starting value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash.encoders import Encoder
from onlinehash.exceptions import InvalidInputError
from onlinehash.features import FeatureMap
from onlinehash.hashers._base import OnlineHasher


@dataclass(eq=False, repr=False, kw_only=True)
class LinearHasher(OnlineHasher):
    """Base class of methods whose hash functions are the columns of one matrix, ``_weights``."""

    init: str | ArrayLike = "random"

    def _start_weights(self, n_inputs: int) -> None:
        self._weights: NDArray[Any] = self._starting_weights(n_inputs).astype(self._dtype)

    def _starting_weights(self, n_inputs: int) -> NDArray[np.float64]:
        """Return the matrix given by ``init``, or Gaussian columns of unit length ("LSH")."""
        shape = n_inputs, self.n_bits
        if isinstance(self.init, str):
            if self.init != "random":
                raise InvalidInputError(
                    f"init={self.init!r} is not 'random' or a matrix of shape (n_features, n_bits)."
                )
            weights = np.random.default_rng([self.seed_, *shape]).standard_normal(shape)
            return np.asarray(weights / np.linalg.norm(weights, axis=0))
        weights = np.asarray(self.init, np.float64)
        if weights.shape != shape:
            raise InvalidInputError(f"init has shape {weights.shape}; (n_features, n_bits) is {shape}.")
        if not np.isfinite(weights).all():
            raise InvalidInputError("init contains NaN or inf.")
        return weights

    @property
    def weights_(self) -> NDArray[Any]:
        """Hash functions, one per column, in the precision of the first batch; whole batches only."""
        self._demand_learned()
        return self._weights.copy()

    def _frozen_features(self) -> FeatureMap:
        """Return the current map from a row to what is projected."""
        return self._features.freeze()

    def _encoder(self) -> Encoder:
        return Encoder(self._weights.copy(), None, self._frozen_features(), self.version_, self.name)
