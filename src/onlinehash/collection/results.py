"""Search results, completed from the store: ordered by stored vectors, and with more of the items found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._validation import check_choice
from onlinehash.collection import _validation as check
from onlinehash.collection.stores.protocol import OutOfStep, Rows, Store, rows_at_a_time
from onlinehash.exceptions import InvalidFeaturesError, InvalidInputError, LargeResultError
from onlinehash.types import SearchResult

PARTS: dict[str, Callable[[Rows], Iterable[Any]]] = {
    "labels": lambda rows: map(check.labels_of, rows.labels),
    "payload": lambda rows: (json.loads(text or "null") for text in rows.payloads),
    "vectors": lambda rows: rows.vectors,
}
"""What can be included, and how it is read from stored rows."""

_MOST = 1000  # items read at a time


def check_include(include: Any) -> tuple[str, ...]:
    """Return the parts to include."""
    if include is None:
        return ()
    if isinstance(include, str) or not isinstance(include, Iterable):
        raise InvalidInputError(f"include={include!r} is no list; pass some of {', '.join(PARTS)} in one.")
    listed = tuple(dict.fromkeys(include))
    for part in listed:
        check_choice("include", part, tuple(PARTS))
    return listed


def including(
    found: SearchResult, store: Store, parts: tuple[str, ...], max_payload_bytes: int | None = None
) -> SearchResult:
    """Return a result of several queries with parts of the items found; raise OutOfStep if one has changed since.

    More than ``max_payload_bytes`` in the payloads of all hits is an error.
    """
    n_hits = Counter(id for ids in found.ids for id in ids)
    columns: dict[str, dict[Any, Any]] = {part: {} for part in parts}
    n_rows, n_bytes = 0, 0
    for rows in rows_in_pieces(store, list(n_hits)):
        if max(rows.seqs) > (found.sequence or 0):
            raise OutOfStep
        n_rows += len(rows)
        n_bytes += sum(n_hits[id] * len(text or "") for id, text in zip(rows.ids, rows.payloads, strict=True))
        if "payload" in columns and max_payload_bytes is not None and n_bytes > max_payload_bytes:
            raise LargeResultError(
                f"payload of the items found has more than {max_payload_bytes} bytes; ask for fewer items, or leave it "
                "out."
            )
        for part, column in columns.items():
            column.update(zip(rows.ids, PARTS[part](rows), strict=True))
    if n_rows < len(n_hits):
        raise OutOfStep
    wanted: dict[str, Any] = {
        part: [[column[id] for id in ids] for ids in found.ids] for part, column in columns.items()
    }
    if "vectors" in wanted:
        nothing = np.empty((0, store.setting("n_features", 0)), store.setting("vector_dtype", "float32"))
        wanted["vectors"] = [np.array(some) if some else nothing for some in wanted["vectors"]]
    return replace(found, **wanted)


def rows_in_pieces(store: Store, ids: list[Any]) -> Iterator[Rows]:
    """Yield the items of ids, some at a time: vectors and payloads may be large."""
    step = min(_MOST, rows_at_a_time(store.setting("n_features")))
    for start in range(0, len(ids), step):
        rows = store.rows(ids[start : start + step])
        if len(rows):
            yield rows


def rescored(found: SearchResult, queries: NDArray[Any], store: Store, measure: str, k: int) -> SearchResult:
    """Return the k nearest of what was found, by the distance of the stored vectors; ties in order of arrival."""
    ids, distances = [], []
    for query, row in zip(queries, found, strict=True):
        rows = store.rows(row.ids)
        if len(rows) and rows.vectors.shape[1] != len(query):  # migrated by another process since the query was made
            raise InvalidFeaturesError(
                f"The query has {len(query)} numbers, the stored vectors have {rows.vectors.shape[1]}; search again."
            )
        measured = vector_distances(query, rows.vectors, measure).tolist()
        ranked = sorted(zip(measured, rows.seqs, rows.ids, strict=True))[:k]
        ids.append([id for _, _, id in ranked])
        distances.append([distance for distance, _, _ in ranked])
    return replace(found, ids=ids, distances=distances, cursor=None)


def vector_distances(query: NDArray[Any], vectors: NDArray[Any], measure: str) -> NDArray[np.float64]:
    """Return the Euclidean distances, or one minus the cosines of the angles (1 where a vector is zero).

    Examples
    --------
    >>> vector_distances(np.zeros(2), np.array([[3.0, 4.0], [0.0, 1.0]]), "l2")
    array([5., 1.])
    """
    if not len(vectors):
        return np.empty(0)
    rows, q = vectors.astype(np.float64), np.asarray(query, np.float64)
    if measure == "l2":
        return np.asarray(np.sqrt(((rows - q) ** 2).sum(axis=1)))
    lengths = np.sqrt((rows**2).sum(axis=1)) * np.sqrt(q @ q)
    return np.asarray(1.0 - np.divide(rows @ q, lengths, out=np.zeros(len(rows)), where=lengths > 0))
