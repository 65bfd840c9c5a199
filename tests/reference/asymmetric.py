"""Asymmetric distance, bit by bit, and its measures over all orders of the ties."""

import numpy as np
from tests.reference import ranking


def distance(soft, code):
    signs = [1 if code[k // 8] >> (k % 8) & 1 else -1 for k in range(len(soft))]
    return sum((1 - float(q) * s) / 2 for q, s in zip(soft, signs, strict=True))


def distances(soft, codes):
    return np.array([[distance(q, c) for c in codes.tolist()] for q in soft]).reshape(len(soft), len(codes))


def nearest(soft, items, k):
    """Items of a dict id -> code as (distance, id), nearest first, ties by id."""
    return sorted((distance(soft, code), id) for id, code in items.items())[:k]


def expected_measures(row, relevant, k, denominator):
    """Mean AP over the orders of the ties that have one (None if none has), the share that has, and mean precision."""
    lists = [relevant[order].tolist() for order in ranking.orders_of_ties(row)]
    scores = [ranking.average_precision(listed, k, denominator) for listed in lists]
    defined = [score for score in scores if score is not None]
    precision = float(np.mean([np.mean(listed[:k]) for listed in lists]))
    return (float(np.mean(defined)) if defined else None), len(defined) / len(scores), precision
