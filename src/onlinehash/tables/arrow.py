"""Parquet and Arrow files, read batch by batch, written one record batch per chunk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.ipc
import pyarrow.parquet
from numpy.typing import NDArray

from onlinehash._internal.files import whole_file
from onlinehash.exceptions import FileFormatError
from onlinehash.tables.columns import Chunk, Columns, Layout
from onlinehash.tables.text import json_or_text

_BYTES_READ_AHEAD = 1 << 20  # of a Parquet file, rather than all of a row group


# ---------------------------------------------------------------------- columns


def is_list(kind: Any) -> bool:
    """Return whether a type is that of lists of real numbers or of anything else."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_number(kind: Any) -> bool:
    """Return whether a type is that of real numbers."""
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def vectors_of(column: Any, name: str, width: int | None = None, n_before: int = 0) -> NDArray[Any]:
    """Return a column of lists as rows of numbers; one of numbers has one number per row.

    An error names the row, counted from 1 after ``n_before`` others.
    """
    if is_number(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))[:, np.newaxis]
    if not is_list(column.type) or not is_number(column.type.value_type):
        raise FileFormatError(f"column {name!r} holds {column.type}, not lists of numbers.")
    lengths = np.asarray(pa.compute.list_value_length(column).fill_null(0))
    width = int(lengths[0]) if width is None else width
    wrong = (lengths != width) | (lengths == 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise FileFormatError(
            f"row {n_before + row + 1}: {name!r} has {lengths[row]} numbers; the first row has {width}."
        )
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), width))


# ---------------------------------------------------------------------- files


@contextmanager
def open_file(path: Path) -> Iterator[Any]:
    """Give a Parquet file to read from, or one that ends in .arrow."""
    is_arrow = path.suffix.lower() == ".arrow"
    try:
        if is_arrow:
            with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
                yield file
        else:
            with pa.parquet.ParquetFile(path, buffer_size=_BYTES_READ_AHEAD, pre_buffer=False) as file:
                yield file
    except pa.ArrowException as error:
        kind = "an Arrow" if is_arrow else "a Parquet"
        raise FileFormatError(f"{path} is not {kind} file, or damaged: {error}") from error


def layout(path: Path, columns: Columns) -> Layout:
    """Return the role of each column."""
    with open_file(path) as file:
        return _layout(path, columns, file)


def _layout(path: Path, columns: Columns, file: Any) -> Layout:
    """Return the role of each column; the vector is one of lists, or all of numbers that are nothing else."""
    schema = getattr(file, "schema_arrow", None) or file.schema
    lists = [field.name for field in schema if is_list(field.type) and is_number(field.type.value_type)]
    numbers = [field.name for field in schema if is_number(field.type)]
    found = columns.layout(path, schema.names, lists=lists, numbers=numbers)
    if not found.vectors and found.documents is None:
        raise FileFormatError(f"{path} has no column 'vectors', but {', '.join(schema.names)}.")
    return found


def read(path: Path, columns: Columns, batch_size: int) -> Iterator[Chunk]:
    """Yield the rows of a file."""
    with open_file(path) as file:
        found = _layout(path, columns, file)
        if path.suffix.lower() == ".parquet":
            total, batches = file.metadata.num_rows, file.iter_batches(batch_size, columns=found.names)
        else:
            table = file.read_all()  # stays on disk, unless it is compressed
            starts, total = range(0, len(table), batch_size), len(table)
            batches = (table.slice(start, batch_size).combine_chunks().to_batches()[0] for start in starts)
        done, width = 0, None
        for batch in batches:
            try:
                n_wanted = width if len(found.vectors) == 1 else 1
                parts = [vectors_of(batch[name], name, n_wanted, done) for name in found.vectors]
            except FileFormatError as error:
                raise FileFormatError(f"{path}, {error}") from error
            vectors = np.hstack(parts) if parts else np.empty((len(batch), 0))
            width, places = vectors.shape[1], range(done + 1, done + len(batch) + 1)
            done += len(batch)
            names = (found.id, found.labels, found.documents, *found.payload_names)
            values: dict[Any, Any] = {name: batch[name].to_pylist() for name in names if name is not None}
            ids, labels, documents = values.get(found.id), values.get(found.labels), values.get(found.documents)
            if documents is not None and not all(documents):
                row = places[[bool(document) for document in documents].index(False)]
                raise FileFormatError(f"{path}, row {row}: there is no {found.documents!r}.")
            payloads = found.payloads(values)
            if isinstance(found.payload, str) and payloads is not None:
                payloads = [json_or_text(value) if isinstance(value, str) else value for value in payloads]
            yield Chunk(ids, vectors, labels, payloads, places, done, total, documents=documents)


def write(path: Path, first: Chunk, chunks: Iterable[Chunk], n_rows: int, label_type: str) -> None:
    """Write a record batch per chunk: id, vectors (lists of fixed length), labels (lists), payload (JSON)."""
    kinds = {"int": pa.int64(), "str": pa.string()}
    width = first.vectors.shape[1]
    schema = pa.schema(
        {
            "id": kinds["int" if isinstance((first.ids or [0])[0], int) else "str"],
            "vectors": pa.list_(pa.from_numpy_dtype(first.vectors.dtype), width),
            "labels": pa.list_(kinds[label_type]),
            "payload": pa.string(),
        }
    )
    make_writer = pa.parquet.ParquetWriter if path.suffix.lower() == ".parquet" else pa.ipc.new_file
    with whole_file(path) as file, make_writer(file, schema) as writer:
        for chunk in chunks:
            labels = [some if isinstance(some, list | tuple | None) else [some] for some in chunk.labels or ()]
            payloads = [None if some is None else json.dumps(some) for some in chunk.payloads or ()]
            columns = [
                pa.array(chunk.ids, schema.field("id").type),
                pa.FixedSizeListArray.from_arrays(chunk.vectors.ravel(), width),
                pa.array(labels, schema.field("labels").type),
                pa.array(payloads, pa.string()),
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))
