"""Labels, in order of first appearance, and the codeword of each."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from onlinehash.exceptions import InvalidLabelsError
from onlinehash.types import Labels, LabelSets, Signs

_MANY = 1024  # labels that are numbered by a table


class Codebook(Protocol):
    """Interface of a codebook: the codeword of a class, from its number of arrival or its label.

    Examples
    --------
    >>> from onlinehash.codebooks import LadderCodebook
    >>> codebook: Codebook = LadderCodebook(8)
    >>> int(codebook.codeword(0) @ codebook.codeword(1))
    0
    """

    n_bits: int

    def codeword(self, index: int, label: Hashable = None) -> Signs:
        """Return -1 and +1, shape (n_bits,)."""
        ...


class ClassTable:
    """Classes seen so far, each with the codeword it was given when it first appeared.

    Parameters
    ----------
    codebook : Codebook
    labels : sequence of int or str
        Classes known already, in order of arrival (used when a saved hasher is loaded).

    Examples
    --------
    >>> from onlinehash.codebooks import HadamardCodebook
    >>> table = ClassTable(HadamardCodebook(8))
    >>> table.admit(np.array(["cat", "dog", "cat"]))
    >>> table.labels
    ['cat', 'dog']
    >>> table.targets(np.array(["dog", "dog", "cat"])).shape
    (3, 8)
    """

    def __init__(self, codebook: Codebook, labels: Sequence[int | str] = ()) -> None:
        self.codebook = codebook
        self._numbers: dict[int | str, int] = {}
        self.codewords: Signs = np.empty((0, codebook.n_bits), np.int8)
        self._admit(labels)

    @property
    def labels(self) -> list[int | str]:
        """Labels in order of first appearance."""
        return list(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, label: int | str) -> int | None:
        """Return the number of a class, or None if it was never seen."""
        return self._numbers.get(label)

    def admit(self, y: Labels | LabelSets) -> None:
        """Give every new label the next number and its codeword; if any label is refused, admit none."""
        if not isinstance(y, LabelSets):
            numbers = self._looked_up(y)
            if numbers is not None and numbers.min() >= 0:
                return
        labels = [label for row in y for label in row] if isinstance(y, LabelSets) else y.tolist()
        self._admit([label for label in dict.fromkeys(labels) if label not in self._numbers])

    def numbers(self, y: Labels) -> NDArray[np.intp]:
        """Return the class number of every label; all of them were admitted."""
        numbers = self._looked_up(y)
        if numbers is not None:
            return numbers
        return np.fromiter(map(self._numbers.__getitem__, y.tolist()), np.intp, len(y))

    def _looked_up(self, y: Labels) -> NDArray[np.intp] | None:
        """Return the class number of every label, or -1; None where a dict is faster than a table."""
        if y.dtype.kind != "i" or len(y) < _MANY:
            return None
        lowest, span = int(y.min()), int(y.max()) - int(y.min()) + 1
        if span > len(y):
            return None
        table = np.full(span, -1, np.intp)
        for label, number in self._numbers.items():
            if isinstance(label, int) and 0 <= label - lowest < span:
                table[label - lowest] = number
        numbers: NDArray[np.intp] = table[y - lowest]
        return numbers

    def codewords_at(self, places: NDArray[np.intp]) -> Signs:
        """Return the codewords of the classes where class ``i`` has the one for the class of arrival ``places[i]``."""
        words = [self.codebook.codeword(int(place), label) for place, label in zip(places, self.labels, strict=True)]
        return np.array(words, np.int8).reshape(len(self), self.codebook.n_bits)

    def targets(self, y: Labels | LabelSets) -> Signs:
        """Return the target of every row, shape (n_rows, n_bits).

        The codeword of its class; for several classes the majority of their codewords, bit by bit.
        """
        if isinstance(y, LabelSets):
            sums = [self.codewords[[self._numbers[label] for label in row]].sum(axis=0) for row in y]
            return np.array([majority(s) for s in sums], np.int8).reshape(len(y), self.codebook.n_bits)
        return self.codewords[self.numbers(y)]

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


def majority(sums: NDArray[Any]) -> Signs:
    """Return the sign of summed codewords; bits with no majority are filled so that +1 and -1 balance.

    Differs from the released HMOH, which fills places that had a majority, because its index runs over the code and
    not over the undecided bits.

    Examples
    --------
    >>> majority(np.array([2, 2, 0, 0, 0, -2])).tolist()
    [1, 1, 1, -1, -1, -1]
    """
    signs: Signs = np.sign(sums).astype(np.int8)
    undecided = np.flatnonzero(signs == 0)
    n_positive = min(max(len(signs) // 2 - int((signs > 0).sum()), 0), len(undecided))
    signs[undecided[:n_positive]] = 1
    signs[undecided[n_positive:]] = -1
    return signs
