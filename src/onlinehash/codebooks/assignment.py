"""Labels, in order of first appearance, the codeword of each, and which class should get which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.kernels import kernel
from onlinehash.codebooks.hadamard import Codebook
from onlinehash.exceptions import InvalidLabelsError
from onlinehash.types import Labels, LabelSets, Signs

MAX_SWEEPS = 50  # over all pairs of classes
MAX_COMPARED_BITS = 1 << 28  # in all sweeps together, where classes are many


class ClassTable:
    """Classes seen so far, each with the codeword it was given when it first appeared.

    Parameters
    ----------
    codebook : Codebook

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

    def __init__(self, codebook: Codebook) -> None:
        self.codebook = codebook
        self._numbers: dict[int | str, int] = {}
        self.codewords: Signs = np.empty((0, codebook.n_bits), np.int8)
        self._places: NDArray[np.intp] = np.empty(0, np.intp)  # of these codewords in the codebook

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
        labels = dict.fromkeys([label for row in y for label in row] if isinstance(y, LabelSets) else y.tolist())
        if not labels.keys() <= self._numbers.keys():
            self.restore([label for label in labels if label not in self._numbers])

    def numbers(self, y: Labels) -> NDArray[np.intp]:
        """Return the class number of every label; all of them were admitted."""
        return np.fromiter(map(self._numbers.__getitem__, y.tolist()), np.intp, len(y))

    def codewords_at(self, places: NDArray[np.intp]) -> Signs:
        """Return the codewords of the classes where class ``i`` has the one for the class of arrival ``places[i]``."""
        words, labels = self.codewords.copy(), self.labels
        for number in np.flatnonzero(places != self._places).tolist():
            words[number] = self.codebook.codeword(int(places[number]), labels[number])
        return words

    def move_to(self, places: NDArray[np.intp]) -> None:
        """Give class ``i`` the codeword for the class of arrival ``places[i]``."""
        self.codewords, self._places = self.codewords_at(places), places

    def targets(self, y: Labels | LabelSets) -> Signs:
        """Return the target of every row, shape (n_rows, n_bits).

        The codeword of its class; for several classes the majority of their codewords, bit by bit.
        """
        if isinstance(y, LabelSets):
            sums = [self.codewords[[self._numbers[label] for label in row]].sum(axis=0) for row in y]
            return np.array([majority(s) for s in sums], np.int8).reshape(len(y), self.codebook.n_bits)
        return self.codewords[self.numbers(y)]

    def restore(self, labels: Sequence[int | str]) -> None:
        """Admit labels that are all new, in order of arrival, as those of a saved table are."""
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
        self._places = np.append(self._places, np.arange(known, known + len(labels)))
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


def swap_for_learnability(explained: NDArray[np.float64], words: Signs, movable: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return which word each class should take, so that similar classes get similar words.

    With M the matrix of what the features explain of the classes, t^T M t is the variance of a bit t that they explain.
    Its sum over the bits rises with every swap of two words, until no swap helps; with more than some 500 classes, for
    as many sweeps over all pairs as take about a second. If all words are orthogonal, it does not depend on the order.

    Parameters
    ----------
    explained : ndarray of shape (n_classes, n_classes)
        M, symmetric.
    words : ndarray of int8, shape (n_classes, n_bits)
        The word of each class so far.
    movable : ndarray of int
        Numbers of the classes that may change theirs.

    Returns
    -------
    places : ndarray of int, shape (n_classes,)
        Class ``i`` takes ``words[places[i]]``.

    Examples
    --------
    Classes 0 and 2 are alike, and 1 and 3; they get the words that differ in one bit only:

    >>> explained = np.array([[4.0, 0, 3, 0], [0, 4, 0, 3], [3, 0, 4, 0], [0, 3, 0, 4]])
    >>> words = np.array([[1, 1, 1], [1, 1, -1], [-1, -1, 1], [-1, -1, -1]], np.int8)
    >>> words[swap_for_learnability(explained, words, np.arange(4))][:, 0]
    array([-1,  1, -1,  1], dtype=int8)
    """
    places = np.arange(len(words))
    per_sweep = max(1, len(movable) ** 2 // 2 * words.shape[1])
    n_sweeps = max(1, min(MAX_SWEEPS, MAX_COMPARED_BITS // per_sweep))
    _swap(np.ascontiguousarray(explained), words.astype(np.float64), movable, places, n_sweeps)
    return places


@kernel()
def _swap(explained: Any, words: Any, movable: Any, places: Any, n_sweeps: int) -> None:
    n_classes, n_bits = words.shape
    slopes = explained @ words
    least = 1e-9 * np.trace(explained)
    for _ in range(n_sweeps):
        moved = False
        for i in range(len(movable)):
            for j in range(i + 1, len(movable)):
                a, b = movable[i], movable[j]
                curve = explained[a, a] + explained[b, b] - 2.0 * explained[a, b]
                gain = 0.0
                for k in range(n_bits):
                    step = words[b, k] - words[a, k]
                    gain += step * (2.0 * (slopes[a, k] - slopes[b, k]) + step * curve)
                if gain > least:
                    for k in range(n_bits):
                        step = words[b, k] - words[a, k]
                        if step != 0.0:
                            words[a, k] += step
                            words[b, k] -= step
                            for c in range(n_classes):
                                slopes[c, k] += step * (explained[c, a] - explained[c, b])
                    places[a], places[b] = places[b], places[a]
                    moved = True
        if not moved:
            return
