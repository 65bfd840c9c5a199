"""Labels, in order of first sight, and the codeword of each."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from onlinehash.exceptions import InvalidLabelsError
from onlinehash.types import Labels, Signs


class Codebook(Protocol):
    """What a codebook promises: the codeword of a class, from its number of arrival or its label."""

    n_bits: int

    def codeword(self, index: int, label: Hashable = None) -> Signs:
        """Return -1 and +1, shape (n_bits,)."""
        ...


class ClassTable:
    """Classes seen so far, each with the codeword it was given on first sight.

    Parameters
    ----------
    codebook : Codebook
    labels : sequence of int or str
        Classes known already, in order of arrival (used when a saved hasher is loaded).

    Examples
    --------
    >>> from onlinehash.codebooks import HadamardCodebook
    >>> table = ClassTable(HadamardCodebook(8))
    >>> table.assign(np.array(["cat", "dog", "cat"])).tolist()
    [0, 1, 0]
    >>> table.labels
    ['cat', 'dog']
    >>> table.codewords.shape
    (2, 8)
    """

    def __init__(self, codebook: Codebook, labels: Sequence[int | str] = ()) -> None:
        self.codebook = codebook
        self._numbers: dict[int | str, int] = {}
        self.codewords: Signs = np.empty((0, codebook.n_bits), np.int8)
        self._admit(labels)

    @property
    def labels(self) -> list[int | str]:
        """Labels in order of first sight."""
        return list(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, label: int | str) -> int | None:
        """Return the number of a class, or None if it was never seen."""
        return self._numbers.get(label)

    def assign(self, y: Labels) -> NDArray[np.intp]:
        """Return the class number of every label; a new label gets the next number and its codeword.

        Nothing is admitted if any label is refused.
        """
        labels = y.tolist()
        numbers = self._numbers
        self._admit([label for label in dict.fromkeys(labels) if label not in numbers])
        return np.fromiter((numbers[label] for label in labels), np.intp, len(labels))

    def _admit(self, labels: Sequence[int | str]) -> None:
        if not labels:
            return
        first = next(iter(self._numbers), labels[0])
        if type(first) is not type(labels[0]):
            raise InvalidLabelsError(
                f"y holds {type(labels[0]).__name__} labels such as {labels[0]!r}, but earlier labels were "
                f"{type(first).__name__}, such as {first!r}; use one kind."
            )
        known = len(self)
        words = [self.codebook.codeword(known + i, label) for i, label in enumerate(labels)]
        self.codewords = np.vstack([self.codewords, *words])
        self._numbers.update((label, known + i) for i, label in enumerate(labels))
