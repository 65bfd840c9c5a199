"""Decisions: labels with a stated error, labels that are wrong, and what to label next, from the scores of classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.threads import single_threaded_products
from onlinehash._internal.validation import check_choice, check_positive_int
from onlinehash.collection.inputs import label_set, labels_of
from onlinehash.collection.learner import targets_of
from onlinehash.collection.searcher import drawn
from onlinehash.collection.stores.sql import Seqs
from onlinehash.collection.types import Decision, Id, Label, ReviewItem, Suspect
from onlinehash.encoders import Calibration, Encoder
from onlinehash.encoders.calibration import softmax
from onlinehash.exceptions import InvalidInputError, NotLearnedError
from onlinehash.hashers import HROH, OnlineHasher
from onlinehash.types import Features

if TYPE_CHECKING:
    from onlinehash.collection.collection import Collection

ROWS_TO_CALIBRATE = 4096
"""Labelled items whose leave-one-out scores calibrate an encoder."""

N_ALTERNATIVES = 5
_ROWS_PER_READ = 1024
_MAX_HELD_OUT_ROWS = 20_000  # of the classes that are held out
_N_TRIALS = 4  # of the same number of classes each
_POOL_PER_CHOSEN = 3  # "diverse" chooses among so many times the items wanted


# ---------------------------------------------------------------------- calibration


def calibrated(collection: Collection, hasher: OnlineHasher, seqs: Seqs, table: str = "stream") -> Encoder:
    """Return the encoder of a hasher, calibrated by labelled items that it has learned."""
    encoder = hasher.snapshot()
    if encoder.classes is None or not isinstance(hasher, HROH):
        return encoder
    scores: list[Features] = [np.empty((0, len(encoder.classes)))]
    own = list[list[int]]()
    for _, vectors, texts in read_rows(collection, seqs, table):
        without, numbers = _without_themselves(hasher, encoder, vectors, texts)
        scores.append(without)
        own += numbers
    return replace(encoder, calibration=Calibration.fit(np.concatenate(scores), own))


def read_rows(
    collection: Collection, seqs: Seqs, table: str = "stream"
) -> Iterator[tuple[list[Id], NDArray[np.float32], list[str | None]]]:
    """Yield ids, vectors and labels of those items that are still there, some at a time."""
    store, dtype = collection._store, collection._settings["vector_dtype"]
    for start in range(0, len(seqs), _ROWS_PER_READ):
        with store.snapshot():
            left = store.items_left(seqs[start : start + _ROWS_PER_READ].tolist())
            rows = store.rows(left, dtype, table)
        if rows:
            ids, texts, vectors = zip(*rows, strict=True)
            yield list(ids), np.array(vectors, np.float32), list(texts)


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
    if len(counts) < 2:
        raise InvalidInputError("unknown_share needs at least two labels: one of them is left out on trial.")
    order = np.random.default_rng(0).permutation(len(counts)).tolist()
    chosen, n_rows = list[Label](), 0
    for label, n in sorted(((list(counts.items())[i]) for i in order), key=lambda each: each[1] > _MAX_HELD_OUT_ROWS):
        if not chosen or n_rows + n <= _MAX_HELD_OUT_ROWS:
            chosen.append(label)
            n_rows += n
    temperature, parts = encoder.calibration.temperature, list[NDArray[Any]]()
    for left_out in (chosen[start::_N_TRIALS] for start in range(min(_N_TRIALS, len(chosen)))):
        hasher = collection.hasher
        assert isinstance(hasher, HROH)
        if not hasher._can_unlearn:
            raise InvalidInputError(
                "unknown_share needs a hasher that can unlearn: HROH with decay=1 and no running mean."
            )
        with collection._searcher.reading():
            seqs = collection._searcher.catalogue.having(left_out)
        rows = list(read_rows(collection, seqs))
        for _, vectors, texts in rows:
            hasher._unlearn_learned(vectors, targets_of(texts))
        without = hasher.snapshot()
        parts += [softmax(without.class_scores(vectors), temperature).max(axis=1) for _, vectors, _ in rows]
    return np.concatenate(parts).astype(np.float32)


# ---------------------------------------------------------------------- decisions


def check_share(name: str, value: Any, *, zero: bool = False) -> float:
    """Return a share between 0 and 1, or 0 where that is allowed."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value < 1.0 or value + zero <= 0.0:
        raise InvalidInputError(f"{name}={value!r} is not a number between 0 and 1{', or 0' if zero else ''}.")
    return float(value)


