"""CLINC150 through a sentence encoder: text, 150 intents."""

from __future__ import annotations

from onlinehash.datasets._entry import Entry
from onlinehash.datasets._npz import NpzFile
from onlinehash.datasets.protocols import ProtocolSizes

CLINC150 = Entry(
    name="clinc150",
    description="CLINC150 user intents through MiniLM sentence embeddings",
    licence="CC BY 3.0 (Clinc)",
    n_samples=22_500,
    n_features=384,
    n_classes=150,
    sizes=ProtocolSizes(queries_per_class=20, n_stream=10_000, learning_rate=0.1, precision_at=100),
    origins=(
        NpzFile("clinc150_minilm.npz", sha256="5941f6006d61886767ca4d3e91f7fda9579e93dc32a5e9dbeb41a14ff876c484"),
        NpzFile("clinc150.npz"),
    ),
    obtain="Any embeddings of the public sentences will do.",
)
