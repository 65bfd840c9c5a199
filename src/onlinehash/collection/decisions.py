"""Decisions: labels with a stated error, labels that are wrong, and what to label next, from the scores of classes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.threads import single_threaded_products
from onlinehash._internal.validation import check_choice, check_positive_int
from onlinehash.collection.inputs import label_set, labels_of
from onlinehash.collection.learner import targets_of
from onlinehash.collection.searcher import MAX_SCORES, drawn
from onlinehash.collection.stores.sql import Seqs
from onlinehash.collection.types import Decision, Id, Label, ReviewItem, RiskCoverage, Suspect
from onlinehash.encoders import Calibration, Encoder
from onlinehash.encoders.calibration import softmax
from onlinehash.exceptions import InvalidInputError, NotLearnedError
from onlinehash.hashers import HROH, OnlineHasher
from onlinehash.types import Features, Progress, ReviewOrder

if TYPE_CHECKING:
    from onlinehash.collection.collection import Collection

ROWS_TO_CALIBRATE = 4096
"""Labelled items whose leave-one-out scores calibrate an encoder."""

N_ALTERNATIVES = 5
_MIN_ROWS_TO_CALIBRATE = 256
_ROWS_PER_READ = 1024
_MAX_HELD_OUT_ROWS = 20_000  # of the classes that are held out
_MIN_CLASSES = 3  # so that two are left in a trial
_N_TRIALS = 4  # of the same number of classes each
_NEIGHBOURS_PER_WANTED = 5  # that are found, since some have another label
_POINTS_OF_CURVE = 256
_OF_ONE_LABEL = 0.7  # weight of the cosines of items of one label, against those of two
_MAX_GROUPED = 2000  # items; others stay alone
_POOL_PER_CHOSEN = 3  # "diverse" chooses among so many times the items wanted


# ---------------------------------------------------------------------- calibration


def calibrated(collection: Collection, hasher: OnlineHasher, seqs: Seqs, table: str = "stream") -> Encoder:
    """Return the encoder of a hasher, calibrated by labelled items that it has learned."""
    encoder = hasher.snapshot()
    if not encoder.classes or not isinstance(hasher, HROH) or not hasher._can_unlearn:  # or it has unlearned all
        return encoder
    seqs = drawn(seqs, max(_MIN_ROWS_TO_CALIBRATE, MAX_SCORES // len(encoder.classes)), 0)
    scores: list[Features] = [np.empty((0, len(encoder.classes)))]
    rows, own = list[NDArray[Any]](), list[list[int]]()
    for _, vectors, texts in read_rows(collection, seqs, table):
        without, numbers = _without_themselves(hasher, encoder, vectors, texts)
        scores.append(without)
        rows.append(vectors)
        own += numbers
    calibration = Calibration.fit(np.concatenate(scores), own, np.concatenate(rows)) if rows else Calibration()
    return replace(encoder, calibration=calibration)


def read_rows(
    collection: Collection, seqs: Seqs, table: str = "stream", progress: Progress | None = None
) -> Iterator[tuple[list[Id], NDArray[np.float32], list[str | None]]]:
    """Yield ids, vectors and labels of those items that are still there, some at a time."""
    store = collection._store
    for start in range(0, len(seqs), _ROWS_PER_READ):
        with store.snapshot():
            left = store.items_left(seqs[start : start + _ROWS_PER_READ].tolist())
            rows = store.rows(left, table)
        if left:
            yield rows.ids, rows.vectors.astype(np.float32), rows.labels
        if progress is not None:
            progress(min(start + _ROWS_PER_READ, len(seqs)), len(seqs))


def _without_themselves(
    hasher: HROH, encoder: Encoder, vectors: NDArray[np.float32], texts: Sequence[str | None]
) -> tuple[Features, list[list[int]]]:
    """Return the leave-one-out scores of labelled rows, and the numbers of their classes, both as the encoder has."""
    assert encoder.classes is not None
    columns = {label: number for number, label in enumerate(hasher.classes_.tolist())}
    numbers = {label: number for number, label in enumerate(encoder.classes)}
    scores = hasher.leave_one_out(vectors, targets_of(texts))[:, [columns[label] for label in encoder.classes]]
    return scores, [[numbers[label] for label in label_set(text)] for text in texts]


def held_out_probabilities(collection: Collection, encoder: Encoder) -> NDArray[np.float32]:
    """Return the probabilities that rows of classes never learned get, by unlearning classes on copies, some at a time.

    How often rows of a class are accepted differs much between classes, so each has its turn.
    """
    counts = {label: n for label, n in collection.label_counts().items() if label is not None}
    if len(counts) < _MIN_CLASSES:
        raise InvalidInputError(f"unknown_share needs at least {_MIN_CLASSES} labels: some are left out on trial.")
    chosen, n_rows = list[Label](), 0
    for label in random.Random(0).sample(list(counts), len(counts)):
        if n_rows + counts[label] <= _MAX_HELD_OUT_ROWS:
            chosen.append(label)
            n_rows += counts[label]
    chosen = chosen or [min(counts, key=counts.__getitem__)]
    temperature, parts = encoder.calibration.temperature, [np.empty(0)]
    for start in range(min(_N_TRIALS, len(chosen))):
        with collection._searcher.lock.reading():
            seqs = collection._searcher.catalogue.having(chosen[start::_N_TRIALS])
        hasher = _hasher_of(collection)
        if not hasher._can_unlearn:
            raise InvalidInputError("unknown_share needs HROH with decay=1 and no running mean, which can unlearn.")
        rows = list(read_rows(collection, seqs))
        for _, vectors, texts in rows:
            hasher._unlearn_learned(vectors, targets_of(texts))
        without = hasher.snapshot()
        parts += [softmax(without.class_scores(vectors), temperature).max(axis=1) for _, vectors, _ in rows]
    return np.concatenate(parts).astype(np.float32)


def _hasher_of(collection: Collection) -> HROH:
    """Return a copy of the hasher, which has learned all items that were listed before and are still there."""
    hasher = collection.hasher
    if not isinstance(hasher, HROH):
        raise InvalidInputError(f"{hasher!r} has no scores of classes, so it cannot decide; HROH has.")
    return hasher


def risk_coverage(collection: Collection) -> RiskCoverage:
    """Return what share of rows gets a label, and what share of these labels is wrong, by threshold."""
    encoder = scoring_encoder(collection)
    values, correct = encoder.calibration.probabilities, encoder.calibration.correct
    order = np.argsort(-values, kind="stable")
    n_named, n_wrong = np.arange(1, len(order) + 1), np.cumsum(~correct[order])
    last_of_equal = np.flatnonzero(np.append(np.diff(values[order]) < 0.0, True)[: len(order)])
    spaced = np.linspace(0, len(last_of_equal) - 1, min(_POINTS_OF_CURVE, len(last_of_equal))).round().astype(int)
    some = last_of_equal[np.unique(spaced)]
    return RiskCoverage(
        encoder.version,
        len(order),
        values[order][some].tolist(),
        (n_named[some] / max(1, len(order))).tolist(),
        (n_wrong[some] / n_named[some]).tolist(),
        ((n_wrong[some] + 1) / (n_named[some] + 1)).tolist(),
    )


# ---------------------------------------------------------------------- decisions


def check_share(name: str, value: Any, *, zero: bool = False) -> float:
    """Return a share between 0 and 1, or 0 where that is allowed."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not (0.0 < value < 1.0 or (zero and value == 0.0)):
        raise InvalidInputError(f"{name}={value!r} is not a number between 0 and 1{', or 0' if zero else ''}.")
    return float(value)


