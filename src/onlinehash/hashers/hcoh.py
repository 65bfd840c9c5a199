"""HCOH: supervised online hashing via Hadamard codebook learning (Lin et al., ACM Multimedia 2018)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from onlinehash._files import Arrays
from onlinehash._validation import check_labels, check_n_bits, check_positive, check_positive_int
from onlinehash.codebooks import ClassTable, make_codebook
from onlinehash.codes import hamming_distances, pack_signs
from onlinehash.encoders import Encoder
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers._base import OnlineHasher
from onlinehash.hashers._block import BLOCK, BlockUpdate, block_rows, single_threaded_products
from onlinehash.types import Labels


class HCOH(OnlineHasher):
    """Learn to hash every instance to the Hadamard codeword of its class, by one gradient step an instance.

    The first time a label is seen it gets a random unused row of a Hadamard matrix, whatever the number of classes
    to come. With F = tanh(x W) and the codeword t of its class, an instance changes the weights by::

        W <- W - eta x^T [ (F - t) * (1 - F * F) ]

    Costs O(n_features n_bits) time an instance; memory does not grow with the stream. Rows are learned in exact
    blocks: the result is that of one at a time, to rounding, however many rows a call brings.

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes ("r").
    learning_rate : float, default=0.2
        Step size ("eta"). The gradient is taken without the factor 2 of Eq. (12), to which the
        published rates belong.
    batch_size : int, default=1
        Number of consecutive instances that share one step ("n_t"); the step is their mean. Rows that do not
        fill a batch yet wait for the next call; a snapshot includes them as a shorter batch.
    codebook : "hadamard", or mapping from label to -1/+1 codeword of n_bits, default="hadamard"
        With a mapping, any other label is refused.
    fit_bias : bool, default=False
        Learn an intercept for every bit ("b"). The published results have none.
    preprocess : "running", "none", or array-like of shape (n_features,), default="running"
        ``"running"`` centres an instance by the mean of all seen up to and including it and scales it to unit
        length; a vector does the same with that fixed mean; ``"none"`` takes features as they are.
    init : "random", or array-like of shape (n_features, n_bits), default="random"
        Starting weights; random ones are Gaussian with columns of unit length.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the weights and the codebook.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in order of first sight.
    codewords_ : ndarray of int8, shape (n_classes, n_bits)
        The codeword of each of them.
    weights_ : ndarray of shape (n_features, n_bits)
        Hash functions, one a column, in the precision of the first batch.
    intercept_ : ndarray of shape (n_bits,)
    n_seen_ : int
        Number of instances learned from.

    References
    ----------
    M. Lin, R. Ji, H. Liu, Y. Wu. Supervised Online Hashing via Hadamard Codebook Learning. ACM Multimedia 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from onlinehash import HCOH
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = HCOH(n_bits=16, random_state=0)
    >>> for x, label in zip(X[:1000], y[:1000]):
    ...     hasher = hasher.partial_fit(x, label)
    >>> hasher.transform(X[1000:1002]).shape
    (2, 2)
    >>> bool(hasher.score(X[1000:], y[1000:]) > 0.8)
    True
    """

    name: ClassVar[str] = "hcoh"

    def __init__(
        self,
        n_bits: int = 32,
        *,
        learning_rate: float = 0.2,
        batch_size: int = 1,
        codebook: str | Mapping[int | str, ArrayLike] = "hadamard",
        fit_bias: bool = False,
        preprocess: str | ArrayLike = "running",
        init: str | ArrayLike = "random",
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.codebook = codebook
        self.fit_bias = fit_bias
        self.preprocess = preprocess
        self.init = init
        self.random_state = random_state

    def _start(self, n_features: int) -> None:
        n_bits = check_n_bits(self.n_bits)
        batch_size = check_positive_int("batch_size", self.batch_size)
        check_positive("learning_rate", self.learning_rate)
        self._classes = ClassTable(make_codebook(self.codebook, n_bits, self.seed_))
        n_columns = n_features + bool(self.fit_bias)
        # Differs from Alg. 1: the bias starts at zero, not at a Gaussian that would drown projections of unit rows.
        self._weights = np.zeros((n_columns, n_bits), self._dtype)
        self._weights[:n_features] = starting_weights(self.init, n_features, n_bits, self.seed_)
        capacity = max(batch_size, BLOCK - BLOCK % batch_size)
        self._rows = block_rows(capacity, n_columns, self._dtype)
        self._rows[:, n_features:n_columns] = 1.0
        self._targets = np.zeros((capacity, n_bits), self._dtype)
        self._n_waiting = 0
        self._update = BlockUpdate(capacity, n_columns, n_bits, self._dtype)

    def _learn(self, X: NDArray[Any], y: Labels) -> None:
        numbers = self._classes.assign(y)
        codewords = self._classes.codewords
        capacity = len(self._targets)
        start = 0
        with single_threaded_products(len(X)):
            while start < len(X):
                stop = min(len(X), start + capacity - self._n_waiting)
                first, last = self._n_waiting, self._n_waiting + stop - start
                self._features.learn(X[start:stop].astype(self._dtype, copy=False), self._rows[first:last])
                self._targets[first:last] = codewords[numbers[start:stop]]
                self._step(self._weights, last - last % self.batch_size)
                self._n_waiting = last % self.batch_size
                if self._n_waiting:
                    self._rows[: self._n_waiting] = self._rows[last - self._n_waiting : last]
                    self._targets[: self._n_waiting] = self._targets[last - self._n_waiting : last]
                start = stop

    def _step(self, weights: NDArray[Any], n_rows: int) -> None:
        """Learn from the first rows in the buffer, batch by batch."""
        if n_rows == 0:
            return
        batch_size = min(self.batch_size, n_rows)
        rate = self._dtype.type(self.learning_rate / batch_size)
        targets = self._targets

        def replay(projections: NDArray[Any], gram: NDArray[Any]) -> None:
            _replay(projections, gram, targets, batch_size, rate)

        self._update.apply(weights, self._rows, n_rows, replay, sequential=n_rows > batch_size)

    def _encoder(self) -> Encoder:
        weights = self._weights.copy()
        self._step(weights, self._n_waiting)  # on a copy: a look at the hash functions does not change the stream
        n_features = self.n_features_in_
        intercept = weights[n_features].copy() if self.fit_bias else None
        return Encoder(weights[:n_features], intercept, self._features.freeze(), self.n_seen_, self.name)

    @property
    def classes_(self) -> Labels:
        """Labels in order of first sight."""
        self._demand_learned()
        return np.array(self._classes.labels)

    @property
    def codewords_(self) -> NDArray[np.int8]:
        """The codeword of each class, in the order of ``classes_``."""
        self._demand_learned()
        return self._classes.codewords.copy()

    @property
    def weights_(self) -> NDArray[Any]:
        """Hash functions, one a column; whole batches only."""
        self._demand_learned()
        return self._weights[: self.n_features_in_].copy()

    @property
    def intercept_(self) -> NDArray[Any]:
        """Intercept of every bit; zeros without ``fit_bias``."""
        self._demand_learned()
        return np.asarray(self._weights[self.n_features_in_ :].sum(axis=0))

    def score(self, X: ArrayLike, y: Any) -> float:
        """Return the share of rows whose code is nearest to the codeword of their own class.

        Classes that share the nearest place share the credit. Labels never learned count as wrong. For the quality
        of retrieval see :func:`onlinehash.metrics.mean_average_precision`.
        """
        codes = self.transform(X)
        labels = check_labels(y, len(codes))
        distances = hamming_distances(codes, pack_signs(self._classes.codewords))
        nearest = distances == distances.min(axis=1, keepdims=True)
        own = [self._classes.number(label) for label in labels.tolist()]
        credit = [0.0 if number is None else nearest[i, number] / nearest[i].sum() for i, number in enumerate(own)]
        return float(np.mean(credit))

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        state = {"labels": self._classes.labels}
        waiting = slice(0, self._n_waiting)
        arrays = {
            "weights": self._weights,
            "codewords": self._classes.codewords,
            "waiting_rows": self._rows[waiting, : len(self._weights)],
            "waiting_targets": self._targets[waiting],
        }
        return state, arrays

    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        self._classes = ClassTable(self._classes.codebook, state["labels"])
        self._weights[:] = arrays["weights"]
        self._n_waiting = len(arrays["waiting_rows"])
        self._rows[: self._n_waiting, : len(self._weights)] = arrays["waiting_rows"]
        self._targets[: self._n_waiting] = arrays["waiting_targets"]


def starting_weights(init: Any, n_features: int, n_bits: int, seed: int) -> NDArray[np.float64]:
    """Return the given matrix, or Gaussian columns of unit length."""
    if isinstance(init, str):
        if init != "random":
            raise InvalidInputError(f"init={init!r} is not 'random' or a matrix of shape (n_features, n_bits).")
        weights = np.random.default_rng([seed, n_features, n_bits]).standard_normal((n_features, n_bits))
        return np.asarray(weights / np.linalg.norm(weights, axis=0))
    weights = np.asarray(init, np.float64)
    if weights.shape != (n_features, n_bits):
        raise InvalidInputError(f"init has shape {weights.shape}; (n_features, n_bits) is ({n_features}, {n_bits}).")
    if not np.isfinite(weights).all():
        raise InvalidInputError("init contains NaN or inf.")
    return weights


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _replay(projections: Any, gram: Any, targets: Any, batch_size: int, rate: Any) -> None:
    """Turn projections into gradients, batch by batch; a row feels the steps of earlier batches only."""
    n_rows, n_bits = projections.shape
    for i in range(n_rows):
        row = projections[i]
        for j in range(i - i % batch_size):
            k = gram[i, j]
            for b in range(n_bits):
                row[b] -= k * projections[j, b]
        for b in range(n_bits):
            f = math.tanh(row[b])
            # Differs from the paper's P = (1 - tanh) * tanh, because the derivative of tanh is 1 - tanh^2.
            row[b] = rate * (f - targets[i, b]) * (1 - f * f)
