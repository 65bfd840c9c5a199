"""Maps from raw features to those a hasher projects."""

from onlinehash.features.centring import Centring, Identity, RunningCentring, StreamFeatures, make_features

__all__ = ["Centring", "Identity", "RunningCentring", "StreamFeatures", "make_features"]
