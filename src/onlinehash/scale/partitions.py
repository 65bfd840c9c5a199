"""Parquet files as partitions: their row groups, read in batches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from onlinehash._internal.validation import check_finite, check_targets
from onlinehash.exceptions import DataNotFoundError, InvalidInputError, located
from onlinehash.tables.arrow import open_file, vectors_of
from onlinehash.types import Labels, LabelSets

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A Parquet file, a folder of them, or several of both."""

ROWS_PER_BATCH = 2048


class Partition(NamedTuple):
    """A row group of a file: how many rows it has, and how many of them have a label."""

    path: Path
    row_group: int
    n_rows: int
    n_labelled: int


def find_files(paths: Paths) -> list[Path]:
    """Return all files, in the order given, those of a folder by name."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files: list[Path] = []
    for place in (Path(path).absolute() for path in given):
        inside = sorted(place.rglob("*.parquet")) if place.is_dir() else [place]
        if not inside:
            raise DataNotFoundError(f"There is no .parquet file in {place}.")
        if not inside[0].is_file():
            raise DataNotFoundError(f"There is no file {place}.")
        files += inside
    if not files:
        raise InvalidInputError("paths is empty; give at least one Parquet file or folder.")
    return files


def partitions_of(path: Path, vectors: str, labels: str) -> list[Partition]:
    """Return the row groups of a file, with the number of rows that have a label."""
    with open_file(path) as file:
        names = file.schema_arrow.names
        for name in (vectors, labels):
            if name not in names:
                raise InvalidInputError(f"{path} has no column {name!r}, but {', '.join(names)}.")
        partitions = []
        for group in range(file.num_row_groups):
            n_rows = file.metadata.row_group(group).num_rows
            partitions.append(Partition(path, group, n_rows, _count_labelled(file, path, group, labels)))
        return [partition for partition in partitions if partition.n_rows]


def read(partition: Partition, vectors: str, beside: str) -> Iterator[tuple[str, NDArray[Any], Any]]:
    """Yield batches of vectors and the Arrow array beside them, with the name of their place."""
    with open_file(partition.path) as file:
        start, kept = 0, {"row_groups": [partition.row_group], "columns": [vectors, beside], "use_threads": False}
        for batch in file.iter_batches(ROWS_PER_BATCH, **kept):
            place = f"{partition.path}, row group {partition.row_group}" + (f", counted from row {start}" * bool(start))
            with located(place):
                rows = vectors_of(batch.column(vectors), vectors)
                check_finite(rows, rows.dtype)
            yield place, rows, batch.column(beside)
            start += len(rows)


def read_labelled(
    partitions: Iterable[Partition], vectors: str, labels: str, start: int, stop: int
) -> Iterator[tuple[str, NDArray[Any], Labels | LabelSets]]:
    """Yield rows that have a label and their labels, from the ``start``-th of these partitions to the ``stop``-th."""
    at = 0
    for partition in partitions:
        if at >= stop or at + partition.n_labelled <= start:
            at += partition.n_labelled
            continue
        for place, rows, column in read(partition, vectors, labels):
            with located(place):
                targets, labelled = check_targets(column.to_pylist(), len(rows))
            if labelled is not None:
                rows, targets = rows[labelled], _some(targets, labelled)  # noqa: PLW2901
            wanted = slice(max(start - at, 0), max(stop - at, 0))
            at += len(rows)
            if len(rows[wanted]):
                yield place, rows[wanted], _some(targets, wanted)
            if at >= stop:
                break


def _count_labelled(file: Any, path: Path, group: int, labels: str) -> int:
    count = 0
    for batch in file.iter_batches(ROWS_PER_BATCH, row_groups=[group], columns=[labels], use_threads=False):
        with located(f"{path}, row group {group}"):
            labelled = check_targets(batch.column(0).to_pylist(), len(batch))[1]
        count += len(batch) if labelled is None else int(labelled.sum())
    return count


def _some(targets: Labels | LabelSets, rows: slice | NDArray[Any]) -> Labels | LabelSets:
    return targets.take(rows) if isinstance(targets, LabelSets) else targets[rows]
