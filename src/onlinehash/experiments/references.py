"""References: methods to compare hashers with. Those with ``bits`` of the plan have no size of their own.

Each is a function that fits an encoder to the stream, of which the features are those that hashers learn from: centred
by the running mean of the stream and scaled to unit length, or unchanged if the split has done that already.
:class:`Reference` makes one learn like a hasher.

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

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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

Parts = Sequence[Batch]
"""A stream, as it was passed to ``partial_fit``; NaN is a missing label. It has at least one part."""


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


class Reference:
    """Learn like a hasher: the rows are kept, and a snapshot is fitted to all of them.

    Parameters
    ----------
    fit : callable
        One of :data:`REFERENCES`.
    **settings
        Of that function.

    Examples
    --------
    >>> Reference(sign, preprocess="none").partial_fit(np.eye(3), np.arange(3)).snapshot().encode(np.eye(3))
    array([[7],
           [7],
           [7]], dtype=uint8)
    """

    def __init__(self, fit: Callable[..., ReferenceEncoder], **settings: Any) -> None:
        self._fit, self._settings = fit, settings
        self._parts: list[Batch] = []

    def partial_fit(self, X: Features, y: Labels) -> Reference:
        """Learn from the next rows of the stream, which must not change afterwards; NaN is a missing label."""
        self._parts.append(Batch(X, y))
        return self

    def snapshot(self) -> ReferenceEncoder:
        """Return an encoder fitted to all rows so far."""
        if not self._parts:
            raise NotLearnedError(f"The reference {self._fit.__name__!r} has not learned from any instance yet.")
        return self._fit(self._parts, **self._settings)


def _centred(features: StreamFeatures, parts: Parts) -> Iterator[Batch]:
    """Yield the rows as the running mean centres them, which learns from them."""
    for X, y in parts:
        for rows in chunks(X):
            centred = np.empty_like(X[rows])
            features.learn(X[rows], centred)
            yield Batch(centred, y[rows])


def _features(parts: Parts, preprocess: Any) -> FeatureMap:
    """Return the preprocessing at the end of the stream."""
    features = make_features(preprocess, parts[0].X.shape[1])
    for _ in _centred(features, parts):
        pass
    return features.freeze()


def _labelled(parts: Parts) -> Batch:
    """Return all rows that have a label."""
    kept = [labelled_rows(*part) for part in parts]
    X, y = np.concatenate([part.X for part in kept]), np.concatenate([part.y for part in kept])
    if not len(y):
        raise NotLearnedError("The reference has not seen a label yet.")
    return Batch(X, y)


def _unit(X: Features) -> Features:
    """Return rows scaled to unit length; zero rows stay."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(lengths > 0, lengths, 1))


# ---------------------------------------------------------------------- features


def float_features(parts: Parts, preprocess: Any = "running") -> ReferenceEncoder:
    """Store the features themselves: exact search by cosine.

    Examples
    --------
    >>> float_features([Batch(np.eye(3), np.arange(3))]).encode(np.eye(3)).shape
    (3, 3)
    """
    return ReferenceEncoder(_features(parts, preprocess).transform)


def sign(parts: Parts, preprocess: Any = "running") -> ReferenceEncoder:
    """Store the sign of every centred feature: a code without learning.

    Examples
    --------
    >>> sign([Batch(np.eye(3), np.arange(3))], "none").encode(np.array([[1.0, -1.0, 2.0]]))
    array([[5]], dtype=uint8)
    """
    features = _features(parts, preprocess)
    return ReferenceEncoder(lambda X: np.concatenate([pack_signs(features.transform(X[i])) for i in chunks(X)]))


# ---------------------------------------------------------------------- classes


def class_encoder(scores: Encoder) -> ReferenceEncoder:
    """Return an encoder to the class of the highest score, one-hot: the Hamming distance is 0 for the same class."""
    classes = np.arange(scores.n_bits)
    return ReferenceEncoder(lambda X: pack_bits(classes == scores.project(X).argmax(axis=1)[:, np.newaxis]))


