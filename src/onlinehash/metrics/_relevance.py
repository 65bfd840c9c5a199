"""Relevance of items to queries, from their labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._validation import check_targets
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError
from onlinehash.metrics._ties import Counts
from onlinehash.types import Labels, LabelSets

_KINDS = "Queries and database have labels of different kinds; use integers or strings for both."


class Relevance:
    """Groups of queries and items: an item is relevant to a query of the same group.

    Iteration yields a slice of the queries, their groups, and the group of every item. Single labels are groups, for
    all queries at once; for several labels per row, each query has two groups of its own.
    """

    def __init__(self, query_labels: ArrayLike, n_queries: int, labels: ArrayLike, n_items: int) -> None:
        if not n_queries or not n_items:
            raise InvalidInputError(f"There are {n_queries} queries and {n_items} items; both need at least one.")
        sides = _checked(query_labels, n_queries), _checked(labels, n_items)
        self._single = not any(isinstance(side, LabelSets) for side in sides)
        if self._single:
            self._groups = _group(*sides)
        else:
            self._members = _members(*map(_as_sets, sides))

    def __iter__(self) -> Iterator[tuple[slice, Counts, Counts]]:
        if self._single:
            yield slice(None), *self._groups
            return
        queries, items = self._members
        for q, member in enumerate(queries):
            yield slice(q, q + 1), np.ones(1, np.int64), (items @ member > 0).astype(np.int64)


def _checked(y: ArrayLike, n_rows: int) -> Any:
    targets, labelled = check_targets(y, n_rows)
    if labelled is not None and not isinstance(targets, LabelSets):
        raise InvalidLabelsError("y has rows without a label, for which relevance is undefined. Leave them out.")
    return targets


def by_group(groups: Counts) -> tuple[Counts, Counts]:
    """Return the items sorted by group, and the bounds: group ``g`` holds ``bounds[g]`` to ``bounds[g + 1]``."""
    order = np.argsort(groups, kind="stable")
    return order, np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=2))])


def _group(query_labels: Labels, labels: Labels) -> tuple[Counts, Counts]:
    """Return the number of every label among those of the database; -1 for an unknown query label."""
    if query_labels.dtype.kind != labels.dtype.kind:
        raise InvalidLabelsError(_KINDS)
    names, groups = np.unique(labels, return_inverse=True)
    places = np.minimum(np.searchsorted(names, query_labels), len(names) - 1)
    return np.where(names[places] == query_labels, places, -1), groups.astype(np.int64)


def _as_sets(labels: Labels | LabelSets) -> LabelSets:
    return labels if isinstance(labels, LabelSets) else LabelSets((label,) for label in labels.tolist())


def _members(*sides: LabelSets) -> list[NDArray[np.float32]]:
    """Return an indicator matrix for each side, over the labels of all of them."""
    if len({type(x) for side in sides for row in side for x in row}) > 1:
        raise InvalidLabelsError(_KINDS)
    columns = {label: i for i, label in enumerate(dict.fromkeys(x for side in sides for row in side for x in row))}
    members = [np.zeros((len(side), max(1, len(columns))), np.float32) for side in sides]
    for member, side in zip(members, sides, strict=True):
        for row, labels in zip(member, side, strict=True):
            row[[columns[label] for label in labels]] = 1.0
    return members
