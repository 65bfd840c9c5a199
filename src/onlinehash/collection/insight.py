"""Insight: what a collection has learned, for people to look at; each is a function of a collection."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from math import isnan, sqrt
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import check_positive_int
from onlinehash.codes import pack_signs, unpack_bits
from onlinehash.collection.inputs import label_set
from onlinehash.collection.searcher import Searcher
from onlinehash.collection.types import Batch, Id, Label
from onlinehash.encoders import Encoder
from onlinehash.encoders.calibration import softmax
from onlinehash.exceptions import OnlineHashError
from onlinehash.hashers import OnlineHasher
from onlinehash.metrics import Prequential
from onlinehash.types import Codes, Features

if TYPE_CHECKING:
    from onlinehash.collection.collection import Collection

_log = logging.getLogger(__name__)

KEPT_RECORDS = 256
"""Records of each kind that a collection keeps."""

_MAX_SAMPLE = 50_000  # items whose bits are counted
_MAX_CLASSES = 256  # the largest ones
_MAX_SHARES = 1 << 18  # shares of ones, over all classes and bits
_MAX_VALUES = 20_000_000  # real values that a map is made of
_LEARNED_PER_RECORD, _SECONDS_PER_RECORD = 1000, 60.0  # of the quality, whichever comes first

T = TypeVar("T", "EncoderRecord", "QualityRecord")


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


_NAMES: dict[type, str] = {EncoderRecord: "history:encoders", QualityRecord: "history:quality"}


def with_record(settings: Mapping[str, Any], record: EncoderRecord | QualityRecord) -> dict[str, Any]:
    """Return the setting that holds the records of a kind, with one more; the oldest beyond the number kept go."""
    name = _NAMES[type(record)]
    row = [
        value.isoformat(timespec="milliseconds") if isinstance(value, datetime) else value for value in astuple(record)
    ]
    return {name: [*settings.get(name, []), row][-KEPT_RECORDS:]}


def read_history(settings: Mapping[str, Any]) -> History:
    """Return all records that are kept."""
    return History(_read(settings, EncoderRecord), _read(settings, QualityRecord))


def _read(settings: Mapping[str, Any], kind: type[T]) -> list[T]:
    names = [field.name for field in fields(kind)]
    rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in settings.get(_NAMES[kind], [])]
    return [kind(**row | {"at": datetime.fromisoformat(row["at"])}) for row in rows]


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
    explained : tuple of two floats
        Share of the variance along each axis.

    Examples
    --------
    >>> ItemMap(None, [], [], np.empty(0), np.empty(0), (0.0, 0.0)).ids
    []
    """

    version: int | None
    ids: list[Id]
    labels: list[Label | tuple[Label, ...] | None]
    x: NDArray[Any]
    y: NDArray[Any]
    explained: tuple[float, float]


@dataclass(frozen=True, eq=False)
class ClassBits:
    """The bits of a class.

    Parameters
    ----------
    label : int or str
    n_items : int
    codeword : ndarray of uint8 or None
        What its codes are learned towards, packed; None if the method has no codewords.
    ones : ndarray of shape (n_bits,)
        Share of ones per bit, among some of its items; empty if none of them is in the sample.

    Examples
    --------
    >>> ClassBits("cat", 2, None, np.array([0.5, 1.0])).ones.round()
    array([0., 1.])
    """

    label: Label
    n_items: int
    codeword: Codes | None
    ones: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Codewords:
    """The bits of the largest classes.

    Parameters
    ----------
    version : int or None
        Version of the encoder in use; None before the first.
    n_bits : int
        Length of the codes.
    n_class_bits : int
        Length of the codewords: the first bits of a code. 0 if there are none.
    n_classes : int
        Number of all classes.
    classes : list of ClassBits
        Largest first.

    Examples
    --------
    >>> Codewords(None, 32, 0, 0, []).classes
    []
    """

    version: int | None
    n_bits: int
    n_class_bits: int
    n_classes: int
    classes: list[ClassBits]


