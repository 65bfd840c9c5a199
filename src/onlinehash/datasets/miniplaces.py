"""MiniPlaces through a network: scenes of 100 classes, a stand-in for Places205."""

from __future__ import annotations

from onlinehash.datasets._entry import Entry
from onlinehash.datasets._npz import NpzFile
from onlinehash.datasets.protocols import ProtocolSizes

MINIPLACES = Entry(
    name="miniplaces",
    description="MiniPlaces scenes through ImageNet-trained EfficientNet-Lite0, PCA to 128",
    licence="images for non-commercial research and education (MIT Places)",
    n_samples=100_000,
    n_features=128,
    n_classes=100,
    sizes=ProtocolSizes(queries_per_class=20, n_stream=50_000, learning_rate=0.1, map_at=1000),
    origins=(
        NpzFile("miniplaces_pca128.npz", sha256="ceeccf458b559fe40bc5430ce15f8559535a8f672da66c8ff7609a5d29b32ee5"),
        NpzFile("miniplaces.npz"),
    ),
    obtain="Any features of the public images will do.",
)
