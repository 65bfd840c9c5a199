"""The preprocessed rows, followed by the features of a map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinehash.features.anchors import Anchors
from onlinehash.features.fourier import Fourier, HadamardFourier
from onlinehash.types import Features


@dataclass(frozen=True, eq=False)
class WithInputs:
    """Keep the rows, preprocessed, and append the features of a map: a linear and a curved part together.

    Parameters
    ----------
    curved : Anchors, Fourier or HadamardFourier
        Its ``inner`` map preprocesses a row.

    Examples
    --------
    >>> WithInputs(Anchors(np.zeros((1, 2)), width=1.0)).transform(np.array([[0.0, 0.0]]))
    array([[0., 0., 1.]])
    """

    curved: Anchors | Fourier | HadamardFourier

    @property
    def n_inputs(self) -> int:
        """Number of input features."""
        return self.curved.n_inputs

    @property
    def n_outputs(self) -> int:
        """Number of output features."""
        return self.curved.n_inputs + self.curved.n_outputs

    def transform(self, X: Features) -> Features:
        """Return preprocessed rows and their features, shape (n_samples, n_outputs), in the precision of X."""
        out = np.empty((len(X), self.n_outputs), X.dtype)
        self.write(self.curved.inner.transform(X), out)
        return out

    def write(self, rows: Features, out: Features) -> None:
        """Write rows already mapped by the inner map, and their features, to the head of ``out``."""
        out[: len(rows), : self.n_inputs] = rows
        self.curved.write(rows, out[: len(rows), self.n_inputs : self.n_outputs])