def scoring_encoder(collection: Collection) -> Encoder:
    """Return the encoder in use, which must have scores of at least two classes."""
    encoder = collection.encoder
    if encoder is None or encoder.classes == ():
        raise NotLearnedError("This collection has learned nothing yet; upsert items with labels first.")
    if encoder.classes is None:
        raise InvalidInputError(
            f"{encoder.method!r} has no scores of classes, so it cannot decide; call collection.change_hasher('hroh')."
        )
    if len(encoder.classes) < 2:
        raise InvalidInputError(f"There is one label, {encoder.classes[0]!r}, so there is nothing to decide.")
    return encoder


def decide(
    collection: Collection, encoder: Encoder, vectors: Any, threshold: float, n_neighbours: int
) -> list[Decision]:
    """Return what every row is, if its probability reaches a threshold, and it is not far from all items."""
    assert encoder.classes is not None
    classes, calibration = encoder.classes, encoder.calibration
    step = max(1, MAX_SCORES // len(classes))
    if len(vectors) > step:
        blocks = (vectors[start : start + step] for start in range(0, len(vectors), step))
        return [each for block in blocks for each in decide(collection, encoder, block, threshold, n_neighbours)]
    scores = encoder.class_scores(vectors)
    chances = softmax(scores.astype(np.float64), calibration.temperature)
    order = np.argsort(-chances, axis=1, kind="stable")[:, :N_ALTERNATIVES]
    near, cosines = _nearest(collection, vectors, [classes[i] for i in order[:, 0]], n_neighbours)
    known = calibration.is_known(scores, cosines)
    decisions = []
    for row, places in enumerate(order.tolist()):
        alternatives = [(classes[i], round(float(chances[row, i]), 6)) for i in places]
        best, score = alternatives[0]
        is_far = cosines[row] < calibration.near_cosine
        label = best if np.float32(chances[row, places[0]]) >= threshold and not is_far else None
        decisions.append(Decision(label, score, alternatives, bool(known[row]), near[row]))
    return decisions


def _nearest(
    collection: Collection, vectors: Any, labels: Sequence[Label], k: int
) -> tuple[list[list[Id]], NDArray[np.float64]]:
    """Return the ids of the nearest items of every row that have its label, and the cosine of the nearest of all."""
    n_found = max(1, _NEIGHBOURS_PER_WANTED * k)
    found = collection.search(vectors, n_found, rescore="cosine", include=["labels"], wait=False)
    assert found.labels is not None
    near = list[list[Id]]()
    for label, ids, known in zip(labels, found.ids, found.labels, strict=True):
        own = (label == some or (isinstance(some, tuple) and label in some) for some in known)
        near.append([id for id, is_own in zip(ids, own, strict=True) if is_own][:k])
    for row, ids in enumerate(near):
        if len(ids) < k:  # most of the nearest have other labels
            near[row] = list(collection.search(vectors[row], k, labels=labels[row], rescore="cosine", wait=False).ids)
    return near, 1.0 - np.array([distances[0] if distances else 2.0 for distances in found.distances])


def find_suspects(collection: Collection, n: int, labels: Any, progress: Progress) -> list[Suspect]:
    """Return the items whose labels the other items contradict most."""
    check_positive_int("n", n)
    scoring_encoder(collection)
    found = list[Suspect]()
    with collection._searcher.lock.reading():
        catalogue = collection._searcher.catalogue
        seqs = catalogue.with_labels() if labels is None else catalogue.having(labels)
    hasher = _hasher_of(collection)
    learned = hasher.snapshot()
    for ids, vectors, texts in read_rows(collection, seqs, progress=progress):
        others, margins = contradictions(hasher, learned, vectors, texts)
        for row in np.flatnonzero(np.isfinite(margins)).tolist():
            label: Any = labels_of(texts[row])
            found.append(Suspect(ids[row], label, others[row], float(margins[row])))
        found = sorted(found, key=lambda each: -each.margin)[:n]
    return found


def contradictions(
    hasher: HROH, encoder: Encoder, vectors: NDArray[np.float32], texts: Sequence[str | None]
) -> tuple[list[Label], NDArray[Any]]:
    """Return the best label of every labelled row besides its own, and the margin of :class:`Suspect`: leave one out.

    It is -inf where the own label is the best. The encoder is a snapshot of the hasher. The own score counts twice:
    where both labels have a high score, the item is between two classes more often than its label is wrong.
    """
    assert encoder.classes is not None
    scores, own = _without_themselves(hasher, encoder, vectors, texts)
    other = scores.copy()
    for row, numbers in enumerate(own):
        other[row, numbers] = -np.inf
    best, highest = other.argmax(axis=1), other.max(axis=1)
    lowest = np.array([scores[row, numbers].min() for row, numbers in enumerate(own)])
    margins = np.where(highest > lowest, highest - 2.0 * np.maximum(lowest, 0.0), -np.inf)
    return [encoder.classes[number] for number in best], margins


def choose_review(collection: Collection, n: int, by: str, progress: Progress) -> list[ReviewItem]:
    """Return the unlabelled items whose labels would teach most."""
    check_positive_int("n", n)
    check_choice("by", by, get_args(ReviewOrder))
    encoder = scoring_encoder(collection)
    assert encoder.classes is not None
    calibration, first = encoder.calibration, list[tuple[float, ReviewItem, NDArray[Any]]]()
    pool = _POOL_PER_CHOSEN * n if by == "diverse" else n
    with collection._searcher.lock.reading():
        seqs = collection._searcher.catalogue.with_labels(False)
    for ids, vectors, _ in read_rows(collection, seqs, progress=progress):
        with single_threaded_products(len(vectors)):
            scores = encoder.class_scores(vectors)
        chances = softmax(scores.astype(np.float64), calibration.temperature)
        suggested, known = [encoder.classes[i] for i in chances.argmax(axis=1)], calibration.is_known(scores)
        score = chances.max(axis=1)
        items = map(ReviewItem, ids, suggested, score.round(6).tolist(), known.tolist())
        keys = scores.max(axis=1) if by == "unknown" else score
        first += zip(keys.tolist(), items, map(np.copy, vectors), strict=True)  # a view would keep all vectors read
        first = sorted(first, key=lambda each: each[0])[:pool]
    chosen, rows = [item for _, item, _ in first], np.array([row for _, _, row in first])
    if by == "unknown" and len(chosen) > 1:
        return [replace(item, group=group) for item, group in zip(chosen, _groups(collection, rows), strict=True)]
    if by == "diverse" and len(chosen) > n:
        return [chosen[i] for i in _spread(rows, n)]
    return chosen[:n]


def _groups(collection: Collection, vectors: NDArray[Any]) -> list[int]:
    """Return the number of the group of every row, largest group first.

    Groups are joined while the mean cosine between their rows is nearer to that of rows of one label than to that of
    rows of two: to name a class twice is easier than to part two.
    """
    from sklearn.cluster import AgglomerativeClustering

    rows: list[NDArray[Any]] = [np.empty((0, vectors.shape[1]))]
    own = list[str | None]()
    with collection._searcher.lock.reading():
        seqs = draw_labelled(collection)[:_ROWS_PER_READ]
    for _, some, texts in read_rows(collection, seqs):
        rows.append(some)
        own += texts
    learned, names = _unit(np.concatenate(rows)), np.array(own)
    cosines, is_same = learned @ learned.T, names[:, None] == names
    pairs = (
        (cosines[is_same & ~np.eye(len(names), dtype=bool)], _OF_ONE_LABEL),
        (cosines[~is_same], 1 - _OF_ONE_LABEL),
    )
    found = [(some.mean(), weight) for some, weight in pairs if len(some)] or [(0.5, 1.0)]
    least = float(np.average([mean for mean, _ in found], weights=[weight for _, weight in found]))
    unit = _unit(vectors[:_MAX_GROUPED])
    model = AgglomerativeClustering(None, metric="precomputed", linkage="average", distance_threshold=1.0 - least)
    numbers = model.fit_predict(1.0 - unit @ unit.T)
    places = np.argsort(np.argsort(-np.bincount(numbers), kind="stable"))
    alone = range(len(places), len(places) + len(vectors) - len(unit))
    return [*(int(places[number]) for number in numbers), *alone]


def _unit(vectors: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))


def _spread(vectors: NDArray[Any], n: int) -> list[int]:
    """Return rows that are far from each other, the first one first: each is the farthest from those before."""
    unit = _unit(vectors)
    chosen, nearest = [0], unit @ unit[0]
    for _ in range(n - 1):
        nearest[chosen[-1]] = np.inf
        chosen.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, unit @ unit[chosen[-1]])
    return chosen


def draw_labelled(collection: Collection) -> Seqs:
    """Return the sequence numbers of labelled items, drawn at random, that calibrate an encoder."""
    return drawn(collection._searcher.catalogue.with_labels(), ROWS_TO_CALIBRATE, 0)
