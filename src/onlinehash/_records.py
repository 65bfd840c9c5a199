"""Items as an array of records, which a request carries faster than JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def records(ids: list[Any], rows: NDArray[Any], labels: Any) -> NDArray[Any] | None:
    """Return items as an array of records, or None if an array cannot hold them unchanged."""
    columns = {"id": np.array(ids)} | ({} if labels is None else {"label": np.array(labels, dtype=_dtype(labels))})
    fitting = all(
        column.dtype.kind in "iuU" and column.ndim == 1 and (column.dtype.kind in "iu" or _keeps_text(column, values))
        for column, values in zip(columns.values(), (ids, labels), strict=False)
    )
    if not fitting:
        return None
    vectors = compact(rows)
    layout: list[Any] = [(name, column.dtype) for name, column in columns.items()]
    records = np.empty(len(ids), [*layout, ("vectors", vectors.dtype, (vectors.shape[1],))])
    records["vectors"] = vectors
    for name, column in columns.items():
        records[name] = column
    return records


def _dtype(labels: Any) -> Any:
    """Return object for labels that hold lists or missing values, else None."""
    plain = isinstance(labels, np.ndarray) or len({type(label) for label in labels}) == 1
    several = any(isinstance(label, (list, tuple, set, frozenset)) for label in labels)
    return None if plain and not several else object


def _keeps_text(column: NDArray[Any], values: Any) -> bool:
    """Return whether an array holds strings unchanged: it drops zero characters at their ends."""
    return bool(column.dtype.itemsize) and all(
        kept == given for kept, given in zip(column.tolist(), values, strict=True)
    )


def compact(rows: NDArray[Any]) -> NDArray[Any]:
    """Return floating-point vectors of at most single precision as they are, others in double precision."""
    return rows if rows.dtype.kind == "f" and rows.dtype.itemsize <= 4 else rows.astype(np.float64)
