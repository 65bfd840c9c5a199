"""References: methods to compare hashers with. Those with ``bits`` of the plan have no size of their own.

They learn like hashers, by ``partial_fit`` and ``snapshot``, from the same features: centred by the running mean of the
stream and scaled to unit length, or unchanged if the split has done that already.

========================  ===============================================  ===============================
name in a plan            stored per item                                  bits per item
========================  ===============================================  ===============================
``reference:float``       its features; ranked by cosine                   32 per feature
``reference:sign``        the signs of its features                        1 per feature
``reference:classifier``  the class that a linear classifier predicts      log2 of the classes, rounded up
``reference:hroh``        the class of HROH's highest score                log2 of the classes, rounded up
``reference:knn``         the class of its 10 nearest vectors              log2 of the classes, rounded up
``reference:hcsdh``       a code of HC-SDH, learned from all rows at once  ``bits`` of the plan
``reference:cca_itq``     a code of CCA-ITQ or LDA + ITQ, likewise         ``bits`` of the plan
``reference:posteriors``  the probabilities of the classes, by HROH        32 per class
``reference:quantised``   these by residual quantisation                   ``bits`` of the plan
``reference:class_lists`` the class list of HROH's encoder                 160
``reference:learned``     its features and the class list                  32 per feature, and 160
========================  ===============================================  ===============================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import vq
from scipy.linalg import eigh, solve

from onlinehash._internal.validation import check_positive, check_positive_int
from onlinehash.codebooks import ClassTable, make_codebook
from onlinehash.codes import pack_bits, pack_signs
from onlinehash.encoders import Calibration, Encoder
from onlinehash.encoders.calibration import CLASSES_PER_LIST, sharpened, softmax
from onlinehash.exceptions import InvalidInputError, NotLearnedError
from onlinehash.experiments.streams import chunks, labelled_rows
from onlinehash.features import Anchors, FeatureMap, StreamFeatures, make_features, squared_distances
from onlinehash.hashers import HROH
from onlinehash.types import Batch, Codes, Features, Labels

_SCORES_PER_BLOCK = 1 << 22
_ROWS_PER_BLOCK = 2000  # of a kernel
_SHRINKAGE = 1e-4  # of the mean variance of a feature, added to that of each
_ROTATIONS = 50  # as published
_ROWS_TO_CALIBRATE = 4096  # as of a collection
_CENTROIDS = 256  # of a level of residual quantisation: 8 bits
_STEPS_OF_CENTROIDS = 20
_LONGEST = 2.0  # no shorter than any row of an inner product


class Reference(ABC):
    """Base class of references: keeps the running mean of the stream, and the labelled rows if asked to."""

    keeps_rows = False  # whether all labelled rows of the stream are kept

    def __init__(self, preprocess: Any = "running") -> None:
        self.preprocess = preprocess
        self._features: StreamFeatures | None = None
        self._rows: list[Batch] = []

    def partial_fit(self, X: Features, y: Labels) -> Reference:
        """Learn from the next rows of the stream; NaN is a missing label."""
        if self._features is None:
            self._features = make_features(self.preprocess, X.shape[1])
        for rows in chunks(X):
            centred = np.empty_like(X[rows])
            self._features.learn(X[rows], centred)
            self._learn(centred, y[rows])
        if self.keeps_rows:
            kept = labelled_rows(X, y)
            self._rows.append(Batch(kept.X.copy(), kept.y.copy()))
        return self

    @abstractmethod
    def snapshot(self) -> ReferenceEncoder:
        """Return an immutable encoder with the current state."""

    def _learn(self, X: Features, y: Labels) -> None:  # noqa: B027 (optional)
        """Learn from centred rows; most references have nothing to learn."""

    def _frozen_features(self) -> FeatureMap:
        if self._features is None:
            raise NotLearnedError(f"This {type(self).__name__} has not learned from any instance yet.")
        return self._features.freeze()

    def _kept(self) -> tuple[FeatureMap, Features, Labels]:
        """Return the current preprocessing, and all rows kept, preprocessed, with their labels."""
        features = self._frozen_features()
        if not any(len(part.y) for part in self._rows):
            raise NotLearnedError(f"This {type(self).__name__} has not seen a label yet.")
        rows = np.concatenate([features.transform(part.X) for part in self._rows])
        return features, rows, np.concatenate([part.y for part in self._rows])


class ReferenceEncoder(NamedTuple):
    """Encode rows by a function: to packed codes, or to features that :func:`cosine_quality` ranks.

    Queries may have a function of their own.
    """

    encode: Callable[[Features], NDArray[Any]]
    encode_queries: Callable[[Features], NDArray[Any]] | None = None

    @property
    def for_queries(self) -> ReferenceEncoder:
        """The encoder of queries."""
        return ReferenceEncoder(self.encode_queries or self.encode)


def class_encoder(scores: Encoder) -> ReferenceEncoder:
    """Return an encoder to the class of the highest score, one-hot."""
    classes = np.arange(scores.n_bits)
    return ReferenceEncoder(lambda X: pack_bits(classes == scores.project(X).argmax(axis=1)[:, np.newaxis]))


class FloatReference(Reference):
    """Store the features themselves: exact search by cosine.

    Examples
    --------
    >>> FloatReference().partial_fit(np.eye(3), np.arange(3)).snapshot().encode(np.eye(3)).shape
    (3, 3)
    """

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder to centred features."""
        return ReferenceEncoder(self._frozen_features().transform)


