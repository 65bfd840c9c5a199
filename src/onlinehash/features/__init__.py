"""Maps from raw features to those a hasher projects."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.features.anchors import Anchors, squared_distances
from onlinehash.features.centring import Centring, Identity, RunningCentring, StreamFeatures, make_features
from onlinehash.features.device import DeviceMap, centre_running, place_features
from onlinehash.features.fourier import Fourier, HadamardFourier
from onlinehash.features.inputs import WithInputs

FeatureMap = Identity | Centring | Anchors | Fourier | HadamardFourier | WithInputs
"""The immutable feature map of an encoder, with ``transform(X)``."""


_MAPS = {
    "identity": Identity,
    "centring": Centring,
    "anchors": Anchors,
    "fourier": Fourier,
    "hadamard_fourier": HadamardFourier,
    "with_inputs": WithInputs,
}


def pack_features(features: FeatureMap) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return a map as JSON and arrays, for a file.

    Examples
    --------
    >>> pack_features(Identity())
    ({'map': 'identity'}, {})
    """
    header: dict[str, Any] = {"map": next(name for name, kind in _MAPS.items() if type(features) is kind)}
    arrays: dict[str, NDArray[Any]] = {}
    for field in fields(features):
        value = getattr(features, field.name)
        if isinstance(value, np.ndarray):
            arrays[field.name] = value
        elif is_dataclass(value):
            header[field.name], inner = pack_features(value)  # type: ignore[arg-type]
            arrays |= inner
        else:
            header[field.name] = value
    return header, arrays


def unpack_features(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> FeatureMap:
    """Return the map that :func:`pack_features` packed.

    Examples
    --------
    >>> unpack_features(*pack_features(Identity()))
    Identity()
    """
    kind: Any = _MAPS[header["map"]]
    values: dict[str, Any] = {}
    for field in fields(kind):
        value = header[field.name] if field.name in header else arrays[field.name]
        values[field.name] = unpack_features(value, arrays) if isinstance(value, dict) else value
    return kind(**values)  # type: ignore[no-any-return]


__all__ = [
    "Anchors",
    "Centring",
    "DeviceMap",
    "FeatureMap",
    "Fourier",
    "HadamardFourier",
    "Identity",
    "RunningCentring",
    "StreamFeatures",
    "WithInputs",
    "centre_running",
    "make_features",
    "pack_features",
    "place_features",
    "squared_distances",
    "unpack_features",
]
