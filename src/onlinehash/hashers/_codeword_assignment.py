"""Assignment of codewords to classes: similar classes get similar codewords, then keep them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onlinehash.codebooks import ClassTable, Codebook, swap_for_learnability
from onlinehash.hashers._ridge import RidgeStatistics
from onlinehash.types import Signs

_ENOUGH = 20  # rows after which a class keeps its codeword permanently
_FIRST = 1024  # instances after which codewords are fixed for the first time; then at every doubling
_MANY_CLASSES = 2048  # above this, codewords stay in order of arrival
_SOFT = 0.01  # penalty with which classes are compared, for rows of unit length


def next_settling(n_summed: int) -> int:
    """Return the number of instances at which codewords are fixed next.

    Examples
    --------
    >>> next_settling(0), next_settling(1024), next_settling(3000)
    (1024, 2048, 4096)
    """
    return max(_FIRST, 1 << n_summed.bit_length())


class SettlingClasses(ClassTable):
    """A table of classes in which similar classes get similar codewords.

    The codeword of a class that has not settled is provisional: :meth:`assigned` computes it as a deterministic
    function of the statistics and of the codewords of settled classes, whose places in the codebook are ``settled``.
    The assignment makes the first ``n_compared`` bits easy to learn; 0 keeps codewords in order of arrival.
    """

    def __init__(
        self, codebook: Codebook, labels: Sequence[int | str], settled: dict[int, int], *, n_compared: int
    ) -> None:
        super().__init__(codebook, labels)
        self.settled = settled
        self._n_compared = n_compared
        if settled:
            self.codewords = self.codewords_at(self._places(np.arange(len(self))))

    @property
    def provisional(self) -> bool:
        """Whether a class has not settled on a codeword yet."""
        return self._n_compared > 0 and len(self.settled) < len(self)

    def settle(self, statistics: RidgeStatistics) -> None:
        """Fix the current codewords of classes with enough rows."""
        places, counts = self._assigned_places(statistics), statistics.counts
        self.codewords = self.codewords_at(places)
        self.settled |= {n: int(place) for n, place in enumerate(places[: len(counts)]) if counts[n] >= _ENOUGH}

    def assigned(self, statistics: RidgeStatistics) -> Signs:
        """Return the codewords of all classes: the settled ones, and provisional ones from the statistics."""
        return self.codewords_at(self._assigned_places(statistics)) if self.provisional else self.codewords

    def followed_by_new(self, codewords: Signs) -> Signs:
        """Return assigned codewords, followed by those of the classes that arrived since, in order of arrival.

        The same as :meth:`assigned` for statistics without these classes.
        """
        known = len(codewords)
        new = [self.codebook.codeword(known + i, label) for i, label in enumerate(self.labels[known:])]
        return np.vstack([codewords, *new]) if new else codewords

    def _assigned_places(self, statistics: RidgeStatistics) -> NDArray[np.intp]:
        """Return the places of all classes in the codebook."""
        seen = statistics.seen
        places = self._places(seen)
        words = self.codewords_at(places)[seen, : self._n_compared]
        overlaps = words.astype(np.float64) @ words.T
        if len(seen) > _MANY_CLASSES or not np.any(overlaps - np.diag(np.diag(overlaps))):
            return places  # all orders of orthogonal words are equally good
        factor = statistics.factor(_SOFT * statistics.trace() / statistics.total)
        sums = statistics.sums[seen]
        explained = sums @ factor.solve(sums.T)
        movable = np.flatnonzero([int(number) not in self.settled for number in seen])
        swapped = swap_for_learnability(0.5 * (explained + explained.T), words, movable)
        places[seen] = places[seen][swapped]
        return places

    def _places(self, seen: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the places in the codebook before any swap: settled classes keep theirs, then come those seen."""
        places = np.full(len(self), -1)
        places[list(self.settled)] = list(self.settled.values())
        free = np.setdiff1d(np.arange(len(self)), places)
        movable = np.flatnonzero(places < 0)
        places[np.concatenate([np.intersect1d(movable, seen), np.setdiff1d(movable, seen)])] = free
        return places
