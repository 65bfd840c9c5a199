"""The interface of a source of messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from onlinehash.collection import Collection
from onlinehash.exceptions import OnlineHashError
from onlinehash.streams.message import Message


class SourceError(OnlineHashError):
    """A source cannot be read: a wrong password, a name that is no stream, a file that has changed."""


class UnreachableError(SourceError, ConnectionError):
    """The server of a source does not answer; it may later."""


class DeadLetter(NamedTuple):
    """A message that cannot be applied, and why."""

    message: Message
    error: str


class Source(ABC):
    """Messages in order, at most one batch of them in memory.

    A consumer stores :meth:`checkpoint` in the collection in the same transaction as the items, and acknowledges the
    messages after that. A message that comes again although it was applied is recognised by these checkpoints.

    Attributes
    ----------
    place : str
        Its name in errors and logs, without a password.
    ends : bool
        Whether it comes to an end, as files do.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from onlinehash.streams import open_source
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.jsonl")
    ...     _ = path.write_text('{"id": "rex", "vectors": [1.0, 0.5], "label": "dog"}')
    ...     with open_source(str(path)) as source, Collection.open(Path(folder, "pets.oh"), "hcoh") as pets:
    ...         source.start(pets)
    ...         source.ends, len(source.fetch(10, wait=0))
    (True, 1)
    """

    place: str
    ends: bool = False

    @abstractmethod
    def start(self, collection: Collection) -> None:
        """Read from the checkpoints of a collection what was applied already, and connect."""

    @abstractmethod
    def fetch(self, limit: int, wait: float) -> list[Message]:
        """Return the next messages, at most ``limit``; wait for the first at most ``wait`` seconds.

        With ``wait=0`` an empty list means that there is nothing more for now.
        """

    def is_in(self, message: Message) -> bool:
        """Return whether a message is in the collection already."""
        return False

    @abstractmethod
    def checkpoint(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the checkpoint that records these messages, the first ones of a batch, as applied."""

    def acknowledge(self, messages: Sequence[Message]) -> None:  # noqa: B027  # files need not be told
        """Acknowledge a batch, and wait until the server has confirmed."""

    @abstractmethod
    def put_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Send messages to the dead letters, with the reason."""

    @abstractmethod
    def lag(self) -> int:
        """Return how many messages are yet to be acknowledged."""

    def close(self) -> None:  # noqa: B027
        """Close files and connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.place}>"
