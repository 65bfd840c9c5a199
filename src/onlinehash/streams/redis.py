"""Redis Streams, read through a consumer group.

An entry holds the message as JSON in one field, "item", or has the fields of a message itself: id, vectors (JSON, or
the bytes of little-endian float32), labels, payload, deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from onlinehash.collection import Collection
from onlinehash.exceptions import InvalidInputError, needs_extra
from onlinehash.streams.message import Message
from onlinehash.streams.processed_ids import ProcessedIds, ServerSource, own_name
from onlinehash.streams.source import Address, DeadLetter, SourceError, UnreachableError

with needs_extra("redis", "redis"):
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

_TIMEOUT = 10.0  # seconds until a server that says nothing counts as gone
_BEGINNING = "0-0"

# The acknowledgement decides, so that a repeated call adds nothing twice.
_BURY = """
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 1 then
    redis.call('XADD', KEYS[2], '*', unpack(ARGV, 3))
end
"""


class RedisSource(ServerSource):
    """A stream of a Redis server, 6.2 or later.

    Messages that this collection was given before and has not acknowledged come first, then new ones. A message that
    cannot be applied is added to the stream ``<stream>:dead`` as it was, with the fields "dead:id" and "dead:error",
    and acknowledged by the same script.
    """

    def __init__(self, address: Address) -> None:
        options = address.options("group")
        database, _, self._stream = address.path.partition("/")
        if not database.isdecimal() or not self._stream:
            raise InvalidInputError(f"{address.shown} does not name a stream; write redis://host:port/0/stream.")
        self.place = address.shown
        self._group = options.get("group", "")
        self._origin = f"{address.host}/{database}"
        self._client: Any = redis.Redis.from_url(
            f"{address.server}/{database}",
            protocol=2,
            socket_timeout=_TIMEOUT,
            socket_connect_timeout=_TIMEOUT,
            # A read that the client repeats by itself would skip the messages of the lost answer.
            retry=Retry(NoBackoff(), 0),
        )

    def start(self, collection: Collection) -> None:
        """Join the group; create it if there is none, after what is in the collection."""
        self._consumer = own_name(collection)
        self._group = self._group or self._consumer
        self._processed = ProcessedIds(collection, f"redis:{self._stream}:{self._group}", self._origin)
        self._has_own = True  # there may be messages that we received before
        with self._asking():
            self._join()

    def _join(self) -> None:
        newest, last = max(self._processed, key=_order, default=_BEGINNING), _BEGINNING
        if self._client.exists(self._stream):
            last = self._client.xinfo_stream(self._stream)["last-generated-id"].decode()
        if _order(newest) > _order(last):  # the stream is another one by now
            newest = _BEGINNING
        try:
            self._client.xgroup_create(self._stream, self._group, newest, mkstream=True)
        except redis.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    def fetch(self, limit: int, wait: float) -> list[Message]:
        """Return the next messages."""
        with self._asking():
            try:
                if self._has_own:
                    if own := self._read("0", limit):
                        return own
                    self._has_own = False
                return self._read(">", limit, block=round(wait * 1000) or None)
            except redis.ResponseError as error:
                if not str(error).startswith("NOGROUP"):  # or else the server has lost it, or someone has removed it
                    raise
                self._join()
                return []

    def _read(self, after: str, limit: int, block: int | None = None) -> list[Message]:
        answer = self._client.xreadgroup(self._group, self._consumer, {self._stream: after}, count=limit, block=block)
        return [_message(*entry) for _, entries in answer or () for entry in entries]

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Remove messages from the pending ones."""
        with self._asking():
            self._client.xack(self._stream, self._group, *(message.id for message in messages))
        self._processed.turn()

    def put_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Move messages to the dead-letter stream."""
        for message, error in letters:
            fields = {"dead:id": message.id, "dead:error": error, **message.handle}
            parts = [part for field in fields.items() for part in field]
            with self._asking():
                self._client.eval(_BURY, 2, self._stream, f"{self._stream}:dead", self._group, message.id, *parts)

    def lag(self) -> int:
        """Return the number of entries that this collection has pending, or that are not yet delivered."""
        with self._asking():
            groups = {group["name"].decode(): group for group in self._client.xinfo_groups(self._stream)}
            if self._group not in groups:
                return int(self._client.xlen(self._stream))
            group = groups[self._group]
            waiting = group.get("lag")
            if waiting is None:  # not known where entries were deleted, and before Redis 7: at most all
                rest = self._client.xrange(self._stream, b"(" + group["last-delivered-id"], count=1)
                waiting = self._client.xlen(self._stream) if rest else 0
            consumers = self._client.xinfo_consumers(self._stream, self._group)
            own = sum(one["pending"] for one in consumers if one["name"].decode() == self._consumer)
            return int(own) + int(waiting)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Raise our errors for those of the server."""
        try:
            yield
        except redis.AuthenticationError as error:
            raise SourceError(f"{self.place} refuses us: {error}; write redis://user:password@host:port/...") from error
        except (redis.ConnectionError, redis.TimeoutError, redis.ReadOnlyError, OSError) as error:
            self._has_own = True  # messages may have been lost on their way to us
            raise UnreachableError(f"{self.place} does not answer: {error}") from error
        except redis.RedisError as error:
            raise SourceError(f"{self.place}: {error}") from error

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _order(identifier: str) -> tuple[int, int]:
    first, _, second = identifier.partition("-")
    return int(first), int(second)


def _message(identifier: bytes, fields: Mapping[bytes, bytes] | None) -> Message:
    """Return an entry; one that was deleted before it was read has no fields."""
    named = fields or {}
    content = named.get(b"item") or {name.decode(errors="replace"): value for name, value in named.items()}
    return Message(identifier.decode(), content, named)
