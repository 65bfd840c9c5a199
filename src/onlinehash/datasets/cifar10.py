"""CIFAR-10 through a network: the reference features are EfficientNet-Lite0's."""

from __future__ import annotations

from onlinehash.datasets._entry import Entry
from onlinehash.datasets._npz import NpzFile
from onlinehash.datasets.protocols import ProtocolSizes

CLASS_NAMES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)

CIFAR10 = Entry(
    name="cifar10",
    description="CIFAR-10 images through ImageNet-trained EfficientNet-Lite0, pooled",
    licence="no licence stated; cite A. Krizhevsky, 2009",
    n_samples=60_000,
    n_features=1280,
    n_classes=10,
    sizes=ProtocolSizes(queries_per_class=100, n_stream=20_000, learning_rate=0.2),
    origins=(
        NpzFile(
            "cifar10_efficientnet_lite0.npz",
            sha256="f0831ba3c459189d20223afa4ce2a4032201965c7f9fcb59fbc8fd54ad78d5e4",
        ),
        NpzFile("cifar10.npz"),
    ),
    obtain="Any features of the public images will do.",
    class_names=CLASS_NAMES,
)
