"""ITQ: iterative quantisation (Gong and Lazebnik, CVPR 2011)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh

from onlinehash._internal.validation import check_non_negative_int, check_positive_int
from onlinehash.hashers._base import Features
from onlinehash.hashers._mixins import Matrix, Reservoir
from onlinehash.hashers._principal import PrincipalHasher, nearest_rotation, random_rotation, with_missing_directions


@dataclass(eq=False, repr=False, kw_only=True)
class ITQ(PrincipalHasher):
    """Hash along the exact principal directions, rotated so that projections are close to their signs.

    What online methods such as :class:`SketchHash` approximate is exact here: mean and covariance are summed along the
    stream. Labels are ignored. A snapshot takes the first r eigenvectors V of the covariance and, with Z the
    projections of a uniform sample of the stream, minimises the quantisation loss ``|B - Z R|^2`` by alternating::

        B = sign(Z R)
        R = the rotation nearest to Z^T B

    Costs O(n_features^2) per instance, and per snapshot O(n_features^3) plus O(sample_size n_bits^2) per iteration.
    Memory is O(n_features (n_features + sample_size)).

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes; at most the number of features.
    n_iterations : int, default=50
        Iterations of the rotation; 0 leaves it random. Published: 50.
    sample_size : int, default=5000
        Rows of the stream that the rotation is fitted to.
    preprocess, random_state, output
        As in :class:`HCOH`.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the preprocessed rows.
    covariance_ : ndarray of shape (n_features, n_features)
        Their covariance, divided by their number.

    References
    ----------
    Y. Gong, S. Lazebnik. Iterative Quantization: A Procrustean Approach to Learning Binary Codes. CVPR 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from onlinehash.hashers.itq import ITQ
    >>> X, _ = load_digits(return_X_y=True)
    >>> ITQ(n_bits=16, random_state=0).partial_fit(X).transform(X).shape
    (1797, 2)
    """

    name: ClassVar[str] = "itq"

    batch_size = 256  # rows added to the covariance at once, however the stream is split into calls
    _saved = (*PrincipalHasher._saved, "_scatter", "_sample", "_reservoir.keys", "_reservoir.size")

    n_iterations: int = 50
    sample_size: int = 5000

    def _start(self, n_features: int) -> None:
        super()._start(n_features)
        check_non_negative_int("n_iterations", self.n_iterations)
        self._scatter: Matrix = np.zeros((n_features, n_features))
        self._reservoir = Reservoir(check_positive_int("sample_size", self.sample_size))
        self._sample = np.zeros((self.sample_size, n_features), self._dtype)

    def _learn_batch(self, rows: Features, labels: Any) -> None:
        keys = np.random.default_rng([self.seed_, self._moments.n_seen]).random(len(rows))
        places = self._reservoir.offer(keys)
        self._sample[places[places >= 0]] = rows[places >= 0]  # a place that is taken twice has the last row
        centred = self._moments.add_spread(rows)
        self._scatter += centred.T @ centred

    @property
    def covariance_(self) -> Matrix:
        """Covariance of the preprocessed rows; whole batches of 256 only."""
        self._demand_learned()
        return np.asarray(self._scatter / max(1, self._moments.n_seen))

    def _hash_functions(self) -> tuple[Matrix, Matrix]:
        n_features = len(self._scatter)
        squares, vectors = eigh(self._scatter, subset_by_index=[n_features - self.n_bits, n_features - 1])
        noise = n_features * np.finfo(np.float64).eps * squares[-1]
        known = vectors[:, squares > max(noise, 0.0)][:, ::-1]  # fewer than n_bits where the rank is lower
        directions = with_missing_directions(known, self.n_bits, self.seed_)
        offset = self._moments.mean @ directions
        sample = self._sample[: self._reservoir.size]
        projections = (sample @ directions.astype(self._dtype)).astype(np.float64) - offset
        start = random_rotation(directions, self.seed_, 0)
        rotation = fit_rotation(projections, start, self.n_iterations)
        return directions @ rotation, -(offset @ rotation)


def fit_rotation(projections: Matrix, rotation: Matrix, n_iterations: int) -> Matrix:
    """Return a rotation under which projections are close to their signs; no iteration increases the loss."""
    for _ in range(n_iterations):
        signs = np.where(projections @ rotation >= 0, 1.0, -1.0)
        rotation = nearest_rotation(projections.T @ signs)
    return rotation
