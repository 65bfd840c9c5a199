"""Labels as stores keep them: one label is its JSON, several are a list in JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from onlinehash.collection.types import Label

LABELS = "$labels"
"""What stands for the labels where a path in the payload would be indexed; no path begins with ``$``."""

MERGED = 100  # texts whose items are merged in order
DISTINCT = 2000  # texts with several labels that are looked through


def texts_of(labels: Sequence[Label]) -> list[str]:
    """Return labels as they are stored where an item has one.

    Examples
    --------
    >>> texts_of(["cat", "dog"]), texts_of([3])
    (['"cat"', '"dog"'], ['3'])
    """
    return [json.dumps(label) for label in labels]


class LabelTexts(Sequence["str | None"]):
    """The labels of many items as a read-only sequence, for passes over all items without a step in Python per item.

    Parameters
    ----------
    texts : list of str or None
        The different texts.
    numbers : array of shape (n_items,)
        The place of each item's text among them.

    Examples
    --------
    >>> import numpy as np
    >>> labels = LabelTexts(["3", None], np.array([0, 1, 0]))
    >>> list(labels), list(labels.take([1]))
    (['3', None, '3'], [None])
    """

    def __init__(self, texts: list[str | None], numbers: NDArray[Any]) -> None:
        self.texts, self.numbers = texts, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, item: Any) -> Any:
        return self.texts[self.numbers[item]]

    def take(self, rows: Any) -> LabelTexts:
        """Return the labels of some rows."""
        return LabelTexts(self.texts, self.numbers[rows])
