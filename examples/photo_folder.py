"""A folder of photos: paths in, similar photos out; sub-folders are labels.

The collection takes the paths of photos. An embedder reads them: here a function of a few lines, the photo at 8 x 8
pixels in colour, or any network in an ONNX file. HROH learns 32-bit codes from the names of the sub-folders, and
`search("photo.png")` finds photos that show the same. A new photo, or a new sub-folder, is one more call.

Without `--folder`, one is made of the two photographs that come with scikit-learn: 16 places, 12 photos of each,
shifted and darker or brighter. A quarter of the photos of each place is searched for and not stored; the table shows
the share of the first 3 found that are of the same place. Run it:

    python examples/photo_folder.py
    python examples/photo_folder.py --folder holidays --embed onnx:mobilenet.onnx    # pip install onnxruntime
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images
from sklearn.neighbors import NearestNeighbors

import onlinehash as oh

SIDE, SHIFT, N_PHOTOS, K = 140, 24, 12, 3
ENDINGS = {".jpg", ".jpeg", ".png", ".webp"}


def small_pictures(paths: list[str]) -> Any:
    """Embed photos as they are at 8 x 8 pixels, without their mean brightness."""
    rows = [np.asarray(Image.open(path).convert("RGB").resize((8, 8), Image.Resampling.BOX)) / 255 for path in paths]
    return [(row - row.mean()).ravel() for row in rows]


def make_folder(folder: Path) -> None:
    """Write photos of places that the two photographs show, one sub-folder per place."""
    rng = np.random.default_rng(0)
    for name, photograph in zip(("china", "flower"), load_sample_images().images, strict=True):
        for place in range(8):
            top, left = 20 + 190 * (place // 4), 15 + 150 * (place % 4)
            (folder / f"{name} {place}").mkdir(parents=True)
            for number in range(N_PHOTOS):
                y, x = np.array([top, left]) + rng.integers(0, SHIFT, 2)
                light = rng.uniform(0.6, 1.4)
                photo = np.clip(photograph[y : y + SIDE, x : x + SIDE] * light, 0, 255).astype(np.uint8)
                Image.fromarray(photo).save(folder / f"{name} {place}" / f"{number}.png")


def main(arguments: Sequence[str] | None = None) -> None:
    """Store three quarters of a folder, search for the rest."""
    parser = argparse.ArgumentParser(description="Search a folder of photos.")
    parser.add_argument("--folder", help="folder of sub-folders of photos")
    parser.add_argument("--embed", default=small_pictures, help="embedder, such as onnx:model.onnx")
    given = parser.parse_args(arguments)
    with TemporaryDirectory() as made:
        folder = Path(given.folder or made)
        if given.folder is None:
            make_folder(folder)
        paths = sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
        stored, asked = [path for i, path in enumerate(paths) if i % 4], paths[::4]
        hasher = oh.HROH(32, n_components=256, random_state=0)
        with oh.Collection.open(Path(made, "photos.oh"), hasher, embed=given.embed) as photos:
            photos.upsert(stored, documents=stored, labels=[Path(path).parent.name for path in stored])
            photos.refresh()
            coded = photos.search(asked, k=K, rescore=None).ids
            ranked = photos.search(asked, k=K).ids  # by what was learned, and by vectors
            exact = NearestNeighbors(n_neighbors=K, metric="cosine").fit(photos.embed(stored))
            nearest = [[stored[row] for row in rows] for rows in exact.kneighbors(photos.embed(asked))[1]]
            print(f"{len(photos)} photos in {len(photos.label_counts())} folders, embedded by {photos.embedder}")
            for name, found in (("HROH, 32 bits", coded), ("ranked", ranked), ("exact search", nearest)):
                same = [
                    Path(one).parent == Path(own).parent for own, ids in zip(asked, found, strict=True) for one in ids
                ]
                print(f"{name:<14}{np.mean(same):>6.3f}")


if __name__ == "__main__":
    main()
