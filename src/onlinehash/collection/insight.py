"""Insight: what a collection has learned, for people to look at; each is a function of a collection."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite, isnan, sqrt
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import check_positive_int
from onlinehash.collection.decisions import contradictions, read_rows
from onlinehash.collection.inputs import label_set, labels_of
from onlinehash.collection.searcher import OutOfStep, Request, Searcher, drawn
from onlinehash.collection.types import Batch, Id, Label
from onlinehash.encoders import Encoder
from onlinehash.encoders.calibration import softmax
from onlinehash.exceptions import OnlineHashError
from onlinehash.hashers import HROH
from onlinehash.metrics import Prequential
from onlinehash.types import Features

if TYPE_CHECKING:
    from onlinehash.collection.collection import Collection

_log = logging.getLogger(__name__)

KEPT_RECORDS = 256
"""Records of each kind that a collection keeps."""

_MAX_VALUES = 20_000_000  # real values that a map is made of
_MAP_AXES, _MIN_ROWS_OF_TSNE = 50, 5
_LEARNED_PER_RECORD, _SECONDS_PER_RECORD = 1000, 60.0  # of the quality, whichever comes first


@dataclass(frozen=True)
class EncoderRecord:
    """An encoder that was taken into use.

    Parameters
    ----------
    generation : int
        Number of its generation of codes.
    version : int
        Instances that the hasher had learned from.
    at : datetime
        When its codes were taken into use, in UTC.
    n_items : int
        Items that it encoded.
    seconds : float
        How long that took; since it was resumed, if it was interrupted.

    Examples
    --------
    >>> EncoderRecord(2, 1000, datetime(2026, 1, 1, tzinfo=UTC), 1000, 0.5).at.isoformat()
    '2026-01-01T00:00:00+00:00'
    """

    generation: int
    version: int
    at: datetime
    n_items: int
    seconds: float


@dataclass(frozen=True)
class QualityRecord:
    """The prequential quality at a moment of the stream; see :meth:`Collection.measure_quality`.

    Parameters
    ----------
    sequence : int
        Sequence number of the last item before.
    n_learned : int
        Instances that the hasher had learned from.
    at : datetime
        In UTC.
    precision : float
        Mean share of items with a label of the query among its nearest.
    map : float or None
        Mean average precision among the nearest; None if no query found any item with its label.
    n_queries : int
        Number of queries since the collection was opened; the means are of the last of them.

    Examples
    --------
    >>> QualityRecord(1000, 1000, datetime(2026, 1, 1, tzinfo=UTC), 0.9, 0.95, 160).precision
    0.9
    """

    sequence: int
    n_learned: int
    at: datetime
    precision: float
    map: float | None
    n_queries: int


@dataclass(frozen=True)
class History:
    """What a collection was, oldest first.

    Parameters
    ----------
    encoders : list of EncoderRecord
    quality : list of QualityRecord

    Examples
    --------
    >>> History([], []).encoders
    []
    """

    encoders: list[EncoderRecord]
    quality: list[QualityRecord]


def with_record(settings: Mapping[str, Any], record: EncoderRecord | QualityRecord) -> dict[str, Any]:
    """Return the setting that holds the records of a kind, with one more; the oldest beyond the number kept go."""
    name = "history:encoders" if isinstance(record, EncoderRecord) else "history:quality"
    row = vars(record) | {"at": record.at.isoformat(timespec="milliseconds")}
    return {name: [*settings.get(name, []), row][-KEPT_RECORDS:]}


def read_history(settings: Mapping[str, Any]) -> History:
    """Return all records that are kept."""
    encoders, quality = (
        [row | {"at": datetime.fromisoformat(row["at"])} for row in settings.get(f"history:{kind}", [])]
        for kind in ("encoders", "quality")
    )
    return History([EncoderRecord(**row) for row in encoders], [QualityRecord(**row) for row in quality])


@dataclass(frozen=True, eq=False)
class ItemMap:
    """Items in the plane.

    Parameters
    ----------
    version : int or None
        Version of the encoder in use; None before the first.
    ids : list of ids
    labels : list of labels
        One label, a tuple of them, or None per item.
    x, y : ndarray of shape (n_items,)
    suspects : list of ids
        Those of the items whose label the other items contradict.

    Examples
    --------
    >>> ItemMap(None, [], [], np.empty(0), np.empty(0), []).ids
    []
    """

    version: int | None
    ids: list[Id]
    labels: list[Label | tuple[Label, ...] | None]
    x: NDArray[Any]
    y: NDArray[Any]
    suspects: list[Id]


def item_map(collection: Collection, limit: int) -> ItemMap:
    """Return a random sample of the items in the plane, by t-SNE of what the encoder makes of them."""
    limit, encoder = check_positive_int("limit", limit), collection.encoder
    ids, labels, suspects = list[Id](), list[Any](), list[Id]()
    if encoder is None:
        return ItemMap(None, ids, labels, np.empty(0), np.empty(0), suspects)
    with collection._searcher.lock.reading():
        seqs = collection._searcher.catalogue.all_seqs()
    seqs = drawn(seqs, min(limit, max(2, _MAX_VALUES // encoder.weights.shape[1])), 0)
    describe = encoder.class_scores if encoder.classes else encoder.project
    values = list[NDArray[Any]]()
    hasher = collection.hasher if encoder.classes else None
    learned = hasher.snapshot() if isinstance(hasher, HROH) and hasher._can_unlearn else None
    for some, vectors, texts in read_rows(collection, seqs):
        if vectors.shape[1] != encoder.n_features:  # the embedding model was changed meanwhile
            continue
        ids += some
        labels += map(labels_of, texts)
        values.append(describe(vectors))
        labelled = [row for row, text in enumerate(texts) if text is not None]
        if isinstance(hasher, HROH) and learned is not None and labelled:
            margins = contradictions(hasher, learned, vectors[labelled], [texts[row] for row in labelled])[1]
            suspects += [some[row] for row, margin in zip(labelled, margins, strict=True) if isfinite(margin)]
    points = _in_the_plane(np.concatenate(values) if values else np.empty((0, 2)))
    return ItemMap(encoder.version, ids, labels, points[:, 0], points[:, 1], suspects)


def _in_the_plane(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return points that are near each other where rows are, in any scale."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    rows, points = np.asarray(values, np.float64), np.zeros((len(values), 2))
    rows = rows / max(np.abs(rows).max(initial=0.0), 1e-300)
    n_axes = min(_MAP_AXES, *rows.shape)
    if len(rows) < _MIN_ROWS_OF_TSNE or not np.ptp(rows, axis=0).any():
        n_columns = min(2, rows.shape[1])
        points[:, :n_columns] = rows[:, :n_columns]
        return points
    if n_axes < rows.shape[1]:
        rows = PCA(n_axes, svd_solver="randomized", random_state=0).fit_transform(rows)
    perplexity = min(30.0, (len(rows) - 1) / 3.0)
    init = "pca" if n_axes > 1 else "random"
    return np.asarray(TSNE(perplexity=perplexity, init=init, max_iter=500, random_state=0).fit_transform(rows), float)


class Quality:
    """Prequential quality: new items with labels are searched for before they are learned from.

    Parameters
    ----------
    k, window : int
        As for :class:`onlinehash.metrics.Prequential`.
    per_call : int
        At most this many items of one call are queries, spread evenly over it.
    max_error : float
        Share of wrong labels that :meth:`Collection.classify` is allowed.
    """

    def __init__(self, k: int, window: int, per_call: int, max_error: float) -> None:
        self._per_call, self._max_error = check_positive_int("per_call", per_call), max_error
        self._measured = Prequential(k, window=window)
        self._errors: deque[bool | None] = deque(maxlen=window)  # of labels that were given; None where none was
        self._has_warned = False
        self._next_record, self._n_recorded = (0, 0.0), 0  # instances learned and seconds; queries at the last one

    def stats(self) -> dict[str, Any]:
        """Return what the statistics of a collection say of it."""
        measured = self._measured
        if not measured.n_queries:
            return {}
        average = _number(measured.mean_average_precision)
        stats = {"precision": measured.precision, "mean_average_precision": average, "n_queries": measured.n_queries}
        if self._errors:
            given = [error for error in self._errors if error is not None]
            stats |= {"coverage": len(given) / len(self._errors), "error": sum(given) / len(given) if given else None}
        return stats

    def _decide(self, encoder: Encoder, scores: Features, own: Sequence[frozenset[Label]]) -> None:
        """Give labels to rows, with the error allowed; warn if more are wrong than chance explains."""
        assert encoder.classes is not None
        chances = softmax(scores, encoder.calibration.temperature)
        threshold = encoder.calibration.threshold(self._max_error)
        for best, chance, labels in zip(chances.argmax(axis=1), chances.max(axis=1), own, strict=True):
            self._errors.append(encoder.classes[best] not in labels if chance >= threshold else None)
        given = [error for error in self._errors if error is not None]
        expected = self._max_error * len(given)
        exceeds = sum(given) > expected + 3.0 * sqrt(expected) + 1.0
        if exceeds and not self._has_warned:
            _log.warning(
                "%d of the last %d labels that classify would have given are wrong; at most %g %% were to be. The "
                "stream may have changed.",
                sum(given),
                len(given),
                100 * self._max_error,
            )
        self._has_warned = exceeds

    def search(self, searcher: Searcher, batch: Batch) -> None:
        """Search for some of the items that are about to be stored."""
        generation = searcher.generation
        labelled = [row for row, text in enumerate(batch.labels) if text is not None]
        n_queries = min(self._per_call, len(labelled))
        if generation is None or not n_queries:
            return
        rows = [labelled[i * len(labelled) // n_queries] for i in range(n_queries)]
        vectors, k = np.asarray(batch.vectors[rows], np.float32), self._measured.k
        try:
            codes, scores = generation.encode_queries(vectors, False, bool(generation.encoder.classes))
            found = searcher.search(generation, codes, Request(k + 1))  # one may be the item itself
        except (OnlineHashError, OutOfStep):  # a search engine that is away is no reason to refuse items
            return
        if scores is not None:
            self._decide(generation.encoder, scores, [label_set(batch.labels[row]) for row in rows])
        for row, some in zip(rows, found, strict=True):
            wanted, others = label_set(batch.labels[row]), some.labels[some.ids != batch.ids[row]][:k]
            relevant = [not wanted.isdisjoint(label_set(text)) for text in others]
            places = np.flatnonzero(relevant) + 1
            average = (np.arange(1, len(places) + 1) / places).mean() if len(places) else np.nan
            self._measured.add(float(np.mean(relevant)) if relevant else 0.0, average)

    def record(self, settings: Mapping[str, Any], n_learned: int, sequence: int) -> dict[str, Any]:
        """Return the setting with one more record, unless the last was made a moment ago."""
        measured, now = self._measured, monotonic()
        is_soon = n_learned < self._next_record[0] and now < self._next_record[1]
        if is_soon or measured.n_queries == self._n_recorded:
            return {}
        self._n_recorded = measured.n_queries
        self._next_record = n_learned + _LEARNED_PER_RECORD, now + _SECONDS_PER_RECORD
        average, precision = _number(measured.mean_average_precision), round(measured.precision, 6)
        record = QualityRecord(sequence, n_learned, datetime.now(UTC), precision, average, measured.n_queries)
        return with_record(settings, record)


def _number(value: float) -> float | None:
    return None if isnan(value) else round(value, 6)
