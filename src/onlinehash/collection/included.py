"""What a search result carries besides ids and distances."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from onlinehash._validation import check_choice
from onlinehash.collection import _validation as check
from onlinehash.collection.stores.protocol import Store
from onlinehash.exceptions import InvalidInputError
from onlinehash.types import SearchResult

PARTS = ("labels", "payload", "vectors")
"""What can be included."""


def check_include(include: Any) -> tuple[str, ...]:
    """Return the parts to include.

    Examples
    --------
    >>> check_include(["labels", "payload"]), check_include(None)
    (('labels', 'payload'), ())
    """
    if include is None:
        return ()
    if isinstance(include, str) or not isinstance(include, Iterable):
        raise InvalidInputError(f"include={include!r} is no list; pass some of {', '.join(PARTS)} in one.")
    listed = tuple(dict.fromkeys(include))
    for part in listed:
        check_choice("include", part, PARTS)
    return listed


def including(found: SearchResult, store: Store, parts: tuple[str, ...], *, last: bool) -> SearchResult | None:
    """Return a result of several queries with parts of the items found; None if one of them has changed since.

    Parameters
    ----------
    found : SearchResult
    store : Store
    parts : tuple of str
    last : bool
        Take items as they are now, without those that are gone.
    """
    rows = store.rows(list({id for ids in found.ids for id in ids}))
    place = {id: row for row, id in enumerate(rows.ids)}
    if not last and (
        max(rows.seqs, default=0) > (found.sequence or 0) or any(set(ids) - set(place) for ids in found.ids)
    ):
        return None
    kept = [[i for i, id in enumerate(ids) if id in place] for ids in found.ids]
    ids = [[ids[i] for i in some] for ids, some in zip(found.ids, kept, strict=True)]
    distances = [[distances[i] for i in some] for distances, some in zip(found.distances, kept, strict=True)]
    columns: dict[str, Any] = {
        "labels": lambda some: [check.labels_of(rows.labels[row]) for row in some],
        "payload": lambda some: [json.loads(rows.payloads[row] or "null") for row in some],
        "vectors": lambda some: rows.vectors[some],
    }
    wanted: dict[str, Any] = {part: [columns[part]([place[id] for id in some]) for some in ids] for part in parts}
    return replace(found, ids=ids, distances=distances, **wanted)
