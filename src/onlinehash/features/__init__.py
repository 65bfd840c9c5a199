"""Maps from raw features to those a hasher projects."""

from onlinehash.features.centring import Centring, Identity, RunningCentring, StreamFeatures, make_features
from onlinehash.features.device import DeviceMap, centre_running, place_features
from onlinehash.features.maps import (
    Anchors,
    FeatureMap,
    Fourier,
    HadamardFourier,
    WithInputs,
    pack_features,
    squared_distances,
    unpack_features,
)

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
