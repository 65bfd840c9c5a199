"""LabelIndex: which items have which labels, in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection._validation import label_set
from onlinehash.collection.arrivals import Seqs
from onlinehash.collection.stores.label_texts import LabelTexts
from onlinehash.collection.types import Label

Entries = NDArray[np.int32]

_RECENT = 1000  # changes kept apart, or an eighth of all items, if that is more
_GONE = -1


class LabelIndex:
    """Find the sequence numbers of the items that have a label.

    Each item has one entry: the number of its labels among all texts seen. Recent changes are kept apart and merged
    into the sorted arrays now and then, so a change costs O(1) on average and a new filter one pass over the entries.

    Examples
    --------
    >>> index = LabelIndex()
    >>> index.put(np.array([7, 3, 5]), ['"cat"', '["cat", "pet"]', None])
    >>> index.having("cat"), index.having("dog"), index.of(np.array([5, 7]))
    (array([3, 7]), array([], dtype=int64), [frozenset(), frozenset({'cat'})])
    """

    def __init__(self) -> None:
        self._ids: dict[str | None, int] = {}
        self._labels: list[frozenset[Label]] = []
        self._seqs: Seqs = np.empty(0, np.int64)
        self._entries: NDArray[np.int32] = np.empty(0, np.int32)
        self._recent: dict[int, int] = {}
        self._found: dict[Label, Seqs] = {}

    def put(self, seqs: Seqs, labels: Sequence[str | None]) -> None:
        """Set the labels of items, as JSON texts."""
        texts = labels.texts if isinstance(labels, LabelTexts) else labels
        for text in {*texts} - self._ids.keys():
            self._ids[text] = len(self._labels)
            self._labels.append(label_set(text))
        entries = np.fromiter(map(self._ids.__getitem__, texts), np.int32, len(texts))
        self._change(seqs, entries[labels.numbers] if isinstance(labels, LabelTexts) else entries)

    def delete(self, seqs: Seqs) -> None:
        """Remove items, where they are there."""
        self._change(seqs, np.full(len(seqs), _GONE, np.int32))

    def having(self, label: Label) -> Seqs:
        """Return the sequence numbers of the items that have a label, sorted."""
        found = self._found.get(label)
        if found is None:
            wanted = [i for i, labels in enumerate(self._labels) if label in labels]
            found = self._seqs[np.isin(self._entries, wanted)]
            if self._recent:
                changed, entries = self._recent_arrays()
                kept = found[~np.isin(found, changed)]
                found = np.sort(np.concatenate([kept, changed[np.isin(entries, wanted)]]))
            self._found[label] = found
        return found

    def of(self, seqs: Seqs) -> list[frozenset[Label]]:
        """Return the labels of items that are there."""
        places = np.searchsorted(self._seqs, seqs)
        entries = np.append(self._entries, _GONE)[places].tolist()
        if self._recent:
            entries = [self._recent.get(seq, entry) for seq, entry in zip(seqs.tolist(), entries, strict=True)]
        return [self._labels[entry] for entry in entries]

    def _change(self, seqs: Seqs, entries: Entries) -> None:
        self._found.clear()
        most = max(_RECENT, len(self._seqs) // 8)
        if not self._recent and len(seqs) > most:
            self._merge(seqs, entries)
            return
        self._recent.update(zip(seqs.tolist(), entries.tolist(), strict=True))
        if len(self._recent) > most:
            self._merge(*self._recent_arrays())
            self._recent = {}

    def _recent_arrays(self) -> tuple[Seqs, Entries]:
        size = len(self._recent)
        return np.fromiter(self._recent, np.int64, size), np.fromiter(self._recent.values(), np.int32, size)

    def _merge(self, changed: Seqs, entries: Entries) -> None:
        kept = ~np.isin(self._seqs, changed)
        seqs = np.concatenate([self._seqs[kept], changed[entries != _GONE]])
        order = np.argsort(seqs)
        self._seqs = seqs[order]
        self._entries = np.concatenate([self._entries[kept], entries[entries != _GONE]])[order]
