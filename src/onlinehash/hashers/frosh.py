"""FROSH: faster online sketching hashing (Chen, King, Lyu, UAI 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from onlinehash._internal.validation import check_positive_int
from onlinehash._internal.walsh import walsh_hadamard
from onlinehash.hashers._base import Features
from onlinehash.hashers._mixins import Matrix
from onlinehash.hashers._principal import SketchHasher


@dataclass(eq=False, repr=False, kw_only=True)
class FROSH(SketchHasher):
    """Hash along the principal directions of the stream, as :class:`SketchHash` does, from a cheaper sketch.

    Labels are ignored. A chunk A of m rows around the mean is first compressed to l / 2 rows by its own subsampled
    randomised Hadamard transform, ``S H D A / sqrt(l / 2)``: random signs D, the Hadamard matrix H, and a random choice
    S of l / 2 rows. Its Gram matrix is A^T A in expectation. The result fills the free half of the frequent-directions
    sketch, which then shrinks once per chunk.

    Costs O(n_features (log m + l^2 / m)) per instance. Memory is O(n_features (l + m)).

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes ("r"); at most the number of features.
    sketch_size : int, default=200
        Rows of the sketch ("l"), even and at least ``n_bits``; better twice that.
    chunk_size : int, default=256
        Rows that are compressed together ("m"), preferably a power of two. Up to ``sketch_size / 2`` rows are not
        compressed. Larger chunks are cheaper and less accurate.
    preprocess, random_state, output
        As in :class:`HCOH`.

    Attributes
    ----------
    sketch_, mean_
        As in :class:`SketchHash`.

    References
    ----------
    X. Chen, I. King, M. R. Lyu. FROSH: FasteR Online Sketching Hashing. UAI 2017.

    X. Chen, H. Yang, S. Zhao, I. King, M. R. Lyu. Making Online Sketching Hashing Even Faster. arXiv:2010.04948, 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from onlinehash.hashers.frosh import FROSH
    >>> X, _ = load_digits(return_X_y=True)
    >>> FROSH(n_bits=16, random_state=0).partial_fit(X).transform(X).shape
    (1797, 2)
    """

    name: ClassVar[str] = "frosh"

    chunk_size: int = 256

    def _batch_rows(self) -> int:
        return check_positive_int("chunk_size", self.chunk_size)

    def _learn_batch(self, rows: Features, labels: Any) -> None:
        centred = self._moments.add_spread(rows)
        draw = np.random.default_rng([self.seed_, self._n_batches, self.sketch_size])
        self._sketch.append(compress_rows(centred, self.sketch_size // 2, draw))
        self._n_batches += 1


def compress_rows(rows: Matrix, n_rows: int, draw: np.random.Generator) -> Matrix:
    """Return at most ``n_rows`` random combinations of the rows, with the same Gram matrix in expectation.

    The subsampled randomised Hadamard transform: O(n log n) additions per column for n rows.
    """
    if len(rows) <= n_rows:
        return rows
    padded = np.zeros((1 << (len(rows) - 1).bit_length(), rows.shape[1]))
    signs = draw.integers(0, 2, len(rows)) * 2.0 - 1.0
    np.multiply(rows, signs[:, None], out=padded[: len(rows)])
    chosen = draw.choice(len(padded), n_rows, replace=False)
    return np.asarray(walsh_hadamard(padded)[chosen] / np.sqrt(n_rows))
