"""What goes into a collection and comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from onlinehash.types import Features

Id = int | str
"""What an item is called by. The ids of one collection are all integers, or all strings."""

Label = int | str


class Batch(NamedTuple):
    """Checked items: one entry per item and column, labels and payloads as JSON."""

    ids: list[Any]
    vectors: NDArray[Any]
    labels: list[str | None]
    payloads: list[str | None]


@dataclass(frozen=True, eq=False)
class Item:
    """One item, as it is stored.

    Parameters
    ----------
    id : int or str
    vectors : ndarray of shape (n_features,)
        In the precision of the collection.
    labels : int, str, tuple of them, or None
        The label of the item; a tuple if it has several, None if it has none.
    payload : JSON value or None
        What was stored with it.
    version : int or None
        Version of the encoder that made its code; None while it waits for the first one.

    Examples
    --------
    >>> import numpy as np
    >>> Item("shoe-7", np.zeros(2, np.float32), "shoe", {"title": "Trail runner"}, 1000).labels
    'shoe'
    """

    id: Id
    vectors: Features
    labels: Label | tuple[Label, ...] | None = None
    payload: Any = None
    version: int | None = None


@dataclass(frozen=True, eq=False)
class ItemPage:
    """Some items, in order.

    Parameters
    ----------
    items : list of Item
    cursor : str or None
        What :meth:`Collection.page` takes to return those that follow; None if there are none.

    Examples
    --------
    >>> ItemPage([]).cursor is None
    True
    """

    items: list[Item]
    cursor: str | None = None


@dataclass(frozen=True)
class Decision:
    """What a row is.

    Parameters
    ----------
    label : int, str or None
        Its label; None where it cannot be said with the error that was allowed, and where the row is farther from all
        items than 99 % of these are from each other.
    score : float
        Probability of the most probable label.
    alternatives : list of (label, probability)
        The most probable labels, the best first, at most 5.
    known : bool
        Whether the row resembles what was learned. One that does not may have a label never seen.
    neighbours : list of int or str
        Ids of the nearest items that have the most probable label.

    Examples
    --------
    >>> Decision("refund", 0.97, [("refund", 0.97), ("card lost", 0.02)], True, [17, 4]).label
    'refund'
    """

    label: Label | None
    score: float
    alternatives: list[tuple[Label, float]]
    known: bool
    neighbours: list[Id]


@dataclass(frozen=True)
class Suspect:
    """An item whose label the other items contradict.

    Parameters
    ----------
    id : int or str
    label : int, str or tuple of them
        The label it has.
    suggested : int or str
        The label that it should have.
    margin : float
        Score of that label minus twice that of its own, both as if the item had not been learned; an own score below 0
        counts as 0. The higher, the more certain.

    Examples
    --------
    >>> Suspect(7, "cat", "dog", 0.8).suggested
    'dog'
    """

    id: Id
    label: Label | tuple[Label, ...]
    suggested: Label
    margin: float


@dataclass(frozen=True)
class ReviewItem:
    """An item without a label whose label would teach much.

    Parameters
    ----------
    id : int or str
    suggested : int or str
        Its most probable label.
    score : float
        Probability of that label.
    known : bool
        Whether the item resembles what was learned.
    group : int, default=0
        By "unknown", items that resemble each other have the same number, 0 for the largest group: name them together.

    Examples
    --------
    >>> ReviewItem(7, "cat", 0.4, True).score
    0.4
    """

    id: Id
    suggested: Label
    score: float
    known: bool
    group: int = 0


@dataclass(frozen=True)
class RiskCoverage:
    """What :meth:`Collection.classify` would do with new rows, by the least probability from which on it gives a label.

    Parameters
    ----------
    version : int
        Version of the encoder in use.
    n_rows : int
        Labelled items, scored as if they had not been learned, by which it was found.
    threshold : list of float
        Least probabilities, the largest first.
    coverage : list of float
        Share of the rows that get a label.
    error : list of float
        Share of these labels that is wrong.
    bound : list of float
        The same with one more wrong label, which has to be at most ``max_error``.

    Examples
    --------
    >>> RiskCoverage(1000, 2, [0.9, 0.5], [0.5, 1.0], [0.0, 0.5], [0.5, 2 / 3]).coverage
    [0.5, 1.0]
    """

    version: int
    n_rows: int
    threshold: list[float]
    coverage: list[float]
    error: list[float]
    bound: list[float]


@dataclass(frozen=True)
class Stats:
    """Statistics of a collection.

    Parameters
    ----------
    n_items : int
        Items stored.
    n_searchable : int
        Items that have a code; the others wait until the hasher has learned enough for a first encoder.
    n_learned : int
        Instances the hasher has learned from.
    method : str
        Name of the hasher.
    n_bits : int
        Length of the codes searched; of those to come, if there are none yet.
    generation : int
        Number of the generation of codes searched; 0 before the first.
    version : int or None
        Version of the encoder that made them.
    staleness : int
        Instances learned since that version.
    index : str
        How codes are searched: ``"memory"``, ``"faiss"``, ``"gpu"`` or ``"milvus"``.
    refreshing : bool
        Whether a new generation is being made.
    progress : float
        Share of the items it holds already, 1.0 if none is being made.
    pending : bool
        Whether codes are to be refreshed: now, or as soon as the writer is idle or opens the collection again.
    bits_recomputed : int
        Bits computed again by all refreshes so far.
    refresh_error : str or None
        Why the last refresh failed, if it did.
    n_bytes : int
        Size of the file, or of all tables.
    precision : float or None
        Share of items with a label of the query among its nearest, for items searched for before they were learned
        from: see :meth:`Collection.measure_quality`. None where that is not measured.
    mean_average_precision : float or None
        Of the same searches, among the nearest items; None if none of them has a label of its query.
    n_queries : int
        Number of these items.
    coverage, error : float or None
        Share of these items that :meth:`Collection.classify` would have given a label, and the share of wrong labels
        among them.

    Examples
    --------
    >>> Stats(n_items=2, n_searchable=2, n_learned=2, method="hcoh", n_bits=32, generation=1, version=2).staleness
    0
    """

    n_items: int = 0
    n_searchable: int = 0
    n_learned: int = 0
    method: str = ""
    n_bits: int = 0
    generation: int = 0
    version: int | None = None
    staleness: int = 0
    index: str = "memory"
    refreshing: bool = False
    progress: float = 1.0
    pending: bool = False
    bits_recomputed: int = 0
    refresh_error: str | None = None
    n_bytes: int = 0
    precision: float | None = None
    mean_average_precision: float | None = None
    n_queries: int = 0
    coverage: float | None = None
    error: float | None = None
