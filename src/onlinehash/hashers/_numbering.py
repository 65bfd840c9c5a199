"""Labels as consecutive numbers, in order of first appearance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import Arrays
from onlinehash.hashers._base import OnlineHasher
from onlinehash.types import Labels


class Numbering:
    """Number labels in order of first appearance.

    Examples
    --------
    >>> numbering = Numbering()
    >>> numbering.number(["cat", "dog", "cat"])
    [0, 1, 0]
    >>> numbering.labels
    array(['cat', 'dog'], dtype='<U3')
    """

    def __init__(self, labels: Sequence[int | str] = ()) -> None:
        self._numbers = {label: number for number, label in enumerate(labels)}

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def labels(self) -> Labels:
        """All labels seen."""
        return np.array(list(self._numbers))

    def number(self, labels: Iterable[int | str]) -> list[int]:
        """Return the number of every label; a new one gets the next."""
        return [self._numbers.setdefault(label, len(self._numbers)) for label in labels]

    def numbers(self, labels: Labels) -> NDArray[np.int64]:
        """Return the numbers of an array of labels."""
        return np.array(self.number(labels.tolist()), np.int64)


class WithNumberedClasses(OnlineHasher):
    """Base class of methods that number classes, in ``_numbering``."""

    _numbering: Numbering

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        state, arrays = super()._state()  # type: ignore[safe-super]
        return state | {"labels": self._numbering.labels.tolist()}, arrays

    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        super()._restore(state, arrays)  # type: ignore[safe-super]
        self._numbering = Numbering(state["labels"])

    @property
    def classes_(self) -> Labels:
        """Labels in order of first appearance."""
        self._demand_learned()
        return self._numbering.labels
