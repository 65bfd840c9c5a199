"""HCOH: supervised online hashing via Hadamard codebook learning (Lin et al., ACM Multimedia 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.kernels import kernel
from onlinehash.hashers._block import CodewordHasher, apply_tanh, subtract_earlier


@dataclass(eq=False, repr=False, kw_only=True)
class HCOH(CodewordHasher):
    """Learn to hash every instance to the Hadamard codeword of its class, by one gradient step per instance.

    A new label gets a random unused row of a Hadamard matrix; the number of classes need not be known. With
    F = tanh(x W) and the codeword t of its class, an instance changes the weights by::

        W <- W - eta x^T [ (F - t) * (1 - F * F) ]

    Costs O(n_features n_bits) per instance; memory does not grow with the stream. Rows are learned in exact blocks: up
    to rounding, the result is the same as one row at a time.

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes ("r").
    learning_rate : float, default=0.2
        Step size ("eta"). As for the published rates, the gradient is taken without the factor 2 of Eq. (12).
    batch_size : int, default=1
        Number of consecutive instances per step ("n_t"); the step is their mean. Rows that do not fill a batch wait for
        the next call; a snapshot includes them as a shorter batch.
    codebook : "hadamard", "ladder", or mapping from label to -1/+1 codeword of n_bits, default="hadamard"
        With a mapping, any other label is refused. A row with several labels is learned towards the majority of
        their codewords.
    fit_bias : bool, default=False
        Learn an intercept per bit ("b"). The published results have none.
    preprocess : "running", "unit", "none", or array-like of shape (n_features,), default="running"
        ``"running"`` subtracts the mean of all rows up to and including the row, and scales it to unit length;
        ``"unit"`` only scales; a vector is a fixed mean to subtract; ``"none"`` does nothing, and rows so long that
        their products would overflow are refused.
    init : "random", or array-like of shape (n_features, n_bits), default="random"
        Starting weights; random ones are Gaussian with columns of unit length.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the weights and the codebook.
    output : {"codes", "bits", "signs"}, default="codes"
        What ``transform`` returns: packed codes; 0 and 1, one column per bit, for scikit-learn estimators that compare
        features; or -1 and +1. It may be changed at any time.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in order of first appearance.
    codewords_ : ndarray of int8, shape (n_classes, n_bits)
        Their codewords.
    weights_ : ndarray of shape (n_features, n_bits)
        Hash functions, one per column, in the precision of the first batch.
    intercept_ : ndarray of shape (n_bits,)
    n_samples_seen_ : int
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

    learning_rate: float = 0.2
    batch_size: int = 1
    codebook: str | Mapping[int | str, ArrayLike] = "hadamard"
    fit_bias: bool = False

    def _replay(self, projections: NDArray[Any], gram: NDArray[Any], targets: NDArray[Any], batch_size: int) -> None:
        rate = self._dtype.type(self.learning_rate / batch_size)
        _replay(projections, gram, targets, batch_size, rate)


@kernel(fastmath={"contract"})
def _replay(projections: Any, gram: Any, targets: Any, batch_size: int, rate: Any) -> None:
    """Turn projections into gradients, batch by batch; a row is affected by the steps of earlier batches only."""
    n_rows, n_bits = projections.shape
    for i in range(n_rows):
        subtract_earlier(projections, gram, i, i - i % batch_size)
        row = projections[i]
        apply_tanh(row)
        for b in range(n_bits):
            f = row[b]
            # Differs from the paper's P = (1 - tanh) * tanh, because the derivative of tanh is 1 - tanh^2.
            row[b] = rate * (f - targets[i, b]) * (1 - f * f)