def classifier(parts: Parts, preprocess: Any = "running", *, regularisation: float = 1.0) -> ReferenceEncoder:
    """Store the predicted class only: items of the class predicted for the query are found first.

    The classifier is ridge regression on the classes from the statistics of the stream, A = sum z z^T and
    S_c = sum of z over class c, with z the features and a constant: W = (A + lambda I)^-1 S^T, where ``regularisation``
    is lambda. The order of the stream matters only through the running mean. Costs O(n_features^2) per instance.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> classifier([Batch(X, y)], "none").encode(X[:2])  # one bit per class
    array([[1],
           [2]], dtype=uint8)
    """
    n_features = parts[0].X.shape[1]
    features, sums = make_features(preprocess, n_features), dict[Any, NDArray[np.float64]]()
    ridge = check_positive("regularisation", regularisation) * np.eye(n_features + 1)
    for part in _centred(features, parts):
        X, labels = labelled_rows(*part)
        inputs = np.hstack([X.astype(np.float64), np.ones((len(X), 1))])
        ridge += inputs.T @ inputs
        for label in np.unique(labels).tolist():
            sums[label] = sums.get(label, 0.0) + inputs[labels == label].sum(axis=0)
    if not sums:
        raise NotLearnedError("The reference has not seen a label yet.")
    weights = solve(ridge, np.array(list(sums.values())).T, assume_a="pos")
    return class_encoder(Encoder(weights[:-1], weights[-1], features.freeze()))


def hroh(parts: Parts, preprocess: Any = "unit", *, balance: float = 0.5, random_state: int = 0) -> ReferenceEncoder:
    """Store the class that HROH predicts: the one with the highest of the scores that its codes are computed from.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> hroh([Batch(X, y)]).encode(X[:2])
    array([[1],
           [2]], dtype=uint8)
    """
    fixed: Any = {"sharpness": 1.0, "assignment": "arrival"}
    hasher = HROH(8, preprocess=preprocess, balance=balance, random_state=random_state, **fixed)
    for part in parts:
        hasher.partial_fit(*part)
    return class_encoder(replace(hasher.snapshot(), codewords=None))


def knn(parts: Parts, preprocess: Any = "running", *, n_neighbors: int = 10) -> ReferenceEncoder:
    """Store the most frequent class among the nearest vectors, by cosine, that were learned from with a label.

    Encoding costs a product with the whole stream. Of equally frequent classes, the one whose members have the higher
    total cosine counts.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> knn([Batch(X, y)], "none", n_neighbors=3).encode(X[:2])  # one bit per class
    array([[1],
           [2]], dtype=uint8)
    """
    features, (X, y) = _features(parts, preprocess), _labelled(parts)
    rows, (names, numbers) = _unit(features.transform(X)), np.unique(y, return_inverse=True)
    n_neighbors = min(check_positive_int("n_neighbors", n_neighbors), len(rows))

    def encode(X: Features) -> Codes:
        queries, codes = _unit(features.transform(X)), []
        for some in chunks(queries, 4 * _SCORES_PER_BLOCK, len(rows)):
            scores = queries[some] @ rows.T
            nearest = np.argpartition(scores, len(rows) - n_neighbors, axis=1)[:, len(rows) - n_neighbors :]
            # A cosine is at most 1, so that its share cannot outweigh another neighbour.
            weights = 1 + (1 + np.take_along_axis(scores, nearest, axis=1)) / (3 * n_neighbors)
            votes = np.zeros((len(scores), len(names)))
            np.add.at(votes, (np.arange(len(scores))[:, np.newaxis], numbers[nearest]), weights)
            codes.append(pack_bits(np.arange(len(names)) == votes.argmax(axis=1)[:, np.newaxis]))
        return np.concatenate(codes)

    return ReferenceEncoder(encode)


