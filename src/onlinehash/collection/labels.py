"""LabelIndex: which items have which labels, in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.order import Numbers
from onlinehash.collection.types import Label

_RECENT = 1000  # changes kept apart, or an eighth of all items, if that is more
_GONE = -1


class LabelIndex:
    """Find the numbers of the items that have a label.

    Each item has one entry: the number of its labels among all texts seen. Recent changes are kept apart and merged
    into the sorted arrays now and then, so a change costs O(1) on average and a new filter one pass over the entries.

    Examples
    --------
    >>> index = LabelIndex()
    >>> index.put(np.array([7, 3, 5]), ['"cat"', '["cat", "pet"]', None])
    >>> index.having("cat"), index.having("dog")
    (array([3, 7]), array([], dtype=int64))
    """

    def __init__(self) -> None:
        self._ids: dict[str | None, int] = {}
        self._labels: list[frozenset[Label]] = []
        self._numbers: Numbers = np.empty(0, np.int64)
        self._entries: NDArray[np.int32] = np.empty(0, np.int32)
        self._recent: dict[int, int] = {}
        self._found: dict[Label, Numbers] = {}

    def put(self, numbers: Numbers, labels: Sequence[str | None]) -> None:
        """Set the labels of items, as JSON texts."""
        self._change(numbers, [self._id(text) for text in labels])

    def delete(self, numbers: Numbers) -> None:
        """Remove items, where they are there."""
        self._change(numbers, [_GONE] * len(numbers))

    def renumber(self, old: Numbers, new: Numbers) -> None:
        """Give items other numbers."""
        if len(old):
            self._merge()
            places = np.searchsorted(self._numbers, old)
            here = places < len(self._numbers)
            here[here] = self._numbers[places[here]] == old[here]
            entries = self._entries[places[here]].tolist()
            self.delete(old[here])
            self._change(new[here], entries)

    def having(self, label: Label) -> Numbers:
        """Return the numbers of the items that have a label, sorted."""
        found = self._found.get(label)
        if found is None:
            wanted = [i for i, labels in enumerate(self._labels) if label in labels]
            found = self._numbers[np.isin(self._entries, wanted)]
            if self._recent:
                changed = np.fromiter(self._recent, np.int64, len(self._recent))
                entries = np.fromiter(self._recent.values(), np.int32, len(self._recent))
                kept = found[~np.isin(found, changed)]
                found = np.sort(np.concatenate([kept, changed[np.isin(entries, wanted)]]))
            self._found[label] = found
        return found

    def _id(self, text: str | None) -> int:
        known = self._ids.get(text)
        if known is None:
            known = self._ids[text] = len(self._labels)
            value = None if text is None else json.loads(text)
            listed = value if isinstance(value, list) else [] if value is None else [value]
            self._labels.append(frozenset(listed))
        return known

    def _change(self, numbers: Numbers, entries: Sequence[int]) -> None:
        self._found.clear()
        self._recent.update(zip(numbers.tolist(), entries, strict=True))
        if len(self._recent) > max(_RECENT, len(self._numbers) // 8):
            self._merge()

    def _merge(self) -> None:
        changed = np.fromiter(self._recent, np.int64, len(self._recent))
        entries = np.fromiter(self._recent.values(), np.int32, len(self._recent))
        kept = ~np.isin(self._numbers, changed)
        numbers = np.concatenate([self._numbers[kept], changed[entries != _GONE]])
        order = np.argsort(numbers)
        self._numbers = numbers[order]
        self._entries = np.concatenate([self._entries[kept], entries[entries != _GONE]])[order]
        self._recent = {}
