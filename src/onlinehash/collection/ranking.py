"""The order of what a search finds: the one rule of collections, of the service and of the command line.

Codes find :func:`n_candidates` items per query; :func:`ranked` orders them by what :func:`measure_of` says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.encoders import Encoder
from onlinehash.encoders.calibration import MAX_LISTED_CLASSES, ClassLists
from onlinehash.exceptions import InvalidInputError


def has_class_lists(encoder: Encoder) -> bool:
    """Return whether items have class lists, by which the learned order compares them."""
    return 0 < len(encoder.classes or ()) <= MAX_LISTED_CLASSES


def measure_of(rescore: str | None, encoder: Encoder) -> str | None:
    """Return what items are ordered by: "learned", "cosine" or "l2"; None for their codes."""
    if rescore not in ("auto", "learned"):
        return rescore
    if rescore == "learned" and not has_class_lists(encoder):
        raise InvalidInputError(
            f"rescore='learned', but {encoder.method!r} has no scores of classes; HROH has. Use rescore='cosine'."
        )
    return "learned" if has_class_lists(encoder) else None


def n_candidates(k: int) -> int:
    """Return how many items codes find, of which the k nearest are returned.

    Examples
    --------
    >>> n_candidates(10), n_candidates(50)
    (100, 500)
    """
    return max(10 * k, 100)


def ranked(
    encoder: Encoder,
    measure: str,
    query: NDArray[Any],
    scores: NDArray[Any] | None,
    vectors: NDArray[Any],
    lists: ClassLists | None,
    k: int,
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the places of the k nearest of some items, nearest first, and their distances; ties stay in order.

    The learned order takes the class scores of the query, and the class lists of the items.
    """
    distances = vector_distances(query, vectors, "cosine" if measure == "learned" else measure)
    if scores is not None and lists is not None:
        distances = encoder.calibration.distances(scores, lists, 1.0 - distances)
    order = np.argsort(distances, kind="stable")[:k]
    return order, distances[order]


def vector_distances(query: NDArray[Any], vectors: NDArray[Any], measure: str) -> NDArray[np.float64]:
    """Return the Euclidean distances, or one minus the cosines of the angles (1 where a vector is zero).

    Examples
    --------
    >>> vector_distances(np.zeros(2), np.array([[3.0, 4.0], [0.0, 1.0]]), "l2")
    array([5., 1.])
    """
    if not len(vectors):
        return np.empty(0)
    rows, q = vectors.astype(np.float64), np.asarray(query, np.float64)
    if measure == "l2":
        return np.asarray(np.sqrt(((rows - q) ** 2).sum(axis=1)))
    lengths = np.sqrt((rows**2).sum(axis=1)) * np.sqrt(q @ q)
    return np.asarray(1.0 - np.divide(rows @ q, lengths, out=np.zeros(len(rows)), where=lengths > 0))
