"""DeviceEncoder: the arrays of an encoder on a device, and its computation there."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinehash._arrays import DeviceArray, Place, device_memory
from onlinehash._validation import check_finite
from onlinehash.exceptions import InvalidFeaturesError
from onlinehash.features import place_features

_CHUNK = 1 << 26  # features computed at a time


class DeviceEncoder:
    """A copy of an :class:`onlinehash.Encoder` on a device; its results differ from the host's by rounding."""

    def __init__(self, encoder: Any, place: Place) -> None:
        weights, intercept, codewords = encoder.weights, encoder.intercept, encoder.codewords
        self._place, self._dtype = place, weights.dtype.name
        self._n_inputs, self._n_columns = weights.shape
        self._weights = place.put(weights)
        self._intercept = None if intercept is None else place.put(intercept)
        self._map = place_features(encoder.features, place, self._dtype)
        self._sharpness = encoder.sharpness
        self._n_classes = 0 if codewords is None else len(codewords)
        if codewords is not None:
            self._words = place.put(codewords, self._dtype)
            self._sum_of_words = place.put(codewords.sum(axis=0), self._dtype)

    def project(self, X: DeviceArray) -> DeviceArray:
        """Return the real values whose signs are the bits."""
        return self._in_chunks(X, self._project)

    def encode(self, X: DeviceArray) -> DeviceArray:
        """Return packed codes."""
        return self._in_chunks(X, lambda chunk: self._packed(self._project(chunk)))

    def encode_asymmetric(self, X: DeviceArray) -> DeviceArray:
        """Return the tanh of the projections."""
        xp = self._place.xp
        return self._in_chunks(X, lambda chunk: xp.tanh(self._project(chunk)))

    def _in_chunks(self, X: DeviceArray, function: Any) -> DeviceArray:
        step = max(1, _CHUNK // max(self._n_inputs, self._n_columns))
        with device_memory(f"Encoding {X.shape[0]} rows"):
            n_rows = X.shape[0]
            parts = [function(X[start : min(start + step, n_rows), :]) for start in range(0, n_rows, step)]
            return parts[0] if len(parts) == 1 else self._place.xp.concat(parts, axis=0)

    def _project(self, chunk: DeviceArray) -> DeviceArray:
        xp = self._place.xp
        values = self._map(self._place.to(chunk, self._dtype)) @ self._weights
        if self._intercept is not None:
            values = values + self._intercept[None, :]
        if not bool(xp.all(xp.isfinite(values))):
            check_finite(chunk, np.dtype(self._dtype))
            raise InvalidFeaturesError(
                f"X holds values so large that their projections overflow {self._dtype}; scale X first."
            )
        return values if not self._n_classes else self._combined(values)

    def _combined(self, values: DeviceArray) -> DeviceArray:
        """Return the codewords combined by sharpened scores, then the values that are no scores."""
        xp = self._place.xp
        scores = values[:, : self._n_classes]
        largest = xp.max(xp.abs(scores), axis=1, keepdims=True)
        largest = xp.where(largest == 0.0, xp.ones_like(largest), largest)
        sharpened = xp.exp(scores / largest * self._sharpness)
        bits = (sharpened @ self._words - self._sum_of_words[None, :]) / float(np.expm1(self._sharpness))
        return bits if values.shape[1] == self._n_classes else xp.concat([bits, values[:, self._n_classes :]], axis=1)

    def _packed(self, values: DeviceArray) -> DeviceArray:
        """Return the signs as codes: bit ``k`` is bit ``k % 8`` of byte ``k // 8``; zero counts as positive."""
        xp = self._place.xp
        n_rows, n_bits = values.shape
        bits = xp.astype(values >= 0.0, xp.uint8)
        if n_bits % 8:
            zeros = xp.zeros((n_rows, -n_bits % 8), dtype=xp.uint8, device=self._place.device)
            bits = xp.concat([bits, zeros], axis=1)
        powers = self._place.put(1 << np.arange(8), "uint8")
        return xp.sum(xp.reshape(bits, (n_rows, -1, 8)) * powers[None, None, :], axis=2, dtype=xp.uint8)
