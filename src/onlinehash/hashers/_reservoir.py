"""A uniform sample of a stream in bounded memory."""

from __future__ import annotations

import numpy as np


class Reservoir:
    """Choose the rows of a sample of fixed size: every row has a random key, and the smallest keys stay.

    Examples
    --------
    >>> reservoir = Reservoir(2)
    >>> [reservoir.offer(key) for key in (0.5, 0.9, 0.7, 0.8)]  # the third takes the place of the second
    [0, 1, 1, -1]
    """

    def __init__(self, capacity: int) -> None:
        self.keys = np.empty(capacity)
        self.size = 0
        self._last: int | None = None  # the place to replace next; found when it is needed

    def offer(self, key: float) -> int:
        """Return the place that a row with this random key takes, or -1 if it does not stay."""
        if self.size < len(self.keys):
            place = self.size
            self.size += 1
        else:
            if self._last is None:
                self._last = int(self.keys.argmax())
            place = self._last
            if key >= self.keys[place]:
                return -1
        self.keys[place] = key
        self._last = None
        return place
