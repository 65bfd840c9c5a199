"""Prequential quality of a collection: items with labels are searched for before they are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import isnan
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from onlinehash._validation import check_positive_int
from onlinehash.collection._validation import LabelColumn, label_set
from onlinehash.collection.history import QualityRecord, note
from onlinehash.collection.reader import CollectionReader
from onlinehash.collection.stores.protocol import Among
from onlinehash.collection.types import Id, Stats
from onlinehash.exceptions import OnlineHashError
from onlinehash.metrics import Prequential

_OFTEN, _SECONDS = 1000, 60.0  # instances learned or seconds between two records


class WithPrequentialQuality(CollectionReader):
    """Measure how well new items find those of their labels, before they are learned from."""

    _quality: Prequential | None = None
    _per_call: int = 0
    _recorded: tuple[int, float, int] | None = None  # instances learned, seconds and queries at the last record

    def measure_quality(self, k: int = 10, *, window: int = 1000, per_call: int = 16) -> None:
        """Search for new items that have labels before they are stored and learned from.

        :meth:`stats` then has ``precision``, the mean share of items with a label of the query among the k nearest. It
        needs no held-out queries. It is kept while the collection is open, and starts again with every call. Every
        1000 learned instances, or every minute, :meth:`history` gets a record of it, which is stored.

        Parameters
        ----------
        k : int, default=10
        window : int, default=1000
            Number of last queries that the precision is the mean of.
        per_call : int, default=16
            At most this many items of one :meth:`upsert` are queries, spread evenly over it. Each costs one search.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import onlinehash as oh
        >>> X, y = oh.load_dataset("digits").split().stream
        >>> with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/digits.oh", "hroh") as digits:
        ...     digits.measure_quality(window=100)
        ...     for start in range(0, 1500, 100):
        ...         digits.upsert(range(start, start + 100), X[start : start + 100], y[start : start + 100])
        ...     stats = digits.stats()
        >>> stats.n_queries, stats.precision > 0.8
        (224, True)
        """
        check_positive_int("per_call", per_call)
        quality = Prequential(k, window=window)
        with self._exclusive():
            self._quality, self._per_call, self._recorded = quality, per_call, None

    def stats(self) -> Stats:
        """Return the statistics of the collection."""
        stats, quality = super().stats(), self._quality
        if quality is None or not quality.n_queries:
            return stats
        average = _number(quality.mean_average_precision)
        return replace(stats, precision=quality.precision, mean_average_precision=average, n_queries=quality.n_queries)

    def _note_quality(self, quality: Prequential, n_learned: int, sequence: int) -> None:
        """Record the quality, in the transaction that is under way, unless that was done a moment ago."""
        time = monotonic()
        if not quality.n_queries:
            return
        if self._recorded is not None:
            learned_at, recorded_at, n_queries = self._recorded
            if n_queries == quality.n_queries or (n_learned - learned_at < _OFTEN and time - recorded_at < _SECONDS):
                return
        self._recorded = n_learned, time, quality.n_queries
        precision, average = round(quality.precision, 6), _number(quality.mean_average_precision)
        at = datetime.now(UTC)
        note(self._store, QualityRecord(sequence, n_learned, at, precision, average, quality.n_queries))

    def _search_before_learning(
        self, quality: Prequential, ids: Sequence[Id], vectors: NDArray[np.generic], labels: LabelColumn
    ) -> None:
        """Search for some of the items that are about to be stored."""
        if self._index.current is None:
            return
        labelled = [row for row, text in enumerate(labels.texts) if text is not None]
        n_queries = min(self._per_call, len(labelled))
        if not n_queries:
            return
        rows = [labelled[i * len(labelled) // n_queries] for i in range(n_queries)]
        k = quality.k
        # One more: an item that is there already finds itself.
        try:
            found = self._index.search(np.asarray(vectors[rows], np.float32), k + 1, Among())
        except OnlineHashError:  # a search engine that is away is no reason to refuse items
            return
        stored = self._store.rows(list(dict.fromkeys(id for ids_found in found.ids for id in ids_found)))
        labels_by_id = dict(zip(stored.ids, map(label_set, stored.labels), strict=True))
        for row, ids_found in zip(rows, found.ids, strict=True):
            wanted = label_set(labels.texts[row])
            nearest = [id for id in ids_found if id != ids[row] and id in labels_by_id][:k]
            relevant = np.array([not wanted.isdisjoint(labels_by_id[id]) for id in nearest], bool)
            places = np.flatnonzero(relevant) + 1
            average = (np.arange(1, len(places) + 1) / places).mean() if len(places) else np.nan
            quality.add(relevant.mean() if len(relevant) else 0.0, average)


def _number(value: float) -> float | None:
    return None if isnan(value) else round(value, 6)
