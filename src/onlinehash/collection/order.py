"""Numbers for ids, in the order of the ids, so that an index that orders ties by number orders them by id."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.types import Id

Numbers = NDArray[np.int64]

_STEP = 1 << 36  # between neighbours, where there is room
_ROOM = 1 << 16  # between neighbours, after a neighbourhood was numbered anew
_FIRST_WINDOW = 64
_LIMIT = 1 << 62


class IdOrder(Protocol):
    """Numbers of ids."""

    def insert(self, ids: Sequence[Any]) -> tuple[Numbers, Numbers]:
        """Give numbers to new ids; return which numbers given before have changed, old and new."""

    def remove(self, ids: Sequence[Any]) -> None:
        """Forget ids."""

    def numbers(self, ids: Sequence[Any]) -> Numbers:
        """Return the numbers of known ids."""

    def known(self, ids: Sequence[Any]) -> list[bool]:
        """Tell which ids have a number."""

    def ids(self, numbers: Numbers) -> list[Id]:
        """Return the ids of numbers."""


class IntegerOrder:
    """Integers are their own numbers; nothing is kept.

    Examples
    --------
    >>> IntegerOrder().numbers([7, 3])
    array([7, 3])
    """

    def insert(self, ids: Sequence[int]) -> tuple[Numbers, Numbers]:
        """Do nothing: no number changes."""
        nothing = np.empty(0, np.int64)
        return nothing, nothing

    def remove(self, ids: Sequence[int]) -> None:
        """Do nothing."""

    def numbers(self, ids: Sequence[int]) -> Numbers:
        """Return the ids as an array."""
        return np.array(ids, np.int64)

    def known(self, ids: Sequence[int]) -> list[bool]:
        """Every integer has a number."""
        return [True] * len(ids)

    def ids(self, numbers: Numbers) -> list[Id]:
        """Return the numbers as a list."""
        return list(numbers.tolist())


class StringOrder:
    """Number strings with gaps, so that a new one finds a number between its neighbours.

    Where a gap is used up, the neighbourhood is numbered anew, as far as it takes to find room: a few thousand numbers
    at most change for a batch, whatever the order of arrival. A batch costs O(n) copies of pointers (30 ms in a million
    ids), a look-up O(log n).

    Examples
    --------
    >>> order = StringOrder()
    >>> _ = order.insert(["b", "d"])
    >>> old, new = order.insert(["c", "a"])
    >>> order.numbers(["a", "b", "c", "d"]).argsort().tolist(), len(old)
    ([0, 1, 2, 3], 0)
    """

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._numbers: Numbers = np.empty(0, np.int64)

    def insert(self, ids: Sequence[str]) -> tuple[Numbers, Numbers]:
        """Give numbers to new ids; return which numbers given before have changed, old and new."""
        new = sorted(ids)
        if not new:
            return IntegerOrder().insert(())
        places = np.array([bisect_left(self._ids, id) for id in new], np.int64)
        before = self._numbers
        self._merge(new, places.tolist())
        positions = places + np.arange(len(new))  # of the new ids, in the merged list
        numbered = np.ones(len(self._ids), bool)
        numbered[positions] = False
        old = np.flatnonzero(numbered)
        self._numbers = np.zeros(len(self._ids), np.int64)
        self._numbers[old] = before
        # New ids before the same place form a run, which shares one gap.
        runs = np.split(positions, np.flatnonzero(np.diff(places)) + 1)
        for start, stop in ((int(run[0]), int(run[-1]) + 1) for run in runs):
            if not numbered[start]:
                self._number(start, stop, numbered)
        after = self._numbers[old]
        moved = after != before
        return before[moved], after[moved]

    def remove(self, ids: Sequence[str]) -> None:
        """Forget ids."""
        gone = sorted(self._places(ids))
        self._numbers = np.delete(self._numbers, gone)
        kept: list[str] = []
        last = 0
        for place in gone:
            kept += self._ids[last:place]
            last = place + 1
        self._ids = kept + self._ids[last:]

    def numbers(self, ids: Sequence[str]) -> Numbers:
        """Return the numbers of known ids."""
        return self._numbers[self._places(ids)]

    def known(self, ids: Sequence[str]) -> list[bool]:
        """Tell which ids have a number."""
        places = self._places(ids)
        return [place < len(self._ids) and self._ids[place] == id for place, id in zip(places, ids, strict=True)]

    def ids(self, numbers: Numbers) -> list[Id]:
        """Return the ids of numbers."""
        return [self._ids[place] for place in np.searchsorted(self._numbers, numbers).tolist()]

    def _places(self, ids: Sequence[str]) -> list[int]:
        return [bisect_left(self._ids, id) for id in ids]

    def _merge(self, new: list[str], places: list[int]) -> None:
        """Put sorted new ids before the given places."""
        merged: list[str] = []
        last = 0
        for id, place in zip(new, places, strict=True):
            if place > last:
                merged += self._ids[last:place]
                last = place
            merged.append(id)
        merged += self._ids[last:]
        self._ids = merged

    def _number(self, start: int, stop: int, numbered: NDArray[np.bool_]) -> None:
        """Give numbers to the new ids from start to stop, and what is around them where there is no room."""
        least, window = 1, max(_FIRST_WINDOW, 2 * (stop - start))
        while not self._spread(start, stop, least):
            start, stop = max(0, start - window), min(len(self._ids), stop + window)
            while stop < len(self._ids) and not numbered[stop]:
                stop += 1
            least, window = _ROOM, 2 * window
        numbered[start:stop] = True

    def _spread(self, start: int, stop: int, least: int) -> bool:
        """Give places numbers evenly between their neighbours, if steps of ``least`` fit."""
        size = stop - start
        left = int(self._numbers[start - 1]) if start else None
        right = int(self._numbers[stop]) if stop < len(self._ids) else None
        step = _STEP
        if left is not None and right is not None:
            step = (right - left) // (size + 1)
            first = left + step
        elif left is not None:
            first = left + step
        elif right is not None:
            first = right - size * step
        else:
            first = -(size // 2) * step
        if step < least or first < -_LIMIT or first + size * step > _LIMIT:
            return False
        self._numbers[start:stop] = first + step * np.arange(size, dtype=np.int64)
        return True
