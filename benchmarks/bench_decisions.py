"""Search and decisions of a collection by what was learned, on real data: quality beside what a user would do instead.

The value of a row is the mean of splits, or of five rounds, with the lowest and the highest. No row that is searched
for, searched among or classified was learned, unless its part says so. ``--only PART`` measures one part:

self_recall  items, all of them learned, found by their own vector
ranking      precision and mAP of the orders that ``search`` offers
open_world   the same beside codes of other methods, a quarter of the classes never learned, by queries of either kind
cost         of one query
classify     the error that was promised, and how many rows get a label
all_learned  the same of CIFAR-10, of which everything else was learned
suspects     labels that were changed at random; beside it cleanlab, if that package is installed
mended       what such labels cost, before and after all suspects got the label that they should have
review       accuracy by the number of labels, where the collection chooses what to label
link         mAP after pairs instead of labels
two_labels   precision and mAP of items that have two labels each: means of two sentences
tags         the same of items with several labels each: Debian's packages and their tags, as ``apt-cache`` knows them.
             Items are relevant that have at least half of the tags of both; vectors are those of ``use``
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import find_spec
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import DisjointSet
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from threadpoolctl import threadpool_limits

from benchmarks.bench_text import packages
from benchmarks.measure import Row, interleaved
from onlinehash import HCOH, HROH, ITQ, Collection, FlatIndex
from onlinehash.datasets import Dataset, load_dataset
from onlinehash.embedders import make_embedder
from onlinehash.experiments.references import cosine_quality
from onlinehash.metrics import Ranking
from onlinehash.types import Batch

Array = NDArray[Any]
Measured = Iterator[tuple[str, str, str, float]]
"""What was measured, its meaning, the bar and a value; those of several splits have the first three in common."""

DATASETS = ("clinc150", "mnist", "cifar10", "tinyimagenet")
N_SPLITS = {"open_world": 3}  # 2 of the other parts
N_LEARNED, N_ITEMS, N_QUERIES = 10_000, 8000, 200
N_BITS = 64
QUERIES_AT_ONCE = 50  # whose rankings of all items are in memory together
UNKNOWN_SHARE = 0.25  # of the classes
MIN_TAGGED = 20  # packages; those that have a rarer tag are left out
PROMISES = (0.005, 0.01, 0.02, 0.05, 0.1)


# ---------------------------------------------------------------------- data and collections


@cache
def load(dataset: str) -> Dataset:
    return load_dataset(dataset)


def draw(dataset: str, seed: int, n_learned: int, *sizes: int, is_open: bool = False) -> tuple[list[Batch], Array]:
    """Return disjoint random parts of a data set, and the classes of which the first has no row, if it is open."""
    data, rng = load(dataset), np.random.default_rng(seed)
    n_classes = len(data.class_names)
    unknown = rng.permutation(n_classes)[: round(UNKNOWN_SHARE * n_classes) if is_open else 0]
    *others, rows = np.split(rng.permutation(len(data.y)), np.cumsum(sizes, dtype=int))
    learned = rows[~np.isin(data.y[rows], unknown)][:n_learned]
    return [Batch(data.X[part], data.y[part]) for part in (learned, *others)], unknown


@contextmanager
def filled(learned: Batch, others: Array | None = None, hasher: HROH | None = None) -> Iterator[Collection]:
    """Give a collection of rows with labels, whose ids begin with 0, and of others without, whose ids follow."""
    with TemporaryDirectory() as folder, Collection.open(f"{folder}/items.oh", hasher) as collection:
        collection.upsert(range(len(learned.y)), learned.X, learned.y)
        if others is not None:
            collection.upsert(range(len(learned.y), len(learned.y) + len(others)), others)
        collection.refresh()
        yield collection


def precision_and_map(
    collection: Collection, queries: Batch, y: Array, rescore: str, first_id: int = N_LEARNED
) -> list[float]:
    """Return P@10 and mAP of all items in the order of a search; ``y`` are their labels, in order of id."""
    values, places = list[tuple[float, float]](), np.arange(1, len(y) + 1)
    for start in range(0, len(queries.y), QUERIES_AT_ONCE):
        X, labels = queries.X[start : start + QUERIES_AT_ONCE], queries.y[start : start + QUERIES_AT_ONCE]
        for label, ids in zip(labels, collection.search(X, len(y), rescore=rescore).ids, strict=True):
            relevant = y[np.array(ids) - first_id] == label
            values.append((relevant[:10].mean(), (np.cumsum(relevant) / places)[relevant].mean()))
    return [float(value) for value in np.mean(values, axis=0)]


# ---------------------------------------------------------------------- parts


def self_recall(seed: int) -> Measured:
    for dataset, n_items, bar in (("digits", 1797, 0.98), ("mnist", N_LEARNED, 0.99), ("clinc150", N_LEARNED, 0.97)):
        (items,), _ = draw(dataset, seed, n_items)
        ways = {"default": "auto", "codes": None, "cosine": "cosine"}
        for hasher, orders in ((None, ways), (HROH(32), {"codes of HROH(32)": None})):
            with filled(items, hasher=hasher) as collection:
                for name, rescore in orders.items():
                    blocks = [items.X[start : start + 1000] for start in range(0, n_items, 1000)]
                    found = [ids for block in blocks for ids in collection.search(block, rescore=rescore).ids]
                    own = mean(float(id in ids) for id, ids in enumerate(found))
                    returned = len({id for ids in found for id in ids}) / n_items
                    at_least = f"at least {bar:g}" if name == "default" else "-"
                    yield f"{dataset}, {name}", "items found by their own vector", at_least, own
                    yield f"{dataset}, {name}", "items ever found", at_least, returned


def ranking(seed: int) -> Measured:
    for dataset in DATASETS:
        for is_open in (False, True):
            (learned, items, queries), _ = draw(dataset, seed, N_LEARNED, N_ITEMS, N_QUERIES, is_open=is_open)
            what = f"{dataset}, {'a quarter of the classes never learned' if is_open else 'all classes learned'}"
            with filled(learned, items.X) as collection:
                collection.delete(range(N_LEARNED))
                ids, codes, encoder = collection.codes_and_encoder()
                assert encoder is not None
                hamming = Ranking(encoder.encode(queries.X), queries.y, codes, items.y[np.array(ids) - N_LEARNED])
                values = {
                    "cosine": precision_and_map(collection, queries, items.y, "cosine"),
                    "codes": (hamming.precision_at(10), hamming.mean_average_precision()),
                    "learned": precision_and_map(collection, queries, items.y, "learned"),
                }
                found = collection.search(queries.X, 10, rescore="learned").ids
            for name, both in values.items():
                for meaning, value, others in zip(
                    ("P@10", "mAP"), both, zip(*values.values(), strict=True), strict=True
                ):
                    yield f"{what}, {name}", meaning, "-", value
                    if name == "learned":
                        yield (
                            what,
                            f"{meaning}, learned less the better of the others",
                            "at least -.005",
                            value - max(others[:2]),
                        )
            relevant = items.y[np.array(found) - N_LEARNED] == queries.y[:, np.newaxis]
            yield f"{what}, learned, k=10", "P@10", "-", float(relevant.mean())


def open_world(seed: int) -> Measured:
    for dataset in DATASETS[:3]:
        sizes = N_LEARNED // 2, N_ITEMS // 2, 2 * N_QUERIES
        (learned, items, queries), unknown = draw(dataset, seed, *sizes, is_open=True)
        is_seen = ~np.isin(queries.y, unknown)
        groups = {"learned": is_seen, "never learned": ~is_seen, "all": np.ones(len(is_seen), bool)}
        some = {group: Batch(queries.X[rows], queries.y[rows]) for group, rows in groups.items()}
        found: dict[tuple[str, str], Sequence[float]] = {}
        for group, (X, y) in some.items():
            quality = cosine_quality(X, y, *items, map_at=None, precision_at=10)
            found["vectors by cosine", group] = quality[1], quality[0]
        general = HROH(N_BITS, general_bits=N_BITS // 2, random_state=seed)
        with filled(learned, items.X, general) as collection:
            collection.delete(range(len(learned.y)))
            hasher = collection.hasher
            assert isinstance(hasher, HROH)
            encoders = {
                "ITQ": ITQ(N_BITS, random_state=seed).fit(*learned).snapshot(),
                "HCOH": HCOH(N_BITS, random_state=seed).fit(*learned).snapshot(),
                "HROH": hasher.with_bits(N_BITS).snapshot(),
                "HROH, half of the bits general": collection.encoder,
            }
            for name, encoder in encoders.items():
                assert encoder is not None
                codes = encoder.encode(items.X)
                for group, (X, y) in some.items():
                    ranks = Ranking(encoder.encode(X), y, codes, items.y)
                    found[f"{name}, codes", group] = ranks.precision_at(10), ranks.mean_average_precision()
            for group, each in some.items():
                found["learned order", group] = precision_and_map(collection, each, items.y, "learned", len(learned.y))
        for (name, group), both in found.items():
            for meaning, value in zip(("P@10", "mAP"), both, strict=True):
                yield f"{dataset}, {name}, queries of classes: {group}", meaning, "-", value


def cost(seed: int) -> Measured:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((100_000, 384), np.float32)
    y, queries = rng.integers(150, size=N_LEARNED), rng.standard_normal((100, 384), np.float32)
    with filled(Batch(X[:N_LEARNED], y), X[N_LEARNED:]) as collection, threadpool_limits(1):
        orders: dict[str, str | None] = {"learned": "learned", "cosine": "cosine", "codes": None}
        ways = {name: partial(search_each, collection, queries, rescore) for name, rescore in orders.items()}
        seconds = interleaved(ways, rounds=5)
    for name, bar in (("learned", "at most 3"), ("cosine", "-")):
        for slow, plain in zip(seconds[name], seconds["codes"], strict=True):
            yield f"100000 x 384, 150 classes, {name}", "ms per query more than by codes", bar, 10 * (slow - plain)
    for plain in seconds["codes"]:
        yield "100000 x 384, 150 classes, codes", "ms per query", "-", 10 * plain


def search_each(collection: Collection, queries: Array, rescore: str | None) -> None:
    for query in queries:
        collection.search(query, rescore=rescore)


def classify(seed: int) -> Measured:
    for dataset in DATASETS:
        (learned, new), _ = draw(dataset, seed, N_LEARNED, N_ITEMS)
        with filled(learned) as collection:
            for promise in PROMISES:
                error, coverage = error_and_coverage(collection, new, promise, np.ones(N_ITEMS, bool))
                yield (
                    f"{dataset}, {100 * promise:g} % promised",
                    "error of labels given / promise",
                    "at most 1.3",
                    error / promise,
                )
                yield f"{dataset}, {100 * promise:g} % promised", "rows that get a label", "-", coverage
        (learned, new), unknown = draw(dataset, seed, N_LEARNED, N_ITEMS, is_open=True)
        what, is_known = f"{dataset}, a quarter of the classes unknown", ~np.isin(new.y, unknown)
        with filled(learned) as collection:
            assert collection.encoder is not None
            scores = collection.encoder.class_scores(new.X)
            yield what, "AUROC of the largest score", "-", roc_auc_score(is_known, scores.max(axis=1))
            for promise in PROMISES[1:4]:
                error, coverage = error_and_coverage(collection, new, promise, is_known)
                bar = "at most 1.5" if dataset in ("clinc150", "mnist") else "-"
                yield f"{what}, {100 * promise:g} % promised", "error of labels given / promise", bar, error / promise
                yield f"{what}, {100 * promise:g} % promised", "rows of known classes that get a label", "-", coverage


def all_learned(seed: int) -> Measured:
    (learned, new), _ = draw("cifar10", seed, 60_000 - N_ITEMS, N_ITEMS)
    with filled(learned) as collection:
        for promise in PROMISES[1:4]:
            error, coverage = error_and_coverage(collection, new, promise, np.ones(N_ITEMS, bool))
            what = f"cifar10, {100 * promise:g} % promised"
            yield what, "error of labels given / promise", "at most 1.3", error / promise
            yield what, "rows that get a label", "-", coverage


def error_and_coverage(collection: Collection, new: Batch, promise: float, is_known: Array) -> tuple[float, float]:
    """Return the share of wrong labels among those given, and the share of rows of known classes that get one."""
    unknown_share = float(1.0 - is_known.mean())
    decisions = collection.classify(new.X, max_error=promise, unknown_share=unknown_share, n_neighbours=0)
    assert isinstance(decisions, list)
    labels = np.array([-1 if each.label is None else each.label for each in decisions])
    given = labels >= 0
    return float((labels != new.y)[given].mean()) if given.any() else 0.0, float(given[is_known].mean())


def suspects(seed: int) -> Measured:
    for dataset in DATASETS[:3]:
        (items,), _ = draw(dataset, seed, N_LEARNED)
        rng, n_classes = np.random.default_rng(seed), items.y.max() + 1
        unit = items.X / np.linalg.norm(items.X, axis=1, keepdims=True)
        near = np.argsort(-(unit @ unit.T) + 9.0 * np.eye(N_LEARNED, dtype=np.float32), axis=1)[:, :10]
        for share in (0.02, 0.1, 0.2):
            wrong = np.zeros(N_LEARNED, bool)
            wrong[rng.choice(N_LEARNED, int(share * N_LEARNED), replace=False)] = True
            y = np.where(wrong, (items.y + rng.integers(1, n_classes, N_LEARNED)) % n_classes, items.y)
            what = f"{dataset}, {100 * share:g} % of the labels wrong"
            with filled(Batch(items.X, y)) as collection:
                found, hasher = collection.suspects(int(wrong.sum())), collection.hasher
            assert isinstance(hasher, HROH)
            precision = float(wrong[np.array([each.id for each in found], int)].sum() / wrong.sum())
            yield f"{what}, suspects", "precision at their number", "-", precision
            without = hasher.leave_one_out(items.X, y)
            own = without[np.arange(N_LEARNED), np.argsort(hasher.classes_)[y]]  # all classes are there, from 0 on
            yield f"{what}, leave one out", "AUROC", "-", roc_auc_score(wrong, without.max(axis=1) - own)
            votes = (y[near] != y[:, np.newaxis]).mean(axis=1)
            yield f"{what}, vote of the 10 nearest", "precision at their number", "-", precision_of(votes, wrong)
            yield f"{what}, vote of the 10 nearest", "AUROC", "-", roc_auc_score(wrong, votes)
            if find_spec("cleanlab") is not None and dataset == "clinc150":
                from cleanlab.rank import get_label_quality_scores

                chances = cross_val_predict(LogisticRegression(C=100.0), unit, y, cv=3, method="predict_proba")
                quality = get_label_quality_scores(y, chances)
                name = f"{what}, cleanlab, logistic regression"
                yield name, "precision at their number", "-", precision_of(-quality, wrong)
                yield name, "AUROC", "-", roc_auc_score(wrong, -quality)


def mended(seed: int) -> Measured:
    for dataset in DATASETS[:3]:
        (items, new), _ = draw(dataset, seed, N_LEARNED, N_ITEMS)
        rng, n_classes = np.random.default_rng(seed), items.y.max() + 1
        wrong = rng.permutation(N_LEARNED) < N_LEARNED // 10
        y = np.where(wrong, (items.y + rng.integers(1, n_classes, N_LEARNED)) % n_classes, items.y)
        what = f"{dataset}, 10 % of the labels wrong"
        with filled(items) as collection:
            yield f"{dataset}, no label wrong", "accuracy", "-", accuracy(collection, new)
        with filled(Batch(items.X, y)) as collection:
            yield f"{what}", "accuracy", "-", accuracy(collection, new)
            found = collection.suspects(N_LEARNED // 10)
            collection.update([each.id for each in found], labels=[each.suggested for each in found])
            collection.refresh()
            yield f"{what}, suspects mended", "accuracy", "-", accuracy(collection, new)
            left = np.mean([item.labels for item in collection.get(range(N_LEARNED))] != items.y)
            yield f"{what}, suspects mended", "labels that are wrong", "-", float(left)


def accuracy(collection: Collection, new: Batch) -> float:
    """Return the share of rows whose class has the highest score."""
    assert collection.encoder is not None and collection.encoder.classes is not None
    classes = np.array(collection.encoder.classes)
    return float(np.mean(classes[collection.encoder.class_scores(new.X).argmax(axis=1)] == new.y))


def precision_of(scores: Array, wrong: Array) -> float:
    """Return the precision at the number of wrong rows, the expected value where scores are equal."""
    n_wrong = int(wrong.sum())
    limit = np.sort(scores)[-n_wrong]
    above, equal = scores > limit, scores == limit
    return float((wrong[above].sum() + wrong[equal].mean() * (n_wrong - above.sum())) / n_wrong)


def review(seed: int) -> Measured:
    (items, new), _ = draw("clinc150", seed, N_LEARNED, 5000)
    steps, accuracies = (300, 600, 1000, 1500, 2000, 3000), dict[str, list[float]]()
    for by in ("random", "uncertain", "unknown", "diverse"):
        known = np.random.default_rng(seed).permutation(N_LEARNED)[: steps[0]].tolist()
        labels = [int(label) if id in set(known) else None for id, label in enumerate(items.y)]
        with TemporaryDirectory() as folder, Collection.open(f"{folder}/items.oh", None, "manual") as collection:
            collection.upsert(range(N_LEARNED), items.X, labels)
            for n_labels in steps:
                if n_labels > len(known):
                    n_more, is_left = n_labels - len(known), ~np.isin(np.arange(N_LEARNED), known)
                    if by == "random":
                        chosen = np.random.default_rng(n_labels).permutation(np.flatnonzero(is_left))[:n_more].tolist()
                    else:
                        chosen = [each.id for each in collection.review(n_more, by=by)]
                    collection.update(chosen, labels=items.y[chosen])
                    known += chosen
                collection.refresh()
                accuracies.setdefault(by, []).append(accuracy(collection, new))
                yield f"clinc150, {by}, {n_labels} labels", "accuracy", "-", accuracies[by][-1]
    for by in ("uncertain", "unknown", "diverse"):
        needed = np.interp(accuracies["random"][-1], accuracies[by], steps)
        yield f"clinc150, labels for the accuracy of {steps[-1]} random ones", f"{by} / random", "-", needed / steps[-1]


def link(seed: int) -> Measured:
    (linked, items, queries), _ = draw("clinc150", seed, N_LEARNED, N_ITEMS, N_QUERIES)
    rng = np.random.default_rng(seed)
    first, second = rng.integers(N_LEARNED, size=(2, 3_000_000))
    pairs = np.stack([first, second], axis=1)[(linked.y[first] == linked.y[second]) & (first != second)]
    for n_pairs in (1000, 10_000):
        with TemporaryDirectory() as folder, Collection.open(f"{folder}/items.oh", None, "manual") as collection:
            collection.upsert(range(N_LEARNED), linked.X)
            groups = DisjointSet(range(N_LEARNED))
            for one, other in pairs[:n_pairs].tolist():
                groups.merge(one, other)
            for group in groups.subsets():  # as if pair after pair
                if len(group) > 1:
                    collection.link(sorted(group))
            collection.upsert(range(N_LEARNED, N_LEARNED + N_ITEMS), items.X)
            collection.refresh()
            collection.delete(range(N_LEARNED))
            yield (
                f"clinc150, {n_pairs} pairs",
                "mAP",
                "-",
                precision_and_map(collection, queries, items.y, "learned")[1],
            )
    with filled(linked, items.X) as collection:
        collection.delete(range(N_LEARNED))
        for name, rescore in (("cosine", "cosine"), (f"{N_LEARNED} labels", "learned")):
            yield f"clinc150, {name}", "mAP", "-", precision_and_map(collection, queries, items.y, rescore)[1]


def two_labels(seed: int) -> Measured:
    (learned, items, queries), _ = draw("clinc150", seed, N_LEARNED, N_ITEMS, 2 * N_QUERIES)
    rng = np.random.default_rng(seed)
    (X, y), (D, d), (Q, q) = (pairs_of(rows, rng) for rows in (learned, items, queries))
    for n_bits, n_general in ((64, 32), (64, 0), (32, 0), (16, 0)):
        what = f"clinc150, {n_bits} bits, {n_general} general"
        with TemporaryDirectory() as folder:
            hasher = HROH(n_bits, general_bits=n_general, random_state=seed)
            with Collection.open(f"{folder}/items.oh", hasher) as collection:
                collection.upsert(range(len(d), len(d) + len(y)), X, [sorted(set(both)) for both in y.tolist()])
                collection.upsert(range(len(d)), D)
                collection.delete(range(len(d), len(d) + len(y)))
                collection.refresh()
                for name, rescore in (("codes", None), ("cosine", "cosine"), ("learned", "learned")):
                    found = list[tuple[float, float]]()
                    for ids, own in zip(collection.search(Q, len(d), rescore=rescore).ids, q, strict=True):
                        relevant = np.asarray(np.isin(d[ids], own).any(axis=1))
                        precisions = np.cumsum(relevant) / np.arange(1, len(d) + 1)
                        found.append((relevant[:10].mean(), precisions[relevant].mean()))
                    for meaning, value in zip(("P@10", "mAP"), np.mean(found, axis=0), strict=True):
                        yield f"{what}, {name}", meaning, "-", float(value)


def pairs_of(rows: Batch, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the means of pairs of rows, each row in one pair, and the labels of both."""
    one, other = rng.permutation(len(rows.y)).reshape(2, -1)
    unit = rows.X / np.linalg.norm(rows.X, axis=1, keepdims=True)
    return (unit[one] + unit[other]) / 2, np.stack([rows.y[one], rows.y[other]], axis=1)


