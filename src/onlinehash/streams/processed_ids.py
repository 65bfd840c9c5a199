"""Which messages of a server are in a collection: the ids of the last batches, stored with their items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from onlinehash.collection import Collection
from onlinehash.streams.message import Message
from onlinehash.streams.source import Source

BATCHES = 64
"""How many batches back a message is recognised.

One is enough where acknowledgements are never lost: a batch is acknowledged before the next is applied. More of them
cover a server that comes back without the last acknowledgements it had confirmed.
"""


class ProcessedIds:
    """The ids of the last batches, in as many checkpoints that are overwritten in turn.

    What is stored of another ``origin``, a stream of the same name elsewhere, is ignored.
    """

    def __init__(self, collection: Collection, name: str, origin: str) -> None:
        self._name, self._origin = name, origin
        slots = [collection.checkpoint(self._slot(i)) for i in range(BATCHES)]
        self._batches: dict[int, set[Any]] = {
            slot["batch"]: set(slot["ids"]) for slot in slots if slot is not None and slot["origin"] == origin
        }
        self._number = max((slot["batch"] + 1 for slot in slots if slot is not None), default=0)

    def _slot(self, number: int) -> str:
        return f"source:{self._name}:{number % BATCHES}"

    def __contains__(self, identifier: object) -> bool:
        return any(identifier in ids for ids in self._batches.values())

    def __iter__(self) -> Iterator[Any]:
        for ids in self._batches.values():
            yield from ids

    def checkpoint(self, ids: list[Any]) -> dict[str, Any]:
        """Return what to store with the messages of the current batch."""
        self._batches[self._number] = set(ids)
        return {self._slot(self._number): {"batch": self._number, "origin": self._origin, "ids": ids}}

    def turn(self) -> None:
        """Begin the next batch."""
        if self._number in self._batches:
            self._number += 1
            self._batches.pop(self._number - BATCHES, None)


class ServerSource(Source):
    """A source whose server names every message; the ids of the last batches are kept in the collection."""

    _processed: ProcessedIds

    def is_in(self, message: Message) -> bool:
        """Return whether a message is in the collection already."""
        return message.id in self._processed

    def checkpoint(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the ids of the batch."""
        return self._processed.checkpoint([message.id for message in messages])


def own_name(collection: Collection) -> str:
    """Return the name under which a collection is known to servers, chosen once and stored in it."""
    name: str | None = collection.checkpoint("sources")
    if name is None:
        name = f"onlinehash-{uuid4().hex[:12]}"
        collection.upsert([], [], checkpoint={"sources": name})
    return name
