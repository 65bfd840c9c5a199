"""Streams into a collection: Redis Streams, NATS JetStream, JSON lines, Parquet; every message exactly once."""

from __future__ import annotations

import os
from pathlib import Path

from onlinehash.exceptions import DataNotFoundError, InvalidInputError
from onlinehash.streams.address import Address
from onlinehash.streams.consumer import Consumer, ConsumerStats
from onlinehash.streams.jsonl import JsonLinesSource
from onlinehash.streams.source import Source, SourceError, UnreachableError

_KINDS = "redis://host:port/0/stream, nats://host:port/stream, a .jsonl or .parquet file, or a folder of .parquet files"


def open_source(place: str | os.PathLike[str]) -> Source:
    """Return the source of messages at an address or path; nothing is read or connected to yet.

    Parameters
    ----------
    place : str or path
        ``redis://host:port/0/stream?group=...&consumer=...&idle=60``,
        ``nats://host:port/stream?subject=...&durable=...&ack_wait=10``, a ``.jsonl`` or ``.parquet`` file, or a folder
        of ``.parquet`` files.

    Examples
    --------
    >>> open_source("redis://me:secret@localhost:6379/0/items?group=photos")
    <RedisSource redis://localhost:6379/0/items>
    """
    scheme, separator, _ = str(place).partition("://")
    if separator:
        address = Address(str(place))
        if scheme in ("redis", "rediss"):
            from onlinehash.streams.redis import RedisSource

            return RedisSource(address)
        if scheme in ("nats", "tls"):
            from onlinehash.streams.nats import NatsSource

            return NatsSource(address)
        raise InvalidInputError(f"{address.shown} is nothing that items come from; give {_KINDS}.")
    path = Path(place)
    if not path.exists():
        raise DataNotFoundError(f"There is no {path}; give {_KINDS}.")
    if path.is_dir() or path.suffix.lower() == ".parquet":
        from onlinehash.streams.parquet import ParquetSource

        return ParquetSource(path)
    if path.suffix.lower() == ".jsonl":
        return JsonLinesSource(path)
    raise InvalidInputError(f"{path} is nothing that items come from; give {_KINDS}.")


__all__ = ["Consumer", "ConsumerStats", "Source", "SourceError", "UnreachableError", "open_source"]
