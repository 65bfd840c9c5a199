"""What several methods share: one matrix of hash functions, batches, classes, codewords, anchors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.arrays import is_on_device, to_host
from onlinehash._internal.threads import single_threaded_products
from onlinehash._internal.validation import check_labels
from onlinehash.codebooks import ClassTable
from onlinehash.codes import hamming_distances, pack_signs, unpack_signs
from onlinehash.exceptions import InvalidInputError
from onlinehash.features import Anchors, FeatureMap, squared_distances
from onlinehash.hashers._base import Arrays, Encoder, Features, Labels, OnlineHasher, Targets, Weights, take_targets

Matrix = NDArray[np.float64]


@dataclass(eq=False, repr=False, kw_only=True)
class LinearHasher(OnlineHasher):
    """Base class of methods whose hash functions are the columns of one matrix, ``_weights``."""

    init: str | ArrayLike = "random"

    def _start_weights(self, n_inputs: int) -> None:
        self._weights: NDArray[Any] = self._starting_weights(n_inputs).astype(self._dtype)

    def _starting_weights(self, n_inputs: int) -> NDArray[np.float64]:
        """Return the matrix given by ``init``, or Gaussian columns of unit length ("LSH")."""
        shape = n_inputs, self.n_bits
        if isinstance(self.init, str):
            if self.init != "random":
                raise InvalidInputError(
                    f"init={self.init!r} is not 'random' or a matrix of shape (n_features, n_bits)."
                )
            weights = np.random.default_rng([self.seed_, *shape]).standard_normal(shape)
            return np.asarray(weights / np.linalg.norm(weights, axis=0))
        weights = np.asarray(self.init, np.float64)
        if weights.shape != shape:
            raise InvalidInputError(f"init has shape {weights.shape}; (n_features, n_bits) is {shape}.")
        if not np.isfinite(weights).all():
            raise InvalidInputError("init contains NaN or inf.")
        return weights

    @property
    def weights_(self) -> NDArray[Any]:
        """Hash functions, one per column, in the precision of the first batch; whole batches only."""
        self._demand_learned()
        return self._weights.copy()

    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        super()._restore(state, arrays)
        if "_weights" in arrays and self._weights.shape[1] != self.n_bits:
            raise ValueError(f"weights of {self._weights.shape[1]} bits")

    def _frozen_features(self) -> FeatureMap:
        """Return the current map from a row to what is projected."""
        return self._features.freeze()

    def _encoder(self) -> Encoder:
        return Encoder(self._weights.copy(), None, self._frozen_features(), self.version_, self.name)


class BatchHasher(OnlineHasher):
    """Base class of methods that learn from ``batch_size`` consecutive rows at a time.

    A snapshot learns from rows that do not fill a batch as from a shorter one, unless the method needs
    ``whole_batches``.
    """

    whole_batches: ClassVar[bool] = False
    batch_size: int

    @abstractmethod
    def _learn_batch(self, rows: Features, labels: Any) -> None:
        """Learn from one batch of preprocessed rows, or from a shorter one at the end."""

    def _learn(self, X: Features, targets: Targets, weights: Weights) -> None:
        rows = self._preprocessed(X)
        for start in range(0, len(rows), self._n_together):
            batch = slice(start, start + self._n_together)
            with single_threaded_products(self._n_together):
                self._learn_batch(rows[batch], take_targets(targets, batch))

    def _finish(self, X: Features, targets: Targets, weights: Weights) -> None:
        if self.whole_batches:
            self._preprocessed(X)
        else:
            self._learn(X, targets, weights)


class WithNumberedClasses(OnlineHasher):
    """Base class of methods that number classes in order of first appearance, in ``_numbers``."""

    _numbers: dict[int | str, int]

    def _number(self, labels: Iterable[int | str]) -> NDArray[np.int64]:
        """Return the number of every label; a new one gets the next."""
        return np.array([self._numbers.setdefault(label, len(self._numbers)) for label in labels], np.int64)

    @property
    def classes_(self) -> Labels:
        """Labels in order of first appearance."""
        self._demand_learned()
        return np.array(list(self._numbers))


class WithCodewords(OnlineHasher):
    """Base class of methods that learn towards the codewords of classes, which they keep in ``_classes``."""

    multi_label: ClassVar[bool] = True
    codebook: Any
    _classes: ClassTable

    @property
    def classes_(self) -> Labels:
        """Labels in order of first appearance."""
        self._demand_learned()
        return np.array(self._classes.labels)

    @property
    def codewords_(self) -> NDArray[np.int8]:
        """The codeword of each class, in the order of ``classes_``."""
        self._demand_learned()
        return self._classes.codewords.copy()

    def score(self, X: ArrayLike, y: Any) -> float:
        """Return the fraction of rows whose class bits are nearest to the codeword of their class.

        Tied classes share the credit. Labels never learned count as wrong. For the quality of retrieval, see
        :func:`onlinehash.metrics.mean_average_precision`.
        """
        codes, words = self.snapshot().encode(X), self.codewords_
        codes, y = (to_host(each) if is_on_device(each) else each for each in (codes, y))
        labels = check_labels(y, len(codes))
        if words.shape[1] < self.n_bits:
            codes = pack_signs(unpack_signs(codes, self.n_bits)[:, : words.shape[1]])
        distances = hamming_distances(codes, pack_signs(words))
        nearest = distances == distances.min(axis=1, keepdims=True)
        own = [self._classes.number(label) for label in labels.tolist()]
        credit = [0.0 if number is None else nearest[i, number] / nearest[i].sum() for i, number in enumerate(own)]
        return float(np.mean(credit))


class WithAnchors(OnlineHasher):
    """Base class of methods that learn from similarities to anchors, ``_anchors``, once the stream has given them."""

    has_constant: ClassVar[bool] = False
    _anchors: Anchors | None

    def _frozen_features(self) -> FeatureMap:
        """Return the current map from a row to what is projected."""
        inner, anchors = self._features.freeze(), self._anchors
        return inner if anchors is None else replace(anchors, anchors=anchors.anchors.copy(), inner=inner)

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        state, arrays = super()._state()
        if self._anchors is not None:
            arrays |= {"anchors": self._anchors.anchors, "width": np.array([self._anchors.width])}
        return state, arrays

    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        super()._restore(state, arrays)
        if "anchors" in arrays:
            self._anchors = Anchors(arrays["anchors"], arrays["width"].item(), self.has_constant)


def mean_squared_distance(rows: Features) -> float:
    """Return the mean of |x - a|^2 over all pairs of different rows: twice the sum of the variances."""
    return float(2 * rows.var(axis=0, ddof=1, dtype=np.float64).sum()) or 1.0 if len(rows) > 1 else 1.0


def median_squared_distance(rows: Features) -> float:
    """Return the median of |x - a|^2 over all pairs of different rows."""
    distances = squared_distances(rows.astype(np.float64), rows.astype(np.float64))
    pairs = distances[np.triu_indices(len(rows), 1)]
    return (float(np.median(pairs)) or 1.0) if len(pairs) else 1.0


class Reservoir:
    """Choose the rows of a sample of fixed size: every row has a random key, and the smallest keys stay.

    Examples
    --------
    >>> reservoir = Reservoir(2)
    >>> reservoir.offer(np.array([0.5, 0.9, 0.7, 0.8]))  # the third takes the place of the second
    array([ 0,  1,  1, -1])
    """

    def __init__(self, capacity: int) -> None:
        self.keys = np.zeros(capacity)
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
