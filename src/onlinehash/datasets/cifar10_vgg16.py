"""CIFAR-10 through VGG-16: the paper's own features."""

from __future__ import annotations

from onlinehash.datasets._entry import Entry
from onlinehash.datasets._mat import MatFile
from onlinehash.datasets.cifar10 import CLASS_NAMES
from onlinehash.datasets.protocols import ProtocolSizes

CIFAR10_VGG16 = Entry(
    name="cifar10_vgg16",
    description="CIFAR-10 images through VGG-16, layer fc7: the paper's features",
    licence="no licence stated; cite A. Krizhevsky, 2009",
    n_samples=60_000,
    n_features=4096,
    n_classes=10,
    sizes=ProtocolSizes(queries_per_class=100, n_stream=20_000, learning_rate=0.2),
    origins=(MatFile("CIFAR10_VGG16_fc7.mat"),),
    obtain="The authors of MIHash published the file with their code.",
    class_names=CLASS_NAMES,
)
