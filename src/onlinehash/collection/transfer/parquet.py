"""Parquet, by way of Arrow: read batch by batch, written one row group per chunk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import whole_file
from onlinehash.collection.transfer.chunks import Chunk, Columns, Layout, Sheet
from onlinehash.exceptions import FileFormatError, MissingExtraError

PLACE = "row"


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError.of("pyarrow", "arrow") from error
    return pyarrow, pyarrow.parquet


def layout(path: Path, columns: Columns) -> Layout:
    """Return which columns are what; the vector is one of lists, or all of numbers that are nothing else."""
    arrow, parquet = _arrow()
    try:
        with parquet.ParquetFile(path) as file:
            return _layout(arrow, path, columns, file.schema_arrow)
    except arrow.ArrowException as error:
        raise _damaged(path, error) from error


def _layout(arrow: Any, path: Path, columns: Columns, schema: Any) -> Layout:
    def is_number(kind: Any) -> bool:
        return bool(arrow.types.is_floating(kind) or arrow.types.is_integer(kind))

    lists = [field.name for field in schema if _is_list(arrow, field.type) and is_number(field.type.value_type)]
    numbers = [field.name for field in schema if is_number(field.type)]
    found = columns.layout(path, schema.names, lists=lists, numbers=numbers)
    if not found.vectors:
        raise FileFormatError(f"{path} has no column 'vectors', but {', '.join(schema.names)}.")
    return found


def _is_list(arrow: Any, kind: Any) -> bool:
    types = arrow.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _damaged(path: Path, error: Exception) -> FileFormatError:
    return FileFormatError(f"{path} is not a Parquet file, or damaged: {error}")


def read(path: Path, columns: Columns, batch: int) -> Iterator[Chunk]:
    """Yield the rows of a file."""
    arrow, parquet = _arrow()
    done, width = 0, None
    try:
        with parquet.ParquetFile(path) as file:
            schema, total = file.schema_arrow, file.metadata.num_rows
            found = _layout(arrow, path, columns, schema)
            roles = (found.id, found.labels, found.payload)
            wanted = list(dict.fromkeys(name for name in (*roles, *found.vectors) if name is not None))
            first = found.vectors[0]
            for table in file.iter_batches(batch, columns=wanted):
                if _is_list(arrow, schema.field(first).type) or len(found.vectors) == 1:
                    features = _vectors(arrow, table[first], width, first)
                else:
                    features = np.column_stack([_column(table[name], name) for name in found.vectors])
                width = features.shape[1]
                ids, labels, payload = (None if name is None else table[name].to_pylist() for name in roles)
                places = range(done + 1, done + len(features) + 1)
                done += len(features)
                yield Chunk(features, ids, labels, None if payload is None else _plain(payload), places, done, total)
    except _RowError as error:
        raise FileFormatError(f"{path}, row {done + error.row + 1}: {error}") from error
    except arrow.ArrowException as error:
        raise _damaged(path, error) from error


def _column(column: Any, name: str) -> NDArray[Any]:
    numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind not in "iuf":
        raise _RowError(0, f"column {name!r} holds {column.type}, not numbers.")
    return numbers


def _vectors(arrow: Any, column: Any, width: int | None, name: str) -> NDArray[Any]:
    """Return a column of lists as rows of numbers; a list that is none, or of another length, is named by its row."""
    kind = column.type
    if arrow.types.is_floating(kind) or arrow.types.is_integer(kind):
        return _column(column, name)[:, np.newaxis]
    if arrow.types.is_fixed_size_list(kind):
        lengths = np.full(len(column), kind.list_size)
    elif arrow.types.is_list(kind) or arrow.types.is_large_list(kind):
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    else:
        raise _RowError(0, f"column {name!r} holds {kind}, not lists of numbers.")
    lengths = np.where(column.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    width = int(lengths[0]) if width is None else width
    if (lengths != width).any() or not width:
        wrong = int(np.argmax((lengths != width) | (lengths == 0)))
        raise _RowError(wrong, f"{name!r} has {lengths[wrong]} numbers; the first row has {width}.")
    values = column.flatten()
    numbers = values.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind not in "iuf":
        raise _RowError(0, f"column {name!r} holds {kind}, not lists of numbers.")
    return np.asarray(numbers.reshape(len(column), width))


class _RowError(FileFormatError):
    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


def _plain(payload: list[Any]) -> list[Any]:
    """Return payloads: of text what it means as JSON, or else the text."""
    return [_meaning(value) if isinstance(value, str) else value for value in payload]


def _meaning(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def write(path: Path, sheet: Sheet) -> None:
    """Write columns id, vector (lists of fixed length), labels (lists) and payload (JSON)."""
    arrow, parquet = _arrow()
    kinds = {"int": arrow.int64(), "str": arrow.string()}
    numbers = arrow.from_numpy_dtype(sheet.dtype)
    schema = arrow.schema(
        {
            "id": kinds[sheet.id_type],
            "vectors": arrow.list_(numbers, sheet.n_features),
            "labels": arrow.list_(kinds[sheet.label_kind or "int"]),
            "payload": arrow.string(),
        }
    )
    with whole_file(path) as file, parquet.ParquetWriter(file, schema) as writer:
        for rows in sheet:
            vectors = arrow.FixedSizeListArray.from_arrays(rows.vectors.ravel(), sheet.n_features)
            columns = [rows.ids, vectors, [_listed(text) for text in rows.labels], rows.payloads]
            arrays = [
                some if isinstance(some, arrow.Array) else arrow.array(some, field.type)
                for some, field in zip(columns, schema, strict=True)
            ]
            writer.write_batch(arrow.record_batch(arrays, schema=schema))


def _listed(labels: str | None) -> list[Any] | None:
    if labels is None:
        return None
    value = json.loads(labels)
    return value if isinstance(value, list) else [value]
