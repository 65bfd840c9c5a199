"""How many of 100 wrong labels a reviewer mends in 110 to 160 cards of Review, among all 22 500 texts of CLINC150.

A script that knows the right labels stands for the reviewer: each card is the next item of ``Collection.suspects`` that
was not shown before, and an item whose label is wrong gets the right one. The codes are refreshed every 50 cards.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.measure import Row, folder_on_disk
from onlinehash import Collection, load_dataset

N_FLIPPED, CARDS_PER_REFRESH = 100, 50
N_CARDS = (110, 120, 140, 160)
BARS = {140: "at least 90"}
SEEDS = range(6)


def flipped(y: list[str], seed: int) -> list[str]:
    """Return the labels, of which some are wrong."""
    rng, names, labels = np.random.default_rng(seed), sorted(set(y)), list(y)
    for row in rng.choice(len(y), N_FLIPPED, replace=False).tolist():
        labels[row] = str(rng.choice([name for name in names if name != y[row]]))
    return labels


def mended(vectors: np.ndarray, y: list[str], seed: int) -> list[bool]:
    """Return whether every card mends a label."""
    labels, seen, cards = flipped(y, seed), set[int](), list[bool]()
    with folder_on_disk() as folder, Collection.open(Path(folder) / "texts.oh", refresh="manual") as collection:
        for start in range(0, len(y), 5000):
            some = slice(start, start + 5000)
            collection.upsert(np.arange(len(y))[some], vectors[some], labels[some])
        collection.refresh()
        while len(cards) < max(N_CARDS):
            shown = [one.id for one in collection.suspects(len(seen) + CARDS_PER_REFRESH) if one.id not in seen]
            for id in shown[:CARDS_PER_REFRESH]:
                seen.add(int(id))
                cards.append(labels[int(id)] != y[int(id)])
                if cards[-1]:
                    collection.update(id, labels=y[int(id)])
            collection.refresh()
    return cards


def run() -> list[Row]:
    dataset = load_dataset("clinc150")
    vectors, y = np.asarray(dataset.X, np.float32), [str(label) for label in dataset.y.tolist()]
    found = [mended(vectors, y, seed) for seed in SEEDS]
    what = f"{N_FLIPPED} wrong labels among {len(y)} of CLINC150"
    return [
        Row.of(
            f"{what}, {n} cards of Review, {len(SEEDS)} choices",
            [float(sum(cards[:n])) for cards in found],
            "labels mended",
            BARS.get(n, "-"),
        )
        for n in N_CARDS
    ]
