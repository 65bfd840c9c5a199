"""Calls of the clients: requests to send, and results of the answers, without sending anything.

A call is a generator that yields requests, is sent their answers, and returns the result. It is thrown the error of a
request that exceeds a limit of the service.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds

T = TypeVar("T")


class Download:
    """A file that takes a long answer piece by piece, and its digest."""

    def __init__(self, file: IO[bytes], progress: Callable[[int], None]) -> None:
        self._file, self._progress = file, progress
        self.start()

    def start(self) -> None:
        """Begin from the first byte."""
        self._file.seek(0)
        self._file.truncate()
        self.digest = hashlib.sha256()

    def write(self, piece: bytes) -> None:
        """Append a piece."""
        self._file.write(piece)
        self.digest.update(piece)
        self._progress(self._file.tell())


@dataclass(frozen=True, eq=False)
class Call:
    """A request: JSON, an array or an image as its body, and what replaces the body when the request is repeated."""

    method: str
    path: str
    body: dict[str, Any] | NDArray[Any] | bytes | None = None
    retry_body: dict[str, Any] | None = None
    query: dict[str, str] | None = None
    key: str | None = None  # by which the service knows a change that it has applied already
    pause: float = 0.0  # seconds before it is sent
    arrays: bool = False  # whether its vectors or codes may come as an array, as "array"
    into: Download | None = None  # takes the content of the answer, of which then the headers are returned


Calls = Generator[Call, Any, T]


def one(call: Call, read: Callable[[Any], T]) -> Calls[T]:
    """Send one request, and return what a function reads in its answer."""
    return read((yield call))


def pauses() -> Iterator[float]:
    """Yield seconds to wait that double, each reduced at random so that clients do not return all at once."""
    pause = _FIRST_PAUSE
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, LONGEST_PAUSE)


def records(ids: list[Any], rows: NDArray[Any], labels: Any) -> NDArray[Any] | None:
    """Return items as an array of records, or None if an array cannot hold them unchanged."""
    columns = {name: _column(values) for name, values in (("id", ids), ("label", labels)) if values is not None}
    vectors = compact(rows)
    layout: list[Any] = [("vectors", vectors.dtype, (vectors.shape[1],))]
    for name, column in columns.items():
        if column is None:
            return None
        layout.append((name, column.dtype))
    records = np.empty(len(ids), layout)
    for name, column in {**columns, "vectors": vectors}.items():
        records[name] = column
    return records


def _column(values: Any) -> NDArray[Any] | None:
    """Return integers or strings as an array; None if an array would change them: it drops NULs at the end of text."""
    if not isinstance(values, np.ndarray) and len({type(value) for value in values}) != 1:
        return None
    try:
        column = np.array(values)
    except ValueError:  # lists of different lengths
        return None
    fits = column.ndim == 1 and column.dtype.kind in "iuU" and column.itemsize and column.tolist() == list(values)
    return column if fits else None


def compact(rows: NDArray[Any]) -> NDArray[Any]:
    """Return floating-point vectors of at most single precision as they are, others in double precision."""
    return rows if rows.dtype.kind == "f" and rows.dtype.itemsize <= 4 else rows.astype(np.float64)
