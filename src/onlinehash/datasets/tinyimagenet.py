"""Tiny-ImageNet through a network: 200 classes, about as many as Places205."""

from __future__ import annotations

from onlinehash.datasets._entry import Entry
from onlinehash.datasets._npz import NpzFile
from onlinehash.datasets.protocols import ProtocolSizes

TINYIMAGENET = Entry(
    name="tinyimagenet",
    description="Tiny-ImageNet images through ImageNet-trained EfficientNet-Lite0, PCA to 128",
    licence="images for non-commercial research and education (ImageNet)",
    n_samples=110_000,
    n_features=128,
    n_classes=200,
    sizes=ProtocolSizes(queries_per_class=20, n_stream=50_000, learning_rate=0.1, map_at=1000),
    origins=(
        NpzFile(
            "tinyimagenet_pca128.npz",
            sha256="e398c3cde329918fcc219b499490a2def98b8e17bff13d1f79c7edccb5204fad",
        ),
        NpzFile("tinyimagenet.npz"),
    ),
    obtain="Any features of the public images will do.",
)