class SignReference(Reference):
    """Store the sign of every centred feature: a code without learning.

    Examples
    --------
    >>> SignReference("none").partial_fit(np.eye(3), np.arange(3)).snapshot().encode(np.array([[1.0, -1.0, 2.0]]))
    array([[5]], dtype=uint8)
    """

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder to one bit per feature, packed."""
        features = self._frozen_features()
        return ReferenceEncoder(lambda X: np.concatenate([pack_signs(features.transform(X[i])) for i in chunks(X)]))


class ClassifierReference(Reference):
    """Store the predicted class only: items of the class predicted for the query are found first.

    The classifier is ridge regression on the classes from the statistics of the stream, A = sum z z^T and
    S_c = sum of z over class c, with z the features and a constant: W = (A + lambda I)^-1 S^T. The order
    of the stream matters only through the running mean. Costs O(n_features^2) per instance.

    Parameters
    ----------
    preprocess : as in hashers
    regularisation : float, default=1.0
        The ridge ("lambda").

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> ClassifierReference("none").partial_fit(X, y).snapshot().encode(X[:2])  # one bit per class
    array([[1],
           [2]], dtype=uint8)
    """

    def __init__(self, preprocess: Any = "running", *, regularisation: float = 1.0) -> None:
        super().__init__(preprocess)
        self.regularisation = check_positive("regularisation", regularisation)
        self._gram: NDArray[np.float64] | None = None
        self._sums: dict[Any, NDArray[np.float64]] = {}

    def _learn(self, X: Features, y: Labels) -> None:
        X, labels = labelled_rows(X, y)
        inputs = np.hstack([X.astype(np.float64), np.ones((len(X), 1))])
        if self._gram is None:
            self._gram = np.zeros((inputs.shape[1], inputs.shape[1]))
        self._gram += inputs.T @ inputs
        for label in np.unique(labels).tolist():
            self._sums[label] = self._sums.get(label, 0.0) + inputs[labels == label].sum(axis=0)

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder to the predicted class, one-hot: the Hamming distance is 0 for the same class."""
        features = self._frozen_features()
        if self._gram is None or not self._sums:
            raise NotLearnedError("This ClassifierReference has not seen a label yet.")
        ridge = self._gram + self.regularisation * np.eye(len(self._gram))
        weights = solve(ridge, np.array(list(self._sums.values())).T, assume_a="pos")
        return class_encoder(Encoder(weights[:-1], weights[-1], features))


