"""A user's own file as a data set.

A data set with the name of a file, such as ``mine.csv``, is read as by
:func:`onlinehash.tables.read`; paths are relative to the current folder. The split is that of the
other data sets, with counts determined by the file: a fifth of the smallest class, but at most 100 rows per class and
10 000 in total, are queries; all other rows are the database, and all of them are learned.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import check_features, check_finite, check_labels
from onlinehash.datasets import Dataset, ProtocolSizes, describe, load_dataset
from onlinehash.datasets.files import file_sha256
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError, InvalidLabelsError
from onlinehash.types import Labels

_LEARNING_RATE = 0.2  # of HCOH, which is its own default
_QUERIES_PER_CLASS, _QUERIES, _PLACES, _FEW_PLACES = 100, 10_000, 100, 10


def is_file_name(dataset: str) -> bool:
    """Return whether the name of a data set is that of a file.

    Examples
    --------
    >>> is_file_name("mine.csv"), is_file_name("digits")
    (True, False)
    """
    return re.search(r"[./\\]", dataset) is not None


def load_own(path: str, labels: str | None = None, n_queries: int | None = None) -> Dataset:
    """Read a file as a data set.

    Parameters
    ----------
    path : str
        ``.npz``, ``.csv`` with a header, ``.jsonl``, ``.parquet``; or ``.npy``, which holds the vectors only.
    labels : str, optional
        Column of the labels; of ``.npy``, the file that holds them. By default "labels" or "label", in ``.npz`` also
        "y"; of ``a.npy``, the file ``a.labels.npy``.
    n_queries : int, optional
        Draw so many queries from all rows, instead of as many from every class.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/mine.npz", X=np.eye(8), y=["cat", "dog"] * 4)
    ...     mine = load_own(f"{folder}/mine.npz")
    >>> mine.class_names, mine.sizes.queries_per_class, len(mine.split().database.X)
    (('cat', 'dog'), 1, 6)
    """
    X, y = _read(path, labels)
    names, numbers, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise InvalidLabelsError(
            f"{path} has one class only, {str(names[0])!r}; every item is relevant then. Use at least two classes."
        )
    smallest = int(counts.min())
    if smallest < 2 and n_queries is None:
        raise InvalidLabelsError(
            f"{path} has one row of the class {str(names[counts.argmin()])!r}; every class needs at least 2, a query "
            "and an item to find. Leave that class out, add rows, or draw queries from all rows, whatever their class "
            "(--queries; n_queries in a plan)."
        )
    queries_per_class = max(1, min(smallest // 5, _QUERIES_PER_CLASS, _QUERIES // len(names)))
    return Dataset(
        name=path,
        X=X,
        y=numbers.astype(np.int64),
        class_names=tuple(map(str, names)),
        description="a file of your own",
        source=path,
        licence="",
        sizes=ProtocolSizes(
            queries_per_class=queries_per_class,
            n_stream=len(X),
            learning_rate=_LEARNING_RATE,
            precision_at=min(_PLACES, smallest - queries_per_class) if n_queries is None else _FEW_PLACES,
            n_queries=n_queries,
        ),
    )


def find_dataset(name: str, labels: str | None = None, n_queries: int | None = None) -> Dataset:
    """Return a data set by its name or file; the last one is cached.

    Examples
    --------
    >>> find_dataset("digits").X.shape
    (1797, 64)
    """
    return _find(name, labels, n_queries, data_digest(name, labels) if is_file_name(name) else None)


@lru_cache(maxsize=1)
def _find(name: str, labels: str | None, n_queries: int | None, digest: str | None) -> Dataset:
    if digest is not None:
        return load_own(name, labels, n_queries)
    dataset = load_dataset(name)
    return dataset if n_queries is None else replace(dataset, sizes=replace(dataset.sizes, n_queries=n_queries))


def data_size(name: str, labels: str | None = None, n_queries: int | None = None) -> tuple[int, int]:
    """Return the numbers of features and classes of a data set; a built-in one is not loaded.

    Examples
    --------
    >>> data_size("mnist")
    (784, 10)
    """
    if is_file_name(name):
        own = find_dataset(name, labels, n_queries)
        return own.X.shape[1], len(own.class_names)
    return next((info.n_features, info.n_classes) for info in describe() if info.name == name)


def data_digest(path: str, labels: str | None) -> str:
    """Return a digest of the files of a data set; results of other files do not count."""
    return "-".join(_digest(file, file.stat().st_mtime_ns, file.stat().st_size) for file in _files(path, labels))


def _files(path: str, labels: str | None) -> list[Path]:
    """Return the files of a data set; each must exist."""
    from onlinehash.tables import Columns
    from onlinehash.tables.npy import files_beside

    file = Path(path)
    if not file.is_file():
        raise DataNotFoundError(f"There is no file {file}; paths start from the folder in which the command runs.")
    if file.suffix.lower() != ".npy":
        return [file]
    beside = files_beside(file, Columns(labels=labels))
    return [beside[role] for role in ("vectors", "labels") if role in beside]


@lru_cache
def _digest(path: Path, changed: int, size: int) -> str:
    return file_sha256(path)[:16]


def _read(path: str, column: str | None) -> tuple[NDArray[np.float32], Labels]:
    from onlinehash import tables

    try:
        table = tables.read_all(path, tables.Columns(labels=column))
    except FileFormatError as error:
        hint = "" if column else " If a column holds the labels and is not called label or labels, name it as labels."
        raise FileFormatError(f"{error}{hint}") from error
    if table.labels is None:
        raise InvalidLabelsError(f"{path} comes without labels; name their column, or for .npy their file, as labels.")
    labels = []
    for label, number in zip(table.labels, table.places, strict=True):
        several = label if isinstance(label, list) else [] if label is None else [label]
        if len(several) != 1:
            raise InvalidLabelsError(
                f"{path}, {table.unit} {number} has {len(several) or 'no'} labels; every row needs one here. Leave "
                "such rows out."
            )
        labels += several
    try:
        X = check_features(table.vectors)
        check_finite(X, np.dtype(np.float32))
        return np.ascontiguousarray(X, np.float32), check_labels(labels, len(X))
    except InvalidInputError as error:
        raise type(error)(f"{path}: {error}") from error
