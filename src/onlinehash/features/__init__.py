"""Maps from raw features to those a hasher projects."""

from onlinehash.features.centring import Centring, Identity, RunningCentring, StreamFeatures, make_features
from onlinehash.features.maps import (
    Anchors,
    FeatureMap,
    Fourier,
    pack_features,
    place_features,
    squared_distances,
    unpack_features,
)

__all__ = [
    "Anchors",
    "Centring",
    "FeatureMap",
    "Fourier",
    "Identity",
    "RunningCentring",
    "StreamFeatures",
    "make_features",
    "pack_features",
    "place_features",
    "squared_distances",
    "unpack_features",
]