# ---------------------------------------------------------------------- scores of HROH, nothing rounded to signs


def _calibrated(parts: Parts, preprocess: Any, random_state: int) -> tuple[Encoder, Features]:
    """Return the encoder of HROH, calibrated as that of a collection, and the leave-one-out scores that do it.

    These are of the first 4096 labelled rows. "running" is taken as "unit": no row can be left out of a running mean.
    """
    fixed = "unit" if isinstance(preprocess, str) and preprocess == "running" else preprocess
    hasher = HROH(8, preprocess=fixed, random_state=random_state)
    for part in parts:
        hasher.partial_fit(*part)
    rows, labels = (each[:_ROWS_TO_CALIBRATE] for each in _labelled(parts))
    scores, order = hasher.leave_one_out(rows, labels), np.argsort(hasher.classes_)
    numbers = order[np.searchsorted(hasher.classes_, labels, sorter=order)]
    return replace(hasher.snapshot(), calibration=Calibration.fit(scores, numbers[:, np.newaxis].tolist())), scores


def _probabilities(encoder: Encoder, X: Features) -> Features:
    """Return the probabilities of all classes."""
    return softmax(encoder.class_scores(X), encoder.calibration.temperature)


def _listed(encoder: Encoder, shift: int, X: Features) -> Features:
    """Return what class lists hold of all classes: probabilities at bit 8, sharpened scores at bit 0."""
    assert encoder.classes is not None
    lists = encoder.class_lists(X)
    found = np.zeros((len(X), len(encoder.classes)), np.float32)
    values = (lists >> shift & 255) / np.float32(255)
    for place in range(min(CLASSES_PER_LIST, found.shape[1])):
        found[np.arange(len(X)), lists[:, place] >> 16] = values[:, place]
    return found


def product_encoder(queries: Callable[[Features], Features], items: Callable[[Features], Features]) -> ReferenceEncoder:
    """Return an encoder under which cosines order items by their inner products with a query.

    Items get another feature, by which all are of the same length; queries have 0 there.
    """

    def of_items(X: Features) -> Features:
        rows = items(X)
        rest = np.maximum(_LONGEST**2 - np.square(rows).sum(axis=1, keepdims=True), 0.0)
        return np.hstack([rows, np.sqrt(rest)])

    return ReferenceEncoder(of_items, lambda X: np.pad(queries(X), ((0, 0), (0, 1))))


def posteriors(parts: Parts, preprocess: Any = "unit", *, random_state: int = 0) -> ReferenceEncoder:
    """Store the probabilities of all classes: items are ranked by the probability of having the query's class.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> posteriors([Batch(X, y)]).encode(X[:2]).argmax(axis=1)  # the last makes lengths equal
    array([2, 2])
    """
    chances = partial(_probabilities, _calibrated(parts, preprocess, random_state)[0])
    return product_encoder(chances, chances)


