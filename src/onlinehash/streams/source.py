"""The interface of a source of messages, and addresses of servers: scheme://[user:password@]host[:port]/path?name=value."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from onlinehash.collection import Collection
from onlinehash.exceptions import InvalidInputError, OnlineHashError, UnknownNameError
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


class Address:
    """The parts of an address; ``shown`` has no password.

    Examples
    --------
    >>> address = Address("redis://me:secret@localhost:6379/0/items?ack_wait=5")
    >>> address.shown, address.path, address.seconds("ack_wait", 10.0)
    ('redis://localhost:6379/0/items', '0/items', 5.0)
    """

    def __init__(self, text: str) -> None:
        try:
            parts = urlsplit(text)
            port = "" if parts.port is None else f":{parts.port}"
            self._query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        except ValueError as error:
            raise InvalidInputError(f"{text.rsplit('@', maxsplit=1)[-1]!r} is not an address: {error}.") from error
        if not parts.hostname:
            raise InvalidInputError(
                f"{parts.scheme}://{parts.path} names no host; write {parts.scheme}://host:port/..."
            )
        self.path = unquote(parts.path).strip("/")
        self.server = f"{parts.scheme}://{parts.netloc}"
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.host = f"{host}{port}"
        self.shown = f"{parts.scheme}://{self.host}/{self.path}"

    def options(self, *known: str) -> dict[str, str]:
        """Return the options after the question mark; an unknown name is refused."""
        for name in self._query:
            if name not in known:
                raise UnknownNameError.among(f"option of {self.shown}", name, known)
        return self._query

    def seconds(self, name: str, default: float) -> float:
        """Return an option that is a number of seconds."""
        try:
            value = float(self._query.get(name, default))
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            raise InvalidInputError(f"{name}={self._query[name]!r} of {self.shown} is not a number of seconds above 0.")
        return value
