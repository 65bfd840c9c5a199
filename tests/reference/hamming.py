"""Hamming distance and search, bit by bit."""

import numpy as np


def distance(a, b):
    return sum(int(x ^ y).bit_count() for x, y in zip(a.tolist(), b.tolist(), strict=True))


def distances(queries, codes):
    return np.array([[distance(q, c) for c in codes] for q in queries]).reshape(len(queries), len(codes))


def ranking(query, items):
    """Items of a dict id -> code as (distance, id), nearest first, ties by id."""
    return sorted((distance(query, code), id) for id, code in items.items())
