"""Catalogue: which items a collection has, in memory: sequence numbers, ids and labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.inputs import label_set
from onlinehash.collection.stores.sql import ItemColumns, Seqs
from onlinehash.collection.types import Label

_MIN_ROWS = 1024
_ODD_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class Catalogue:
    """The ids and labels of items by their sequence numbers, which rise with arrival.

    The row of an item that is gone stays until half of all rows are such. The labels of a row are a number: that of
    its JSON text among all texts seen.

    Examples
    --------
    >>> catalogue = Catalogue()
    >>> catalogue.put(ItemColumns(np.array([1, 2, 5]), ["b", "a", "c"], ['"cat"', '["cat", "pet"]', None]))
    >>> catalogue.delete(np.array([1]))
    >>> catalogue.ids(np.array([5, 2])), catalogue.having(["cat"]), len(catalogue)
    (['c', 'a'], array([2]), 2)
    """

    def __init__(self) -> None:
        self._size, self._n_gone = 0, 0
        self._seqs: Seqs = np.empty(0, np.int64)
        self._ids: NDArray[Any] = np.empty(0, object)
        self._labels: NDArray[Any] = np.empty(0, np.int32)
        self._alive: NDArray[Any] = np.empty(0, bool)
        self._texts: dict[str | None, int] = {}
        self._listed_texts: list[str | None] = []
        self._label_sets: list[frozenset[Label]] = []

    def __len__(self) -> int:
        return self._size - self._n_gone

    def put(self, items: ItemColumns) -> None:
        """Add items whose sequence numbers are above those of before."""
        if not len(items.seqs):
            return
        if not self._size:
            self._ids = np.empty(0, object if isinstance(items.ids[0], str) else np.int64)
        for text in {*items.labels} - self._texts.keys():
            self._texts[text] = len(self._label_sets)
            self._label_sets.append(label_set(text))
            self._listed_texts.append(text)
        start, self._size = self._size, self._size + len(items.seqs)
        if self._size > len(self._seqs):
            room = max(_MIN_ROWS, self._size, 3 * start // 2)
            for name in ("_seqs", "_ids", "_labels", "_alive"):
                setattr(self, name, _grown(getattr(self, name), room))
        self._seqs[start : self._size], self._ids[start : self._size] = items.seqs, items.ids
        self._labels[start : self._size] = list(map(self._texts.__getitem__, items.labels))
        self._alive[start : self._size] = True

    def delete(self, seqs: Seqs) -> None:
        """Remove the items of sequence numbers; those that are unknown are ignored."""
        rows = np.searchsorted(self._seqs[: self._size], seqs)
        rows = rows[self.known(seqs)]
        self._alive[rows] = False
        self._n_gone += len(rows)
        if 2 * self._n_gone > max(_MIN_ROWS, self._size):
            kept = self._alive[: self._size]
            self._seqs, self._ids, self._labels, self._alive = (
                column[: self._size][kept] for column in (self._seqs, self._ids, self._labels, self._alive)
            )
            self._size, self._n_gone = len(self._seqs), 0

    def known(self, seqs: Seqs) -> NDArray[np.bool_]:
        """Return which sequence numbers an item has."""
        rows = np.searchsorted(self._seqs[: self._size], seqs)
        there = rows < self._size
        there[there] = (self._seqs[rows[there]] == np.asarray(seqs)[there]) & self._alive[rows[there]]
        return there

    def all_seqs(self) -> Seqs:
        """Return the sequence numbers of all items, sorted."""
        seqs: Seqs = self._seqs[: self._size][self._alive[: self._size]]
        return seqs

    def ids(self, seqs: Seqs) -> list[Any]:
        """Return the ids of known sequence numbers."""
        return list(self._ids[self._rows(seqs)].tolist())

    def labels(self, seqs: Seqs) -> list[frozenset[Label]]:
        """Return the labels of known sequence numbers."""
        return [self._label_sets[number] for number in self._labels[self._rows(seqs)].tolist()]

    def label_texts(self, seqs: Seqs) -> list[str | None]:
        """Return the labels of known sequence numbers, as JSON."""
        return [self._listed_texts[number] for number in self._labels[self._rows(seqs)].tolist()]

    def having(self, labels: Sequence[Label]) -> Seqs:
        """Return the sequence numbers of items that have any of the labels, sorted."""
        wanted = [number for number, some in enumerate(self._label_sets) if not some.isdisjoint(labels)]
        has_any = np.isin(self._labels[: self._size], wanted) & self._alive[: self._size]
        seqs: Seqs = self._seqs[: self._size][has_any]
        return seqs

    def label_counts(self, seqs: Seqs | None = None) -> dict[Label | None, int]:
        """Return how many items have each label, all or some; None for items without any."""
        rows = self._alive[: self._size] if seqs is None else self._rows(seqs)
        counts: dict[Label | None, int] = {}
        numbers = np.bincount(self._labels[: self._size][rows], minlength=len(self._label_sets)).tolist()
        for labels, n_items in zip(self._label_sets, numbers, strict=True):
            for label in labels or {None}:
                counts[label] = counts.get(label, 0) + n_items
        return {label: n_items for label, n_items in counts.items() if n_items}

    def sample(self, n_items: int, seed: int) -> Seqs:
        """Return sequence numbers at random, sorted; with the same seed mostly the same after a change."""
        seqs = self.all_seqs()
        if n_items >= len(seqs):
            return seqs
        keys = (seqs.astype(np.uint64) + np.uint64(seed)) * _ODD_MULTIPLIER
        keys = (keys ^ (keys >> np.uint64(29))) * _ODD_MULTIPLIER
        return np.sort(seqs[np.argpartition(keys, n_items)[:n_items]])

    def _rows(self, seqs: Seqs) -> NDArray[np.intp]:
        return np.searchsorted(self._seqs[: self._size], seqs)


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    grown = np.empty(size, array.dtype)
    grown[: len(array)] = array
    return grown
