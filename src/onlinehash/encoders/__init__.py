"""Encoders: frozen, versioned functions from features to codes.

Indexes, collections and metrics use encoders, which never change, and not hashers, which do.
"""

from onlinehash.encoders.calibration import Calibration
from onlinehash.encoders.encoder import Encoder

__all__ = ["Calibration", "Encoder"]
