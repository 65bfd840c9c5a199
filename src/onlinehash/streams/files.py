"""A file of JSON lines as a source: one message per line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from onlinehash.collection import Collection
from onlinehash.streams.message import Message
from onlinehash.streams.source import DeadLetter, Source, SourceError

_BYTES_OF_HEAD = 4096  # by which a file is recognised


class JsonLinesSource(Source):
    """A file that may grow.

    The collection stores up to which byte it has the file, and a digest of its beginning. A line that cannot be applied
    goes to ``<file>.dead.jsonl``.
    """

    ends = True

    def __init__(self, path: Path) -> None:
        self.place, self._path = str(path), path
        self._checkpoint = f"source:jsonl:{path.resolve()}"

    def start(self, collection: Collection) -> None:
        """Go on after what is in the collection."""
        kept = collection.checkpoint(self._checkpoint) or {"offset": 0, "head": self._head(0)}
        self._offset = self._first = kept["offset"]
        self._known, self._n_read = kept["head"], 0

    def _changed(self, how: str) -> SourceError:
        return SourceError(
            f"{self.place} has changed: {how}. Give the new file another name, or restore the one that was there."
        )

    def _head(self, offset: int) -> str:
        with self._path.open("rb") as file:
            return sha256(file.read(min(offset, _BYTES_OF_HEAD))).hexdigest()[:16]

    def fetch(self, limit: int, wait: float) -> list[Message]:
        """Return the next lines; the last one without a line feed only if nothing more will come (``wait=0``)."""
        size = self._path.stat().st_size
        if size < self._offset:
            raise self._changed(f"{self._offset} bytes of it are in the collection, and now it has {size}")
        if self._head(self._offset) != self._known:
            raise self._changed("it begins with something else than before")
        messages: list[Message] = []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            while len(messages) < limit and (line := file.readline()):
                if wait and not line.endswith(b"\n"):
                    break
                start, self._offset = self._offset, self._offset + len(line)
                if line.strip():
                    messages.append(Message(start, line, self._offset))
        self._known, self._n_read = self._head(self._offset), self._n_read + len(messages)
        if not messages:
            time.sleep(wait)
        return messages

    def checkpoint(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return where the last of these lines ends."""
        offset = messages[-1].handle
        return {self._checkpoint: {"offset": offset, "head": self._head(offset)}}

    def put_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Append the id, the error and the content of lines to ``<file>.dead.jsonl``, one per line, durably."""
        with self._path.with_name(f"{self._path.name}.dead.jsonl").open("a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # a line that a crash has cut off
                    file.write(b"\n")
            for message, error in letters:
                assert isinstance(message.content, bytes)
                content = message.content.rstrip(b"\r\n").decode(errors="backslashreplace")
                line = {"id": message.id, "error": error, "content": content}
                file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def lag(self) -> int:
        """Return the number of lines left, as if they were as long as those before."""
        left = max(0, self._path.stat().st_size - self._offset)
        mean = (self._offset - self._first) / self._n_read if self._n_read else 1.0
        return -int(-left // mean)