def item_map(collection: Collection, limit: int) -> ItemMap:
    """Return a random sample of the items in the plane: two principal components of what the encoder makes of them."""
    limit, encoder = check_positive_int("limit", limit), collection.encoder
    if encoder is None:
        return ItemMap(None, [], [], np.empty(0), np.empty(0), (0.0, 0.0))
    wanted = collection.sample(min(limit, max(2, _MAX_VALUES // encoder.weights.shape[1])))
    ids, labels, values = list[Id](), list[Any](), list[NDArray[Any]]()
    for start in range(0, len(wanted), 1000):
        for item in collection.get(wanted[start : start + 1000]):
            if len(item.vectors) == encoder.n_features:  # else the embedding model was changed meanwhile
                ids.append(item.id)
                labels.append(item.labels)
                values.append(item.vectors)
    describe = encoder.class_scores if encoder.classes else encoder.project
    scores = describe(np.array(values)) if values else np.empty((0, 1))
    points, explained = _principal(scores)
    return ItemMap(encoder.version, ids, labels, points[:, 0], points[:, 1], explained)


def class_bits(counts: Mapping[Label | None, int], searcher: Searcher, hasher: OnlineHasher, n_bits: int) -> Codewords:
    """Return the codewords of the largest classes beside the bits that a sample of their items has."""
    with searcher.reading() as (generation, index):
        encoder = None if generation is None else generation.encoder
        seqs = searcher.catalogue.sample(_MAX_SAMPLE, 0)
        labels = searcher.catalogue.labels(seqs)
        codes = None if index is None or not len(seqs) else index.get(seqs)
    n_bits = n_bits if encoder is None else encoder.n_bits
    classes = {label: n_items for label, n_items in counts.items() if label is not None}
    largest = Counter(classes).most_common(max(1, min(_MAX_CLASSES, _MAX_SHARES // n_bits)))
    words = {} if encoder is None else _codewords(encoder, hasher)
    shares = [np.empty(0) for _ in largest]
    if codes is not None:
        rows: dict[Label, list[int]] = {label: [] for label, _ in largest}
        for row, some in enumerate(labels):
            for label in some & rows.keys():
                rows[label].append(row)
        shares = [unpack_bits(codes[some], n_bits).mean(axis=0) if some else np.empty(0) for some in rows.values()]
    return Codewords(
        None if encoder is None else encoder.version,
        n_bits,
        max((len(word) for word in words.values()), default=0),
        len(classes),
        [
            ClassBits(label, n_items, pack_signs(words[label][None])[0] if label in words else None, share)
            for (label, n_items), share in zip(largest, shares, strict=True)
        ],
    )


def _codewords(encoder: Encoder, hasher: OnlineHasher) -> dict[Label, NDArray[np.int8]]:
    """Return the codewords by label, as far as it is known which is whose."""
    labels, words = getattr(hasher, "classes_", None), encoder.codewords
    if words is None:
        words = getattr(hasher, "codewords_", None)
    elif getattr(hasher, "n_unlearned_", 0):  # the encoder may lack classes in the middle
        return {}
    return {} if labels is None or words is None else dict(zip(labels.tolist(), words, strict=False))


def _principal(values: NDArray[Any]) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Return the two principal components of rows, and their shares of the variance."""
    from sklearn.decomposition import PCA

    rows, points, shares = np.asarray(values, np.float64), np.zeros((len(values), 2)), [0.0, 0.0]
    n_axes = min(2, *rows.shape)
    if n_axes and np.ptp(rows, axis=0).any():
        pca = PCA(n_axes, svd_solver="randomized", n_oversamples=6, iterated_power=12, random_state=0)
        points[:, :n_axes] = pca.fit_transform(rows)
        shares[:n_axes] = pca.explained_variance_ratio_.tolist()
    return points, (shares[0], shares[1])


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
        self._recorded: tuple[int, float, int] | None = (
            None  # instances learned, seconds and queries at the last record
        )

    @property
    def n_queries(self) -> int:
        """Number of queries so far."""
        return self._measured.n_queries

    def stats(self) -> dict[str, Any]:
        """Return what the statistics of a collection say of it."""
        if not self.n_queries:
            return {}
        average = _number(self._measured.mean_average_precision)
        stats = {"precision": self._measured.precision, "mean_average_precision": average, "n_queries": self.n_queries}
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
            hits = searcher.search(generation, codes, k=k + 1)  # one may be the item itself
        except OnlineHashError:  # a search engine that is away is no reason to refuse items
            return
        if scores is not None:
            self._decide(generation.encoder, scores, [label_set(batch.labels[row]) for row in rows])
        for row, (seqs, _) in zip(rows, hits, strict=True):
            wanted, known = label_set(batch.labels[row]), searcher.catalogue
            found = zip(known.ids(seqs), known.labels(seqs), strict=True)
            relevant = [not wanted.isdisjoint(labels) for id, labels in found if id != batch.ids[row]][:k]
            places = np.flatnonzero(relevant) + 1
            average = (np.arange(1, len(places) + 1) / places).mean() if len(places) else np.nan
            self._measured.add(float(np.mean(relevant)) if relevant else 0.0, average)

    def record(self, settings: Mapping[str, Any], n_learned: int, sequence: int) -> dict[str, Any]:
        """Return the setting with one more record, unless the last was made a moment ago."""
        time = monotonic()
        if not self.n_queries:
            return {}
        if self._recorded is not None:
            learned_at, recorded_at, n_queries = self._recorded
            is_soon = n_learned - learned_at < _LEARNED_PER_RECORD and time - recorded_at < _SECONDS_PER_RECORD
            if n_queries == self.n_queries or is_soon:
                return {}
        self._recorded = n_learned, time, self.n_queries
        average = _number(self._measured.mean_average_precision)
        precision = round(self._measured.precision, 6)
        record = QualityRecord(sequence, n_learned, datetime.now(UTC), precision, average, self.n_queries)
        return with_record(settings, record)


def _number(value: float) -> float | None:
    return None if isnan(value) else round(value, 6)