class HROHReference(Reference):
    """Store the class that HROH predicts: the one with the highest of the scores that its codes are computed from.

    Parameters
    ----------
    preprocess, balance : as in HROH
    random_state : int, default=0

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> HROHReference("unit").partial_fit(X, y).snapshot().encode(X[:2])
    array([[1],
           [2]], dtype=uint8)
    """

    def __init__(self, preprocess: Any = "unit", *, balance: float = 0.5, random_state: int = 0) -> None:
        super().__init__(preprocess)
        fixed: Any = {"sharpness": 1.0, "assignment": "arrival"}
        self._hasher = HROH(8, preprocess=preprocess, balance=balance, random_state=random_state, **fixed)

    def partial_fit(self, X: Features, y: Labels) -> HROHReference:
        """Learn from the next rows of the stream; NaN is a missing label."""
        self._hasher.partial_fit(X, y)
        return self

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder to the class of the highest score, one-hot."""
        return class_encoder(replace(self._hasher.snapshot(), codewords=None))


def product_encoder(queries: Callable[[Features], Features], items: Callable[[Features], Features]) -> ReferenceEncoder:
    """Return an encoder under which cosines order items by their inner products with a query.

    Items get another feature, by which all are of the same length; queries have 0 there.
    """

    def of_items(X: Features) -> Features:
        rows = items(X)
        rest = np.maximum(_LONGEST**2 - np.square(rows).sum(axis=1, keepdims=True), 0.0)
        return np.hstack([rows, np.sqrt(rest)])

    return ReferenceEncoder(of_items, lambda X: np.pad(queries(X), ((0, 0), (0, 1))))


class ScoresReference(Reference):
    """Base class of references that store what HROH says of the classes of an item; nothing is rounded to signs.

    Scores are calibrated as those of a collection: by leave one out, on the first 4096 labelled rows.

    Parameters
    ----------
    preprocess : as in HROH
        "running" is taken as "unit", because no row can be left out of a running mean.
    random_state : int, default=0
    """

    keeps_rows = True

    def __init__(self, preprocess: Any = "unit", *, random_state: int = 0) -> None:
        super().__init__(preprocess)
        fixed = "unit" if isinstance(preprocess, str) and preprocess == "running" else preprocess
        self._hasher = HROH(8, preprocess=fixed, random_state=random_state)

    def partial_fit(self, X: Features, y: Labels) -> ScoresReference:
        """Learn from the next rows of the stream; NaN is a missing label."""
        self._hasher.partial_fit(X, y)
        n_more = _ROWS_TO_CALIBRATE - sum(len(part.y) for part in self._rows)
        kept = labelled_rows(X, y)
        self._rows.append(Batch(kept.X[:n_more].copy(), kept.y[:n_more].copy()))
        return self

    def _calibrated(self) -> tuple[Encoder, Features]:
        """Return the encoder, and the scores that the rows kept would have, had they not been learned."""
        encoder, rows = self._hasher.snapshot(), np.concatenate([part.X for part in self._rows])
        labels = np.concatenate([part.y for part in self._rows])
        scores = self._hasher.leave_one_out(rows, labels)
        own = np.searchsorted(self._hasher.classes_, labels, sorter=np.argsort(self._hasher.classes_))
        numbers = np.argsort(self._hasher.classes_)[own]
        return replace(encoder, calibration=Calibration.fit(scores, numbers[:, np.newaxis].tolist())), scores


class PosteriorsReference(ScoresReference):
    """Store the probabilities of all classes: items are ranked by the probability of having the query's class.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> PosteriorsReference().partial_fit(X, y).snapshot().encode(X[:2]).argmax(axis=1)  # the last makes lengths equal
    array([2, 2])
    """

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder to probabilities."""
        chances = partial(_probabilities, self._calibrated()[0])
        return product_encoder(chances, chances)


