"""Near-duplicate product photos: codes of 2 bytes per item find candidates, their vectors order them.

A shop has ten photos of every product: slightly shifted, brighter or darker, noisy. Which photos in the catalogue show
the product on a new photo? The products are pieces of the two photographs that come with scikit-learn, and its
handwritten digits; the vector of a photo is the image at 8 x 8 pixels, in colour: 768 bytes.

A collection keeps the vectors on disk and a 16-bit code of each in memory. HROH learns the codes from product numbers;
without sharpening, because products that it never learned are searched for too.
`search(..., rescore=None)` compares codes, `rescore="cosine"` orders the 200 best of them by their vectors, and
`"learned"`, the default of HROH, by what was learned and by their vectors. A fifth of the products is new: in the
catalogue, but without a number to learn from. For comparison, the table has LSH, which does not learn, and exact search
over all vectors. It shows how many of the 8 true duplicates are among the first 10. Run it:

    python examples/near_duplicates.py
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_sample_images
from sklearn.neighbors import NearestNeighbors

import onlinehash as oh

PIECE, PHOTO, SHIFT = 72, 64, 3  # pixels: size of a product, size of a photo, largest shift
N_PHOTOS, N_QUERIES = 10, 2  # per product; the queries are not in the catalogue


def product_pictures() -> Any:
    """Return real images, one per product: shape (n_products, PIECE, PIECE, 3), values from 0 to 1."""
    pieces = [
        photograph[top : top + PIECE, left : left + PIECE] / 255
        for photograph in load_sample_images().images
        for top in range(0, photograph.shape[0] - PIECE + 1, PIECE)
        for left in range(0, photograph.shape[1] - PIECE + 1, PIECE)
    ]
    digits = load_digits().images[: len(pieces)] / 16
    enlarged = np.kron(digits, np.ones((PIECE // 8, PIECE // 8)))
    return np.concatenate([pieces, np.repeat(enlarged[..., np.newaxis], 3, axis=-1)])


def photo_vector(picture: Any, rng: np.random.Generator) -> Any:
    """Return a shifted, brighter or darker, noisy photo at 8 x 8 pixels, without its mean brightness."""
    top, left = rng.integers(0, SHIFT, 2, endpoint=True)
    photo = picture[top : top + PHOTO, left : left + PHOTO] * rng.uniform(0.7, 1.3) + rng.uniform(-0.1, 0.1)
    photo = np.clip(photo, 0, 1) + rng.normal(0, 0.05, photo.shape)
    small = photo.reshape(8, PHOTO // 8, 8, PHOTO // 8, 3).mean(axis=(1, 3))
    return np.float32(small - small.mean()).ravel()


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill a catalogue, search it in six ways, print the table."""
    argparse.ArgumentParser(description="Near-duplicate photos with 16-bit codes.").parse_args(arguments)
    rng = np.random.default_rng(0)
    pictures = product_pictures()
    ids = rng.permutation(np.repeat(np.arange(len(pictures)), N_PHOTOS - N_QUERIES))
    X = np.array([photo_vector(pictures[i], rng) for i in ids])
    asked = np.repeat(np.arange(len(pictures)), N_QUERIES)
    queries = np.array([photo_vector(pictures[i], rng) for i in asked])
    numbers = [None if i % 5 == 0 else int(i) for i in ids]  # the labels

    found = {}
    for hasher in (oh.LSH(16, random_state=0), oh.HROH(16, sharpness=None, n_components=512, random_state=0)):
        with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/photos.oh", hasher) as catalogue:
            catalogue.upsert(range(len(X)), X, numbers)
            name = f"{type(hasher).__name__}, 16 bits"
            found[name] = np.array(catalogue.search(queries, k=10, rescore=None).ids)
            if isinstance(hasher, oh.HROH):
                found[f"{name}, learned"] = np.array(catalogue.search(queries, k=10, rescore="learned").ids)
            found[f"{name}, rescored"] = np.array(catalogue.search(queries, k=10, rescore="cosine").ids)
    found["exact search"] = NearestNeighbors(n_neighbors=10, metric="cosine").fit(X).kneighbors(queries)[1]

    print(f"{len(X)} photos of {len(pictures)} products; recall of true duplicates among the first 10")
    print(f"{'':<24}{'learned products':>17}{'new products':>14}{'bytes per item':>16}")
    for name, rows in found.items():
        recall = (ids[rows] == asked[:, np.newaxis]).sum(axis=1) / (N_PHOTOS - N_QUERIES)
        new = asked % 5 == 0
        n_bytes = X[0].nbytes if name == "exact search" else 2
        print(f"{name:<24}{recall[~new].mean():>17.3f}{recall[new].mean():>14.3f}{n_bytes:>16}")


if __name__ == "__main__":
    main()
