"""A stream sorted by class: methods that learn by gradient steps forget, a method that learns sums does not.

Real streams are seldom shuffled: logs arrive hour by hour, catalogues brand by brand. Here all 0s arrive first, then
all 1s, and so on, each instance once. Three learners are compared:

- HCOH, hash functions learned by gradient steps;
- scikit-learn's SGDClassifier, also learned by steps; the code of a row is the class it predicts;
- HROH, hash functions learned from sums, which do not depend on the order.

After each class the table shows the mean average precision (mAP) of queries of the classes so far; the last row is that
of the same stream shuffled. A figure is drawn as well. Run it:

    python examples/sorted_stream.py                                      # handwritten digits, included
    python examples/sorted_stream.py --dataset mnist --components 2048    # in ONLINEHASH_DATA, or downloaded
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import SGDClassifier

import onlinehash as oh
from onlinehash.datasets import Split


def encoding(learner: Any) -> Any:
    """Return the function from rows to codes; those of a classifier are one-hot, with one bit per class."""
    if isinstance(learner, SGDClassifier):
        return lambda rows: oh.pack_bits(learner.predict(rows)[:, np.newaxis] == learner.classes_)
    return learner.snapshot().encode


def quality(learner: Any, split: Split, n_seen: int) -> float:
    """Return the mAP of the queries of the first classes, in the items of these classes."""
    encode, (queries, asked), (X, y) = encoding(learner), split.queries, split.database
    seen, stored = asked < n_seen, y < n_seen
    return oh.mean_average_precision(encode(queries[seen]), asked[seen], encode(X[stored]), y[stored], k=split.map_at)


def draw(curves: dict[str, list[float]], shuffled: dict[str, float], title: str, path: Path) -> None:
    """Draw mAP against the number of classes seen; dotted lines are the shuffled stream."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for (name, curve), colour in zip(curves.items(), ("#D55E00", "#E69F00", "#0072B2"), strict=True):
        label = f"{name}: {curve[-1]:.2f}, shuffled {shuffled[name]:.2f}"
        axes.plot(range(1, len(curve) + 1), curve, marker="o", color=colour, label=label)
        axes.axhline(shuffled[name], color=colour, linestyle=":", linewidth=1)
    axes.set(title=title, xlabel="classes seen, one after the other", ylabel="mAP among them", ylim=(0, 1.03))
    axes.legend(loc="lower left", frameon=False)
    figure.savefig(path, dpi=130)


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn from the stream in both orders, print the table, draw the figure."""
    parser = argparse.ArgumentParser(description="HCOH, SGDClassifier and HROH on a stream sorted by class.")
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--components", type=int, default=512, help="components of HROH (default 2048 there)")
    parser.add_argument("--out", type=Path, default=Path("sorted_stream.png"), help="file for the figure")
    options = parser.parse_args(arguments)
    data = oh.load_dataset(options.dataset)
    split, n_classes = data.split(seed=0), len(data.class_names)
    X, y = split.stream

    def new_learners() -> dict[str, Any]:
        hcoh = oh.HCOH(32, learning_rate=split.learning_rate, random_state=0)
        hroh = oh.HROH(32, n_components=options.components, random_state=0)
        return {"HCOH": hcoh, "SGD": SGDClassifier(random_state=0), "HROH": hroh}

    known = {"SGD": {"classes": np.arange(n_classes)}}  # it needs all classes in advance
    learners = new_learners()
    curves: dict[str, list[float]] = {name: [] for name in learners}
    print("classes seen" + "".join(f"{name:>8}" for name in learners))
    for c in range(n_classes):
        for name, learner in learners.items():
            learner.partial_fit(X[y == c], y[y == c], **known.get(name, {}))
            curves[name].append(quality(learner, split, c + 1))
        print(f"{c + 1:>12}" + "".join(f"{curve[-1]:>8.3f}" for curve in curves.values()))

    shuffled = {}
    for name, learner in new_learners().items():
        learner.partial_fit(X, y, **known.get(name, {}))
        shuffled[name] = quality(learner, split, n_classes)
    print(f"{'shuffled':>12}" + "".join(f"{value:>8.3f}" for value in shuffled.values()))
    draw(curves, shuffled, f"{data.name}, class after class (dotted: shuffled)", options.out)


if __name__ == "__main__":
    main()