class QuantisedReference(ScoresReference):
    """Store the probabilities of all classes by residual quantisation; queries keep theirs as they are.

    8 bits name the nearest of 256 centroids, the next 8 the one nearest to what is left, and so on. The centroids are
    those of the rows that the scores are calibrated by.

    Parameters
    ----------
    preprocess : as in HROH
    n_bits : int, default=32
        A multiple of 8.
    random_state : int, default=0

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 150), np.array([7, 9] * 150)
    >>> QuantisedReference(n_bits=8).partial_fit(X, y).snapshot().encode(X[:2]).shape  # two classes, and a length
    (2, 3)
    """

    def __init__(self, preprocess: Any = "unit", *, n_bits: int = 32, random_state: int = 0) -> None:
        super().__init__(preprocess, random_state=random_state)
        self.n_bits, self.random_state = check_positive_int("n_bits", n_bits), random_state
        if n_bits % 8:
            raise InvalidInputError(f"n_bits={n_bits} is not a multiple of 8, the bits of a level of quantisation.")

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder to the sums of centroids."""
        encoder, scores = self._calibrated()
        rest, levels = softmax(scores, encoder.calibration.temperature).astype(np.float64), list[NDArray[Any]]()
        rng = np.random.default_rng([self.random_state, 11])
        for _ in range(self.n_bits // 8):
            levels.append(_centroids(rest, rng))
            rest = rest - levels[-1][vq(rest, levels[-1])[0]]

        def quantised(X: Features) -> Features:
            rest = _probabilities(encoder, X).astype(np.float64)
            found = np.zeros_like(rest)
            for centroids in levels:
                part = centroids[vq(rest, centroids)[0]]
                found, rest = found + part, rest - part
            return found.astype(np.float32)

        return product_encoder(partial(_probabilities, encoder), quantised)


class ClassListsReference(ScoresReference):
    """Store the class list of HROH's encoder, in 20 bytes: the five most probable classes and their probabilities.

    Items are ranked by the probability that they and the query have the same class, from the lists of both, as
    :class:`onlinehash.indexes.ClassListIndex` does.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> ClassListsReference().partial_fit(X, y).snapshot().encode(X[:2]).argmax(axis=1)
    array([2, 2])
    """

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder to the probabilities in the lists."""
        encoder, _ = self._calibrated()

        def listed(X: Features) -> Features:
            return _listed(encoder, X, 8)

        return product_encoder(listed, listed)


class LearnedReference(ScoresReference):
    """Store features and class lists: the learned order of a collection, over all items instead of 100 candidates.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> LearnedReference().partial_fit(X, y).snapshot().encode(X[:2]).shape  # 2 classes twice, 2 features, a length
    (2, 7)
    """

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder to probabilities, sharpened scores and unit vectors, by which queries weigh them."""
        encoder, _ = self._calibrated()
        known = encoder.calibration

        def of_items(X: Features) -> Features:
            return np.hstack([_listed(encoder, X, 8), _unit(_listed(encoder, X, 0)), _unit(X)])

        def of_queries(X: Features) -> Features:
            scores = encoder.class_scores(X)
            gate = known.gate(scores)[:, np.newaxis]
            p, f = softmax(scores, known.temperature), _unit(sharpened(scores))
            return np.hstack([gate / 2 * p, gate / 2 * f, (1.0 - gate) * _unit(X)]).astype(np.float32)

        return product_encoder(of_queries, of_items)


def _probabilities(encoder: Encoder, X: Features) -> Features:
    """Return the probabilities of all classes."""
    return softmax(encoder.class_scores(X), encoder.calibration.temperature)


def _centroids(rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Return centroids of rows by Lloyd's algorithm; one without rows stays where it was."""
    centroids = rows[rng.permutation(len(rows))[:_CENTROIDS]]
    for _ in range(_STEPS_OF_CENTROIDS):
        nearest = vq(rows, centroids)[0]
        for place in np.unique(nearest):
            centroids[place] = rows[nearest == place].mean(axis=0)
    return centroids


