"""Retrievability: which items searches can return at all, by the ids that they found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from onlinehash.exceptions import InvalidInputError


def self_recall(ids: Iterable[Any], found: Sequence[Sequence[Any]], k: int | None = None) -> float:
    """Return the share of items that a search by their own vector finds.

    Many items of one class share one code: by codes alone, most of them are not among the first.

    Parameters
    ----------
    ids : sequence of n_items ids
    found : sequence of n_items sequences of ids
        What a search by the vector of every item returned, nearest first.
    k : int, optional
        Count only the first k ids of every search.

    Examples
    --------
    >>> self_recall(["a", "b"], [["a", "b"], ["a", "b"]], k=1)
    0.5
    """
    listed = _checked(ids, found)
    return sum(id in list(some)[:k] for id, some in zip(listed, found, strict=True)) / len(listed)


def coverage(ids: Iterable[Any], found: Sequence[Sequence[Any]], k: int | None = None) -> float:
    """Return the share of items that any of the searches by their vectors returns.

    The others are in the collection, but are never seen. For a sample of the items, it is a lower bound of the share:
    items that were not sampled could find more.

    Parameters
    ----------
    ids, found, k
        As for :func:`self_recall`.

    Examples
    --------
    >>> coverage(["a", "b", "c"], [["a", "b"], ["b", "a"], ["a", "b"]])
    0.6666666666666666
    """
    listed = _checked(ids, found)
    returned = set(chain.from_iterable(list(some)[:k] for some in found))
    return sum(id in returned for id in listed) / len(listed)


def _checked(ids: Iterable[Any], found: Sequence[Sequence[Any]]) -> list[Any]:
    listed = list(ids)
    if not listed or len(listed) != len(found):
        raise InvalidInputError(f"found has {len(found)} searches for {len(listed)} ids; pass one search per id.")
    return listed
