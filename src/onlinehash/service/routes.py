"""Operations, and how they are answered: the body is read, a thread runs the handler, and the answer is sent."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, get_type_hints
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Send

from onlinehash.collection import Collection, ItemMap
from onlinehash.service.api_keys import ApiKeys
from onlinehash.service.executors import Executor, Jobs
from onlinehash.service.limits import Call, Limits, Memory, check_limit
from onlinehash.service.problems import Problem, invalid
from onlinehash.service.requests import JSON, NPY, decode

MAX_KEY_CHARACTERS = 128  # of an idempotency key
MAX_SHORT_BODY = 1 << 14  # bytes that are decoded in no time
BYTES_PER_PART = 1 << 16  # of an answer: no more is handed to a connection that has not sent the part before

Content = tuple[bytes, str]
"""Bytes and their media type."""


class ChangeAnswer(msgspec.Struct):
    """Result of a change, which is durable."""

    changed: int
    n_items: int


def _plain(value: Any) -> Any:
    """Return an array for JSON: numbers, or a packed code as hexadecimal digits."""
    if not isinstance(value, np.ndarray):
        raise NotImplementedError(f"{type(value).__name__} in an answer")
    return value.tobytes().hex() if value.dtype == np.uint8 and value.ndim == 1 else value.tolist()


encode = msgspec.json.Encoder(enc_hook=_plain).encode


class ArrayAnswer(NamedTuple):
    """An answer with an array: JSON, or where the client accepts it an .npy file followed by the rest as JSON."""

    array: NDArray[Any]
    rest: Any  # all but the array
    whole: Any  # all of it


class Service:
    """A collection, and what its requests share.

    Several threads read; one writes, so that changes keep their order; one looks at all items for insight, and may wait
    for a change; one answers questions about the state, which need not wait for any; one makes maps, which takes long.
    """

    def __init__(self, collection: Collection, limits: Limits, memory: Memory, media: Path | None = None) -> None:
        self.collection, self.limits, self.memory, self.media = collection, limits, memory, media
        self.keys: ApiKeys | None = None  # everyone may read and write
        self.reading = Executor("reading", limits.n_threads, limits.max_searches)
        self.writing = Executor("writing", 1, limits.max_changes)
        self.insight = Executor("insight", 1, limits.max_changes)
        self.operations = Executor("operations", 1, limits.max_searches)
        self.mapping = Executor("mapping", 1, limits.max_changes)
        self.shown_map: tuple[tuple[int, int], ItemMap] | None = None  # by generation and number of items
        self.jobs, self.stopping = Jobs(), False
        self.backup: TemporaryDirectory[str] | None = None  # the folder of the copy that the last backup made
        self.backup_digest = b""
        self.key, self.checksum = "", 0  # idempotency key of the change at work, if the client gave one

    def demand_writer(self) -> None:
        """Refuse a change of a collection that another process writes to."""
        if self.collection.readonly:
            raise Problem(403, "read-only", "This service only reads; send changes to the one that writes.")

    def change(self, n_items: int, apply: Callable[[], object]) -> ChangeAnswer:
        """Apply the change that has begun to a number of items, unless one with the same key was applied before."""
        self.demand_writer()
        if len(self.key) > MAX_KEY_CHARACTERS or not self.key.isascii() or not self.key.isprintable():
            rule = f"Idempotency-Key is not 1 to {MAX_KEY_CHARACTERS} printable ASCII characters."
            raise invalid("Idempotency-Key", rule, self.key)
        if self.key:
            n_items = self.collection.apply_once(self.key, self.checksum, n_items, apply)
        else:
            apply()
        return ChangeAnswer(n_items, len(self.collection))

    async def answer(self, operation: Operation, call: Call, params: dict[str, str], send: Send) -> None:
        """Read the body, run the handler in a thread, and send what it returns."""
        executor: Executor = getattr(self, operation.executor)
        media, body, is_short = "", bytearray(), False
        if operation.request is not None:
            media = call.header(b"content-type").partition(";")[0].strip().lower()
            if media not in operation.bodies:
                rule = f"Content-Type is {media[:80]!r}; send {' or '.join(operation.bodies)}."
                raise Problem(415, "media-type", rule, field="Content-Type", value=media)
            body = await self._read_body(call)
        given: dict[str, Any] = dict(params)
        if operation.is_short is not None and len(body) <= MAX_SHORT_BODY:
            given["request"] = decode(operation.request, media, body, self.limits, call)
            is_short = operation.is_short(self, given["request"])
        work = partial(self._work, operation, given, media, body, call)
        del body
        if is_short:
            answer = work()  # handing it to a thread would take longer
        elif operation.executor in ("writing", "mapping"):  # completed even if the client leaves
            answer = await executor.run(work)
        else:
            answer = await executor.run(work, call)
        del work
        if isinstance(answer, Response):
            answer.headers["Cache-Control"] = "no-store"
            await answer({**call.scope, "headers": []}, call.receive, send)  # as a whole, no ranges of it
        else:
            await respond(send, *answer)

    async def _read_body(self, call: Call) -> bytearray:
        announced, body, more = call.header(b"content-length"), bytearray(), True
        most = min(self.limits.max_body_bytes, self.memory.max_bytes // 2)
        check_limit("body", int(announced) if announced.isdecimal() else 0, most, "send smaller batches", status=413)
        try:
            async with asyncio.timeout(self.limits.body_timeout):
                while more:
                    part = await call.receive()
                    if part["type"] == "http.disconnect":
                        raise ClientDisconnect
                    body += part.get("body", b"")
                    more = part.get("more_body", False)
                    check_limit("body", len(body), most, "send smaller batches", status=413)
                    call.hold(len(body))
        except TimeoutError:
            late = f"The body did not arrive within {self.limits.body_timeout} seconds; send it faster, or less of it."
            raise Problem(408, "too-slow", late, headers={"Connection": "close"}) from None
        call.is_read = True
        return body

    def _work(
        self, operation: Operation, given: dict[str, Any], media: str, body: bytearray, call: Call
    ) -> Content | Response:
        """Run a handler, and return its answer as it is sent."""
        if operation.request is not None and "request" not in given:
            given["request"] = decode(operation.request, media, body, self.limits, call)
        if operation.takes_call:
            given["call"] = call
        if operation.executor == "writing":
            self.key = call.header(b"idempotency-key") if operation.repeats else ""
            self.checksum = crc32(body, crc32(f"{call.scope['method']} {call.scope['path']}".encode()))
        answer = operation.handler(self, **given)
        if isinstance(answer, Response):
            return answer
        content, media = b"", JSON
        if isinstance(answer, ArrayAnswer):
            answer, array = answer.whole, answer
            if NPY in call.header(b"accept"):
                file = io.BytesIO()
                np.save(file, array.array, allow_pickle=False)
                content, media, answer = file.getvalue(), NPY, array.rest
        content += encode(answer)
        call.hold(len(content))
        return content, media

    def close(self) -> None:
        """End the job that runs, delete the backup, and complete the running calls."""
        self.stopping = True
        self.jobs.close()
        self.drop_backup()
        for executor in (self.writing, self.reading, self.insight, self.operations, self.mapping):
            executor.close()

    def drop_backup(self) -> None:
        """Delete the copy that the last backup made."""
        kept, self.backup = self.backup, None
        if kept is not None:
            kept.cleanup()


async def respond(
    send: Send,
    content: bytes,
    media: str = JSON,
    status: int = 200,
    headers: Iterable[tuple[bytes, bytes]] = ((b"cache-control", b"no-store"),),
) -> None:
    """Send a response, in parts: the next one when the connection has taken the one before."""
    length = (b"content-length", b"%d" % len(content))
    start = [(b"content-type", media.encode()), length, *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    for at in range(0, max(1, len(content)), BYTES_PER_PART):
        part, end = content[at : at + BYTES_PER_PART], at + BYTES_PER_PART
        await send({"type": "http.response.body", "body": part, "more_body": end < len(content)})


# ---------------------------------------------------------------------- operations


@dataclass(frozen=True)
class Operation:
    """One method of one path, which is below that of a collection; a part in braces is the rest of the path.

    The handler is called with the service, the request if there is a body, the part of the path, and what it may
    take if it wants to know. Its docstring is the documentation.
    """

    handler: Callable[..., Any]
    method: str
    path: str
    tag: str
    answer: Any
    request: Any = None
    executor: str = "reading"  # that runs the handler
    bodies: tuple[str, ...] = ()  # types of the body
    media: tuple[str, ...] = ()  # types of an answer that is a file
    refusals: tuple[int, ...] = ()  # statuses further to those that body and path imply
    writes: bool = False  # whether a write key is needed
    arrays: bool = False  # whether the answer may be an .npy file, followed by JSON
    repeats: bool = False  # whether a change has its answer by an idempotency key
    takes_call: bool = False  # whether the handler takes what bounds its time and memory
    is_short: Callable[[Service, Any], bool] | None = None  # whether a request is answered at once, without a thread

    @property
    def is_file(self) -> bool:
        """Whether the answer is not JSON."""
        return self.answer in (Response, Content)


def operation(method: str, path: str, tag: str, **options: Any) -> Callable[[Callable[..., Any]], Operation]:
    """Return a decorator that makes an operation of a handler; its annotations name the request and the answer."""

    def make(handler: Callable[..., Any]) -> Operation:
        hints = get_type_hints(handler)
        request = hints.get("request")
        bodies = (JSON, NPY) if "vectors" in getattr(request, "__struct_fields__", ()) else (JSON,)
        given = {"answer": hints["return"], "request": request, "bodies": bodies, "takes_call": "call" in hints}
        return Operation(handler, method, path, tag, **given | options)

    return make


def change(method: str, path: str, tag: str = "items", **options: Any) -> Callable[[Callable[..., Any]], Operation]:
    """Return a decorator that makes an operation that changes items, once per idempotency key."""
    return operation(method, path, tag, executor="writing", writes=True, repeats=True, **options)
