"""Order what was found by code by the features themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.stores.protocol import Rows


def rescored(query: NDArray[Any], rows: Rows, measure: str, k: int) -> tuple[list[Any], list[float]]:
    """Return the ids of the k rows nearest to a query and their distances, ties by id.

    Parameters
    ----------
    query : ndarray of shape (n_features,)
    rows : Rows
    measure : "cosine" or "l2"
        One minus the cosine of the angle (1 where a vector is zero), or the Euclidean distance.
    k : int

    Examples
    --------
    >>> rows = Rows(["b", "a", "c"], [1, 2, 3], np.array([[3.0, 4.0], [3.0, 4.0], [0.0, 1.0]]), [], [])
    >>> rescored(np.array([0.0, 0.0]), rows, "l2", 2)
    (['c', 'a'], [1.0, 5.0])
    """
    if not len(rows):
        return [], []
    features, q = rows.vectors.astype(np.float64), np.asarray(query, np.float64)
    if measure == "l2":
        distances = np.sqrt(((features - q) ** 2).sum(axis=1))
    else:
        lengths = np.sqrt((features**2).sum(axis=1)) * np.sqrt(q @ q)
        products = np.divide(features @ q, lengths, out=np.zeros(len(rows)), where=lengths > 0)
        distances = 1.0 - products
    ranked = sorted(zip(distances.tolist(), rows.ids, strict=True))[:k]
    return [id for _, id in ranked], [distance for distance, _ in ranked]
