"""Measures of one ranked list of relevances, by walking down it."""

import itertools

import numpy as np


def average_precision(relevant, k=None, denominator="possible"):
    """AP of a list of booleans in ranked order; None where it is not defined."""
    k = len(relevant) if k is None else min(k, len(relevant))
    hits, total = 0, 0.0
    for rank, is_relevant in enumerate(relevant[:k], start=1):
        if is_relevant:
            hits += 1
            total += hits / rank
    divisor = min(k, sum(relevant)) if denominator == "possible" else hits
    return total / divisor if divisor else None


def recall(relevant, k):
    """Share of the relevant items of a list of booleans in ranked order that is among the first k; None without any."""
    return sum(relevant[:k]) / sum(relevant) if any(relevant) else None


def orders_of_ties(distances):
    """All orders of the items by distance, every order of every tie."""
    groups = [np.flatnonzero(distances == d) for d in np.unique(distances)]
    for choice in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield [item for group in choice for item in group]
