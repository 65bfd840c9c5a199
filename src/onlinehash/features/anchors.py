"""Similarities to anchors: a Gaussian kernel turned into features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.features.centring import Centring, Identity
from onlinehash.types import Features


@dataclass(frozen=True, eq=False)
class Anchors:
    """Map a row to its Gaussian similarities to a few anchors: exp(-|x - a|^2 / width).

    Parameters
    ----------
    anchors : ndarray of shape (n_anchors, n_features)
    width : float
        "2 sigma^2", in squared distances.
    constant : bool, default=False
        Append a feature that is always 1.
    inner : Identity or Centring
        Preprocessing of a row.

    Examples
    --------
    >>> Anchors(np.zeros((1, 2)), width=1.0, constant=True).transform(np.array([[0.0, 0.0]]))
    array([[1., 1.]])
    """

    anchors: NDArray[Any]
    width: float
    constant: bool = False
    inner: Identity | Centring = Identity()  # noqa: RUF009 (immutable)

    @property
    def n_inputs(self) -> int:
        """Number of input features."""
        return int(self.anchors.shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of output features."""
        return len(self.anchors) + self.constant

    def transform(self, X: Features) -> Features:
        """Return the similarities of the rows of X, shape (n_samples, n_anchors), in the precision of X."""
        out = np.empty((len(X), self.n_outputs), X.dtype)
        self.write(self.inner.transform(X), out)
        return out

    def write(self, rows: Features, out: Features) -> None:
        """Write the similarities of rows already mapped by ``inner`` to the head of ``out``."""
        n_anchors = len(self.anchors)
        similar = squared_distances(rows, self.anchors.astype(rows.dtype, copy=False))
        np.exp(similar / -rows.dtype.type(self.width), out=out[: len(rows), :n_anchors])
        out[: len(rows), n_anchors : self.n_outputs] = 1.0


def squared_distances(rows: Features, anchors: Features) -> Features:
    """Return |x - a|^2 for every row and anchor, shape (n_rows, n_anchors).

    Examples
    --------
    >>> squared_distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[25.,  1.]])
    """
    lengths = np.square(rows).sum(axis=1)[:, None] + np.square(anchors).sum(axis=1)
    return np.asarray(np.maximum(lengths - 2 * (rows @ anchors.T), 0))