def tags(seed: int) -> Measured:
    of_package = {
        f"{fields['Package']}: {fields['Description']}": set(fields["Tag"].split(", "))
        for fields in packages()
        if fields.keys() >= {"Package", "Description", "Tag"}
    }
    counts = Counter(tag for own in of_package.values() for tag in own)
    texts = sorted(text for text, own in of_package.items() if own and all(counts[tag] >= MIN_TAGGED for tag in own))
    rng, n_learned, n_items = np.random.default_rng(seed), N_LEARNED // 2, N_ITEMS // 2
    drawn = rng.permutation(texts)[: n_learned + n_items + N_QUERIES].tolist()
    if not drawn:
        return
    X, own = make_embedder("use")(drawn), [of_package[text] for text in drawn]
    names = sorted(set.union(*own))
    has = np.array([[tag in each for tag in names] for each in own[n_learned:]], float)
    both = has[n_items:] @ has[:n_items].T
    relevant = 2 * both >= has[n_items:].sum(axis=1)[:, None] + has[:n_items].sum(axis=1) - both
    queries, what = X[n_learned + n_items :], f"Debian packages, {len(names)} tags"
    hasher = HROH(N_BITS, general_bits=N_BITS // 2, random_state=seed)
    with TemporaryDirectory() as folder, Collection.open(f"{folder}/items.oh", hasher) as items:
        items.upsert(range(n_items, n_items + n_learned), X[:n_learned], [sorted(each) for each in own[:n_learned]])
        items.upsert(range(n_items), X[n_learned : n_learned + n_items])
        items.delete(range(n_items, n_items + n_learned))
        items.refresh()
        orders: dict[str, Any] = {
            name: items.search(queries, n_items, rescore=name).ids for name in ("cosine", "learned")
        }
        assert isinstance(items.hasher, HROH)
        for n_bits in (16, 32, 64):
            encoder = items.hasher.with_bits(n_bits).snapshot()
            index = FlatIndex(n_bits, ties="hash")
            index.upsert(encoder.encode(X[n_learned : n_learned + n_items]))
            orders[f"codes, {n_bits} bits"] = index.search(encoder.encode(queries), n_items).ids
    for name, ids in orders.items():
        hits = np.take_along_axis(relevant, np.array(ids), axis=1)
        precisions = np.cumsum(hits, axis=1) / np.arange(1, n_items + 1)
        means = [each[hit].mean() for each, hit in zip(precisions, hits, strict=True) if hit.any()]
        yield f"{what}, {name}", "P@10", "-", float(hits[:, :10].mean())
        yield f"{what}, {name}", "mAP", "-", float(np.mean(means))


PARTS: dict[str, Callable[[int], Measured]] = {
    part.__name__: part
    for part in (
        *(self_recall, ranking, open_world, cost, classify, all_learned),
        *(suspects, mended, review, link, two_labels, tags),
    )
}


def run(only: str | None = None) -> list[Row]:
    """Measure all parts, or one."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for name in PARTS if only is None else [only]:
        for seed in range(N_SPLITS.get(name, 2)):
            for what, meaning, bar, value in PARTS[name](seed):
                values.setdefault((f"{name}, {what}", meaning, bar), []).append(float(value))
    return [Row(what, mean(v), min(v), max(v), meaning, bar) for (what, meaning, bar), v in values.items()]
