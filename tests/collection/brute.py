"""Slow, obvious search over the items of a collection."""

import numpy as np

from onlinehash import hamming_distances


def ranking(collection, query, keep=lambda item: True):
    """Return (distance, id) of all items that have a code, nearest first, ties in order of arrival."""
    items = [item for item in collection.items(order="arrival") if item.version is not None and keep(item)]
    if not items:
        return []
    codes = collection.encoder.encode(np.array([item.vectors for item in items]))
    distances = hamming_distances(collection.encoder.encode(query[np.newaxis]), codes)[0]
    ids = [item.id for item in items]
    order = np.argsort(distances, kind="stable")
    return [(int(distances[i]), ids[i]) for i in order]


def pairs(hits):
    return list(zip(hits.distances, hits.ids, strict=True))


def contents(collection):
    """Return what is stored, by id."""
    return {item.id: (item.vectors.tolist(), item.labels, item.payload) for item in collection.items()}
