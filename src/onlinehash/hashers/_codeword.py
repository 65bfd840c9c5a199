"""Hashers that learn towards codewords by rank-one steps, in exact blocks: HCOH, HMOH and OSH."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import Arrays
from onlinehash._threads import single_threaded_products
from onlinehash._validation import check_positive, check_positive_int
from onlinehash.codebooks import ClassTable, make_codebook
from onlinehash.encoders import Encoder
from onlinehash.hashers._base import OnlineHasher
from onlinehash.hashers._block import BLOCK, BlockUpdate, aligned_zeros, block_rows
from onlinehash.hashers._classes import WithCodewords
from onlinehash.hashers._linear import LinearHasher
from onlinehash.hashers._parameters import Changeable
from onlinehash.hashers._rows import Weights
from onlinehash.types import Features, Targets


class CodewordHasher(WithCodewords, LinearHasher):
    """Base class of methods that learn towards codewords by rank-one steps.

    A method implements :meth:`_replay`, which computes the gradients of a block from its projections. Rows that do not
    fill a batch wait in the block; there are none with ``batch_size=1``.
    """

    changeable: ClassVar[Changeable] = {**OnlineHasher.changeable, "learning_rate": check_positive}
    block: ClassVar[int] = BLOCK
    _uses_lengths: ClassVar[bool] = False  # the squared lengths of rows, the diagonal of their Gram matrix
    learning_rate: float
    batch_size: int = 1
    fit_bias: bool = False

    def _start(self, n_features: int) -> None:
        check_positive_int("batch_size", self.batch_size)
        self._classes = ClassTable(make_codebook(self.codebook, self.n_bits, self.seed_))
        self._make_room(n_features)

    def _make_room(self, n_inputs: int) -> None:
        """Allocate the weights and the block for rows of ``n_inputs``."""
        n_columns = n_inputs + bool(self.fit_bias)
        capacity = max(self.batch_size, self.block - self.block % self.batch_size)
        # Differs from Alg. 1 of HCOH: the bias starts at zero, not at a Gaussian that would drown unit rows.
        self._weights = aligned_zeros(self.n_bits, n_columns, self._dtype).T
        self._weights[:n_inputs] = self._starting_weights(n_inputs)
        self._rows = block_rows(capacity, n_columns, self._dtype)
        self._rows[:, n_inputs:n_columns] = 1.0
        self._targets = np.zeros((capacity, self.n_bits), self._dtype)
        self._n_waiting = 0
        self._update = BlockUpdate(capacity, self.n_bits, self._dtype)

    @abstractmethod
    def _replay(self, projections: NDArray[Any], gram: NDArray[Any], targets: NDArray[Any], batch_size: int) -> None:
        """Turn the projections of a block into its gradients, in place."""

    def _learn(self, X: Features, targets: Targets, weights: Weights) -> None:
        assert targets is not None
        signs = self._classes.targets(targets)
        capacity = len(self._targets)
        start = 0
        with single_threaded_products(len(X)):
            while start < len(X):
                stop = min(len(X), start + capacity - self._n_waiting)
                first, last = self._n_waiting, self._n_waiting + stop - start
                self._write_inputs(X[start:stop], self._rows[first:last])
                self._targets[first:last] = signs[start:stop]
                self._n_waiting = last % self.batch_size
                if last > self._n_waiting:
                    self._step(last - self._n_waiting)
                if self._n_waiting:
                    waiting = slice(last - self._n_waiting, last)
                    self._rows[: self._n_waiting] = self._rows[waiting]
                    self._targets[: self._n_waiting] = self._targets[waiting]
                start = stop

    def _write_inputs(self, X: Features, out: Features) -> None:
        """Write the inputs of the projection, from the next rows of the stream, to the first columns of ``out``."""
        self._features.learn(X, out)

    def _step(self, n_rows: int) -> NDArray[Any]:
        """Learn from the first rows of the block, batch by batch, and return their gradients."""
        batch_size = min(self.batch_size, n_rows)

        def replay(projections: NDArray[Any], gram: NDArray[Any]) -> None:
            self._replay(projections, gram, self._targets, batch_size)

        sequential = n_rows > batch_size or self._uses_lengths
        return self._update.apply(self._weights, self._rows, n_rows, replay, sequential=sequential)

    def _is_waiting(self) -> bool:
        return self._n_waiting > 0

    def _finish(self) -> None:
        if self._n_waiting:
            self._step(self._n_waiting)

    def _encoder(self) -> Encoder:
        n_inputs = len(self._weights) - bool(self.fit_bias)
        weights = self._weights[:n_inputs].copy()
        intercept = self._weights[n_inputs].copy() if self.fit_bias else None
        return Encoder(weights, intercept, self._frozen_features(), self.version_, self.name)

    @property
    def weights_(self) -> NDArray[Any]:
        """Hash functions, one per column, in the precision of the first batch; whole batches only."""
        return super().weights_[: len(self._weights) - bool(self.fit_bias)]

    @property
    def intercept_(self) -> NDArray[Any]:
        """Intercept per bit; zeros without ``fit_bias``."""
        self._demand_learned()
        return np.asarray(self._weights[len(self._weights) - bool(self.fit_bias) :].sum(axis=0))

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        waiting = slice(0, self._n_waiting)
        arrays = {
            "weights": self._weights,
            "waiting_rows": self._rows[waiting, : len(self._weights)],
            "waiting_targets": self._targets[waiting],
        }
        return {"labels": self._classes.labels}, arrays

    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        self._classes = ClassTable(self._classes.codebook, state["labels"])
        self._weights[:] = arrays["weights"]
        self._n_waiting = len(arrays["waiting_rows"])
        self._rows[: self._n_waiting, : len(self._weights)] = arrays["waiting_rows"]
        self._targets[: self._n_waiting] = arrays["waiting_targets"]
