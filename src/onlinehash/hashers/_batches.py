"""Hashers that learn from batches: rows wait until there are enough."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from onlinehash._files import Arrays
from onlinehash._validation import check_labels, check_positive_int
from onlinehash.hashers._base import OnlineHasher
from onlinehash.hashers._rows import Weights
from onlinehash.types import Features, Labels, Targets


class BatchHasher(OnlineHasher):
    """Base class of methods that learn from ``batch_size`` consecutive rows at a time.

    Rows that do not fill a batch wait for the next call. A snapshot learns from them as from a shorter batch, unless
    the method needs ``whole_batches``. Arrays named in ``_saved`` are saved and restored: ``"codes"`` is ``_codes``.
    """

    whole_batches: ClassVar[bool] = False
    batch_size: int

    def _start(self, n_features: int) -> None:
        self._waiting_rows = np.empty((0, n_features), self._dtype)
        self._waiting_labels: Labels | None = None

    def _batch_rows(self) -> int:
        """Return the number of rows per batch."""
        return check_positive_int("batch_size", self.batch_size)

    @abstractmethod
    def _learn_batch(self, rows: Features, labels: Any) -> None:
        """Learn from one batch of preprocessed rows, or from a shorter one at the end."""

    def _learn(self, X: Features, targets: Targets, weights: Weights) -> None:
        rows = self._preprocessed(X)
        labels: Labels | None = np.asarray(targets) if self.supervised else None
        if len(self._waiting_rows):
            rows = np.concatenate([self._waiting_rows, rows])
            if labels is not None and self._waiting_labels is not None:
                labels = np.concatenate([self._waiting_labels, labels])
        size = self._batch_rows()
        whole = len(rows) - len(rows) % size
        for start in range(0, whole, size):
            batch = slice(start, start + size)
            self._learn_batch(rows[batch], None if labels is None else labels[batch])
        self._waiting_rows = rows[whole:].copy()
        self._waiting_labels = None if labels is None else labels[whole:].copy()

    def _is_waiting(self) -> bool:
        return len(self._waiting_rows) > 0 and not self.whole_batches

    def _finish(self) -> None:
        if self._is_waiting():
            self._learn_batch(self._waiting_rows, self._waiting_labels)

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        labels = None if self._waiting_labels is None else self._waiting_labels.tolist()
        learned = {name: self.__dict__[f"_{name}"] for name in self._saved if f"_{name}" in self.__dict__}
        return {"waiting_labels": labels}, {"waiting_rows": self._waiting_rows, **learned}

    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        self._waiting_rows = arrays["waiting_rows"]
        labels = state["waiting_labels"]
        self._waiting_labels = check_labels(labels, len(labels)) if labels else None
        self.__dict__.update({f"_{name}": arrays[name] for name in self._saved if name in arrays})
