"""The arrays and small records that move between layers.

Shapes are written as in the docstrings: ``(n_samples, n_features)`` for features,
``(n_samples, n_bytes)`` for packed codes, ``(n_samples, n_bits)`` for signs and bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.floating[Any]]
"""Real vectors, one per row: float32 or float64, ``(n_samples, n_features)``."""

Labels = NDArray[Any]
"""Class labels, integers or strings, ``(n_samples,)``."""


class LabelSets(tuple[tuple[int | str, ...], ...]):
    """Several labels per row, as a tuple of labels for every row.

    Examples
    --------
    >>> sets = LabelSets([("cat", "pet"), ("dog",), ()])
    >>> sets.take(slice(1, 3))
    (('dog',), ())
    """

    __slots__ = ()

    def take(self, rows: slice | NDArray[Any]) -> LabelSets:
        """Return the labels of some rows, given as a slice or a mask."""
        return LabelSets(self[rows] if isinstance(rows, slice) else (self[i] for i in np.flatnonzero(rows)))


Targets = Labels | LabelSets | None
"""Targets of a hasher: one label per row, several, or None (unsupervised)."""

Codes = NDArray[np.uint8]
"""Packed binary codes, one per row, ``(n_samples, ceil(n_bits / 8))``."""

Signs = NDArray[np.int8]
"""Codes as -1 and +1, ``(n_samples, n_bits)``."""

QueryValues = NDArray[np.float32]
"""Queries of an asymmetric search: values from -1 to 1, whose signs are the bits, ``(n_queries, n_bits)``."""

Ids = NDArray[np.int64]
"""Ids of items in an index, ``(n_items,)``."""

Distances = NDArray[Any]
"""Distances of items: int32, or float32 in an asymmetric search."""

Rescore = Literal["auto", "learned", "cosine", "l2"]
"""How a search orders the items whose codes are nearest; None for the order of their codes."""

ReviewOrder = Literal["uncertain", "unknown", "diverse"]
"""Which items without a label are reviewed first."""

Progress = Callable[[int, int], None]
"""Called as ``progress(done, total)``; the library itself never prints."""


class Batch(NamedTuple):
    """Features and their labels, row by row.

    Examples
    --------
    >>> batch = Batch(np.zeros((2, 3), np.float32), np.array([0, 1]))
    >>> batch.X.shape, batch.take(slice(1)).y
    ((2, 3), array([0]))
    """

    X: Features
    y: Labels

    def take(self, rows: slice | Sequence[int] | NDArray[Any]) -> Batch:
        """Return some rows, given as a slice, a mask or row numbers."""
        return Batch(self.X[rows], self.y[rows])


Rows = TypeVar("Rows", NDArray[Any], list[Any])
_COLUMNS = ("ids", "distances", "labels", "payload", "vectors")


@dataclass(frozen=True, eq=False)
class SearchResult(Generic[Rows]):
    """Ids and distances of the items found, nearest first.

    For several queries, `ids` and `distances` have one row per query, and the object is a sequence of the results of
    single queries.

    Parameters
    ----------
    ids : ndarray or list
        Arrays from an index, lists from a collection or a client, as type checkers know: a collection returns a
        ``SearchResult[list[Any]]``.
    distances : ndarray or list
        Of the same shape.
    version : int or None
        Version of the encoder that made the codes searched; None from an index, which does not know it.
    sequence : int or None
        Sequence number of the last change of the collection that the search has seen; None from an index.
    labels, payload : list or None
        Those of the items found, if the search includes them.
    vectors : list, ndarray or None
        Theirs: an array per query.
    staleness : int or None
        Instances that the hasher has learned and the codes searched do not know; None from an index.

    Examples
    --------
    >>> found = SearchResult(np.array([[7, 3], [3, 9]]), np.array([[0, 2], [1, 1]]))
    >>> len(found)
    2
    >>> found[0].ids.tolist(), found[0].distances.tolist()
    ([7, 3], [0, 2])
    """

    ids: Rows
    distances: Rows
    version: int | None = None
    sequence: int | None = None
    labels: list[Any] | None = None
    payload: list[Any] | None = None
    vectors: Any = None
    staleness: int | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> SearchResult[Rows]:
        columns = {}
        for name in _COLUMNS:
            rows = getattr(self, name)
            if rows is not None:
                columns[name] = rows[i]
        return replace(self, **columns)

    def __iter__(self) -> Iterator[SearchResult[Rows]]:
        return (self[i] for i in range(len(self)))

    def _columns(self) -> dict[str, Any]:
        """Return what has one row per query."""
        return {name: rows for name in _COLUMNS if (rows := getattr(self, name)) is not None}

    def without(self, ids: Sequence[int | str], k: int | None) -> SearchResult[Rows]:
        """Return at most k items per query, None for all, without the id that is given for each query."""
        kept = [[i for i, id in enumerate(row) if id != own][:k] for own, row in zip(ids, self.ids, strict=True)]
        columns: dict[str, Any] = {}
        for name, rows in self._columns().items():
            columns[name] = [
                row[some] if isinstance(row, np.ndarray) else [row[i] for i in some]
                for row, some in zip(rows, kept, strict=True)
            ]
        return replace(self, **columns)

    @classmethod
    def concatenate(cls, parts: Sequence[SearchResult[Rows]]) -> SearchResult[Rows]:
        """Return the results of batches of queries as one; without a version, if they were not all of one."""
        if len(parts) == 1:
            return parts[0]
        columns: dict[str, Any] = {
            name: [row for part in parts for row in getattr(part, name)] for name in parts[0]._columns()
        }
        is_one = len({part.version for part in parts}) == 1
        return replace(parts[0], version=parts[0].version if is_one else None, **columns)
