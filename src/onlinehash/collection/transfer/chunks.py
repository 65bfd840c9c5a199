"""What goes through a transfer: a few rows at a time, and the names of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.stores.protocol import Rows
from onlinehash.exceptions import FileFormatError, InvalidInputError
from onlinehash.types import Progress


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a file; those not given are looked for under their usual names.

    Examples
    --------
    >>> columns = Columns(key="sku")
    >>> columns.find("key", ["sku", "label"], Path("a.csv")), columns.find("labels", ["sku", "label"], Path("a.csv"))
    ('sku', 'label')
    """

    key: str | None = None
    vector: str | None = None
    labels: str | None = None
    payload: str | None = None

    USUAL: ClassVar[dict[str, tuple[str, ...]]] = {
        "key": ("key", "keys"),
        "vector": ("vector", "features"),
        "labels": ("labels", "label"),
        "payload": ("payload",),
    }

    def find(self, role: str, present: Iterable[str], path: Path) -> str | None:
        """Return the name of a column in a file, None if it has none; one that was asked for must be there."""
        names = list(present)
        given: str | None = getattr(self, role)
        if given is not None and given not in names:
            raise InvalidInputError(f"{path} has no column {given!r}, but {', '.join(names) or 'none'}.")
        return given or next((name for name in self.USUAL[role] if name in names), None)


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a file.

    Parameters
    ----------
    features : ndarray of shape (n_rows, n_features)
    keys, labels, payload : list, or None if the file has none
    places : sequence of int
        Number of the line or row that each came from, counted from 1.
    done, total : int
        How far the file is read.
    is_text : bool
        Whether keys and labels are text that may mean integers.
    """

    features: NDArray[Any]
    keys: list[Any] | None
    labels: list[Any] | None
    payload: list[Any] | None
    places: Sequence[int]
    done: int
    total: int
    is_text: bool = False

    def __len__(self) -> int:
        return len(self.features)

    def between(self, start: int, stop: int) -> Chunk:
        """Return some of the rows."""
        part = slice(start, stop)
        keys, labels, payload = (
            None if some is None else some[part] for some in (self.keys, self.labels, self.payload)
        )
        return replace(
            self, features=self.features[part], keys=keys, labels=labels, payload=payload, places=self.places[part]
        )


@dataclass(frozen=True, eq=False)
class Sheet:
    """All items of a collection, at one moment, on their way out.

    Parameters
    ----------
    n_items, n_features : int
    dtype : dtype of the features
    key_kind, label_kind : "int" or "str"
        ``label_kind`` is None where there are no labels.
    chunks : iterator of Rows
    progress : callable
    """

    n_items: int
    n_features: int
    dtype: np.dtype[Any]
    key_kind: str
    label_kind: str | None
    chunks: Iterator[Rows]
    progress: Progress

    def __iter__(self) -> Iterator[Rows]:
        done = 0
        for rows in self.chunks:
            yield rows
            done += len(rows)
            self.progress(done, self.n_items)


def vector_of(values: Any, width: int | None, name: str) -> NDArray[Any]:
    """Return a list as a row of numbers; an error does not say where."""
    row = np.asarray(values) if isinstance(values, list) and not any(isinstance(v, list) for v in values) else None
    if row is None or row.dtype.kind not in "iuf" or not len(row):
        raise FileFormatError(f"{name!r} is not a list of numbers.")
    if width not in (None, len(row)):
        raise FileFormatError(f"{name!r} has {len(row)} numbers; the first row has {width}.")
    return row
