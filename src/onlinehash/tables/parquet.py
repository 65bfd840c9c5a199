"""Parquet, by way of Arrow: read batch by batch, written one row group per chunk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onlinehash.exceptions import DataNotFoundError, FileFormatError
from onlinehash.tables.arrow import chunks_of, import_pyarrow, layout_of, write_chunks
from onlinehash.tables.columns import Columns, Layout
from onlinehash.tables.rows import Chunk, Sheet

_BUFFER = 1 << 20  # bytes of a file read at a time, rather than all of a row group


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Give a Parquet file to read from."""
    pa = import_pyarrow()
    try:
        with pa.parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
            yield file
    except FileNotFoundError as error:
        raise DataNotFoundError(f"There is no file {path}; every worker must find it there.") from error
    except pa.ArrowException as error:
        raise FileFormatError(f"{path} is not a Parquet file, or damaged: {error}") from error


def layout(path: Path, columns: Columns) -> Layout:
    """Return the role of each column."""
    with open_parquet(path) as file:
        return layout_of(path, columns, file.schema_arrow)


def read(path: Path, columns: Columns, batch_size: int) -> Iterator[Chunk]:
    """Yield the rows of a file."""
    with open_parquet(path) as file:
        found = layout_of(path, columns, file.schema_arrow)
        roles = (found.id, found.labels, found.payload, *found.vectors)
        wanted = [name for name in dict.fromkeys(roles) if name is not None]
        yield from chunks_of(file.iter_batches(batch_size, columns=wanted), path, found, file.metadata.num_rows)


def read_records(path: Path, names: list[str], start: int, batch_size: int) -> Iterator[list[dict[str, Any]]]:
    """Yield rows as mappings from name to value, from one row on; row groups before it are not read.

    Lists of real numbers are arrays.
    """
    with open_parquet(path) as file:
        group, before = 0, 0
        while before + file.metadata.row_group(group).num_rows <= start:
            before += file.metadata.row_group(group).num_rows
            group += 1
        groups = range(group, file.num_row_groups)
        for batch in file.iter_batches(batch_size, row_groups=groups, columns=names):
            rest = batch.slice(max(0, start - before))
            before += batch.num_rows
            if rest.num_rows:
                columns = [_values(rest[name]) for name in names]
                yield [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: Any) -> list[Any]:
    kind = getattr(column.type, "value_type", None)
    if kind is not None and import_pyarrow().types.is_floating(kind):
        return [None if not one.is_valid else one.values.to_numpy(zero_copy_only=False) for one in column]
    return list(column.to_pylist())


def write(path: Path, sheet: Sheet) -> None:
    """Write one row group per chunk."""
    write_chunks(path, sheet, import_pyarrow().parquet.ParquetWriter)