def _listed(encoder: Encoder, X: Features, shift: int) -> Features:
    """Return what class lists hold of all classes: probabilities at bit 8, sharpened scores at bit 0."""
    assert encoder.classes is not None
    lists = encoder.class_lists(X)
    found = np.zeros((len(X), len(encoder.classes)), np.float32)
    values = (lists >> shift & 255) / np.float32(255)
    for place in range(min(CLASSES_PER_LIST, found.shape[1])):
        found[np.arange(len(X)), lists[:, place] >> 16] = values[:, place]
    return found


class NeighboursReference(Reference):
    """Store the most frequent class among the nearest vectors, by cosine, that were learned from with a label.

    It keeps the whole stream, and encoding costs a product with all of it. Of equally frequent classes, the one whose
    members have the higher total cosine counts.

    Parameters
    ----------
    preprocess : as in hashers
    n_neighbors : int, default=10

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> NeighboursReference("none", n_neighbors=3).partial_fit(X, y).snapshot().encode(X[:2])  # one bit per class
    array([[1],
           [2]], dtype=uint8)
    """

    def __init__(self, preprocess: Any = "running", *, n_neighbors: int = 10) -> None:
        super().__init__(preprocess)
        self.n_neighbors = check_positive_int("n_neighbors", n_neighbors)

    keeps_rows = True

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder to the class of the nearest neighbours, one-hot."""
        features, kept, labels = self._kept()
        rows, (names, numbers) = _unit(kept), np.unique(labels, return_inverse=True)
        return ReferenceEncoder(lambda X: self._encode(features.transform(X), rows, numbers, len(names)))

    def _encode(self, X: Features, rows: Features, numbers: NDArray[np.intp], n_classes: int) -> Codes:
        n_neighbors = min(self.n_neighbors, len(rows))
        codes = []
        for some in chunks(X, 4 * _SCORES_PER_BLOCK, len(rows)):
            scores = _unit(X[some]) @ rows.T
            nearest = np.argpartition(scores, len(rows) - n_neighbors, axis=1)[:, len(rows) - n_neighbors :]
            # A cosine is at most 1, so that its share cannot outweigh another neighbour.
            weights = 1 + (1 + np.take_along_axis(scores, nearest, axis=1)) / (3 * n_neighbors)
            votes = np.zeros((len(scores), n_classes))
            np.add.at(votes, (np.arange(len(scores))[:, np.newaxis], numbers[nearest]), weights)
            codes.append(pack_bits(np.arange(n_classes) == votes.argmax(axis=1)[:, np.newaxis]))
        return np.concatenate(codes)


def _unit(X: Features) -> Features:
    """Return rows scaled to unit length; zero rows stay."""
    X = X.copy()
    for rows in chunks(X):
        lengths = np.linalg.norm(X[rows], axis=1, keepdims=True)
        X[rows] /= np.where(lengths > 0, lengths, 1)
    return X


class HCSDHReference(Reference):
    """Learn from all rows of the stream at once: Hadamard codewords, regressed on Gaussian similarities to anchors.

    The batch method that HROH is closest to: supervised discrete hashing has an exact solution if the codes of the
    classes are rows of a Hadamard matrix. It keeps the whole stream, since its anchors are drawn from all of it.

    Parameters
    ----------
    preprocess : as in hashers
    n_bits : int, default=32
    n_anchors : int, default=1000
        Drawn at random from the stream.
    regularisation : float, default=1.0
        The ridge ("lambda").
    codebook : "hadamard", or mapping from label to -1/+1 codeword, default="hadamard"
    random_state : int, default=0

    References
    ----------
    G. Koutaki, K. Shirai, M. Ambai. Hadamard Coding for Supervised Discrete Hashing. IEEE Transactions on Image
    Processing 27(11), 2018.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> HCSDHReference("none", n_bits=8).partial_fit(X, y).snapshot().encode(X[:2]).shape
    (2, 1)
    """

    keeps_rows = True

    def __init__(
        self,
        preprocess: Any = "running",
        *,
        n_bits: int = 32,
        n_anchors: int = 1000,
        regularisation: float = 1.0,
        codebook: Any = "hadamard",
        random_state: int = 0,
    ) -> None:
        super().__init__(preprocess)
        self.n_anchors = check_positive_int("n_anchors", n_anchors)
        self.regularisation = check_positive("regularisation", regularisation)
        self.random_state = random_state
        self._codebook = make_codebook(codebook, n_bits, random_state)

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder fitted to all rows so far."""
        features, rows, labels = self._kept()
        classes = ClassTable(self._codebook)
        classes.admit(labels)
        targets = classes.targets(labels)
        chosen = rows[np.random.default_rng([self.random_state, 9]).permutation(len(rows))[: self.n_anchors]]
        width = 2 * (float(squared_distances(rows[:_ROWS_PER_BLOCK], chosen).mean()) or 1.0)
        anchors = Anchors(chosen, width, constant=True, inner=features)  # type: ignore[arg-type]
        plain = Anchors(chosen, width, constant=True)
        n = plain.n_outputs
        gram, cross = self.regularisation * np.eye(n), np.zeros((n, targets.shape[1]))
        for start in range(0, len(rows), _ROWS_PER_BLOCK):
            kernel = plain.transform(rows[start : start + _ROWS_PER_BLOCK].astype(np.float64))
            gram += kernel.T @ kernel
            cross += kernel.T @ targets[start : start + _ROWS_PER_BLOCK]
        weights = solve(gram, cross, assume_a="pos").astype(rows.dtype)
        return ReferenceEncoder(Encoder(weights, None, anchors).encode)


