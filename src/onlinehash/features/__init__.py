"""Maps from raw features to those a hasher projects."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from onlinehash.features.anchors import Anchors, squared_distances
from onlinehash.features.centring import Centring, Identity, RunningCentring, StreamFeatures, make_features

FeatureMap = Identity | Centring | Anchors
"""What an encoder holds: ``transform(X)``, and nothing that changes."""


def pack_features(features: FeatureMap) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return a map as JSON and arrays, for a file."""
    if isinstance(features, Anchors):
        inner, arrays = pack_features(features.inner)
        header = {"map": "anchors", "width": features.width, "constant": features.constant, "inner": inner}
        return header, {"anchors": features.anchors, **arrays}
    if isinstance(features, Centring):
        return {"map": "centring"}, {"mean": features.mean}
    return {"map": "identity"}, {}


def unpack_features(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> FeatureMap:
    """Return the map that :func:`pack_features` took apart.

    Examples
    --------
    >>> unpack_features(*pack_features(Identity()))
    Identity()
    """
    if header["map"] == "anchors":
        inner = unpack_features(header["inner"], arrays)
        return Anchors(arrays["anchors"], header["width"], header["constant"], inner)  # type: ignore[arg-type]
    return Centring(arrays["mean"]) if header["map"] == "centring" else Identity()


__all__ = [
    "Anchors",
    "Centring",
    "FeatureMap",
    "Identity",
    "RunningCentring",
    "StreamFeatures",
    "make_features",
    "pack_features",
    "squared_distances",
    "unpack_features",
]
