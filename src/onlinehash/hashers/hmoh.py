"""HMOH: Hadamard matrix guided online hashing (Lin et al., IJCV 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.kernels import kernel
from onlinehash._internal.validation import check_positive, check_positive_int
from onlinehash.features import Anchors
from onlinehash.hashers._base import Arrays, Encoder, Features, Targets
from onlinehash.hashers._block import CodewordHasher, subtract_earlier, subtract_products
from onlinehash.hashers._mixins import WithAnchors, mean_squared_distance


@dataclass(eq=False, repr=False, kw_only=True)
class HMOH(WithAnchors, CodewordHasher):
    """Learn one perceptron per bit towards Hadamard codewords, and hash with its average along the stream.

    With the codeword t of the class, bits with the wrong sign are corrected, and the weights are summed::

        W <- W + eta x^T (wrong * t);   S <- S + W;   codes = sign(x S)

    Costs O(n_features n_bits) per instance. With ``n_anchors``, the inputs are Gaussian similarities to the first rows
    of the stream, at an additional O(n_features n_anchors).

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes.
    learning_rate : float, default=0.1
        Step size. With zero starting weights it does not influence the codes.
    batch_size : int, default=1
        Number of consecutive instances per step, which is their mean.
    n_anchors : int, optional
        Use similarities to this many anchors, the first rows of the stream, instead of the features.
    bandwidth_divisor : float, default=6.0
        The squared bandwidth of the similarities is the mean squared distance in the head of the stream divided by
        this. Published: 6 for MNIST, 10 for Places.
    codebook : "hadamard", "ladder", or mapping from label to -1/+1 codeword of n_bits, default="hadamard"
        Unlike in the published code, Hadamard rows are permuted: without that, with at most 16 classes longer codes
        repeat the 16-bit code. A row with several labels is learned towards the majority of their codewords.
    preprocess : "running", "unit", "none", or array-like of shape (n_features,), default="running"
        As in :class:`HCOH`. The published runs take raw features.
    init : "zeros", "random", or array-like of shape (n_inputs, n_bits), default="zeros"
    random_state : int, Generator, RandomState or None, default=None
    output : {"codes", "bits", "signs"}, default="codes"
        As in :class:`HCOH`.

    References
    ----------
    M. Lin, R. Ji, H. Liu, X. Sun, S. Chen, Q. Tian. Hadamard Matrix Guided Online Hashing. IJCV 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from onlinehash import HMOH
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = HMOH(n_bits=16, n_anchors=200, random_state=0).partial_fit(X[:1000], y[:1000])
    >>> bool(hasher.score(X[1000:], y[1000:]) > 0.85)
    True
    """

    name: ClassVar[str] = "hmoh"
    _saved = ("_weights", "_sum", "_mistakes")

    learning_rate: float = 0.1
    batch_size: int = 1
    n_anchors: int | None = None
    bandwidth_divisor: float = 6.0
    codebook: str | Mapping[int | str, ArrayLike] = "hadamard"
    init: str | ArrayLike = "zeros"

    def _start(self, n_features: int) -> None:
        check_positive("bandwidth_divisor", self.bandwidth_divisor)
        self._anchors = None
        super()._start(n_features)

    def _make_room(self, n_inputs: int) -> None:
        super()._make_room(n_inputs)
        self._sum = np.zeros_like(self._weights)
        self._mistakes = np.zeros(self.n_bits, np.int64)

    def _starting_weights(self, n_inputs: int) -> NDArray[np.float64]:
        if isinstance(self.init, str) and self.init == "zeros":
            return np.zeros((n_inputs, self.n_bits))
        return super()._starting_weights(n_inputs)

    def _head_size(self) -> int:
        return 0 if self.n_anchors is None else check_positive_int("n_anchors", self.n_anchors)

    def _open(self, head: Features, targets: Targets) -> None:
        self._anchors = Anchors(head, 2 * mean_squared_distance(head) / self.bandwidth_divisor)
        self._make_room(len(head))

    def _write_inputs(self, X: Features, out: Features) -> None:
        if self._anchors is None:
            self._features.learn(X, out)
        else:
            out[:, : self._anchors.n_outputs] = self._anchors.map(self._preprocessed(X))

    def _replay(self, projections: NDArray[Any], gram: NDArray[Any], targets: NDArray[Any], batch_size: int) -> None:
        rate = self._dtype.type(self.learning_rate / batch_size)
        _replay(projections, gram, targets, batch_size, rate, self._mistakes)

    def _step(self, n_rows: int) -> NDArray[Any]:
        gradients = super()._step(n_rows)
        # The sum of W over the steps of the block: n_steps times the last W, plus what later steps took away.
        batch_size = min(self.batch_size, n_rows)
        n_steps = -(-n_rows // batch_size)
        step_of_row = (np.arange(n_rows) // batch_size).astype(self._dtype)
        subtract_products(self._sum.T, self._rows, len(self._sum), -step_of_row[:, None] * gradients)
        self._sum += self._dtype.type(n_steps) * self._weights
        return gradients

    def _encoder(self) -> Encoder:
        # Scaled by the number of mistakes as published; a positive factor, so that the codes do not depend on it.
        weights = self._sum / np.maximum(self._mistakes, 1).astype(self._dtype)
        return Encoder(weights, None, self._frozen_features(), self.version_, self.name)

    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        if "anchors" in arrays:
            self._make_room(len(arrays["anchors"]))
        super()._restore(state, arrays)


@kernel()
def _replay(projections: Any, gram: Any, targets: Any, batch_size: int, rate: Any, mistakes: Any) -> None:
    n_rows, n_bits = projections.shape
    for i in range(n_rows):
        subtract_earlier(projections, gram, i, i - i % batch_size)
        row = projections[i]
        for b in range(n_bits):
            # A zero counts as -1, as in the published code: the weights start there.
            wrong = (row[b] > 0) != (targets[i, b] > 0)
            mistakes[b] += wrong
            row[b] = -rate * targets[i, b] if wrong else 0.0
