"""Moderation with new categories every day: each is learned when it appears, and one is unlearned.

Moderators label incoming items. Every day brings items of known categories and of new ones. All are upserted into a
collection, which stores them, learns from them (HROH, 64 bits per item) and refreshes its codes when no more come: no
separate training, no index to rebuild.

At the end of each day, items without a label are searched for. The table shows the share of the ten nearest that are of
the right category (precision@10), for the categories new that day and for all; then, for the new ones, the results with
the codes of the first day, and of exact search over the vectors. Finally a category is retracted. Deleting its items
is not enough: two unseen items of a learned category still have nearly the same code. Run it:

    python examples/moderation.py                       # handwritten digits, included: 2 new ones per day
    python examples/moderation.py --dataset clinc150    # intents of sentences: 30 new ones per day
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

import onlinehash as oh

N_DAYS, RETRACTED = 5, 3


def new_hasher() -> oh.HROH:
    """Return a new hasher, with a quarter of the default components to be fast."""
    return oh.HROH(64, n_components=512, random_state=0)


def retract(items: oh.Collection, category: int, others: Any) -> None:
    """Delete and unlearn a category and report what remains; `others` are items of it that were never stored."""

    def report(step: str, encoder: Any) -> None:
        n_found, codes = len(items.search(others[0], k=1000, labels=category).ids), encoder.encode(others)
        print(f"{step:<36}{n_found:>13}{oh.hamming_distances(codes, codes).mean():>17.1f}")

    print(f"\n{f'Retracted: category {category}':<36}{'items found':>13}{'bits apart':>17}")
    learned = items.encoder
    report("as learned", learned)
    items.delete([item.id for item in items.items() if item.labels == category], unlearn=True)
    report("deleted, with the previous codes", learned)
    report("and unlearned: HROH subtracts", items.hasher.snapshot())
    items.change_hasher(new_hasher())  # learns from the remaining items, in the order of arrival
    report("or learned again without it", items.encoder)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all days, then retract a category."""
    parser = argparse.ArgumentParser(description="Moderation, with new categories every day.")
    parser.add_argument("--dataset", default="digits", help="or clinc150, or any other that onlinehash knows")
    data = oh.load_dataset(parser.parse_args(arguments).dataset)
    split, n_categories = data.split(seed=0), len(data.class_names)
    (X, y), (queries, asked) = split.database, split.queries
    appears = np.arange(n_categories) * N_DAYS // n_categories  # the day of each category
    arrives = np.random.default_rng(0).integers(appears[y], N_DAYS)  # the day of each item: from then on, any

    with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/items.oh", new_hasher()) as items:
        print("day  categories  items  generation  version    new    all    new, day 1 codes    new, exact")
        first: Any = None
        for day in range(N_DAYS):
            today, so_far = np.flatnonzero(arrives == day), np.flatnonzero(arrives <= day)
            items.upsert(today, X[today], y[today])  # ids are row numbers here
            while items.stats().staleness:  # not needed to search: it makes every run print the same
                sleep(0.01)
            first = first or items.encoder
            new, known = appears[asked] == day, appears[asked] <= day
            right = y[items.search(queries, k=10).ids] == asked[:, np.newaxis]
            frozen = oh.Ranking(
                first.encode(queries[new]), asked[new], first.encode(X[so_far]), y[so_far]
            ).precision_at(10)
            nearest = NearestNeighbors(n_neighbors=10, metric="cosine").fit(X[so_far]).kneighbors(queries[new])[1]
            exact = y[so_far[nearest]] == asked[new, np.newaxis]
            now = items.stats()
            print(
                f"{day + 1:>3}{np.sum(appears <= day):>12}{now.n_items:>7}{now.generation:>12}{now.version:>9}"
                f"{right[new].mean():>7.3f}{right[known].mean():>7.3f}{frozen:>20.3f}{exact.mean():>14.3f}"
            )
        print(f"{now.generation} generations of codes, all refreshed automatically")
        retract(items, RETRACTED, queries[asked == RETRACTED])

        rest = [row for row in np.argsort(arrives, kind="stable") if y[row] != RETRACTED]
        never = new_hasher().partial_fit(X[rest], y[rest]).snapshot()
        ids, codes = items.codes()
        n_other = np.any(never.encode(X[np.array(ids)]) != codes, axis=1).sum()
        print(f"codes that differ from those of a hasher that never saw it: {n_other} of {len(ids)}")


if __name__ == "__main__":
    main()
