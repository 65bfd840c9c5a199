"""Fashion-MNIST: a harder set in the shape of MNIST."""

from __future__ import annotations

from onlinehash.datasets._entry import Entry
from onlinehash.datasets._idx import IdxFiles
from onlinehash.datasets._npz import NpzFile
from onlinehash.datasets.protocols import ProtocolSizes

FASHION_MNIST = Entry(
    name="fashion_mnist",
    description="articles of clothing in 28 x 28 pixels, pixels / 255",
    licence="MIT (Zalando SE)",
    n_samples=70_000,
    n_features=784,
    n_classes=10,
    sizes=ProtocolSizes(queries_per_class=100, n_stream=20_000, learning_rate=0.2),
    origins=(
        NpzFile("fashion_mnist.npz"),
        IdxFiles(
            digests={
                "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            },
            base_urls=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
            system_folders=("/usr/share/datasets/fashion-mnist",),
        ),
    ),
    obtain="It is 31 MB of public idx files, also in Debian's package dataset-fashion-mnist.",
    class_names=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
)
