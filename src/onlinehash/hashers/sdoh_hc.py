"""SDOH-HC: supervised discrete online hashing with a Hadamard codebook (Zhang et al., MM 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve

from onlinehash._internal.validation import check_choice, check_positive, check_positive_int
from onlinehash.codebooks import ClassTable, make_codebook
from onlinehash.features import Anchors, squared_distances
from onlinehash.hashers._base import Encoder, Features, Labels, Targets
from onlinehash.hashers._mixins import BatchHasher, Matrix, WithAnchors, WithCodewords

_SWEEPS = 3  # over the bits of a code, in each round


@dataclass(eq=False, repr=False, kw_only=True)
class SDOHHC(WithAnchors, WithCodewords, BatchHasher):
    """Learn codes of items and of classes together, batch by batch, and regress the codes on kernel features.

    Features are Gaussian similarities to anchors from the first batch. In every batch, three sets of codes are
    fitted to each other in turn: real ones V, balanced and uncorrelated, which also follow the similarity to a small
    memory of earlier items; those of the classes Y, which start from Hadamard codewords; and those of the items B. With
    one-hot labels L, h the codewords, M the codes of the memory and S the similarities to it::

        V = balanced(beta B + gamma r S M)
        y_k <- sign(r (theta (2I - 1 1^T) Y + eta L^T B + eps h)_k - Y_k B_k^T b_k - eta Y_k Y_k^T y_k)
        b_k <- sign((beta V + eta r L Y + alpha r (L sum L^T V - 1 sum 1^T V))_k - eta B_k Y_k^T y_k)
        P = (sum K^T K + delta I)^-1 sum K^T B;   codes = sign(k(x) P)

    where Y_k and B_k leave out bit k. Costs O(n_anchors (n_features + n_anchors) + rounds n_bits^2) per instance, and
    O(n_anchors^3) per snapshot.

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes ("r").
    batch_size : int, default=2000
        Number of instances per batch.
    n_anchors : int, default=1000
        Number of anchors, drawn from the first batch.
    memory_size : int, default=200
        Number of earlier items in memory ("n_q"). After every batch, half of them are replaced.
    class_weight : float, default=100.0
        Weight of the agreement of items with their class ("eta").
    codebook_weight : float, default=0.1
        Weight of the codewords, and of the distance between classes ("eps", "theta").
    similarity_weight : float, default=1.0
        Weight of the similarity to earlier items ("alpha", "gamma").
    balance_weight : float, default=1.0
        Weight of the balanced codes ("beta").
    regularisation : float, default=1.0
        Ridge of the regression ("delta").
    rounds : int, default=10
        How often the codes of a batch are fitted.
    codebook : "hadamard", "ladder", "random", or mapping from label to -1/+1 codeword of n_bits, default="hadamard"
    variant : {"as_described", "as_released"}, default="as_described"
        In the released code, and with ``"as_released"``, the codes of items ignore their classes from the second batch
        on (L is zero there), and labels, features and codes of the earlier items in memory belong to different items,
        because each is drawn separately.
    preprocess, random_state, output
        As in :class:`HCOH`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in order of first appearance.
    codewords_ : ndarray of int8, shape (n_classes, n_bits)
        Learned codes of the classes; complete batches only.

    References
    ----------
    Zhang et al. Supervised Discrete Online Hashing with Hadamard Codebook. ACM Multimedia 2023.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from onlinehash import SDOHHC
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = SDOHHC(n_bits=16, batch_size=500, n_anchors=200, random_state=0).partial_fit(X[:1000], y[:1000])
    >>> bool(hasher.score(X[1000:], y[1000:]) > 0.8)
    True
    """

    name: ClassVar[str] = "sdoh_hc"
    multi_label: ClassVar[bool] = False

    _saved = (
        "_n_batches", "_class_codes", "_value_sums", "_kernel_mean", "_gram", "_cross",
        "_memory_features", "_memory_codes", "_memory_classes",
    )  # fmt: skip

    batch_size: int = 2000
    n_anchors: int = 1000
    memory_size: int = 200
    class_weight: float = 100.0
    codebook_weight: float = 0.1
    similarity_weight: float = 1.0
    balance_weight: float = 1.0
    regularisation: float = 1.0
    rounds: int = 10
    codebook: str | Mapping[int | str, ArrayLike] = "hadamard"
    variant: str = "as_described"

    def _start(self, n_features: int) -> None:
        for name in ("n_anchors", "memory_size", "rounds"):
            check_positive_int(name, getattr(self, name))
        for name in ("class_weight", "codebook_weight", "similarity_weight", "balance_weight", "regularisation"):
            check_positive(name, getattr(self, name))
        check_choice("variant", self.variant, ("as_described", "as_released"))
        self._classes = ClassTable(make_codebook(self.codebook, self.n_bits, self.seed_))
        self._class_codes: Matrix = np.zeros((0, self.n_bits))  # "Y"
        self._value_sums: Matrix = np.zeros((0, self.n_bits))  # sum L^T V
        self._n_batches = 0
        self._anchors = None

    def _head_size(self) -> int:
        return self._batch_rows()

    def _open(self, head: Features, targets: Targets) -> None:
        chosen = np.random.default_rng([self.seed_, 7]).permutation(len(head))[: self.n_anchors]
        distances = squared_distances(head.astype(np.float64), head[chosen].astype(np.float64))
        self._anchors = Anchors(head[chosen], 2 * (float(distances.mean()) or 1.0))
        # Differs from the released code, which centres every batch, that of the queries too, by its own mean.
        self._kernel_mean = self._kernel(head).mean(axis=0)
        n = len(chosen)
        self._gram: Matrix = np.zeros((n, n))  # sum K^T K
        self._cross: Matrix = np.zeros((n, self.n_bits))  # sum K^T B
        self._memory_features, self._memory_codes = np.zeros((0, n)), np.zeros((0, self.n_bits))
        self._memory_classes = np.zeros(0, np.int64)

    def _kernel(self, rows: Features) -> Matrix:
        """Return the similarities of preprocessed rows to the anchors, in double precision."""
        assert self._anchors is not None
        return np.asarray(self._anchors.map(rows.astype(np.float64)), np.float64)

    def _learn_batch(self, rows: Features, labels: Labels) -> None:
        numbers = self._classes.numbers(labels)
        known = len(self._class_codes)
        new = self._classes.codewords[known : numbers.max() + 1]  # classes of later batches may be admitted already
        self._class_codes = np.vstack([self._class_codes, new]).astype(np.float64)
        self._value_sums = np.vstack([self._value_sums, np.zeros(new.shape)])
        kernel = self._kernel(rows) - self._kernel_mean
        rng = np.random.default_rng([self.seed_, self._n_batches, 8])
        codes, values = self._fit_codes(kernel, numbers, rng)
        np.add.at(self._value_sums, numbers, values)
        self._gram += kernel.T @ kernel
        self._cross += kernel.T @ codes
        self._remember(kernel, codes, numbers, rng)
        self._n_batches += 1

    def _fit_codes(self, kernel: Matrix, numbers: NDArray[np.intp], rng: np.random.Generator) -> tuple[Matrix, Matrix]:
        """Return the codes of a batch, and the real ones."""
        n_bits, eta = self.n_bits, self.class_weight
        codes = rng.choice([-1.0, 1.0], (len(kernel), n_bits))
        attracted = self.similarity_weight * n_bits * self._similarities(kernel, numbers) @ self._memory_codes
        first = not self._n_batches
        earlier = self._value_sums[numbers] - self._value_sums.sum(axis=0)
        classed = first or self.variant == "as_described"
        Y, words = self._class_codes, self._classes.codewords[: len(self._class_codes)].astype(np.float64)
        in_class = np.zeros_like(Y)
        bits = [*range(n_bits)] * _SWEEPS
        for _ in range(self.rounds):
            values = _balanced(self.balance_weight * codes + attracted)
            in_class[:] = 0.0
            np.add.at(in_class, numbers, codes)
            apart = self.codebook_weight * (2 * Y - Y.sum(axis=0) + words)  # (2I - 1 1^T) Y + h
            wanted = n_bits * (apart + eta * in_class)
            gram = codes.T @ codes
            for k in bits:
                of_items, of_classes = _without(gram[k], k), _without(Y.T @ Y[:, k], k)
                Y[:, k] = np.where(wanted[:, k] - Y @ of_items - eta * Y @ of_classes >= 0, 1.0, -1.0)
            wanted = self.balance_weight * values + self.similarity_weight * n_bits * earlier
            if classed:
                wanted += eta * n_bits * Y[numbers]
            gram = Y.T @ Y
            for k in bits:
                codes[:, k] = np.where(wanted[:, k] - eta * codes @ _without(gram[k], k) >= 0, 1.0, -1.0)
        return codes, values

    def _similarities(self, kernel: Matrix, numbers: NDArray[np.intp]) -> Matrix:
        """Return the similarities of a batch to the memory: of features, and -1 where the class differs."""
        lengths = np.linalg.norm(kernel, axis=1, keepdims=True)
        similar = kernel @ self._memory_features.T / np.where(lengths > 0, lengths, 1.0)
        return np.where(numbers[:, None] == self._memory_classes, similar, -1.0)

    def _remember(self, kernel: Matrix, codes: Matrix, numbers: NDArray[np.intp], rng: np.random.Generator) -> None:
        """Keep a random half of the memory and fill it with those of the batch that fit their classes best."""
        size, n_old = self.memory_size, min(len(self._memory_codes), self.memory_size // 2)
        misfit = codes @ self._class_codes.T
        misfit[np.arange(len(codes)), numbers] -= 1.0
        chosen = np.argsort((misfit**4).sum(axis=1), kind="stable")[: size - n_old]
        kept = [rng.permutation(len(self._memory_codes))[:n_old] for _ in range(3)]
        if self.variant == "as_described":
            kept = kept[:1] * 3
        self._memory_features = np.vstack([self._memory_features[kept[0]], kernel[chosen]])
        self._memory_codes = np.vstack([self._memory_codes[kept[1]], codes[chosen]])
        self._memory_classes = np.concatenate([self._memory_classes[kept[2]], numbers[chosen]])

    @property
    def codewords_(self) -> NDArray[np.int8]:
        """Learned codes of the classes, in the order of ``classes_``; complete batches only."""
        words = super().codewords_
        words[: len(self._class_codes)] = self._class_codes
        return words

    def _encoder(self) -> Encoder:
        ridge = self._gram + self.regularisation * np.eye(len(self._gram))
        weights = solve(ridge, self._cross, assume_a="pos")
        weights, intercept = weights.astype(self._dtype), (-self._kernel_mean @ weights).astype(self._dtype)
        return Encoder(weights, intercept, self._frozen_features(), self.version_, self.name)


def _without(row: Matrix, k: int) -> Matrix:
    """Return a copy with 0 at position k."""
    row = row.copy()
    row[k] = 0.0
    return row


def _balanced(values: Matrix) -> Matrix:
    """Return the nearest matrix with centred, uncorrelated columns of length sqrt(n).

    Differs from the released code in directions in which the values do not vary: zero here, random there.
    """
    centred = values - values.mean(axis=0)
    variances, directions = np.linalg.eigh(centred.T @ centred)
    least = 1e-10 * max(variances[-1], 1e-300)
    scale = np.where(variances > least, 1.0 / np.sqrt(np.maximum(variances, least)), 0.0)
    return np.asarray(np.sqrt(len(values)) * centred @ (directions * scale) @ directions.T)
