"""Results as data frames."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import narwhals as nw
import numpy as np

from onlinehash.types import SearchResult


def to_frame(found: SearchResult[Any] | Sequence[Any], backend: str = "pyarrow") -> Any:
    """Return what was found, or items, decisions, suspects or items to review, as a data frame.

    Parameters
    ----------
    found : SearchResult[Any], or list of what a collection or a client returns
        A search has one row per item found: the number of its query, its place, id and distance, and what the search
        includes. A list has one row per entry, and one column per field.
    backend : str, default="pyarrow"
        Library that makes the frame: "pandas", "polars", "pyarrow" or another that narwhals knows.

    Examples
    --------
    >>> to_frame(SearchResult([[7, 3], [3]], [[0, 2], [1]])).to_pydict()
    {'query': [0, 0, 1], 'place': [0, 1, 0], 'id': [7, 3, 3], 'distance': [0, 2, 1]}
    """
    columns: dict[str, list[Any]] = {}
    if isinstance(found, SearchResult):
        several = [found] if len(found) and np.isscalar(found.ids[0]) else list(found)
        rows = [(query, place) for query, one in enumerate(several) for place in range(len(one.ids))]
        columns["query"], columns["place"] = [row[0] for row in rows], [row[1] for row in rows]
        given = {"id": "ids", "distance": "distances", "labels": "labels", "payload": "payload", "vectors": "vectors"}
        for name, column in given.items():
            if getattr(found, column) is not None:
                columns[name] = [getattr(several[query], column)[place] for query, place in rows]
    elif len(found):
        columns = {field.name: [getattr(one, field.name) for one in found] for field in fields(found[0])}
    plain = {name: _plain(values) for name, values in columns.items()}
    return nw.from_dict(plain, backend=backend).to_native()  # type: ignore[arg-type]


def _plain(values: list[Any]) -> list[Any]:
    """Return the values of a column, all of one kind: several labels as lists, and what has a structure as JSON."""
    plain = [value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value for value in values]
    if any(isinstance(value, tuple) for value in plain):
        return [value if value is None else list(value) if isinstance(value, tuple) else [value] for value in plain]
    if any(
        isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], tuple))
        for value in plain
    ):
        return [None if value is None else json.dumps(value) for value in plain]
    return plain
