"""General bits: directions that separate classes in general, for classes that were never learned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from onlinehash._threads import single_threaded_products
from onlinehash.hashers._principal import Matrix, random_rotation
from onlinehash.hashers._ridge import RidgeStatistics
from onlinehash.hashers.itq import fit_rotation

_SOFT = 0.1  # of the mean within-class variance of a feature, added to each
_N_SIMULATED = 4096
_N_ITERATIONS = 50
_WEIGHT = 0.5  # root mean square of the values, next to 1 of the class bits
_TINY = 1e-12


def general_directions(
    statistics: RidgeStatistics, classes: NDArray[np.intp], n_bits: int, seed: int
) -> tuple[Matrix, Matrix]:
    """Return the weights, shape (n_inputs, n_bits), and intercepts of general bits, from sums alone.

    The directions are the first generalised eigenvectors of the total scatter against the scatter within classes:
    those along which rows differ most, compared with how much rows of one class differ. They are rotated by ITQ, on
    rows simulated from the class means and the scatter within. ``classes`` are those that have rows, in an order that
    does not depend on the stream. Costs O(n_inputs^3).

    Examples
    --------
    >>> from onlinehash.hashers._ridge import Members
    >>> rows = np.array([[1.0, 0.2], [1.0, -0.2], [-1.0, 0.2], [-1.0, -0.2]])
    >>> statistics = RidgeStatistics(2)
    >>> statistics.add(rows, Members(np.arange(4), np.array([0, 0, 1, 1]), np.ones(4), np.ones(4)))
    >>> weights, intercept = general_directions(statistics, np.arange(2), n_bits=1, seed=0)
    >>> np.abs(rows @ weights + intercept).round(1).ravel()  # the first feature alone
    array([0.5, 0.5, 0.5, 0.5])
    """
    n_inputs = len(statistics.gram)
    counts, total = statistics.counts[classes], statistics.counts[classes].sum()
    if not total > 0.0:
        return np.zeros((n_inputs, n_bits)), np.zeros(n_bits)
    gram = np.tril(statistics.gram) + np.tril(statistics.gram, -1).T
    means = statistics.sums[classes] / counts[:, None]
    shares = counts / total
    mean = shares @ means
    within = gram / total - (means * shares[:, None]).T @ means
    scatter = gram / total - np.outer(mean, mean)
    soft = _SOFT * np.trace(within) / n_inputs + _TINY * (np.trace(gram) / total + _TINY)
    first = [n_inputs - n_bits, n_inputs - 1]
    directions = eigh(scatter, within + soft * np.eye(n_inputs), subset_by_index=first)[1][:, ::-1]
    directions = directions @ random_rotation(directions, seed, 1)  # eigenvectors are unique but for their signs
    rng = np.random.default_rng([seed, 7])
    drawn = rng.choice(len(classes), _N_SIMULATED, p=shares)
    noise = rng.standard_normal((_N_SIMULATED, n_bits)) @ _root(directions.T @ within @ directions)
    simulated = (means - mean)[drawn] @ directions + noise
    size = np.sqrt(np.square(simulated).mean())
    with single_threaded_products(_N_SIMULATED):
        directions = directions @ fit_rotation(simulated, np.eye(n_bits), _N_ITERATIONS)
    weights = directions * (_WEIGHT / size if size > 0.0 else 0.0)
    return weights, -(mean @ weights)


def _root(covariance: Matrix) -> Matrix:
    """Return the symmetric square root of a covariance."""
    squares, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(squares, 0.0))) @ vectors.T)
