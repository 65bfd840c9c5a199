"""The data set, how it is cut into a learning stream, a database and queries, and the split that this gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.exceptions import InvalidInputError, UnknownNameError
from onlinehash.features import Centring
from onlinehash.types import Batch


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
    n_queries : int, optional
        Random rows, whatever their class, that become queries, instead of as many of every class; of each class, one
        row stays in the database.

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
    n_queries: int | None = None


PROTOCOLS = {
    "online": "raw features; the hasher centres them with the mean of what it has seen",
    "published": "the paper's: centred with the mean of all rows, queries included, then scaled to unit length",
}
"""The protocols and what they do to the features. With one seed they all choose the same rows."""


def choose_rows(
    y: NDArray[Any], queries_per_class: int, seed: int, n_queries: int | None = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of the database and of the queries, each in random order; together they hold every row once."""
    if queries_per_class < 1:
        raise InvalidInputError(f"queries_per_class={queries_per_class} is not positive; use at least 1.")
    order = np.random.default_rng(seed).permutation(len(y))
    labels, codes, counts = np.unique(y[order], return_inverse=True, return_counts=True)
    if n_queries is None and len(labels) and counts.min() <= queries_per_class:
        smallest = counts.argmin()
        raise InvalidInputError(
            f"Class {labels[smallest]} has {counts[smallest]} rows, but {queries_per_class} queries per class "
            f"need at least {queries_per_class + 1}; set a smaller queries_per_class in the data set's sizes."
        )
    by_class = np.argsort(codes, kind="stable")
    rank_in_class = np.empty(len(y), dtype=np.intp)
    rank_in_class[by_class] = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    if n_queries is None:
        is_query = rank_in_class < queries_per_class
    else:  # the first that are not the last of their class
        is_query = rank_in_class < counts[codes] - 1
        if not 0 < n_queries <= is_query.sum():
            raise InvalidInputError(
                f"{n_queries} queries do not fit {len(y)} rows of {len(labels)} classes, of each of which one row is "
                f"searched; use 1 to {is_query.sum()}."
            )
        is_query[np.flatnonzero(is_query)[n_queries:]] = False
    return order[~is_query], order[is_query]


@dataclass(frozen=True, eq=False)
class Split:
    """Stream, database and queries of one experiment.

    Parameters
    ----------
    stream : Batch
        Rows to learn from, in order: the head of the database, sharing its memory.
    database : Batch
        Rows to search.
    queries : Batch
        Rows to search for; none of them is in the database.
    map_at : int or None
        Length of the ranking for mAP; None is the full ranking.
    precision_at : int
        Length of the ranking for Precision@K.
    learning_rate : float
        The rate published for this kind of data.
    preprocess : str
        What the hasher still has to do to the features: ``"none"`` or ``"running"``.
    denominator : {"found", "possible"}, default="found"
        What mAP at ``map_at`` is divided by: the relevant items found, as published, or those that could be.

    Examples
    --------
    >>> from onlinehash import load_dataset
    >>> split = load_dataset("digits").split()
    >>> len(split.stream.X), len(split.database.X), len(split.queries.X), split.preprocess
    (1500, 1597, 200, 'running')
    """

    stream: Batch
    database: Batch
    queries: Batch
    map_at: int | None
    precision_at: int
    learning_rate: float
    preprocess: str
    denominator: str = "found"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Hold labelled features and the numbers of their protocol.

    Parameters
    ----------
    name : str
    X : ndarray of float32, shape (n_samples, n_features)
    y : ndarray of int, shape (n_samples,)
        Positions in `class_names`.
    class_names : tuple of str
    description : str
        What a row is.
    source : str
        The file it came from, and whether that is the reference file.
    licence : str
    sizes : ProtocolSizes
        Queries per class, length of the stream, learning rate, lengths of the rankings.

    Examples
    --------
    >>> from onlinehash.datasets import load_dataset
    >>> digits = load_dataset("digits")
    >>> digits.X.shape, digits.class_names[:3]
    ((1797, 64), ('0', '1', '2'))
    >>> split = digits.split(seed=0)
    >>> len(split.stream.X), len(split.database.X), len(split.queries.X)
    (1500, 1597, 200)
    """

    name: str
    X: NDArray[np.float32] = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    class_names: tuple[str, ...] = field(repr=False)
    description: str
    source: str
    licence: str
    sizes: ProtocolSizes

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or len(self.X) != len(self.y):
            raise InvalidInputError(
                f"X has shape {self.X.shape} and y has {len(self.y)} labels; "
                "X needs two dimensions and a row for every label."
            )

    def split(self, protocol: str = "online", seed: int = 0) -> Split:
        """Cut the rows into a stream, a database and queries.

        Per class, `queries_per_class` random rows are the queries; the rest, shuffled, is the database, and
        the first `n_stream` rows of the database are the stream. Copies every row once: O(n d) memory.

        Parameters
        ----------
        protocol : str, default="online"
            A name in `PROTOCOLS`. The features differ between protocols, the chosen rows do not.
        seed : int, default=0
            Decides which rows are queries and the order of the database.

        Returns
        -------
        Split
        """
        if protocol not in PROTOCOLS:
            raise UnknownNameError.among("protocol", protocol, PROTOCOLS)
        sizes, published = self.sizes, protocol == "published"
        database, queries = (
            Batch(self.X[rows], self.y[rows])
            for rows in choose_rows(self.y, sizes.queries_per_class, seed, sizes.n_queries)
        )
        if published:
            centring = Centring(self.X.mean(axis=0, dtype=np.float64))
            centring.learn(database.X, out=database.X)
            centring.learn(queries.X, out=queries.X)
        return Split(
            stream=Batch(database.X[: sizes.n_stream], database.y[: sizes.n_stream]),
            database=database,
            queries=queries,
            map_at=sizes.map_at,
            precision_at=sizes.precision_at,
            learning_rate=sizes.learning_rate,
            preprocess="none" if published else "running",
        )
