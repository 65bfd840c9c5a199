"""The dead-letter file of a file: messages that cannot be applied."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onlinehash.streams.source import DeadLetter


class DeadLetterFile:
    """JSON lines with the id, the error and the content of messages, in ``<file>.dead.jsonl``.

    A message that was written before a crash, but not yet in a checkpoint, is not written again.
    """

    def __init__(self, file: Path) -> None:
        self._path = file.with_name(f"{file.name}.dead.jsonl")
        self._known: set[Any] | None = None

    def put(self, letters: Sequence[DeadLetter]) -> None:
        """Write letters that are not there yet, durably."""
        if self._known is None:
            self._known = set(self._ids())
        new = [letter for letter in letters if letter.message.id not in self._known]
        if not new:
            return
        with self._path.open("a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # a line that a crash has cut off
                    file.write(b"\n")
            for message, error in new:
                line = {"id": message.id, "error": error, "content": _text(message.content)}
                file.write(json.dumps(line, default=repr).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._known.update(letter.message.id for letter in new)

    def _ids(self) -> list[Any]:
        ids = []
        if self._path.exists():
            with self._path.open("rb") as file:
                for line in file:
                    try:
                        ids.append(json.loads(line)["id"])
                    except (ValueError, KeyError, TypeError):  # cut off, or not ours
                        continue
        return ids


def _text(content: bytes | Mapping[str, Any]) -> Any:
    if isinstance(content, bytes):
        return content.rstrip(b"\r\n").decode(errors="backslashreplace")
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in content.items()}
