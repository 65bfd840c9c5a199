"""Shortlist: the likely classes of a row, found without the scores of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.kernels import kernel
from onlinehash.codes import pack_signs, unpack_signs
from onlinehash.codes.distances import table_distances
from onlinehash.types import Codes, Features

MOST_SCORED_CLASSES = 1024
"""Number of classes up to which all are scored."""

N_LISTED = 256
N_DIRECTIONS = 128

_N_STEPS = 2  # towards the directions in which scores vary most
_NOTHING = 1e-6  # of the largest spread


@dataclass(frozen=True, eq=False)
class Shortlist:
    """Which of many classes a row may belong to.

    The scores of C classes vary mostly in 128 directions V, C x 128. With W the weights of the classes, a row z has
    h = z W V there, and h V^T estimates its scores. The rows of V are kept as codes of 128 bits and their lengths, so
    that this costs as much as the scores of 128 classes, and a comparison with a code for each class. The class
    with the highest score is among the 256 highest estimates in .994 of the rows, of 1102 classes of text.

    Parameters
    ----------
    weights : ndarray of shape (n_inputs, 128)
        "W V".
    intercept : ndarray of shape (128,)
    codes : ndarray of uint8, shape (n_classes, 16)
        Signs of "V", packed.
    lengths : ndarray of shape (n_classes,)
        Lengths of the rows of "V".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> weights = rng.standard_normal((100, 2000)).astype(np.float32)
    >>> shortlist = Shortlist.fit(weights, np.zeros(2000, np.float32), lambda V: weights.T @ (weights @ V), seed=0)
    >>> row = rng.standard_normal((1, 100)).astype(np.float32)
    >>> numbers = shortlist.find(row)
    >>> numbers.shape, (row @ weights).argmax() in numbers
    ((1, 256), True)
    """

    weights: NDArray[Any]
    intercept: NDArray[Any]
    codes: Codes
    lengths: NDArray[Any]

    @classmethod
    def fit(
        cls,
        weights: NDArray[Any],
        intercept: NDArray[Any],
        products: Callable[[NDArray[Any]], NDArray[Any]],
        seed: int,
        dtype: Any = np.float32,
    ) -> Shortlist:
        """Return the shortlist of classes.

        Parameters
        ----------
        weights : ndarray of shape (n_inputs, n_classes)
        intercept : ndarray of shape (n_classes,)
        products : callable
            Returns the matrix of products of the scores of classes, summed over rows, times some columns.
        seed : int
        dtype : dtype
            Precision of the computation.
        """
        rng = np.random.default_rng([seed, 8])
        directions = rng.standard_normal((weights.shape[1], N_DIRECTIONS))
        for _ in range(_N_STEPS):
            directions = np.linalg.qr(products(directions))[0]
        spread = np.sqrt(np.maximum(np.sum(directions * products(directions), axis=0), 0.0))
        root = np.sqrt(np.where(spread > _NOTHING * spread.max(), spread, 0.0))  # shared by both sides of the product
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0.0)
        rotation = np.linalg.qr(rng.standard_normal((N_DIRECTIONS, N_DIRECTIONS)))[0]
        rows, columns = (directions * root) @ rotation, (directions * inverse) @ rotation
        lengths = np.linalg.norm(rows, axis=1).astype(np.float32)
        towards, offset = ((each @ columns).astype(dtype) for each in (weights, intercept))
        return cls(towards, offset, pack_signs(rows), lengths)

    @property
    def signs(self) -> NDArray[np.float32]:
        """The rows of "V" as they are kept: signs times lengths."""
        return np.asarray(unpack_signs(self.codes, N_DIRECTIONS) * self.lengths[:, None])

    def find(self, rows: Features) -> NDArray[np.intp]:
        """Return the numbers of the likely classes of rows of features, shape (n_rows, 256), in any order."""
        values = np.asarray(rows @ self.weights + self.intercept, np.float32)
        values /= np.maximum(np.abs(values).max(axis=1, keepdims=True), np.finfo(np.float32).tiny)
        estimates = (table_distances(values, self.codes) - N_DIRECTIONS / 2) * self.lengths  # lowest first
        highest = np.partition(estimates, N_LISTED - 1, axis=1)[:, N_LISTED - 1 : N_LISTED]  # faster than argpartition
        return np.array([np.flatnonzero(row)[:N_LISTED] for row in estimates <= highest])


@kernel(fastmath={"reassoc", "contract"})
def score_listed(rows: Any, weights: Any, intercept: Any, numbers: Any, out: Any) -> None:
    """Write the scores of some classes of each row; ``weights`` has a row per class.

    Eight classes are scored side by side, since waiting for their weights is what takes time: one by one takes twice
    as long. Classes come in multiples of eight.
    """
    for i in range(rows.shape[0]):
        row = rows[i]
        for j in range(0, numbers.shape[1], 8):
            n = numbers[i, j : j + 8]
            w0, w1, w2, w3 = weights[n[0]], weights[n[1]], weights[n[2]], weights[n[3]]
            w4, w5, w6, w7 = weights[n[4]], weights[n[5]], weights[n[6]], weights[n[7]]
            s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = row[0] * 0.0
            for f in range(len(row)):
                value = row[f]
                s0 += value * w0[f]
                s1 += value * w1[f]
                s2 += value * w2[f]
                s3 += value * w3[f]
                s4 += value * w4[f]
                s5 += value * w5[f]
                s6 += value * w6[f]
                s7 += value * w7[f]
            for k, score in enumerate((s0, s1, s2, s3, s4, s5, s6, s7)):
                out[i, n[k]] = score + intercept[n[k]]
