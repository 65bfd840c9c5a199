"""NATS JetStream, pulled through a durable consumer."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError
from threading import Thread
from typing import Any, TypeVar

from onlinehash.collection import Collection
from onlinehash.exceptions import DataNotFoundError, InvalidInputError, needs_extra
from onlinehash.streams.message import Message
from onlinehash.streams.processed_ids import ProcessedIds, ServerSource, own_name
from onlinehash.streams.source import Address, DeadLetter, SourceError, UnreachableError

with needs_extra("nats-py", "nats"):
    from nats.aio.client import Client
    from nats.errors import Error as NatsError
    from nats.errors import NoRespondersError
    from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StreamConfig
    from nats.js.errors import APIError, NoStreamResponseError, NotFoundError, ServiceUnavailableError

Answer = TypeVar("Answer")

_TIMEOUT = 5.0  # seconds until a server that says nothing counts as gone
_SOON = 0.2  # seconds in which a server says that it has nothing
_ONE_DAY = 86_400.0
_HEADERS = 4096  # bytes of a dead letter that are not its content, at most
_GONE = (NatsError, OSError, TimeoutError, CancelledError)  # calls are cancelled when the connection breaks


class NatsSource(ServerSource):
    """A stream of a NATS server with JetStream.

    Messages are identified by their sequence numbers. What was delivered and not acknowledged is delivered again after
    ``ack_wait`` seconds; a start waits for that, so that older messages do not come after newer ones. A message that
    cannot be applied is published to the stream ``<stream>-dead``, created when it is first needed, with the headers
    "Dead-Id" and "Dead-Error".
    """

    def __init__(self, address: Address) -> None:
        options = address.options("durable", "subject", "ack_wait")
        if not address.path or set(address.path) & set("/.*> "):
            raise InvalidInputError(f"{address.shown} does not name a stream; write nats://host:port/stream.")
        self.place, self._server, self._stream = address.shown, address.server, address.path
        self._durable, self._subject = options.get("durable", ""), options.get("subject")
        self._ack_wait = address.seconds("ack_wait", 10.0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Any = None

    def start(self, collection: Collection) -> None:
        """Connect, and find the durable consumer; create it if there is none, after what is in the collection."""
        self._collection, self._durable = collection, self._durable or own_name(collection)
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = Thread(target=self._loop.run_forever, name="onlinehash-nats", daemon=True)
            self._thread.start()
            self._connecting = asyncio.Lock()
        self._ask(self._disconnect())
        self._ask(self._connect())

    def fetch(self, limit: int, wait: float) -> list[Message]:
        """Return the next messages."""
        return self._ask(self._next(limit, wait or _SOON))

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages, and wait until the server has confirmed each."""
        self._ask(self._confirm(messages))
        self._processed.turn()

    def put_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Publish messages to the dead-letter stream, which recognises those that it has by their ids."""
        self._ask(self._publish(letters))

    def lag(self) -> int:
        """Return the number of messages that are not delivered or not acknowledged."""
        info = self._ask(self._info())
        return int(info.num_pending or 0) + int(info.num_ack_pending or 0)

    def close(self) -> None:
        """Close the connection."""
        if self._loop is not None:
            self._ask(self._disconnect())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = None

    def _ask(self, question: Coroutine[Any, Any, Answer]) -> Answer:
        """Return the answer of the server, or raise our errors."""
        assert self._loop is not None
        try:
            return asyncio.run_coroutine_threadsafe(question, self._loop).result()
        except (NotFoundError, NoRespondersError) as error:
            raise DataNotFoundError(
                f"There is no {self.place}, or its consumer was removed; create the stream first, or start again."
            ) from error
        except (APIError, *_GONE) as error:
            if isinstance(error, APIError) and not isinstance(error, ServiceUnavailableError):
                raise SourceError(f"{self.place}: {error.description}.") from error
            if "authorization" in str(error).lower():
                said = f"{self.place} refuses us: {error}; write nats://user:password@host:port/..."
                raise SourceError(said) from error
            raise UnreachableError(f"{self.place} does not answer: {error or type(error).__name__}") from error

    # ------------------------------------------------------------------ in the thread of the event loop, from here on

    async def _connect(self) -> Any:
        """Return JetStream, connected."""
        async with self._connecting:
            if self._client is None or self._client.is_closed:
                await self._disconnect()
                client: Any = Client()
                try:
                    await client.connect(
                        self._server,
                        name=self._durable,
                        error_cb=_ignore,
                        allow_reconnect=False,
                        connect_timeout=_TIMEOUT,
                        max_reconnect_attempts=1,
                        reconnect_time_wait=0.1,
                    )
                    await self._bind(client.jetstream(timeout=_TIMEOUT))
                except BaseException:
                    await client.close()
                    raise
                self._client = client
            return self._jetstream

    async def _disconnect(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _bind(self, jetstream: Any) -> None:
        """Find the stream and the consumer, and what of it is in the collection."""
        stream = await jetstream.stream_info(self._stream)
        self._origin = str(stream.created)
        self._processed = ProcessedIds(self._collection, f"nats:{self._stream}:{self._durable}", self._origin)
        try:
            info = await jetstream.consumer_info(self._stream, self._durable)
        except NotFoundError:
            newest = max(self._processed, default=0)
            wanted = ConsumerConfig(
                durable_name=self._durable,
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=self._ack_wait,
                filter_subject=self._subject,
                deliver_policy=DeliverPolicy.BY_START_SEQUENCE if newest else DeliverPolicy.ALL,
                opt_start_seq=newest + 1 if newest else None,
            )
            info = await jetstream.add_consumer(self._stream, wanted)
        config = info.config
        if config.deliver_subject is not None or config.ack_policy != AckPolicy.EXPLICIT:
            raise self._unfit("is not one to pull from with explicit acknowledgements")
        if self._subject not in (None, config.filter_subject):
            raise self._unfit(f"takes {config.filter_subject!r}, not {self._subject!r}")
        self._jetstream = jetstream
        self._most = config.max_ack_pending if (config.max_ack_pending or 0) > 0 else sys.maxsize
        self._ready_at = time.monotonic() + (config.ack_wait if info.num_ack_pending else 0.0)
        self._pulling = await jetstream.pull_subscribe_bind(self._durable, self._stream)

    def _unfit(self, how: str) -> SourceError:
        return SourceError(f"The consumer {self._durable!r} of {self.place} {how}; name another one with ?durable=.")

    async def _next(self, limit: int, wait: float) -> list[Message]:
        await self._connect()
        if (left := self._ready_at - time.monotonic()) > 0:
            await asyncio.sleep(min(left, wait))
            return []
        try:
            given = await self._pulling.fetch(min(limit, self._most), wait)
        except TimeoutError:
            given = []
        if not given:
            await self._info()
        messages = [Message(one.metadata.sequence.stream, one.data, one) for one in given]
        return sorted(messages, key=lambda message: message.id)

    async def _info(self) -> Any:
        return await (await self._connect()).consumer_info(self._stream, self._durable)

    async def _confirm(self, messages: Sequence[Message]) -> None:
        await self._connect()
        await asyncio.gather(*(self._client.request(message.handle.reply, timeout=_TIMEOUT) for message in messages))

    async def _publish(self, letters: Sequence[DeadLetter]) -> None:
        jetstream, dead = await self._connect(), f"{self._stream}-dead"
        for message, error in letters:
            headers = {
                "Nats-Msg-Id": f"{self._origin} {message.id}",
                "Dead-Id": str(message.id),
                "Dead-Subject": message.handle.subject,
                "Dead-Error": " ".join(error.split()).encode("ascii", "backslashreplace").decode()[: _HEADERS // 2],
            }
            content = message.handle.data[: self._client.max_payload - _HEADERS]
            try:
                await jetstream.publish(dead, content, stream=dead, headers=headers)
            except NoStreamResponseError:
                await jetstream.add_stream(StreamConfig(name=dead, subjects=[dead], duplicate_window=_ONE_DAY))
                await jetstream.publish(dead, content, stream=dead, headers=headers)


async def _ignore(error: Exception) -> None:
    """Ignore errors here: the next call raises them."""
