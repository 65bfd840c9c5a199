"""A uniform sample of a stream in bounded memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Reservoir:
    """Choose the rows of a sample of fixed size: every row has a random key, and the smallest keys stay.

    Examples
    --------
    >>> reservoir = Reservoir(2)
    >>> reservoir.offer(np.array([0.5, 0.9, 0.7, 0.8]))  # the third takes the place of the second
    array([ 0,  1,  1, -1])
    """

    def __init__(self, capacity: int) -> None:
        self.keys = np.empty(capacity)
        self.size = 0

    def offer(self, keys: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the places that rows with these random keys take, one after the other; -1 for one that does not."""
        places = np.full(len(keys), -1)
        n_free = min(len(self.keys) - self.size, len(keys))
        places[:n_free] = range(self.size, self.size + n_free)
        self.keys[places[:n_free]] = keys[:n_free]
        self.size += n_free
        if n_free < len(keys):
            for row in n_free + np.flatnonzero(keys[n_free:] < self.keys.max()):
                last = int(self.keys.argmax())
                if keys[row] < self.keys[last]:
                    self.keys[last], places[row] = keys[row], last
        return places
