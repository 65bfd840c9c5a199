"""Tables: files of ids, vectors or documents, labels and payloads, read and written in chunks.

Memory is bounded, except for ``.npz``. The ending of the path names the format: ``.npy``, ``.npz``, ``.parquet``,
``.csv``, ``.jsonl`` or ``.arrow``. The command line, imports, streams and experiments read their files here.

Examples
--------
>>> import numpy as np, tempfile
>>> from onlinehash import tables
>>> pets = tables.Chunk(["rex", "tom", "kit"], np.eye(3), ["dog", "cat", None])
>>> with tempfile.TemporaryDirectory() as folder:
...     tables.write(f"{folder}/pets.csv", [pets], n_rows=3, label_type="str")
...     print(tables.layout(f"{folder}/pets.csv"))
...     for chunk in tables.read(f"{folder}/pets.csv", batch_size=2):
...         print(chunk.ids, chunk.labels, chunk.places)
...     tables.read_all(f"{folder}/pets.csv").vectors.shape
id: id; labels: labels; vectors: x0, x1, x2; payload: payload
['rex', 'tom'] ['dog', 'cat'] [2, 3]
['kit'] [None] [4]
(3, 3)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

from onlinehash._internal.validation import check_positive_int
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError
from onlinehash.tables.columns import Chunk, Columns, Layout, concatenate
from onlinehash.tables.frames import to_frame

FORMATS = {".npy": "npy", ".npz": "npy", ".parquet": "arrow", ".csv": "text", ".jsonl": "text", ".arrow": "arrow"}
"""The module that reads and writes files, by the ending of their path."""


def read(path: str | os.PathLike[str], columns: Columns | None = None, *, batch_size: int = 10_000) -> Iterator[Chunk]:
    """Yield the rows of a file in chunks.

    Parameters
    ----------
    path : path
        ``.npz``: arrays with one row per item. ``.parquet``, ``.arrow``: the vector is a list, or all columns of
        numbers that are nothing else. ``.csv``: the same, a list written as JSON. ``.jsonl``: one object per line.
        ``.npy``: the vectors; of ``a.npy``, ids and labels may be in ``a.ids.npy`` and ``a.labels.npy`` beside it.
    columns : Columns, optional
        By default columns are found by their usual names.
    batch_size : int, default=10000
        Rows per chunk.
    """
    check_positive_int("batch_size", batch_size)
    source = _existing(path)
    chunks: Iterator[Chunk] = format_of(source).read(source, columns or Columns(), batch_size)
    return chunks


def read_all(path: str | os.PathLike[str], columns: Columns | None = None) -> Chunk:
    """Return all rows of a file at once; ids and labels of a text are integers where all of them are.

    Parameters
    ----------
    path, columns
        As in :func:`read`.
    """
    chunks = list(read(path, columns))
    if not chunks:
        raise FileFormatError(f"{path} has no rows.")
    return concatenate(chunks).typed()


def layout(path: str | os.PathLike[str], columns: Columns | None = None) -> Layout | None:
    """Return the role of each column of a file; None for an ``.npy`` file, which has no columns. See :func:`read`."""
    source = _existing(path)
    found: Layout | None = format_of(source).layout(source, columns or Columns())
    return found


def write(path: str | os.PathLike[str], chunks: Iterable[Chunk], *, n_rows: int, label_type: str | None = None) -> None:
    """Write rows to a file that :func:`read` reads; the file takes its place when it is complete.

    Parameters
    ----------
    path : path
        With any of the endings above, but for ``.npy``.
    chunks : iterable of Chunk
        Each with ids.
    n_rows : int
        Number of rows in all chunks.
    label_type : "int" or "str", optional
        What labels are, where there are any.
    """
    target = Path(path)
    left = (
        replace(chunk, labels=chunk.labels or [None] * len(chunk), payloads=chunk.payloads or [None] * len(chunk))
        for chunk in chunks
    )
    first = next(left, None)
    if first is None or not first.ids:
        raise InvalidInputError("There are no rows to write, or they have no ids.")
    format_of(target).write(target, first, chain([first], left), n_rows, label_type or "int")


def format_of(path: Path) -> Any:
    """Return the module of the format that the ending of a path names."""
    if path.suffix.lower() not in FORMATS:
        raise FileFormatError(f"{path} has the extension {path.suffix!r}; use one of {', '.join(FORMATS)}.")
    return import_module(f"onlinehash.tables.{FORMATS[path.suffix.lower()]}")


def _existing(path: str | os.PathLike[str]) -> Path:
    source = Path(path)
    if not source.is_file():
        what = f"{source} is a folder; name a file." if source.is_dir() else f"There is no file {source}."
        raise DataNotFoundError(what)
    return source


__all__ = ["Chunk", "Columns", "Layout", "layout", "read", "read_all", "to_frame", "write"]
