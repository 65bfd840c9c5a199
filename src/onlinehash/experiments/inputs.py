"""Give a method the features that HROH learns from, to compare what methods do with the same ones."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash.experiments.custom import Frozen, Learner
from onlinehash.experiments.streams import chunks
from onlinehash.hashers import HASHERS
from onlinehash.types import Features, Labels

_HEAD = 256  # rows from which HROH takes its bandwidth
_CHUNK = 1 << 22  # elements of mapped rows in memory at a time


class WithHROHFeatures:
    """Map rows as HROH does by default, then pass them to a learner: the unit row and 2048 Fourier features of it.

    Parameters
    ----------
    learner : Learner
    random_state : int
        Seed of the features.

    Examples
    --------
    >>> from onlinehash import LSH, load_dataset
    >>> split = load_dataset("digits").split()
    >>> matched = WithHROHFeatures(LSH(16, preprocess="none", random_state=0), random_state=0)
    >>> matched.partial_fit(*split.stream).snapshot().encode(split.queries.X).shape
    (200, 2)
    """

    def __init__(self, learner: Learner, random_state: int) -> None:
        self.learner = learner
        self.random_state = random_state
        self._head: list[tuple[Features, Labels]] = []
        self._map: Any = None

    def partial_fit(self, X: Features, y: Labels) -> WithHROHFeatures:
        """Learn from the next rows of the stream; the first 256 wait for each other."""
        if self._map is None:
            self._head.append((X, y))
            if sum(len(rows) for rows, _ in self._head) >= _HEAD:
                self._open()
        else:
            self._learn(X, y)
        return self

    def snapshot(self) -> Frozen:
        """Return an encoder of raw rows."""
        final = self
        if self._map is None:
            final = copy.deepcopy(self)
            final._open()
        return _Mapped(final._map, final.learner.snapshot())

    def _open(self) -> None:
        """Fix the map, and learn from the rows that waited for it."""
        X, y = (np.concatenate(parts) for parts in zip(*self._head, strict=True))
        hroh = HASHERS["hroh"](n_bits=8, preprocess="unit", random_state=self.random_state)
        # The bandwidth follows from the rows, whatever their labels.
        self._map = hroh.partial_fit(X[:_HEAD], np.arange(len(X[:_HEAD])) % 2).snapshot().features
        self._learn(X, y)

    def _learn(self, X: Features, y: Labels) -> None:
        for rows in chunks(X, _CHUNK, self._map.n_outputs):
            self.learner.partial_fit(self._map.transform(X[rows]), y[rows])


class _Mapped(NamedTuple):
    features: Any
    encoder: Frozen

    def encode(self, X: Any) -> NDArray[Any]:
        parts = (self.features.transform(X[rows]) for rows in chunks(X, _CHUNK, self.features.n_outputs))
        return np.concatenate([self.encoder.encode(part) for part in parts])