class CCAITQReference(Reference):
    """Learn from all rows at once: directions that the labels choose, rotated so that projections are near their signs.

    The directions are those of canonical correlation analysis (CCA) of the features and the classes, each scaled by its
    correlation; or of linear discriminant analysis (LDA), scaled to variance 1 within classes. There is one less than
    classes: more bits are a rotation of as many directions into more dimensions.

    Parameters
    ----------
    preprocess : as in hashers
    n_bits : int, default=32
    discriminant : bool, default=False
        LDA instead of CCA.
    random_state : int, default=0

    References
    ----------
    Y. Gong, S. Lazebnik. Iterative Quantization: A Procrustean Approach to Learning Binary Codes. CVPR 2011.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> CCAITQReference("none", n_bits=8).partial_fit(X, y).snapshot().encode(X[:2]).shape
    (2, 1)
    """

    keeps_rows = True

    def __init__(
        self, preprocess: Any = "running", *, n_bits: int = 32, discriminant: bool = False, random_state: int = 0
    ) -> None:
        super().__init__(preprocess)
        self.n_bits, self.discriminant, self.random_state = n_bits, discriminant, random_state

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder fitted to all rows so far."""
        features, kept, labels = self._kept()
        rows = kept.astype(np.float64)
        mean = rows.mean(axis=0)
        rows -= mean
        names, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
        means = np.array([rows[numbers == number].mean(axis=0) for number in range(len(names))])
        total, between = rows.T @ rows / len(rows), means.T * (counts / len(rows)) @ means
        base = total - between if self.discriminant else total
        base += _SHRINKAGE * (np.trace(total) / len(total) or 1.0) * np.eye(len(total))  # 0 for a single row
        n_found = min(self.n_bits, max(1, len(names) - 1), len(total))
        squares, found = eigh(between, base, subset_by_index=[len(total) - n_found, len(total) - 1])
        directions = found if self.discriminant else found * np.sqrt(np.maximum(squares, 0))
        projections = rows @ directions
        rng = np.random.default_rng([self.random_state, 10])
        # A start that follows from the span: the signs of eigenvectors are a matter of rounding.
        rotation = _nearest_frame(found.T @ base @ rng.standard_normal((len(total), self.n_bits)))
        for _ in range(_ROTATIONS):
            rotation = _nearest_frame(projections.T @ np.where(projections @ rotation >= 0, 1.0, -1.0))
        weights = directions @ rotation
        return ReferenceEncoder(
            Encoder(weights.astype(kept.dtype), -(mean @ weights).astype(kept.dtype), features).encode
        )


def _nearest_frame(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix with orthonormal rows that is nearest to one with at least as many columns as rows."""
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(left @ right)


