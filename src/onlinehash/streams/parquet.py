"""Parquet: a file, or a folder of files in order of name; one message per row."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from onlinehash.collection import Collection
from onlinehash.exceptions import DataNotFoundError, FileFormatError
from onlinehash.streams.dead_letters import DeadLetterFile
from onlinehash.streams.message import DOCUMENT, Message
from onlinehash.streams.source import DeadLetter, Source, SourceError
from onlinehash.tables.arrow import import_pyarrow
from onlinehash.tables.columns import USUAL, find_column
from onlinehash.tables.parquet import open_parquet, read_records


class _File(NamedTuple):
    """A file looked at: its columns by role, its number of rows, and a digest of its metadata."""

    columns: dict[str, str]
    n_rows: int
    digest: str
    dead_letters: DeadLetterFile


class ParquetSource(Source):
    """Files with columns id, vectors (lists of numbers) or document, labels, payload and deleted.

    The last three may be missing.

    The collection stores the number of rows read from each file, and a digest of its metadata. Files are read as soon
    as they have their name, so write them under another name and move them. A row that cannot be applied goes to
    ``<file>.dead.jsonl``.
    """

    ends = True

    def __init__(self, path: Path) -> None:
        import_pyarrow()
        self.place, self._path = str(path), path

    def start(self, collection: Collection) -> None:
        """Read from the collection which rows of which files it has."""
        self._collection = collection
        self._files: dict[Path, _File] = {}
        self._n_read: dict[Path, int] = {}
        self._reading: Iterator[list[Message]] = iter(())
        self._find_files()

    def _find_files(self) -> list[Path]:
        """Return all files, each of which was looked at."""
        if self._path.is_file():
            paths = [self._path]
        elif self._path.is_dir():
            paths = sorted(self._path.glob("*.parquet"))
        else:
            raise DataNotFoundError(f"There is no folder {self._path}.")
        for path in paths:
            if path in self._files:
                continue
            file = _look(path)
            checkpoint = self._collection.checkpoint(_checkpoint(path)) or {"row": 0, "digest": file.digest}
            if checkpoint["digest"] != file.digest:
                raise SourceError(
                    f"{path} has changed: {checkpoint['row']} rows of the one before are in the collection. "
                    "Give the new file another name, or restore the one that was there."
                )
            self._files[path], self._n_read[path] = file, checkpoint["row"]
        return paths

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
        path = next((path for path in self._find_files() if self._n_read[path] < self._files[path].n_rows), None)
        if path is None:
            return
        columns = self._files[path].columns
        for records in read_records(path, list(columns.values()), self._n_read[path], limit):
            start = self._n_read[path]
            self._n_read[path] += len(records)
            yield [
                Message(row, _content(fields, columns), (path, row + 1)) for row, fields in enumerate(records, start)
            ]

    def checkpoint(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return how many rows of the file are in the collection with these messages, which are of one file."""
        path, row = messages[-1].handle
        return {_checkpoint(path): {"row": row, "digest": self._files[path].digest}}

    def put_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Write rows to the dead-letter file."""
        for letter in letters:
            self._files[letter.message.handle[0]].dead_letters.put([letter])

    def lag(self) -> int:
        """Return the number of rows left."""
        return sum(self._files[path].n_rows - self._n_read[path] for path in self._find_files())

    def close(self) -> None:
        """Close the file that is being read."""
        self._reading = iter(())


def _checkpoint(path: Path) -> str:
    return f"source:parquet:{path.resolve()}"


def _look(path: Path) -> _File:
    with open_parquet(path) as file:
        n_rows, names = file.metadata.num_rows, file.schema_arrow.names
    columns = {
        role: name for role in USUAL if (name := find_column(role, names, path, "drop all but one.")) is not None
    }
    columns |= {name: name for name in (DOCUMENT, "deleted") if name in names}
    for role, or_else in (("id", "id"), ("vectors", DOCUMENT)):
        if role not in columns and or_else not in columns:
            raise FileFormatError(f"{path} has no column {role!r}, but {', '.join(names)}; rename them.")
    with path.open("rb") as raw:
        raw.seek(-8, os.SEEK_END)
        length = int.from_bytes(raw.read(4), "little")
        raw.seek(-8 - length, os.SEEK_END)
        return _File(columns, n_rows, sha256(raw.read(length)).hexdigest()[:16], DeadLetterFile(path))


def _content(fields: dict[str, Any], columns: dict[str, str]) -> dict[str, Any]:
    """Return the fields of a row; a payload that is text is JSON where it can be, as in bytes."""
    payload = fields.get(columns.get("payload", ""))
    return {**fields, columns["payload"]: payload.encode()} if isinstance(payload, str) else fields
