"""Feature maps on a device, by the functions of the array API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.arrays import DeviceArray, Place, namespace, to_host
from onlinehash.features.centring import MAX_SQUARES, MIN_SQUARES, Centring, Identity, RunningCentring
from onlinehash.features.maps import Anchors, Fourier, HadamardFourier, WithInputs

DeviceMap = Callable[[DeviceArray], DeviceArray]
"""A function that maps rows where they are."""


def place_features(features: Any, place: Place, dtype: str) -> DeviceMap:
    """Return the function that maps rows on a device, with a copy of the map's arrays there.

    It computes in ``dtype``, the precision of the rows. Frequencies that are never stored on the host are stored here:
    one product with all of them is what a GPU does best.
    """
    xp = place.xp
    if isinstance(features, Identity):
        return lambda rows: rows
    if isinstance(features, Centring):
        mean = place.put(features.mean) if features.mean.any() else None
        return lambda rows: xp.astype(_to_unit_length(rows, mean), rows.dtype, copy=False)
    if isinstance(features, WithInputs):
        inner = place_features(features.curved.inner, place, dtype)
        curved = _place_curved(features.curved, place, dtype)

        def with_inputs(rows: DeviceArray) -> DeviceArray:
            rows = inner(rows)
            return xp.concat([rows, curved(rows)], axis=1)

        return with_inputs
    inner, curved = place_features(features.inner, place, dtype), _place_curved(features, place, dtype)
    return lambda rows: curved(inner(rows))


def _place_curved(features: Anchors | Fourier | HadamardFourier, place: Place, dtype: str) -> DeviceMap:
    """Return the map of rows that were preprocessed."""
    xp = place.xp
    if isinstance(features, Anchors):
        anchors, width, constant = place.put(features.anchors, dtype), features.width, features.constant
        lengths = xp.sum(anchors * anchors, axis=1)

        def similarities(rows: DeviceArray) -> DeviceArray:
            distances = xp.sum(rows * rows, axis=1)[:, None] + lengths[None, :] - 2.0 * (rows @ anchors.T)
            similar = xp.exp(xp.where(distances > 0.0, distances, xp.zeros_like(distances)) / -width)
            return xp.concat([similar, xp.ones_like(similar[:, :1])], axis=1) if constant else similar

        return similarities
    frequencies = features.frequencies if isinstance(features, Fourier) else features.dense_frequencies()
    turned, phases = place.put(frequencies.T, dtype), place.put(features.phases, dtype)
    scale = float(np.sqrt(2.0 / features.n_outputs))
    return lambda rows: xp.cos(rows @ turned + phases[None, :]) * scale


def centre_running(
    centring: RunningCentring, X: DeviceArray, weights: NDArray[np.float64] | None = None
) -> DeviceArray:
    """Update the running mean with rows on a device, and return them centred, in double precision."""
    xp, place = namespace(X), Place.of(X)
    rows, counts = place.to(X, "float64"), np.ones(X.shape[0]) if weights is None else weights
    seen = centring.n_seen + np.cumsum(counts)
    sums = xp.cumulative_sum(rows * place.put(counts)[:, None], axis=0)
    means = (sums + place.put(centring.n_seen * centring.mean)[None, :]) / place.put(seen)[:, None]
    centring.mean, centring.n_seen = to_host(means[-1, :]), float(seen[-1])
    return _to_unit_length(rows - means, None)


def _to_unit_length(rows: DeviceArray, mean: DeviceArray | None) -> DeviceArray:
    """Return rows less the mean, scaled to unit length, in double precision: squares of single precision overflow."""
    xp = namespace(rows)
    rows = xp.astype(rows, xp.float64, copy=False)
    if mean is not None:
        rows = rows - mean[None, :]
    with np.errstate(over="ignore"):
        squares = xp.sum(rows * rows, axis=1)
    odd = ~((squares > MIN_SQUARES) & (squares < MAX_SQUARES))
    if bool(xp.any(odd)):
        largest = xp.max(xp.abs(rows), axis=1)
        rows = rows / xp.where(odd & (largest > 0.0), largest, xp.ones_like(largest))[:, None]
        squares = xp.sum(rows * rows, axis=1)
    return rows / xp.sqrt(xp.where(squares > 0.0, squares, xp.ones_like(squares)))[:, None]
