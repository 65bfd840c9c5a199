"""ITQ: iterative quantisation (Gong and Lazebnik, CVPR 2011)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh

from onlinehash._files import Arrays
from onlinehash._validation import check_positive_int
from onlinehash.encoders import Encoder
from onlinehash.hashers._base import Traits
from onlinehash.hashers._batches import BatchHasher
from onlinehash.hashers._principal import (
    Matrix,
    RunningMean,
    check_one_direction_a_bit,
    nearest_rotation,
    random_rotation,
    with_missing_directions,
)
from onlinehash.hashers._reservoir import Reservoir
from onlinehash.hashers._threads import single_threaded_products
from onlinehash.types import Features

_BATCH = 256  # rows that are added to the covariance at once: one product, the same however the stream is cut


class ITQ(BatchHasher):
    """Hash along the exact principal directions, rotated so that projections lie close to their own signs.

    The bound for unsupervised online methods such as :class:`SketchHash`: nothing is forgotten. Labels are ignored.
    Mean and covariance are summed along the stream. A snapshot takes the first r eigenvectors V of the covariance and,
    with Z the projections of a uniform sample of the stream, lowers the quantisation loss ``|B - Z R|^2`` in turns::

        B = sign(Z R)
        R = the rotation nearest to Z^T B

    Costs O(n_features^2) an instance, and for a snapshot O(n_features^3) and O(sample_size n_bits^2) an iteration.
    Memory is O(n_features (n_features + sample_size)).

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes; at most the number of features.
    n_iterations : int, default=50
        Turns of the rotation; 0 leaves it random. Published: 50.
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

    Notes
    -----
    Theirs: principal directions, and the rotation. Ours: sums and a sample in place of data that are all in memory; a
    random rotation to start from such that codes do not depend on the signs of eigenvectors.

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
    traits: ClassVar[Traits] = Traits(
        takes="single rows, learns in batches inside",
        cost="O(d^2), a snapshot O(d^3)",
        memory="O(d^2 + sample d)",
        shines="no labels: the bound for linear codes",
    )
    supervised: ClassVar[bool] = False

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_iterations: int = 50,
        sample_size: int = 5000,
        preprocess: str | ArrayLike = "running",
        random_state: Any = None,
        output: str = "codes",
    ) -> None:
        self.n_bits = n_bits
        self.n_iterations = n_iterations
        self.sample_size = sample_size
        self.preprocess = preprocess
        self.random_state = random_state
        self.output = output

    def _start(self, n_features: int) -> None:
        super()._start(n_features)
        if self.n_iterations != 0:
            check_positive_int("n_iterations", self.n_iterations)
        check_one_direction_a_bit(self.n_bits, n_features, type(self).__name__)
        self._moments = RunningMean(n_features)
        self._scatter: Matrix = np.zeros((n_features, n_features))
        self._reservoir = Reservoir(check_positive_int("sample_size", self.sample_size))
        self._sample = np.zeros((self.sample_size, n_features), self._dtype)

    def _batch_rows(self) -> int:
        return _BATCH

    def _learn_batch(self, rows: Features, labels: Any) -> None:
        keys = np.random.default_rng([self.seed_, self._moments.n_seen]).random(len(rows))
        for row, key in zip(rows, keys, strict=True):
            place = self._reservoir.offer(key)
            if place is not None:
                self._sample[place] = row
        centred = self._moments.add_spread(rows)
        with single_threaded_products(len(rows)):
            self._scatter += centred.T @ centred

    @property
    def mean_(self) -> Matrix:
        """Mean of the preprocessed rows; whole batches of 256 only."""
        self._demand_learned()
        return self._moments.mean.copy()

    @property
    def covariance_(self) -> Matrix:
        """Covariance of the preprocessed rows; whole batches of 256 only."""
        self._demand_learned()
        return np.asarray(self._scatter / max(1, self._moments.n_seen))

    def _encoder(self) -> Encoder:
        directions = with_missing_directions(self._principal_directions(), self.n_bits, self.seed_)
        offset = self._moments.mean @ directions
        sample = self._sample[: self._reservoir.size]
        projections = (sample @ directions.astype(self._dtype)).astype(np.float64) - offset
        with single_threaded_products(self.sample_size):
            start = random_rotation(directions, self.seed_, 0)
            rotation = fit_rotation(projections, start, self.n_iterations)
        weights, intercept = directions @ rotation, -(offset @ rotation)
        features = self._features.freeze()
        return Encoder(weights.astype(self._dtype), intercept.astype(self._dtype), features, self.version_, self.name)

    def _principal_directions(self) -> Matrix:
        """Return the first eigenvectors of the covariance, one a column; fewer where its rank is lower."""
        n_features = len(self._scatter)
        squares, vectors = eigh(self._scatter, subset_by_index=[n_features - self.n_bits, n_features - 1])
        noise = n_features * np.finfo(np.float64).eps * squares[-1]
        return np.asarray(vectors[:, squares > max(noise, 0.0)][:, ::-1])

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        state, arrays = super()._state()
        moments, n_sampled = self._moments, self._reservoir.size
        learned = {"mean": moments.mean, "scatter": self._scatter, "sample": self._sample[:n_sampled]}
        return state | {"n_seen": moments.n_seen}, arrays | learned | {"keys": self._reservoir.keys[:n_sampled]}

    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        super()._restore(state, arrays)
        self._moments.mean, self._moments.n_seen = arrays["mean"], state["n_seen"]
        self._scatter = arrays["scatter"]
        n_sampled = len(arrays["sample"])
        self._sample[:n_sampled] = arrays["sample"]
        self._reservoir.keys[:n_sampled], self._reservoir.size = arrays["keys"], n_sampled


def fit_rotation(projections: Matrix, rotation: Matrix, n_iterations: int) -> Matrix:
    """Return a rotation under which projections lie close to their signs; no iteration raises the loss.

    Examples
    --------
    >>> corners = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])  # signs are at 45 degrees
    >>> tilted = np.array([[0.8, 0.6], [-0.6, 0.8]])
    >>> np.abs(fit_rotation(corners, tilted, 50)).round(3)
    array([[0.707, 0.707],
           [0.707, 0.707]])
    """
    for _ in range(n_iterations):
        signs = np.where(projections @ rotation >= 0, 1.0, -1.0)
        rotation = nearest_rotation(projections.T @ signs)
    return rotation
