"""Maps from raw features to those a hasher projects."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from onlinehash.features.anchors import Anchors, squared_distances
from onlinehash.features.centring import Centring, Identity, RunningCentring, StreamFeatures, make_features
from onlinehash.features.fourier import Fourier, HadamardFourier
from onlinehash.features.inputs import WithInputs

FeatureMap = Identity | Centring | Anchors | Fourier | HadamardFourier | WithInputs
"""What an encoder holds: ``transform(X)``, and nothing that changes."""


def pack_features(features: FeatureMap) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return a map as JSON and arrays, for a file.

    Examples
    --------
    >>> pack_features(Identity())
    ({'map': 'identity'}, {})
    """
    if isinstance(features, WithInputs):
        header, arrays = pack_features(features.curved)
        return {"map": "with_inputs", "curved": header}, arrays
    if isinstance(features, Centring):
        return {"map": "centring"}, {"mean": features.mean}
    if isinstance(features, Identity):
        return {"map": "identity"}, {}
    inner, arrays = pack_features(features.inner)
    if isinstance(features, Anchors):
        header = {"map": "anchors", "width": features.width, "constant": features.constant, "inner": inner}
        return header, {"anchors": features.anchors, **arrays}
    if isinstance(features, Fourier):
        own = {"frequencies": features.frequencies, "phases": features.phases}
        return {"map": "fourier", "inner": inner}, own | arrays
    header = {"map": "hadamard_fourier", "bandwidth": features.bandwidth, "n_inputs": features.n_inputs, "inner": inner}
    return header, {"signs": features.signs, "phases": features.phases} | arrays


def unpack_features(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> FeatureMap:
    """Return the map that :func:`pack_features` packed.

    Examples
    --------
    >>> unpack_features(*pack_features(Identity()))
    Identity()
    """
    name = header["map"]
    if name == "with_inputs":
        return WithInputs(unpack_features(header["curved"], arrays))  # type: ignore[arg-type]
    if name == "centring":
        return Centring(arrays["mean"])
    if name == "identity":
        return Identity()
    inner: Any = unpack_features(header["inner"], arrays)
    if name == "anchors":
        return Anchors(arrays["anchors"], header["width"], header["constant"], inner)
    if name == "fourier":
        return Fourier(arrays["frequencies"], arrays["phases"], inner)
    return HadamardFourier(arrays["signs"], arrays["phases"], header["bandwidth"], header["n_inputs"], inner)


__all__ = [
    "Anchors",
    "Centring",
    "FeatureMap",
    "Fourier",
    "HadamardFourier",
    "Identity",
    "RunningCentring",
    "StreamFeatures",
    "WithInputs",
    "make_features",
    "pack_features",
    "squared_distances",
    "unpack_features",
]
