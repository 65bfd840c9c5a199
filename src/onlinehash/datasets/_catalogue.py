"""The data sets: what they are, their sizes, and the files they are read from."""

from __future__ import annotations

from onlinehash.datasets._entry import Entry
from onlinehash.datasets._idx import IdxFiles
from onlinehash.datasets._mat import MatFile
from onlinehash.datasets._npz import NpzFile
from onlinehash.datasets._origin import ScikitLearnDigits
from onlinehash.datasets.protocols import ProtocolSizes

_CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

ENTRIES = (
    Entry(
        name="digits",
        description="handwritten digits of 8 x 8 pixels, pixels / 16",
        licence="CC BY 4.0 (UCI, Optical Recognition of Handwritten Digits)",
        n_samples=1797,
        n_features=64,
        n_classes=10,
        sizes=ProtocolSizes(queries_per_class=20, n_stream=1500, learning_rate=0.2, precision_at=100),
        origins=(ScikitLearnDigits(),),
        obtain="Run: pip install scikit-learn.",
    ),
    Entry(
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
    ),
    Entry(
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
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
    ),
    Entry(
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
        class_names=_CIFAR10_CLASSES,
    ),
    Entry(
        name="cifar10_vgg16",
        description="CIFAR-10 images through VGG-16, layer fc7: the paper's features",
        licence="no licence stated; cite A. Krizhevsky, 2009",
        n_samples=60_000,
        n_features=4096,
        n_classes=10,
        sizes=ProtocolSizes(queries_per_class=100, n_stream=20_000, learning_rate=0.2),
        origins=(MatFile("CIFAR10_VGG16_fc7.mat"),),
        obtain="The authors of MIHash published the file with their code.",
        class_names=_CIFAR10_CLASSES,
    ),
    Entry(
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
    ),
    Entry(
        name="places205",
        description="Places205 scenes through AlexNet, layer fc7, PCA to 128: the paper's features",
        licence="images for non-commercial research and education (MIT Places)",
        n_samples=2_448_872,
        n_features=128,
        n_classes=205,
        sizes=ProtocolSizes(queries_per_class=20, n_stream=100_000, learning_rate=0.1, map_at=1000),
        origins=(MatFile("Places205_AlexNet_fc7_PCA128.mat"),),
        obtain="The authors of MIHash published the file with their code.",
    ),
    Entry(
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
    ),
    Entry(
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
    ),
)
