"""Places205 through AlexNet: the paper's own features."""

from __future__ import annotations

from onlinehash.datasets._entry import Entry
from onlinehash.datasets._mat import MatFile
from onlinehash.datasets.protocols import ProtocolSizes

PLACES205 = Entry(
    name="places205",
    description="Places205 scenes through AlexNet, layer fc7, PCA to 128: the paper's features",
    licence="images for non-commercial research and education (MIT Places)",
    n_samples=2_448_872,
    n_features=128,
    n_classes=205,
    sizes=ProtocolSizes(queries_per_class=20, n_stream=100_000, learning_rate=0.1, map_at=1000),
    origins=(MatFile("Places205_AlexNet_fc7_PCA128.mat"),),
    obtain="The authors of MIHash published the file with their code.",
)