REFERENCES: dict[str, type[Reference]] = {
    "reference:float": FloatReference,
    "reference:sign": SignReference,
    "reference:classifier": ClassifierReference,
    "reference:hroh": HROHReference,
    "reference:knn": NeighboursReference,
    "reference:hcsdh": HCSDHReference,
    "reference:cca_itq": CCAITQReference,
    "reference:posteriors": PosteriorsReference,
    "reference:quantised": QuantisedReference,
    "reference:class_lists": ClassListsReference,
    "reference:learned": LearnedReference,
}


def _class_bits(n_features: int, n_classes: int) -> int:
    return max(1, (n_classes - 1).bit_length())


_LIST_BITS = 32 * CLASSES_PER_LIST

STORED_BITS: dict[str, Callable[[int, int], int]] = {
    "reference:float": lambda n_features, n_classes: 32 * n_features,
    "reference:sign": lambda n_features, n_classes: n_features,
    "reference:classifier": _class_bits,
    "reference:hroh": _class_bits,
    "reference:knn": _class_bits,
    "reference:posteriors": lambda n_features, n_classes: 32 * n_classes,
    "reference:class_lists": lambda n_features, n_classes: _LIST_BITS,
    "reference:learned": lambda n_features, n_classes: 32 * n_features + _LIST_BITS,
}
"""Bits that a reference stores per item, given the numbers of features and classes; others take ``n_bits``."""


def takes_bits(method: str) -> bool:
    """Return whether a method takes ``n_bits`` and ``random_state``: all hashers and some references do.

    Examples
    --------
    >>> takes_bits("hcoh"), takes_bits("reference:hcsdh"), takes_bits("reference:float")
    (True, True, False)
    """
    return method not in STORED_BITS


def cosine_quality(
    queries: Features,
    query_labels: Labels,
    items: Features,
    labels: Labels,
    *,
    map_at: int | None,
    precision_at: int,
    denominator: str = "found",
) -> tuple[float, float, float]:
    """Return mAP, precision and recall of the ranking by cosine; equal scores stay in storage order.

    Precision and recall are those of the first ``precision_at``. As published, mAP@k divides by the relevant items
    found, and queries without any are left out, unless ``denominator`` is "possible".
    Costs O(n_queries n_items (n_features + log n_items)); queries are processed in blocks.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", items, items))
    lengths[lengths == 0] = 1
    depth = len(items) if map_at is None else min(map_at, len(items))
    places = np.arange(1, depth + 1)
    averages, precisions, recalls = [], [], []
    n_relevant = Counter(labels.tolist())
    for some in chunks(queries, _SCORES_PER_BLOCK, len(items)):
        scores = queries[some] @ items.T
        scores /= lengths
        for row, label in zip(scores, query_labels[some], strict=True):
            relevant = labels[np.argsort(-row, kind="stable")[: max(depth, precision_at)]] == label
            precisions.append(relevant[:precision_at].mean())
            if n_relevant[label]:
                recalls.append(relevant[:precision_at].sum() / n_relevant[label])
            found = relevant[:depth]
            n_best = min(depth, n_relevant[label]) if denominator == "possible" else found.sum()
            if n_best:
                averages.append((np.cumsum(found) / places)[found].sum() / n_best)
    mean_average_precision, precision, recall = (
        float(np.mean(values)) if values else float("nan") for values in (averages, precisions, recalls)
    )
    return mean_average_precision, precision, recall
