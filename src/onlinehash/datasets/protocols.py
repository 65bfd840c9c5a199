"""How a data set is cut into a learning stream, a database and queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.exceptions import InvalidInputError


@dataclass(frozen=True)
class ProtocolSizes:
    """The sizes that the protocols use for one data set.

    Parameters
    ----------
    queries_per_class : int
        Random rows of every class that become queries.
    n_stream : int
        Rows of the database, from its head, that are learned from; a smaller database is learned whole.
    learning_rate : float
        The rate ("eta") published for this kind of data.
    map_at : int or None, default=None
        Length of the ranking for mAP; None is the full ranking.
    precision_at : int, default=500
        Length of the ranking for Precision@K.

    Examples
    --------
    >>> ProtocolSizes(queries_per_class=100, n_stream=20_000, learning_rate=0.2).precision_at
    500
    """

    queries_per_class: int
    n_stream: int
    learning_rate: float
    map_at: int | None = None
    precision_at: int = 500


@dataclass(frozen=True)
class SplitProtocol:
    """The preprocessing of a protocol.

    Parameters
    ----------
    description : str
    normalise : bool
        Whether the split itself centres the rows and scales them to unit length.
    preprocess : str
        What is left for the hasher to do: ``"none"`` or ``"running"``.

    Examples
    --------
    >>> PROTOCOLS["online"].normalise, PROTOCOLS["online"].preprocess
    (False, 'running')
    """

    description: str
    normalise: bool
    preprocess: str


PROTOCOLS: Mapping[str, SplitProtocol] = MappingProxyType(
    {
        "online": SplitProtocol(
            "raw features; the hasher centres them with the mean of what it has seen",
            normalise=False,
            preprocess="running",
        ),
        "published": SplitProtocol(
            "the paper's: centred with the mean of all rows, queries included, then scaled to unit length",
            normalise=True,
            preprocess="none",
        ),
    }
)
"""The protocols by name. With one seed they all choose the same rows."""


def choose_rows(y: NDArray[Any], queries_per_class: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of the database and of the queries, each in random order; together they hold every row once."""
    if queries_per_class < 1:
        raise InvalidInputError(f"queries_per_class={queries_per_class} is not positive; use at least 1.")
    order = np.random.default_rng(seed).permutation(len(y))
    labels, codes, counts = np.unique(y[order], return_inverse=True, return_counts=True)
    if len(labels) and counts.min() <= queries_per_class:
        smallest = counts.argmin()
        raise InvalidInputError(
            f"Class {labels[smallest]} has {counts[smallest]} rows, but {queries_per_class} queries per class "
            f"need at least {queries_per_class + 1}; set a smaller queries_per_class in the data set's sizes."
        )
    by_class = np.argsort(codes, kind="stable")
    rank_in_class = np.empty(len(y), dtype=np.intp)
    rank_in_class[by_class] = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_query = rank_in_class < queries_per_class
    return order[~is_query], order[is_query]
