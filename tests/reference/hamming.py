"""Hamming distance and search, bit by bit."""

import numpy as np


def distance(a, b):
    return sum(int(x ^ y).bit_count() for x, y in zip(a.tolist(), b.tolist(), strict=True))


def distances(queries, codes):
    return np.array([[distance(q, c) for c in codes] for q in queries]).reshape(len(queries), len(codes))


def ranking(query, items):
    """Items of a dict id -> code as (distance, id), nearest first, ties by id."""
    return sorted((distance(query, code), id) for id, code in items.items())


def tie_hash(id):
    """Return the hash of an id that orders ties: the finalizer of splitmix64, as a signed integer."""
    z = (id + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    z ^= z >> 31
    return z - 2**64 if z >= 2**63 else z
