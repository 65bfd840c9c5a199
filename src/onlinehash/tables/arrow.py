"""Arrow: record batches as rows, in ``.arrow`` files and in streams; Parquet is read by way of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import whole_file
from onlinehash.exceptions import FileFormatError, needs_extra
from onlinehash.tables.columns import Columns, Layout
from onlinehash.tables.rows import Chunk, Sheet, json_or_text


class LengthError(FileFormatError):
    """A list of a column has another length than the first."""

    def __init__(self, name: str, row: int, n_numbers: int, width: int) -> None:
        super().__init__(f"{name!r} has {n_numbers} numbers; the first row has {width}.")
        self.row, self.n_numbers, self.width = row, n_numbers, width


def import_pyarrow() -> Any:
    """Return the module ``pyarrow``, with its submodules."""
    with needs_extra("pyarrow", "arrow"):
        import pyarrow.ipc
        import pyarrow.parquet
    return pyarrow


# ---------------------------------------------------------------------- columns


def is_list(kind: Any) -> bool:
    """Return whether a type is that of lists."""
    types = import_pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_number(kind: Any) -> bool:
    """Return whether a type is that of real numbers."""
    types = import_pyarrow().types
    return bool(types.is_floating(kind) or types.is_integer(kind))


def layout_of(path: Path, columns: Columns, schema: Any) -> Layout:
    """Return the role of each column; the vector is one of lists, or all of numbers that are nothing else."""
    lists = [field.name for field in schema if is_list(field.type) and is_number(field.type.value_type)]
    numbers = [field.name for field in schema if is_number(field.type)]
    found = columns.layout(path, schema.names, lists=lists, numbers=numbers)
    if not found.vectors:
        raise FileFormatError(f"{path} has no column 'vectors', but {', '.join(schema.names)}.")
    return found


def list_lengths(column: Any) -> NDArray[np.int64]:
    """Return how many numbers each list has; 0 where there is no list."""
    if import_pyarrow().types.is_fixed_size_list(column.type):
        return np.where(column.is_valid(), column.type.list_size, 0)
    return np.asarray(column.value_lengths().fill_null(0))


def vectors_of(column: Any, name: str, width: int | None = None) -> NDArray[Any]:
    """Return a column of lists as rows of numbers; one of numbers has one number per row."""
    if is_number(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))[:, np.newaxis]
    if not is_list(column.type) or not is_number(column.type.value_type):
        raise FileFormatError(f"column {name!r} holds {column.type}, not lists of numbers.")
    lengths = list_lengths(column)
    width = int(lengths[0]) if width is None else width
    wrong = (lengths != width) | (lengths == 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise LengthError(name, row, int(lengths[row]), width)
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), width))


def chunks_of(batches: Iterable[Any], path: Path, found: Layout, total: int) -> Iterator[Chunk]:
    """Yield record batches as chunks."""
    done, width = 0, None
    for batch in batches:
        try:
            parts = [vectors_of(batch[name], name, width if len(found.vectors) == 1 else 1) for name in found.vectors]
        except FileFormatError as error:
            row = done + getattr(error, "row", 0) + 1
            raise FileFormatError(f"{path}, row {row}: {error}") from error
        vectors = parts[0] if len(parts) == 1 else np.hstack(parts)
        width = vectors.shape[1]
        roles = (found.id, found.labels, found.payload)
        ids, labels, payloads = (None if name is None else batch[name].to_pylist() for name in roles)
        if payloads is not None:
            payloads = [json_or_text(value) if isinstance(value, str) else value for value in payloads]
        places = range(done + 1, done + len(vectors) + 1)
        done += len(vectors)
        yield Chunk(ids, vectors, labels, payloads, places, done, total)


def write_chunks(path: Path, sheet: Sheet, make_writer: Callable[[Any, Any], Any]) -> None:
    """Write a record batch per chunk: id, vectors (lists of fixed length), labels (lists), payload (JSON)."""
    pa = import_pyarrow()
    kinds = {"int": pa.int64(), "str": pa.string()}
    ids, vectors = sheet.first.ids or [0], sheet.first.vectors
    schema = pa.schema(
        {
            "id": kinds["int" if isinstance(ids[0], int) else "str"],
            "vectors": pa.list_(pa.from_numpy_dtype(vectors.dtype), vectors.shape[1]),
            "labels": pa.list_(kinds[sheet.label_type]),
            "payload": pa.string(),
        }
    )
    with whole_file(path) as file, make_writer(file, schema) as writer:
        for chunk in sheet.chunks:
            labels = [some if isinstance(some, list | tuple | None) else [some] for some in chunk.labels or ()]
            payloads = [None if some is None else json.dumps(some) for some in chunk.payloads or ()]
            columns = [
                pa.array(chunk.ids, schema.field("id").type),
                pa.FixedSizeListArray.from_arrays(chunk.vectors.ravel(), vectors.shape[1]),
                pa.array(labels, schema.field("labels").type),
                pa.array(payloads, pa.string()),
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))


# ---------------------------------------------------------------------- files


def layout(path: Path, columns: Columns) -> Layout:
    """Return the role of each column."""
    with _open(path) as file:
        return layout_of(path, columns, file.schema)


def read(path: Path, columns: Columns, batch_size: int) -> Iterator[Chunk]:
    """Yield the rows of a file."""
    with _open(path) as file:
        found = layout_of(path, columns, file.schema)
        table = file.read_all()  # stays on disk, unless it is compressed
        starts = range(0, len(table), batch_size)
        parts = (table.slice(start, batch_size).combine_chunks().to_batches()[0] for start in starts)
        yield from chunks_of(parts, path, found, len(table))


def write(path: Path, sheet: Sheet) -> None:
    """Write one record batch per chunk."""
    write_chunks(path, sheet, import_pyarrow().ipc.new_file)


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    pa = import_pyarrow()
    try:
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
            yield file
    except (pa.ArrowException, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path} is not an Arrow file, or damaged: {error}") from error


# ---------------------------------------------------------------------- streams


def parse_stream(content: bytes, max_rows: int, max_values: int) -> dict[str, Any]:
    """Return the columns id, vectors (an array) and, optionally, label and payload of an Arrow stream.

    The content is not trusted: only plain columns are read, of the types that these columns need, and not before their
    lengths are known. Compressed, dictionary, run-end-encoded and null columns, whose lengths a few bytes may claim,
    are refused.
    """
    pa = import_pyarrow()
    try:
        for message in pa.ipc.MessageReader.open_stream(content):
            if message.type == "dictionary" or _is_compressed(message.metadata.to_pybytes(), message.type):
                raise FileFormatError("has compressed buffers or dictionaries; send plain columns")
        with pa.ipc.open_stream(content) as stream:
            _check_columns(stream.schema)
            table = stream.read_all()
        if not len(table):
            raise FileFormatError("has no rows; send at least one")
        if len(table) > max_rows:
            raise FileFormatError(f"has {len(table)} rows, more than {max_rows}; send several smaller requests")
        table.validate(full=True)
        columns = {name: table[name].combine_chunks() for name in table.column_names}
    except FileFormatError:
        raise
    except (pa.ArrowException, ValueError, OSError, struct.error) as error:
        raise FileFormatError(f"cannot be read as an Arrow stream: {str(error)[:200]}") from error
    lists, labels = columns.pop("vectors"), columns.get("label")
    if lists.null_count or lists.flatten().null_count:
        raise FileFormatError("has gaps in the column vectors; send numbers")
    n_labels = len(labels.flatten()) if labels is not None and is_list(labels.type) else 0
    if n_labels > max_values:
        raise FileFormatError(f"has {n_labels} labels, more than {max_values}; send several smaller requests")
    vectors = vectors_of(lists, "vectors")
    return {name: column.to_pylist() for name, column in columns.items()} | {"vectors": vectors}


def _check_columns(schema: Any) -> None:
    """Refuse other columns than those of items, and other types than they need."""
    types = import_pyarrow().types

    def is_id(kind: Any) -> bool:
        return bool(types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind))

    needs = {
        "id": ("integers or text", is_id),
        "vectors": ("lists of numbers", lambda kind: is_list(kind) and is_number(kind.value_type)),
        "label": (
            "integers, text, or lists of them",
            lambda kind: is_id(kind) or (is_list(kind) and is_id(kind.value_type)),
        ),
        "payload": ("JSON text", lambda kind: types.is_string(kind) or types.is_large_string(kind)),
    }
    names = schema.names
    if len(set(names)) < len(names):
        raise FileFormatError("has two columns of one name; rename one of them")
    if not {"id", "vectors"} <= set(names) <= needs.keys():
        raise FileFormatError(
            f"has the columns {', '.join(names)[:200]}; send id, vectors and, optionally, label and payload"
        )
    for field in schema:
        rule, fits = needs[field.name]
        if not fits(field.type):
            raise FileFormatError(f"has a column {field.name} of {str(field.type)[:80]}; send {rule}")


def _is_compressed(metadata: bytes, kind: str) -> bool:
    """Return whether a message is compressed, read from its flatbuffer before anything is decompressed."""
    if kind != "record batch":
        return False
    message = struct.unpack_from("<I", metadata)[0]
    header = _table_field(metadata, message, 2)
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    return bool(_table_field(metadata, batch, 3) != batch)


def _table_field(buffer: bytes, table: int, number: int) -> int:
    """Return where a field of a flatbuffer table is; the table itself if it has no such field."""
    fields = table - struct.unpack_from("<i", buffer, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", buffer, fields)[0]:
        return table
    return int(table + struct.unpack_from("<H", buffer, fields + 4 + 2 * number)[0])