def quantised(parts: Parts, preprocess: Any = "unit", *, n_bits: int = 32, random_state: int = 0) -> ReferenceEncoder:
    """Store the probabilities of all classes by residual quantisation; queries keep theirs as they are.

    8 bits name the nearest of 256 centroids, the next 8 the one nearest to what is left, and so on. The centroids are
    those of the rows that the scores are calibrated by.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 150), np.array([7, 9] * 150)
    >>> quantised([Batch(X, y)], n_bits=8).encode(X[:2]).shape  # two classes, and a length
    (2, 3)
    """
    if check_positive_int("n_bits", n_bits) % 8:
        raise InvalidInputError(f"n_bits={n_bits} is not a multiple of 8, the bits of a level of quantisation.")
    encoder, scores = _calibrated(parts, preprocess, random_state)
    rest, levels = softmax(scores, encoder.calibration.temperature).astype(np.float64), list[NDArray[Any]]()
    rng = np.random.default_rng([random_state, 11])
    for _ in range(n_bits // 8):
        levels.append(_centroids(rest, rng))
        rest = rest - levels[-1][vq(rest, levels[-1])[0]]

    def sums(X: Features) -> Features:
        rest = _probabilities(encoder, X).astype(np.float64)
        found = np.zeros_like(rest)
        for centroids in levels:
            part = centroids[vq(rest, centroids)[0]]
            found, rest = found + part, rest - part
        return found.astype(np.float32)

    return product_encoder(partial(_probabilities, encoder), sums)


def _centroids(rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Return centroids of rows by Lloyd's algorithm; one without rows stays where it was."""
    centroids = rows[rng.permutation(len(rows))[:_CENTROIDS]]
    for _ in range(_STEPS_OF_CENTROIDS):
        nearest = vq(rows, centroids)[0]
        for place in np.unique(nearest):
            centroids[place] = rows[nearest == place].mean(axis=0)
    return centroids


def class_lists(parts: Parts, preprocess: Any = "unit", *, random_state: int = 0) -> ReferenceEncoder:
    """Store the class list of HROH's encoder, in 20 bytes: the five most probable classes and their probabilities.

    Items are ranked by the probability that they and the query have the same class, from the lists of both, as
    :class:`onlinehash.indexes.ClassListIndex` does.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> class_lists([Batch(X, y)]).encode(X[:2]).argmax(axis=1)
    array([2, 2])
    """
    listed = partial(_listed, _calibrated(parts, preprocess, random_state)[0], 8)
    return product_encoder(listed, listed)


def learned(parts: Parts, preprocess: Any = "unit", *, random_state: int = 0) -> ReferenceEncoder:
    """Store features and class lists: the learned order of a collection, over all items instead of 100 candidates.

    Rows are probabilities, sharpened scores and unit vectors, by which queries weigh them.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> learned([Batch(X, y)]).encode(X[:2]).shape  # 2 classes twice, 2 features, a length
    (2, 7)
    """
    encoder, _ = _calibrated(parts, preprocess, random_state)
    known = encoder.calibration

    def of_items(X: Features) -> Features:
        return np.hstack([_listed(encoder, 8, X), _unit(_listed(encoder, 0, X)), _unit(X)])

    def of_queries(X: Features) -> Features:
        scores = encoder.class_scores(X)
        gate = known.gate(scores)[:, np.newaxis]
        p, f = softmax(scores, known.temperature), _unit(sharpened(scores))
        return np.hstack([gate / 2 * p, gate / 2 * f, (1.0 - gate) * _unit(X)]).astype(np.float32)

    return product_encoder(of_queries, of_items)


# ---------------------------------------------------------------------- codes of batch methods


def hcsdh(
    parts: Parts,
    preprocess: Any = "running",
    *,
    n_bits: int = 32,
    n_anchors: int = 1000,
    regularisation: float = 1.0,
    codebook: Any = "hadamard",
    random_state: int = 0,
) -> ReferenceEncoder:
    """Learn from all rows of the stream at once: Hadamard codewords, regressed on Gaussian similarities to anchors.

    The batch method that HROH is closest to: supervised discrete hashing has an exact solution if the codes of the
    classes are rows of a Hadamard matrix. The ``n_anchors`` anchors are drawn at random from the stream.

    References
    ----------
    G. Koutaki, K. Shirai, M. Ambai. Hadamard Coding for Supervised Discrete Hashing. IEEE Transactions on Image
    Processing 27(11), 2018.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> hcsdh([Batch(X, y)], "none", n_bits=8).encode(X[:2]).shape
    (2, 1)
    """
    check_positive_int("n_anchors", n_anchors)
    check_positive("regularisation", regularisation)
    classes = ClassTable(make_codebook(codebook, n_bits, random_state))
    features, (X, labels) = _features(parts, preprocess), _labelled(parts)
    rows = features.transform(X)
    classes.admit(labels)
    targets = classes.targets(labels)
    chosen = rows[np.random.default_rng([random_state, 9]).permutation(len(rows))[:n_anchors]]
    width = 2 * (float(squared_distances(rows[:_ROWS_PER_BLOCK], chosen).mean()) or 1.0)
    anchors = Anchors(chosen, width, constant=True, inner=features)  # type: ignore[arg-type]
    plain = Anchors(chosen, width, constant=True)
    n = plain.n_outputs
    gram, cross = regularisation * np.eye(n), np.zeros((n, targets.shape[1]))
    for start in range(0, len(rows), _ROWS_PER_BLOCK):
        kernel = plain.transform(rows[start : start + _ROWS_PER_BLOCK].astype(np.float64))
        gram += kernel.T @ kernel
        cross += kernel.T @ targets[start : start + _ROWS_PER_BLOCK]
    weights = solve(gram, cross, assume_a="pos").astype(rows.dtype)
    return ReferenceEncoder(Encoder(weights, None, anchors).encode)


def cca_itq(
    parts: Parts, preprocess: Any = "running", *, n_bits: int = 32, discriminant: bool = False, random_state: int = 0
) -> ReferenceEncoder:
    """Learn from all rows at once: directions that the labels choose, rotated so that projections are near their signs.

    The directions are those of canonical correlation analysis (CCA) of the features and the classes, each scaled by its
    correlation; or, with ``discriminant``, of linear discriminant analysis (LDA), scaled to variance 1 within classes.
    There is one less than classes: more bits are a rotation of as many directions into more dimensions.

    References
    ----------
    Y. Gong, S. Lazebnik. Iterative Quantization: A Procrustean Approach to Learning Binary Codes. CVPR 2011.

    Examples
    --------
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]] * 5), np.array([7, 9] * 5)
    >>> cca_itq([Batch(X, y)], "none", n_bits=8).encode(X[:2]).shape
    (2, 1)
    """
    features, (X, labels) = _features(parts, preprocess), _labelled(parts)
    kept = features.transform(X)
    rows = kept.astype(np.float64)
    mean = rows.mean(axis=0)
    rows -= mean
    names, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
    means = np.array([rows[numbers == number].mean(axis=0) for number in range(len(names))])
    total, between = rows.T @ rows / len(rows), means.T * (counts / len(rows)) @ means
    base = total - between if discriminant else total
    base += _SHRINKAGE * (np.trace(total) / len(total) or 1.0) * np.eye(len(total))  # 0 for a single row
    n_found = min(n_bits, max(1, len(names) - 1), len(total))
    squares, found = eigh(between, base, subset_by_index=[len(total) - n_found, len(total) - 1])
    directions = found if discriminant else found * np.sqrt(np.maximum(squares, 0))
    projections = rows @ directions
    rng = np.random.default_rng([random_state, 10])
    # A start that follows from the span: the signs of eigenvectors are a matter of rounding.
    rotation = _nearest_frame(found.T @ base @ rng.standard_normal((len(total), n_bits)))
    for _ in range(_ROTATIONS):
        rotation = _nearest_frame(projections.T @ np.where(projections @ rotation >= 0, 1.0, -1.0))
    weights = directions @ rotation
    encoder = Encoder(weights.astype(kept.dtype), -(mean @ weights).astype(kept.dtype), features)
    return ReferenceEncoder(encoder.encode)


def _nearest_frame(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix with orthonormal rows that is nearest to one with at least as many columns as rows."""
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(left @ right)


REFERENCES: dict[str, Callable[..., ReferenceEncoder]] = {
    "reference:float": float_features,
    "reference:sign": sign,
    "reference:classifier": classifier,
    "reference:hroh": hroh,
    "reference:knn": knn,
    "reference:hcsdh": hcsdh,
    "reference:cca_itq": cca_itq,
    "reference:posteriors": posteriors,
    "reference:quantised": quantised,
    "reference:class_lists": class_lists,
    "reference:learned": learned,
}
"""Functions of the parts of a stream and of settings, which fit an encoder, by their names in plans."""


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
