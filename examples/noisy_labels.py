"""Clean noisy labels: the items contradict the wrong labels among them, and a person corrects those first.

Of the handwritten digits that come with scikit-learn, one in ten gets a wrong label. `suspects(n)` lists the items
whose label the other items contradict, the most certain first, each with the label that it should have. A person looks
at them, a hundred at a time, and `update` stores the right label where the stored one is wrong, which is unlearned.

The table shows how many wrong labels remain, and how many of 200 unseen digits get a label from `classify` with at most
1 % errors: while stored labels are wrong, it cannot promise that. A hundred items looked at at random would show ten
wrong labels. Run it:

    python examples/noisy_labels.py
    python examples/noisy_labels.py --wrong 0.3
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import onlinehash as oh

N_ROUNDS, N_PER_ROUND = 2, 100


def main(arguments: Sequence[str] | None = None) -> None:
    """Store digits with wrong labels, and correct them in rounds."""
    parser = argparse.ArgumentParser(description="Find and correct wrong labels.")
    parser.add_argument("--wrong", type=float, default=0.1, help="share of wrong labels")
    given = parser.parse_args(arguments)
    split, rng = oh.load_dataset("digits").split(seed=0), np.random.default_rng(0)
    (X, y), (queries, asked) = split.database, split.queries
    wrong = rng.random(len(y)) < given.wrong
    noisy = np.where(wrong, (y + rng.integers(1, 10, len(y))) % 10, y)

    hasher = oh.HROH(64, general_bits=32, n_components=512, random_state=0)  # small and seeded, to print the same
    with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/digits.oh", hasher) as digits:
        digits.upsert(range(len(X)), X, noisy)

        def report(step: str) -> None:
            digits.refresh()
            stored = np.array([item.labels for item in digits.items()])
            decisions: Any = digits.classify(queries, max_error=0.01)
            labels = np.array([-1 if each.label is None else each.label for each in decisions])
            n_given, n_right = (labels >= 0).sum(), (labels == asked).sum()
            print(f"{step:<50}{(stored != y).sum():>12}{n_given:>17}{n_right:>7}")

        print(f"{f'{len(digits)} digits':<50}{'wrong labels':>12}{'unseen labelled':>17}{'right':>7}")
        report("as they came")
        for _ in range(N_ROUNDS):
            suspects = digits.suspects(N_PER_ROUND)
            found: Any = [each.id for each in suspects if each.label != y[each.id]]  # what the person sees
            n_hints = sum(each.suggested == y[each.id] for each in suspects if each.label != y[each.id])
            digits.update(found, labels=y[found])
            report(f"{len(suspects)} looked at, {len(found)} wrong, {n_hints} suggestions right")


if __name__ == "__main__":
    main()