def scoring_encoder(collection: Collection) -> Encoder:
    """Return the encoder in use, which must have scores of at least two classes."""
    encoder = collection.encoder
    if encoder is None:
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
    """Return what every row is, if its probability reaches a threshold."""
    assert encoder.classes is not None
    classes, calibration = encoder.classes, encoder.calibration
    scores = encoder.class_scores(vectors)
    chances, known = softmax(scores.astype(np.float64), calibration.temperature), calibration.is_known(scores)
    order = np.argsort(-chances, axis=1, kind="stable")[:, :N_ALTERNATIVES]
    near = _supporting(collection, vectors, [classes[i] for i in order[:, 0]], n_neighbours)
    decisions = []
    for row, places in enumerate(order.tolist()):
        alternatives = [(classes[i], round(float(chances[row, i]), 6)) for i in places]
        best, score = alternatives[0]
        label = best if np.float32(chances[row, places[0]]) >= threshold else None
        decisions.append(Decision(label, score, alternatives, bool(known[row]), near[row]))
    return decisions


def _supporting(collection: Collection, vectors: Any, labels: Sequence[Label], k: int) -> list[list[Id]]:
    """Return the ids of the nearest items of every row that have its label."""
    near: list[list[Id]] = [[] for _ in labels]
    if k:
        for label in dict.fromkeys(labels):
            rows = [row for row, each in enumerate(labels) if each == label]
            for row, ids in zip(rows, collection.search(vectors[rows], k, labels=label, wait=False).ids, strict=True):
                near[row] = list(ids)
    return near


def find_suspects(collection: Collection, n: int, labels: Any) -> list[Suspect]:
    """Return the items whose labels the other items contradict most."""
    check_positive_int("n", n)
    encoder, hasher = scoring_encoder(collection), collection.hasher
    assert isinstance(hasher, HROH)
    encoder = replace(encoder, classes=tuple(hasher.snapshot().classes or ()))  # of all that was learned
    classes = encoder.classes or ()
    found = list[Suspect]()
    with collection._searcher.reading():
        catalogue = collection._searcher.catalogue
        seqs = catalogue.with_labels() if labels is None else catalogue.having(labels)
    for ids, vectors, texts in read_rows(collection, seqs):
        scores, own = _without_themselves(hasher, encoder, vectors, texts)
        other = scores.copy()
        for row, numbers in enumerate(own):
            other[row, numbers] = -np.inf
        best = other.argmax(axis=1)
        lowest = np.array([scores[row, numbers].min() for row, numbers in enumerate(own)])
        margins = other[np.arange(len(best)), best] - lowest
        for row in np.flatnonzero(margins > 0.0).tolist():
            label: Any = labels_of(texts[row])
            found.append(Suspect(ids[row], label, classes[best[row]], float(margins[row])))
        found = sorted(found, key=lambda each: -each.margin)[:n]
    return found


def choose_review(collection: Collection, n: int, by: str) -> list[ReviewItem]:
    """Return the unlabelled items whose labels would teach most."""
    check_positive_int("n", n)
    check_choice("by", by, ("uncertain", "unknown", "diverse"))
    encoder = scoring_encoder(collection)
    assert encoder.classes is not None
    calibration, items, keys, rows = encoder.calibration, list[ReviewItem](), list[float](), list[NDArray[Any]]()
    pool = _POOL_PER_CHOSEN * n if by == "diverse" else n
    with collection._searcher.reading():
        seqs = collection._searcher.catalogue.with_labels(False)
    for ids, vectors, _ in read_rows(collection, seqs):
        with single_threaded_products(len(vectors)):
            scores = encoder.class_scores(vectors)
        chances = softmax(scores.astype(np.float64), calibration.temperature)
        best, known = chances.argmax(axis=1), calibration.is_known(scores)
        score = chances.max(axis=1)
        columns = ([encoder.classes[i] for i in best], score.round(6).tolist(), known.tolist())
        items += map(ReviewItem, ids, *columns)
        keys += (scores.max(axis=1) if by == "unknown" else score).tolist()
        rows += list(vectors) if by == "diverse" else []
        first = sorted(range(len(items)), key=keys.__getitem__)[:pool]
        items, keys = [items[i] for i in first], [keys[i] for i in first]
        rows = [rows[i] for i in first] if rows else []
    if by != "diverse" or len(items) <= n:
        return items[:n]
    return [items[i] for i in _spread(np.array(rows), n)]


def _spread(vectors: NDArray[Any], n: int) -> list[int]:
    """Return rows that are far from each other, the first one first: each is the farthest from those before."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    chosen, nearest = [0], unit @ unit[0]
    for _ in range(n - 1):
        nearest[chosen[-1]] = np.inf
        chosen.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, unit @ unit[chosen[-1]])
    return chosen


def draw_labelled(collection: Collection) -> Seqs:
    """Return the sequence numbers of labelled items, drawn at random, that calibrate an encoder."""
    return drawn(collection._searcher.catalogue.with_labels(), ROWS_TO_CALIBRATE, 0)
