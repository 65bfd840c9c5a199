"""Files as sources: JSON lines, one message per line; Parquet, a file or a folder of files, one message per row."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, NamedTuple

from onlinehash.collection import Collection
from onlinehash.exceptions import DataNotFoundError, FileFormatError
from onlinehash.streams.message import DOCUMENT, Message
from onlinehash.streams.source import DeadLetter, Source, SourceError
from onlinehash.tables.arrow import open_file, read_records
from onlinehash.tables.columns import USUAL, find_column

_BYTES_OF_HEAD = 4096  # by which a file is recognised


def _write_dead_letters(source: Path, letters: Sequence[DeadLetter]) -> None:
    """Append the id, the error and the content of messages to ``<file>.dead.jsonl``, one per line, durably."""
    with source.with_name(f"{source.name}.dead.jsonl").open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # a line that a crash has cut off
                file.write(b"\n")
        for message, error in letters:
            line = {"id": message.id, "error": error, "content": _text(message.content)}
            file.write(json.dumps(line, default=repr).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _text(content: bytes | Mapping[str, Any]) -> Any:
    if isinstance(content, bytes):
        return content.rstrip(b"\r\n").decode(errors="backslashreplace")
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in content.items()}


class JsonLinesSource(Source):
    """A file that may grow.

    The collection stores up to which byte it has the file, and a digest of its beginning. A line that cannot be applied
    goes to ``<file>.dead.jsonl``.
    """

    ends = True

    def __init__(self, path: Path) -> None:
        self.place, self._path = str(path), path
        self._checkpoint = f"source:jsonl:{path.resolve()}"
        self._file: IO[bytes] | None = None

    def start(self, collection: Collection) -> None:
        """Open the file, after what is in the collection."""
        self.close()
        self._file = self._path.open("rb")
        checkpoint = collection.checkpoint(self._checkpoint) or {"offset": 0, "head": self._head(0)}
        self._offset = checkpoint["offset"]
        self._check_size()
        if self._head(self._offset) != checkpoint["head"]:
            raise self._changed("it begins with something else than before")
        self._n_read, self._first = 0, self._offset

    def _check_size(self) -> None:
        size = self._path.stat().st_size
        if size < self._offset:
            raise self._changed(f"{self._offset} bytes of it are in the collection, and now it has {size}")

    def _changed(self, how: str) -> SourceError:
        return SourceError(
            f"{self.place} has changed: {how}. Give the new file another name, or restore the one that was there."
        )

    def _head(self, offset: int) -> str:
        assert self._file is not None
        self._file.seek(0)
        return sha256(self._file.read(min(offset, _BYTES_OF_HEAD))).hexdigest()[:16]

    def fetch(self, limit: int, wait: float) -> list[Message]:
        """Return the next lines; the last one without a line feed only if nothing more will come (``wait=0``)."""
        assert self._file is not None
        self._file.seek(self._offset)
        messages: list[Message] = []
        while len(messages) < limit and (line := self._file.readline()):
            if wait and not line.endswith(b"\n"):
                break
            start, self._offset = self._offset, self._offset + len(line)
            if line.strip():
                messages.append(Message(start, line, self._offset))
        self._n_read += len(messages)
        if not messages:
            self._check_size()
            time.sleep(wait)
        return messages

    def checkpoint(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return where the last of these lines ends."""
        offset = messages[-1].handle
        return {self._checkpoint: {"offset": offset, "head": self._head(offset)}}

    def put_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Write lines to the dead-letter file."""
        _write_dead_letters(self._path, letters)

    def lag(self) -> int:
        """Return the number of lines left, as if they were as long as those before."""
        left = max(0, self._path.stat().st_size - self._offset)
        mean = (self._offset - self._first) / self._n_read if self._n_read else 1.0
        return -int(-left // mean)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class _File(NamedTuple):
    """A file looked at: its columns by role, its number of rows, and a digest of its metadata."""

    columns: dict[str, str]
    n_rows: int
    digest: str


class ParquetSource(Source):
    """Files with columns id, vectors (lists of numbers) or document, labels, payload and deleted.

    The last three may be missing.

    The collection stores the number of rows read from each file, and a digest of its metadata. Files are read as soon
    as they have their name, so write them under another name and move them. A row that cannot be applied goes to
    ``<file>.dead.jsonl``.
    """

    ends = True

    def __init__(self, path: Path) -> None:
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
        _write_dead_letters(letters[0].message.handle[0], letters)  # a batch is of one file

    def lag(self) -> int:
        """Return the number of rows left."""
        return sum(self._files[path].n_rows - self._n_read[path] for path in self._find_files())

    def close(self) -> None:
        """Close the file that is being read."""
        self._reading = iter(())


def _checkpoint(path: Path) -> str:
    return f"source:parquet:{path.resolve()}"


def _look(path: Path) -> _File:
    with open_file(path) as file:
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
        return _File(columns, n_rows, sha256(raw.read(length)).hexdigest()[:16])


def _content(fields: dict[str, Any], columns: dict[str, str]) -> dict[str, Any]:
    """Return the fields of a row; a payload that is text is JSON where it can be, as in bytes."""
    payload = fields.get(columns.get("payload", ""))
    return {**fields, columns["payload"]: payload.encode()} if isinstance(payload, str) else fields
