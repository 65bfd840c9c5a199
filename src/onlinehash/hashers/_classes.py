"""Hashers whose classes have codewords."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._arrays import is_on_device, to_host
from onlinehash._validation import check_labels
from onlinehash.codebooks import ClassTable
from onlinehash.codes import hamming_distances, pack_signs, unpack_signs
from onlinehash.hashers._base import OnlineHasher
from onlinehash.types import Labels, Targets


class WithCodewords(OnlineHasher):
    """Base class of methods that learn towards the codewords of classes, which they keep in ``_classes``."""

    multi_label: ClassVar[bool] = True
    codebook: Any
    _classes: ClassTable

    def _admit(self, targets: Targets) -> None:
        assert targets is not None
        self._classes.admit(targets)

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
        codes, words = self._packed(X), self.codewords_
        codes, y = (to_host(each) if is_on_device(each) else each for each in (codes, y))
        labels = check_labels(y, len(codes))
        if words.shape[1] < self.n_bits:
            codes = pack_signs(unpack_signs(codes, self.n_bits)[:, : words.shape[1]])
        distances = hamming_distances(codes, pack_signs(words))
        nearest = distances == distances.min(axis=1, keepdims=True)
        own = [self._classes.number(label) for label in labels.tolist()]
        credit = [0.0 if number is None else nearest[i, number] / nearest[i].sum() for i, number in enumerate(own)]
        return float(np.mean(credit))
