"""Parquet: a file, or a folder of files in order of name; a message a row."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from onlinehash.collection.collection import Collection
from onlinehash.collection.sources.dead_letters import DeadLetterFile
from onlinehash.collection.sources.message import Message
from onlinehash.collection.sources.source import DeadLetter, Source, SourceError
from onlinehash.collection.transfer.chunks import Columns
from onlinehash.exceptions import DataNotFoundError, FileFormatError, MissingExtraError

try:
    import pyarrow
    from pyarrow.parquet import ParquetFile
except ImportError as missing:
    raise MissingExtraError.of("pyarrow", "arrow") from missing


class ParquetSource(Source):
    """Files with columns id, vector (lists of numbers), labels, payload and deleted; the last three may be missing.

    The collection remembers of every file how many rows it has, and by its metadata which file that was. Files are
    read once they are there under their name, so write them aside and move them. A row that cannot be applied goes to
    ``<file>.dead.jsonl``.

    Parameters
    ----------
    path : path
        A file, or a folder of which all files ending in ``.parquet`` are read.
    """

    ends = True

    def __init__(self, path: Path) -> None:
        self.place, self._path = str(path), path

    def start(self, collection: Collection) -> None:
        """Look which rows of which files are in the collection."""
        self._collection = collection
        self._rows: dict[Path, tuple[int, int]] = {}  # of the files looked at: read, and in all
        self._dead: dict[Path, DeadLetterFile] = {}
        self._digests: dict[Path, str] = {}
        for file in self._files():
            self._look(file)
        self._reading: Iterator[list[Message]] = iter(())

    def _files(self) -> list[Path]:
        if self._path.is_file():
            return [self._path]
        if not self._path.is_dir():
            raise DataNotFoundError(f"There is no folder {self._path}.")
        return sorted(self._path.glob("*.parquet"))

    def _look(self, file: Path) -> None:
        digest, n_rows = _metadata(file)
        checkpoint = self._collection.checkpoint(_checkpoint(file)) or {"row": 0, "digest": digest}
        if checkpoint["digest"] != digest:
            raise SourceError(
                f"{file} has changed: {checkpoint['row']} rows of the one before are in the collection. "
                "Give the new file another name, or restore the one that was there."
            )
        self._digests[file], self._dead[file] = digest, DeadLetterFile(file)
        self._rows[file] = checkpoint["row"], n_rows

    def fetch(self, limit: int, wait: float) -> list[Message]:
        """Return the next rows."""
        if (messages := next(self._reading, None)) is None:
            self._reading = self._read(limit)
            messages = next(self._reading, [])
        if wait and not messages:
            time.sleep(wait)
        return messages

    def _read(self, limit: int) -> Iterator[list[Message]]:
        """Yield the rows of the first file of which some are left."""
        for file in self._files():
            if file not in self._rows:
                self._look(file)
            row, n_rows = self._rows[file]
            if row < n_rows:
                for messages in _messages(file, row, limit):
                    self._rows[file] = messages[-1].handle[1], n_rows
                    yield messages
                return

    def checkpoint(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return how many rows of each file are in with these messages; they are of one file."""
        file, row = messages[-1].handle
        return {_checkpoint(file): {"row": row, "digest": self._digests[file]}}

    def put_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Write rows to the file of dead ones."""
        for letter in letters:
            self._dead[letter.message.handle[0]].put([letter])

    def lag(self) -> int:
        """Return the number of rows left."""
        left = 0
        for file in self._files():
            if file not in self._rows:
                self._look(file)
            row, n_rows = self._rows[file]
            left += n_rows - row
        return left

    def close(self) -> None:
        """Close the file that is being read."""
        self._reading = iter(())


def _checkpoint(file: Path) -> str:
    return f"source:parquet:{file.resolve()}"


def _metadata(file: Path) -> tuple[str, int]:
    """Return what tells a file from others, a digest of the metadata at its end, and its number of rows."""
    try:
        with ParquetFile(file) as parquet:
            n_rows, names = parquet.metadata.num_rows, parquet.schema_arrow.names
    except pyarrow.ArrowException as error:
        raise FileFormatError(f"{file} is not a Parquet file, or damaged: {error}") from error
    for role in ("id", "vectors"):
        if not set(Columns.USUAL[role]) & set(names):
            raise FileFormatError(f"{file} has no column {role!r}, but {', '.join(names)}; rename them.")
    with file.open("rb") as raw:
        raw.seek(-8, os.SEEK_END)
        length = int.from_bytes(raw.read(4), "little")
        raw.seek(-8 - length, os.SEEK_END)
        return sha256(raw.read(length)).hexdigest()[:16], n_rows


def _messages(file: Path, done: int, limit: int) -> Iterator[list[Message]]:
    """Yield rows from one on; row groups before it are not read."""
    try:
        with ParquetFile(file) as parquet:
            names = {name for names in Columns.USUAL.values() for name in names} | {"deleted"}
            columns = [name for name in parquet.schema_arrow.names if name in names]
            group, start = 0, 0
            while start + parquet.metadata.row_group(group).num_rows <= done:
                start += parquet.metadata.row_group(group).num_rows
                group += 1
            groups = range(group, parquet.num_row_groups)
            for table in parquet.iter_batches(limit, row_groups=groups, columns=columns):
                rows = [
                    Message(start + i, content, (file, start + i + 1))
                    for i, content in enumerate(_rows(table))
                    if start + i >= done
                ]
                start += table.num_rows
                if rows:
                    yield rows
    except pyarrow.ArrowException as error:
        raise FileFormatError(f"{file} is damaged: {error}") from error


def _rows(table: Any) -> Iterator[dict[str, Any]]:
    """Yield rows by column."""
    names = table.schema.names
    columns = [_values(name, column) for name, column in zip(names, table.columns, strict=True)]
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def _values(name: str, column: Any) -> list[Any]:
    """Return the values of a column: lists of real numbers as arrays, and payloads that are text as what they say."""
    kind = getattr(column.type, "value_type", None)
    if kind is not None and pyarrow.types.is_floating(kind):
        return [None if not one.is_valid else one.values.to_numpy(zero_copy_only=False) for one in column]
    values: list[Any] = column.to_pylist()
    if name == "payload":
        return [value.encode() if isinstance(value, str) else value for value in values]
    return values
