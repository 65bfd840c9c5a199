"""Slow, obvious search over the items of a collection."""

import numpy as np
from tests.reference.hamming import tie_hash

from onlinehash import hamming_distances


def ranking(collection, query, keep=lambda item: True):
    """Return (distance, id) of all items that have a code, nearest first, ties by a hash."""
    items = [item for item in collection.items() if item.version is not None and keep(item)]
    if not items:
        return []
    codes = collection.encoder.encode(np.array([item.vectors for item in items]))
    distances = hamming_distances(collection.encoder.encode(query[np.newaxis]), codes)[0]
    return by_distance(collection, distances.tolist(), [item.id for item in items])


def by_distance(collection, distances, ids):
    """Return (distance, id) of items, nearest first, ties by a hash of their sequence numbers."""
    seqs = collection._store.seqs(ids)
    return sorted(zip(distances, ids, strict=True), key=lambda pair: (pair[0], tie_hash(seqs[pair[1]])))


def pairs(hits):
    return list(zip(hits.distances, hits.ids, strict=True))


def contents(collection):
    """Return what is stored, by id."""
    return {item.id: (item.vectors.tolist(), item.labels, item.payload) for item in collection.items()}
