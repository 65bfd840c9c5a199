"""How many of 100 wrong labels a reviewer mends in 140 cards of Review, among all 22 500 texts of CLINC150.

A script that knows the right labels stands for the reviewer: each card is the next item of ``Collection.suspects`` that
was not shown before, and an item whose label is wrong gets the right one. The codes are refreshed every 50 cards.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.measure import Row, folder_on_disk
from onlinehash import Collection, load_dataset

N_FLIPPED, N_CARDS, CARDS_PER_REFRESH = 100, 140, 50
SEEDS = (0, 1, 2)


def flipped(y: list[str], seed: int) -> list[str]:
    """Return the labels, of which some are wrong."""
    rng, names, labels = np.random.default_rng(seed), sorted(set(y)), list(y)
    for row in rng.choice(len(y), N_FLIPPED, replace=False).tolist():
        labels[row] = str(rng.choice([name for name in names if name != y[row]]))
    return labels


def n_mended(vectors: np.ndarray, y: list[str], seed: int) -> int:
    """Return how many labels are mended."""
    labels, seen, mended = flipped(y, seed), set[int](), 0
    with folder_on_disk() as folder, Collection.open(Path(folder) / "texts.oh", refresh="manual") as collection:
        for start in range(0, len(y), 5000):
            some = slice(start, start + 5000)
            collection.upsert(np.arange(len(y))[some], vectors[some], labels[some])
        collection.refresh()
        while len(seen) < N_CARDS:
            shown = [one.id for one in collection.suspects(len(seen) + CARDS_PER_REFRESH) if one.id not in seen]
            for id in shown[: min(CARDS_PER_REFRESH, N_CARDS - len(seen))]:
                seen.add(int(id))
                if labels[int(id)] != y[int(id)]:
                    collection.update(id, labels=y[int(id)])
                    mended += 1
            collection.refresh()
    return mended


def run() -> list[Row]:
    dataset = load_dataset("clinc150")
    vectors, y = np.asarray(dataset.X, np.float32), [str(label) for label in dataset.y.tolist()]
    mended = [float(n_mended(vectors, y, seed)) for seed in SEEDS]
    what = f"{N_FLIPPED} wrong labels among {len(y)} of CLINC150, {N_CARDS} cards of Review, {len(SEEDS)} choices"
    return [Row.of(what, mended, "labels mended", "at least 90")]
