"""Calls of the clients: requests to send, and results of the answers, without sending anything.

A call is a generator that yields requests, is sent their answers, and returns the result. It is thrown the error of a
request that exceeds a limit of the service.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

_FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds

T = TypeVar("T")


class Download(Protocol):
    """Takes a long answer piece by piece."""

    def start(self) -> None:
        """Forget what came, as all of it comes again."""

    def write(self, piece: bytes) -> None:
        """Take a piece."""


@dataclass(frozen=True, eq=False)
class Call:
    """A request: JSON, an array or an image as its body, and what replaces the body when the request is repeated."""

    method: str
    path: str
    body: dict[str, Any] | NDArray[Any] | bytes | None = None
    retry_body: dict[str, Any] | None = None
    query: dict[str, str] | None = None
    key: str | None = None  # by which the service knows a change that it has applied already
    pause: float = 0.0  # seconds before it is sent
    arrays: bool = False  # whether its vectors or codes may come as an array, as "array"
    into: Download | None = None  # takes the content of the answer, of which then the headers are returned


Calls = Generator[Call, Any, T]


def pauses() -> Iterator[float]:
    """Yield seconds to wait that double, each reduced at random so that clients do not return all at once."""
    pause = _FIRST_PAUSE
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, LONGEST_PAUSE)
