"""Streams into a collection: Redis Streams, NATS JetStream, JSON lines; every message exactly once."""

from __future__ import annotations

import os
from pathlib import Path

from onlinehash._internal.plugins import plugin
from onlinehash.exceptions import DataNotFoundError, InvalidInputError
from onlinehash.streams.consumer import Consumer, ConsumerStats
from onlinehash.streams.source import Address, Source, SourceError, UnreachableError

SOURCES = {
    "jsonl": "onlinehash.streams.files:JsonLinesSource",
    "nats": "onlinehash.streams.nats:NatsSource",
    "redis": "onlinehash.streams.redis:RedisSource",
    "rediss": "onlinehash.streams.redis:RedisSource",
    "tls": "onlinehash.streams.nats:NatsSource",
}
"""Our sources by the scheme of an address, which they are made with, or the ending of a path."""

_EXAMPLES = "redis://host:port/0/stream, nats://host:port/stream or a .jsonl file"


def open_source(place: str | os.PathLike[str]) -> Source:
    """Return the source of messages at an address or path; nothing is read or connected to yet.

    Parameters
    ----------
    place : str or path
        ``redis://host:port/0/stream?group=...``, ``nats://host:port/stream?subject=...&durable=...&ack_wait=10``, or a
        ``.jsonl`` file. Other packages add schemes and endings with the entry points ``onlinehash.streams``: a
        name, and a callable that makes a :class:`Source` from an :class:`Address` or a path.

    Examples
    --------
    >>> open_source("redis://me:secret@localhost:6379/0/items?group=photos")
    <RedisSource redis://localhost:6379/0/items>
    """
    scheme, separator, _ = str(place).partition("://")
    target: Address | Path
    if separator:
        target = Address(str(place))
        kind, shown = scheme, target.shown
    else:
        target = Path(place)
        kind, shown = target.suffix.lower().removeprefix("."), str(place)
        if not target.exists():
            raise DataNotFoundError(f"There is no {target}; give {_EXAMPLES}.")
    found = plugin("onlinehash.streams", kind, SOURCES)
    if found is None:
        raise InvalidInputError(f"{shown} is nothing that items come from; give {_EXAMPLES}.")
    source: Source = found.load()(target)
    return source


__all__ = ["Address", "Consumer", "ConsumerStats", "Source", "SourceError", "UnreachableError", "open_source"]
