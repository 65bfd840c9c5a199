"""LabelColumn: the labels of many items, each different text once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray


class LabelColumn(Sequence["str | None"]):
    """A read-only sequence of labels as JSON texts, for passes over all items without a step in Python per item.

    Parameters
    ----------
    texts : list of str or None
        The different texts.
    numbers : array of shape (n_items,)
        The place of each item's text among them.

    Examples
    --------
    >>> import numpy as np
    >>> column = LabelColumn(["3", None], np.array([0, 1, 0]))
    >>> list(column), list(column.take([1]))
    (['3', None, '3'], [None])
    """

    def __init__(self, texts: list[str | None], numbers: NDArray[Any]) -> None:
        self.texts, self.numbers = texts, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, item: Any) -> Any:
        return self.texts[self.numbers[item]]

    def take(self, rows: Any) -> LabelColumn:
        """Return the labels of some rows."""
        return LabelColumn(self.texts, self.numbers[rows])
