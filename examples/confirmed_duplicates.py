"""Duplicates from confirmed pairs: what people confirm are pairs, not classes, and each pair improves the search.

A catalogue holds ten photos of every product, without product numbers. Clerks confirm now and then that two photos show
the same product: `link([one, other])`. The two get a common label, with all that they were linked with before, and it
is learned as any label is. For new photos, the table shows how many of the ten photos of their product are among
the first ten found, after one, two, four and seven confirmed pairs per product, and how many by the nearest vectors. A
fifth of the products has no confirmed pair.

The products are pieces of the two photographs that come with scikit-learn; a photo is a piece at 8 x 8 pixels, shifted,
brighter or darker, and noisy. Run it:

    python examples/confirmed_duplicates.py
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.datasets import load_sample_images

import onlinehash as oh

PIECE, PHOTO, NOISE = 72, 64, 0.15  # pixels of a product, of a photo; noise of a pixel of the vector
N_PRODUCTS, N_PHOTOS, N_NEW = 40, 10, 2
N_PAIRS = (1, 2, 4, 7)  # per product


def product_pictures() -> Any:
    """Return one image per product: shape (n_products, PIECE, PIECE, 3), values from 0 to 1."""
    pieces = [
        photograph[top : top + PIECE, left : left + PIECE] / 255
        for photograph in load_sample_images().images
        for top in range(0, photograph.shape[0] - PIECE + 1, PIECE)
        for left in range(0, photograph.shape[1] - PIECE + 1, PIECE)
    ]
    return np.array(pieces[:N_PRODUCTS])


def photo_vector(picture: Any, rng: np.random.Generator) -> Any:
    """Return a shifted, brighter or darker, noisy photo at 8 x 8 pixels, without its mean brightness."""
    top, left = rng.integers(0, PIECE - PHOTO, 2, endpoint=True)
    photo = picture[top : top + PHOTO, left : left + PHOTO] * rng.uniform(0.5, 1.5)
    small = photo.reshape(8, PHOTO // 8, 8, PHOTO // 8, 3).mean(axis=(1, 3))
    return np.float32(small - small.mean() + rng.normal(0, NOISE, small.shape)).ravel()


def main(arguments: Sequence[str] | None = None) -> None:
    """Link more and more photos, and search for new ones."""
    argparse.ArgumentParser(description="Learn duplicates from confirmed pairs.").parse_args(arguments)
    rng, pictures = np.random.default_rng(0), product_pictures()
    product, asked = np.repeat(np.arange(N_PRODUCTS), N_PHOTOS), np.repeat(np.arange(N_PRODUCTS), N_NEW)
    X, queries = (np.array([photo_vector(pictures[one], rng) for one in some]) for some in (product, asked))
    without = asked % 5 == 0  # products without a confirmed pair

    hasher = oh.HROH(64, general_bits=32, n_components=256, random_state=0)  # small and seeded, to print the same
    with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/photos.oh", hasher, refresh="manual") as photos:
        photos.upsert(range(len(X)), X)  # no labels
        print("pairs per product  groups  linked products  nearest vectors  other products  nearest vectors")
        n_linked = 0
        for n_pairs in N_PAIRS:
            for number in np.flatnonzero(np.arange(N_PRODUCTS) % 5):
                shown = np.flatnonzero(product == number)[n_linked : n_pairs + 1].tolist()
                for pair in pairwise(shown):
                    photos.link(pair)  # what a clerk has confirmed
            n_linked = n_pairs
            photos.refresh()
            row = f"{n_pairs:>17}{len(photos.label_counts()) - 1:>8}"
            for some in (~without, without):
                for rescore in ("auto", "cosine"):
                    found = np.array(photos.search(queries[some], k=10, rescore=rescore).ids)
                    row += f"{(product[found] == asked[some, np.newaxis]).mean():>{16 if rescore == 'auto' else 17}.3f}"
            print(row)


if __name__ == "__main__":
    main()
