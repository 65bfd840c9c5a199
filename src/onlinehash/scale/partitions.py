"""Parquet files as partitions: their row groups, read in batches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from onlinehash._internal.validation import check_finite, check_targets
from onlinehash.exceptions import (
    DataNotFoundError,
    FileFormatError,
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
)
from onlinehash.tables.arrow import LengthError, import_pyarrow, is_list, is_number, list_lengths, open_file, vectors_of
from onlinehash.types import Labels, LabelSets

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A Parquet file, a folder of them, or several of both."""

_VALUES_PER_BATCH = 1 << 19  # of the vectors in memory, as an encoder takes them
_LABELS_PER_BATCH = 1 << 16


class File(NamedTuple):
    """A file of a data set: its path, and its name within the data set."""

    path: Path
    name: Path


class Partition(NamedTuple):
    """A row group of a file: how many rows it has, and how many of them have a label."""

    path: Path
    row_group: int
    n_rows: int
    n_labelled: int


class Survey(NamedTuple):
    """What is known of a file before its vectors are read; the width is 0 if it has no rows."""

    path: Path
    partitions: list[Partition]
    width: int
    label_kind: str | None


def find_files(paths: Paths) -> list[File]:
    """Return all files, in the order given, those of a folder by name.

    The name of a file in a folder is its path within it, of any other its last part.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files: list[File] = []
    for place in (Path(path).absolute() for path in given):
        if place.is_dir():
            inside = sorted(place.rglob("*.parquet"))
            if not inside:
                raise DataNotFoundError(f"There is no .parquet file in {place}.")
            files += [File(path, path.relative_to(place)) for path in inside]
        elif place.is_file():
            files.append(File(place, Path(place.name)))
        else:
            raise DataNotFoundError(f"There is no file {place}.")
    if not files:
        raise InvalidInputError("paths is empty; give at least one Parquet file or folder.")
    return files


def survey(path: Path, vectors: str, beside: str, labelled: bool) -> Survey:
    """Return the row groups of a file and the width of its vectors; count labels, if those are in the column beside."""
    with open_file(path) as file:
        schema = file.schema_arrow
        for name in (vectors, beside):
            if name not in schema.names:
                raise InvalidInputError(f"{path} has no column {name!r}, but {', '.join(schema.names)}.")
        kind = schema.field(vectors).type
        if not is_list(kind) or not is_number(kind.value_type):
            raise FileFormatError(f"{path}: column {vectors!r} holds {kind}, not lists of numbers.")
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        first = next((group for group, size in enumerate(sizes) if size), None)
        if first is None:
            return Survey(path, [], 0, None)
        head = next(file.iter_batches(1, row_groups=[first], columns=[vectors], use_threads=False))
        width = int(list_lengths(head.column(0))[0])
        if not width:
            raise InvalidFeaturesError(f"{path}, row group {first}: the first vector has no numbers.")
        counts = [_count_labelled(file, path, group, beside) for group in range(len(sizes))] if labelled else sizes
        partitions = [
            Partition(path, group, size, count)
            for group, (size, count) in enumerate(zip(sizes, counts, strict=True))
            if size
        ]
        return Survey(path, partitions, width, _label_kind(path, schema.field(beside)) if labelled else None)


def check_widths(surveys: list[Survey], n_features: int | None = None) -> None:
    """Raise if vectors are not as wide as those of the first file, or as an encoder takes."""
    for each in surveys:
        if n_features is not None and each.width != n_features:
            raise InvalidFeaturesError(
                f"{each.path} has vectors of {each.width} numbers, but the encoder takes {n_features}."
            )
        if each.width != surveys[0].width:
            raise InvalidFeaturesError(
                f"{each.path} has vectors of {each.width} numbers, {surveys[0].path} of {surveys[0].width}; "
                "all must have one width."
            )


def read(partition: Partition, vectors: str, beside: str, width: int) -> Iterator[tuple[str, NDArray[Any], Any]]:
    """Yield batches of vectors and the Arrow array beside them, with the name of their place."""
    with open_file(partition.path) as file:
        start, n_rows = 0, max(1, _VALUES_PER_BATCH // width)
        kept: dict[str, Any] = {"row_groups": [partition.row_group], "columns": [vectors, beside]}
        for batch in file.iter_batches(n_rows, **kept, use_threads=False):
            place = f"{partition.path}, row group {partition.row_group}" + (f", counted from row {start}" * bool(start))
            with named(place):
                try:
                    rows = vectors_of(batch.column(vectors), vectors, width)
                except LengthError as error:
                    raise InvalidFeaturesError(
                        f"row {error.row} has {error.n_numbers} numbers; all before have {width}."
                    ) from error
                check_finite(rows, rows.dtype)
            yield place, rows, batch.column(beside)
            start += len(rows)


def read_labelled(
    partitions: Iterable[Partition], vectors: str, labels: str, width: int, start: int, stop: int
) -> Iterator[tuple[str, NDArray[Any], Labels | LabelSets]]:
    """Yield rows that have a label and their labels, from the ``start``-th of these partitions to the ``stop``-th."""
    at = 0
    for partition in partitions:
        if at >= stop or at + partition.n_labelled <= start:
            at += partition.n_labelled
            continue
        for place, rows, column in read(partition, vectors, labels, width):
            with named(place):
                targets, labelled = check_targets(column.to_pylist(), len(rows))
            if labelled is not None:
                rows, targets = rows[labelled], _some(targets, labelled)  # noqa: PLW2901
            wanted = slice(max(start - at, 0), max(stop - at, 0))
            at += len(rows)
            if len(rows[wanted]):
                yield place, rows[wanted], _some(targets, wanted)
            if at >= stop:
                break


@contextmanager
def named(place: str) -> Iterator[None]:
    """Put the place of the rows into an error about them."""
    try:
        yield
    except InvalidInputError as error:
        raise type(error)(f"{place}: {error}") from error


def _count_labelled(file: Any, path: Path, group: int, labels: str) -> int:
    count = 0
    for batch in file.iter_batches(_LABELS_PER_BATCH, row_groups=[group], columns=[labels], use_threads=False):
        with named(f"{path}, row group {group}"):
            labelled = check_targets(batch.column(0).to_pylist(), len(batch))[1]
        count += len(batch) if labelled is None else int(labelled.sum())
    return count


def _label_kind(path: Path, field: Any) -> str:
    """Return "integers" or "strings", for one label per row or lists of them."""
    types, kind = import_pyarrow().types, field.type
    while is_list(kind) or types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind):
        return "strings"
    if is_number(kind) or types.is_boolean(kind):
        return "integers"
    raise InvalidLabelsError(f"{path}: column {field.name!r} holds {field.type}; labels are integers or strings.")


def _some(targets: Labels | LabelSets, rows: slice | NDArray[Any]) -> Labels | LabelSets:
    return targets.take(rows) if isinstance(targets, LabelSets) else targets[rows]
