"""Make a feature file of the experiments from public data.

    python experiments/features/make.py cifar10 cifar-10-batches-bin --out DATA/cifar10.npz
    python experiments/features/make.py miniplaces images/train --out DATA/miniplaces.npz
    python experiments/features/make.py tinyimagenet tiny-imagenet-200 --out DATA/tinyimagenet.npz
    python experiments/features/make.py clinc150 data_full.json --out DATA/clinc150.npz

DATA is the folder that ONLINEHASH_DATA names. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash.embedders import Embedder, make_embedder

BATCH = 256  # documents that are embedded at a time
SIDE = 128  # pixels
SEED = 0  # of the order of the rows


class Documents(NamedTuple):
    """Images or texts, and the name of the class of each."""

    documents: Sequence[Any]
    labels: Sequence[str]


def cifar10(folder: Path) -> Documents:
    """Read the binary version: records of a label and 32 x 32 pixels, one colour after another."""
    names = (folder / "batches.meta.txt").read_text().split()
    files = [*sorted(folder.glob("data_batch_*.bin")), folder / "test_batch.bin"]
    records = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, 3073) for file in files])
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return Documents(images, [names[label] for label in records[:, 0]])


def miniplaces(folder: Path) -> Documents:
    """Read images/train: one folder per class, some within a folder of their first letter."""
    files = sorted(folder.rglob("*.jpg"))
    return Documents(files, [str(file.parent.relative_to(folder)) for file in files])


def tinyimagenet(folder: Path) -> Documents:
    """Read the images of train and val; those of test have no labels."""
    files = sorted((folder / "train").glob("*/images/*.JPEG"))
    labels = [file.parts[-3] for file in files]
    for line in (folder / "val" / "val_annotations.txt").read_text().splitlines():
        name, label = line.split("\t")[:2]
        files.append(folder / "val" / "images" / name)
        labels.append(label)
    return Documents(files, labels)


def clinc150(file: Path) -> Documents:
    """Read data_full.json: the sentences of all three parts that have an intent."""
    parts = json.loads(file.read_text("utf-8"))
    rows = [row for part in ("train", "val", "test") for row in parts[part]]
    return Documents([text for text, _ in rows], [label for _, label in rows])


def efficientnet_lite0() -> Embedder:
    """Return the pooled features of EfficientNet-Lite0, trained on ImageNet, of images enlarged to 128 pixels."""
    import timm
    import torch

    network = timm.create_model("tf_efficientnet_lite0", pretrained=True, num_classes=0).eval()

    def embed(images: list[Any]) -> Any:
        with torch.inference_mode():
            return network(torch.from_numpy(np.stack([pixels(image) for image in images]))).numpy()

    return Embedder("efficientnet-lite0", embed, "image")


def pixels(image: Any) -> NDArray[np.float32]:
    """Return an image as an array of shape (3, 128, 128), from -1 to 1."""
    from PIL import Image

    opened = Image.fromarray(image) if isinstance(image, np.ndarray) else Image.open(image)
    small = opened.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    return np.ascontiguousarray((np.asarray(small, np.float32) / 127.5 - 1).transpose(2, 0, 1))


class Recipe(NamedTuple):
    """How a data set is read and embedded; ``n_directions`` is the number of principal directions, if not all."""

    read: Callable[[Path], Documents]
    embed: Callable[[], Embedder]
    n_directions: int | None = None


RECIPES = {
    "cifar10": Recipe(cifar10, efficientnet_lite0),
    "miniplaces": Recipe(miniplaces, efficientnet_lite0, 128),
    "tinyimagenet": Recipe(tinyimagenet, efficientnet_lite0, 128),
    "clinc150": Recipe(clinc150, lambda: make_embedder("sentence-transformers:all-MiniLM-L6-v2")),
}


def features(data: Documents, embed: Embedder, n_directions: int | None) -> dict[str, NDArray[Any]]:
    """Return the arrays of a feature file: the rows in random order, and the classes by name."""
    classes, numbers = np.unique(data.labels, return_inverse=True)
    X = np.concatenate(list(_embedded(data.documents, embed)))
    if n_directions is not None:
        centred = X - X.mean(axis=0, dtype=np.float64)
        _, vectors = np.linalg.eigh(centred.T @ centred)
        X = (centred @ vectors[:, ::-1][:, :n_directions]).astype(np.float32)
    order = np.random.default_rng(SEED).permutation(len(X))
    return {"X": X[order], "y": numbers[order].astype(np.int16), "classes": classes}


def _embedded(documents: Sequence[Any], embed: Embedder) -> Iterator[NDArray[np.float32]]:
    return (embed(documents[start : start + BATCH]) for start in range(0, len(documents), BATCH))


def main() -> None:
    """Read the command line and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=RECIPES)
    parser.add_argument("source", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--embed", help="another embedder of onlinehash, as in onnx:model.onnx")
    given = parser.parse_args()
    recipe = RECIPES[given.name]
    embed = make_embedder(given.embed) if given.embed else recipe.embed()
    np.savez_compressed(given.out, **features(recipe.read(given.source), embed, recipe.n_directions))


if __name__ == "__main__":
    main()
