"""MNIST: the paper's own pixels."""

from __future__ import annotations

from onlinehash.datasets._entry import Entry
from onlinehash.datasets._idx import IdxFiles
from onlinehash.datasets._mat import MatFile
from onlinehash.datasets._npz import NpzFile
from onlinehash.datasets.protocols import ProtocolSizes

MNIST = Entry(
    name="mnist",
    description="handwritten digits of 28 x 28 pixels, pixels / 255",
    licence="CC BY-SA 3.0 (Y. LeCun, C. Cortes)",
    n_samples=70_000,
    n_features=784,
    n_classes=10,
    sizes=ProtocolSizes(queries_per_class=100, n_stream=20_000, learning_rate=0.2),
    origins=(
        NpzFile("mnist.npz", sha256="cf7a7a9d97724b4c44c0383ac48ad5c5a63559963398f4c2cadcd5d63c5964eb"),
        IdxFiles(
            digests={
                "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            },
            base_urls=(
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
            ),
        ),
        MatFile("mnist.mat", pixels=True),
    ),
    obtain="It is 11 MB of public idx files.",
)
