"""DeviceEncoder: the arrays of an encoder on a device, and its computation there."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinehash._internal.arrays import DeviceArray, Place, device_memory
from onlinehash._internal.validation import check_finite
from onlinehash.encoders.shortlist import N_LISTED
from onlinehash.exceptions import InvalidFeaturesError
from onlinehash.features import place_features

VALUES_PER_CHUNK = 1 << 26  # features computed at a time


def combine(values: Any, words: Any, sharpness: float, dtype: Any, xp: Any = np) -> Any:
    """Return the codewords combined by sharpened scores, then the values that are no scores."""
    n_classes = words.shape[0]
    scores = values[:, :n_classes]
    if not sharpness:
        return xp.concat([scores @ words, values[:, n_classes:]], axis=1)
    largest = xp.max(xp.abs(scores), axis=1, keepdims=True)
    largest = xp.where(largest == 0.0, xp.ones_like(largest), largest)
    sharpened = xp.exp(scores / largest * sharpness)
    # The 1 that expm1 takes off every score takes the sum of the codewords off the bits: exp alone is fast.
    bits = (sharpened @ words - xp.sum(words, axis=0)[None, :]) / float(np.expm1(np.dtype(dtype).type(sharpness)))
    return bits if values.shape[1] == n_classes else xp.concat([bits, values[:, n_classes:]], axis=1)


def overflow(chunk: Any, dtype: np.dtype[Any]) -> InvalidFeaturesError:
    """Return the error of rows whose projections are not finite, unless that of a row that is not finite itself."""
    check_finite(chunk, dtype)
    return InvalidFeaturesError(f"X holds values so large that their projections overflow {dtype}; scale X first.")


class DeviceEncoder:
    """A copy of an :class:`onlinehash.Encoder` on a device; its results differ from the host's by rounding."""

    def __init__(self, encoder: Any, place: Place) -> None:
        intercept, codewords = encoder.intercept, encoder.codewords
        self._place, self._dtype, self._sharpness = place, encoder.weights.dtype.name, encoder.sharpness
        self._weights = place.put(encoder.weights)
        self._intercept = None if intercept is None else place.put(intercept)
        self._words = None if codewords is None else place.put(codewords, self._dtype)
        self._map = place_features(encoder.features, place, self._dtype)
        self._shortlist = None
        if (some := encoder.shortlist) is not None:
            self._shortlist = [place.put(each, self._dtype) for each in (some.weights, some.intercept, some.signs.T)]

    def project(self, X: DeviceArray) -> DeviceArray:
        """Return the real values whose signs are the bits."""
        return self.combined(self.columns(X))

    def columns(self, X: DeviceArray) -> DeviceArray:
        """Return the projections on all columns of the weights."""
        n_rows, step = X.shape[0], max(1, VALUES_PER_CHUNK // max(self._weights.shape))
        with device_memory(f"Encoding {n_rows} rows"):
            parts = [self._columns(X[start : min(start + step, n_rows), :]) for start in range(0, n_rows, step)]
            return parts[0] if len(parts) == 1 else self._place.xp.concat(parts, axis=0)

    def _columns(self, chunk: DeviceArray) -> DeviceArray:
        xp = self._place.xp
        rows = self._map(self._place.to(chunk, self._dtype))
        values = rows @ self._weights
        if self._intercept is not None:
            values = values + self._intercept[None, :]
        if self._shortlist is not None:
            weights, intercept, signs = self._shortlist
            estimates = (rows @ weights + intercept[None, :]) @ signs
            n_classes = signs.shape[1]
            is_listed = estimates >= xp.sort(estimates, axis=1)[:, n_classes - N_LISTED, None]
            scores = xp.where(is_listed, values[:, :n_classes], xp.zeros_like(estimates))
            values = xp.concat([scores, values[:, n_classes:]], axis=1)
        if not bool(xp.all(xp.isfinite(values))):
            raise overflow(chunk, np.dtype(self._dtype))
        return values

    def combined(self, columns: DeviceArray) -> DeviceArray:
        """Return the real values whose signs are the bits, from the projections on all columns."""
        xp, words = self._place.xp, self._words
        return columns if words is None else combine(columns, words, self._sharpness, self._dtype, xp)

    def packed(self, values: DeviceArray) -> DeviceArray:
        """Return packed codes: bit ``k`` is bit ``k % 8`` of byte ``k // 8``; zero counts as positive."""
        xp = self._place.xp
        n_rows, n_bits = values.shape
        bits = xp.astype(values >= 0.0, xp.uint8)
        if n_bits % 8:
            zeros = xp.zeros((n_rows, -n_bits % 8), dtype=xp.uint8, device=self._place.device)
            bits = xp.concat([bits, zeros], axis=1)
        powers = self._place.put(1 << np.arange(8), "uint8")
        return xp.sum(xp.reshape(bits, (n_rows, -1, 8)) * powers[None, None, :], axis=2, dtype=xp.uint8)
