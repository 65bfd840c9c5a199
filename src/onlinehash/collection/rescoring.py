"""Order what was found by code by the stored vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.stores.protocol import Store
from onlinehash.types import SearchResult


def rescored(found: SearchResult, queries: NDArray[Any], store: Store, measure: str, k: int) -> SearchResult:
    """Return the k nearest of what was found, by the distance of the stored vectors; ties in order of arrival.

    Parameters
    ----------
    found : SearchResult
    queries : ndarray of shape (n_queries, n_features)
    store : Store
    measure : "cosine" or "l2"
    k : int
    """
    ids, distances = [], []
    for query, row in zip(queries, found, strict=True):
        rows = store.rows(row.ids)
        ranked = sorted(zip(vector_distances(query, rows.vectors, measure).tolist(), rows.seqs, rows.ids, strict=True))[
            :k
        ]
        ids.append([id for _, _, id in ranked])
        distances.append([distance for distance, _, _ in ranked])
    return replace(found, ids=ids, distances=distances, cursor=None)


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
