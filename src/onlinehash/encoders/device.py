"""DeviceEncoder: the arrays of an encoder on a device, and its computation there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.arrays import DeviceArray, Place, device_memory
from onlinehash._internal.validation import check_finite
from onlinehash.encoders.shortlist import N_LISTED
from onlinehash.exceptions import InvalidFeaturesError
from onlinehash.features import place_features

VALUES_PER_CHUNK = 1 << 26  # features computed at a time
SURE_MARGIN = 0.6  # of the highest score over the next, in units of the largest: from there on a class is sure
ORDER_OF_EQUAL = 1e-2  # added to the sizes of the values of a row, rising, so that equal ones have an order


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


def order_of_equal(n_class_bits: int) -> NDArray[np.float64]:
    """Return what is added to the sizes of the class bits of a row."""
    return np.arange(n_class_bits, dtype=np.float64) * (ORDER_OF_EQUAL / n_class_bits)


def doubted(values: Any, scores: Any, order: Any, confidence_bits: int, xp: Any = np) -> Any:
    """Return values in which the class bits nearest to zero change their signs where the class of a row is not sure.

    With m the margin of the highest score over the next, divided by the largest, the j-th nearest of k is multiplied by
    min(m / t - 1, 1), t = .6 (k + 1 - j) / k. ``order`` is that of values of equal size, one per class bit.
    """
    n_classes, n_class_bits = scores.shape[1], order.shape[0]
    n_inverted = min(confidence_bits, n_class_bits)
    if n_classes < 2 or not n_inverted:
        return values
    highest, largest = xp.sort(scores, axis=1)[:, n_classes - 2 :], xp.max(xp.abs(scores), axis=1)
    margins = (highest[:, 1] - highest[:, 0]) / xp.where(largest == 0.0, xp.ones_like(largest), largest)
    bits, others = values[:, :n_class_bits], values[:, n_class_bits:]
    sizes = xp.abs(bits) + order[None, :]
    smallest = xp.sort(sizes, axis=1)
    for place in range(n_inverted):
        factors = margins / (SURE_MARGIN * (n_inverted - place) / n_inverted) - 1.0
        factors = xp.where(factors > 1.0, xp.ones_like(factors), factors)[:, None]
        bits = xp.where(sizes == smallest[:, place : place + 1], bits * factors, bits)
    return xp.concat([bits, others], axis=1)


def overflow(chunk: Any, dtype: np.dtype[Any]) -> InvalidFeaturesError:
    """Return the error of rows whose projections are not finite, unless that of a row that is not finite itself."""
    check_finite(chunk, dtype)
    return InvalidFeaturesError(f"X holds values so large that their projections overflow {dtype}; scale X first.")


class DeviceEncoder:
    """A copy of an :class:`onlinehash.Encoder` on a device; its results differ from the host's by rounding."""

    def __init__(self, encoder: Any, place: Place) -> None:
        intercept, codewords = encoder.intercept, encoder.codewords
        self._place, self._dtype, self._sharpness = place, encoder.weights.dtype.name, encoder.sharpness
        self._confidence_bits = encoder.confidence_bits
        if codewords is not None:
            self._order = place.put(order_of_equal(codewords.shape[1]), self._dtype)
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
        if words is None:
            return columns
        values = combine(columns, words, self._sharpness, self._dtype, xp)
        return doubted(values, columns[:, : words.shape[0]], self._order, self._confidence_bits, xp)

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
