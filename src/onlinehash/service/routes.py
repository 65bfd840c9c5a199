"""Operations on a served collection: from an HTTP request to a handler, and from its answer to a response."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, get_type_hints
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from onlinehash.collection import Collection, ItemMap
from onlinehash.service.api_keys import ApiKeys, WrongKeys, demand_key
from onlinehash.service.executors import Deadline, Executor, Jobs
from onlinehash.service.limits import Limits, check_limit
from onlinehash.service.problems import LATER, Problem, invalid, no_route
from onlinehash.service.requests import JSON, NPY, decode

MAX_RECENT_CHANGES = 128
MAX_KEY_CHARACTERS = 128  # of an idempotency key
MAX_SHORT_BODY = 1 << 14  # bytes that are decoded in no time
_RESERVED = "service/"
_CHANGES = f"{_RESERVED}changes"

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

    Several threads read; one writes, so that changes keep their order; one answers questions about the state, which
    need not wait for either; and one does what people look at and takes long.
    """

    def __init__(self, collection: Collection, limits: Limits, media: Path | None = None) -> None:
        self.collection, self.limits, self.media = collection, limits, media
        self.keys: ApiKeys | None = None  # everyone may read and write
        self.reading = Executor("reading", limits.n_threads, limits.max_searches)
        self.writing = Executor("writing", 1, limits.max_changes)
        self.operations = Executor("operations", 1, limits.max_searches)
        self.insight = Executor("insight", 1, limits.max_searches)
        self.shown_map: tuple[tuple[int, int], ItemMap] | None = None  # by generation and number of items
        self.jobs, self.stopping = Jobs(), False
        self.n_body_bytes = 0  # of all request bodies in memory
        self.backup: TemporaryDirectory[str] | None = None  # the folder of the copy that the last backup made
        self.backup_digest = b""
        self._recent: list[list[Any]] | None = None  # key, checksum of the request, number of items changed
        self.key, self.checksum = "", 0  # idempotency key of the change at work, if the client gave one

    def demand_writer(self) -> None:
        """Refuse a change of a collection that another process writes to."""
        if self.collection.readonly:
            raise Problem(403, "read-only", "This service only reads; send changes to the one that writes.")

    def _known(self) -> int | None:
        """Return the number of items that the change at work has changed if it was applied already."""
        key, checksum = self.key, self.checksum
        if len(key) > MAX_KEY_CHARACTERS or not key.isascii() or not key.isprintable():
            rule = f"Idempotency-Key is not 1 to {MAX_KEY_CHARACTERS} printable ASCII characters."
            raise invalid("Idempotency-Key", rule, key)
        if self._recent is None:
            self._recent = self.collection.checkpoint(_CHANGES) or []
        for known, checked, changed in self._recent:
            if known == key and checked != checksum:
                raise invalid("Idempotency-Key", "Idempotency-Key was used for another request; make a new one.", key)
            if known == key:
                return int(changed)
        return None

    def change(self, changed: int, checkpoint: dict[str, Any] | None, apply: Callable[..., object]) -> ChangeAnswer:
        """Apply the change that has begun to a number of items, unless one of the last had the same key.

        The keys of the last changes are committed in the same transaction, so that a change and its key are stored
        both or not at all.
        """
        self.demand_writer()
        for name in checkpoint or ():
            own_name(name)
        if not self.key:
            apply(checkpoint=checkpoint)
        elif (known := self._known()) is not None:
            changed = known
        else:
            recent = [*(self._recent or []), [self.key, self.checksum, changed]][-MAX_RECENT_CHANGES:]
            apply(checkpoint={**(checkpoint or {}), _CHANGES: recent})
            self._recent = recent
        return ChangeAnswer(changed, len(self.collection))

    async def read_body(self, request: Request) -> bytes:
        """Return the body; the caller gives it back by subtracting its length from ``n_body_bytes``."""
        announced = request.headers.get("content-length", "0")
        most, parts, size = min(self.limits.max_body_bytes, self.limits.max_memory_bytes), list[bytes](), 0
        check_limit("body", int(announced) if announced.isdecimal() else 0, most, "send smaller batches", status=413)
        try:
            async with asyncio.timeout(self.limits.body_timeout):
                async for part in request.stream():
                    size += len(part)
                    self.n_body_bytes += len(part)
                    parts.append(part)
                    check_limit("body", size, most, "send smaller batches", status=413)
                    if self.n_body_bytes > self.limits.max_memory_bytes:
                        held = f"The bodies of all requests hold {self.n_body_bytes} bytes, more than the limit of "
                        rule = f"{held}{self.limits.max_memory_bytes}; wait a moment and ask again."
                        raise Problem(503, "busy", rule, headers=LATER)
        except BaseException as error:
            self.n_body_bytes -= size
            if not isinstance(error, TimeoutError):
                raise
            late = f"The body did not arrive within {self.limits.body_timeout} seconds; send it faster, or less of it."
            raise Problem(408, "too-slow", late, headers={"Connection": "close"}) from None
        request.scope["is_read"] = True
        return b"".join(parts)

    def close(self) -> None:
        """End the job that runs, delete the backup, and complete the running calls."""
        self.stopping = True
        self.jobs.close()
        self.drop_backup()
        for executor in (self.writing, self.reading, self.operations, self.insight):
            executor.close()

    def drop_backup(self) -> None:
        """Delete the copy that the last backup made."""
        kept, self.backup = self.backup, None
        if kept is not None:
            kept.cleanup()


def own_name(name: str) -> str:
    """Return the name of a checkpoint; refuse those of the service."""
    if name.startswith(_RESERVED):
        raise invalid("checkpoint", f"checkpoint names that begin with {_RESERVED!r} belong to the service.", name)
    return name


# ---------------------------------------------------------------------- operations


@dataclass(frozen=True)
class Operation:
    """One method of one path, which is below that of a collection.

    The handler is called with the service, the request if there is a body, the parts of the path, and the deadline if
    it takes one. Its docstring is the documentation.
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
    has_deadline: bool = False  # whether the handler takes the time at which it must end
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
        given = {"answer": hints["return"], "request": request, "bodies": bodies, "has_deadline": "deadline" in hints}
        return Operation(handler, method, path, tag, **given | options)

    return make


def change(method: str, path: str, tag: str = "items", **options: Any) -> Callable[[Callable[..., Any]], Operation]:
    """Return a decorator that makes an operation that changes items, once per idempotency key."""
    return operation(method, path, tag, executor="writing", writes=True, repeats=True, **options)


class Endpoint:
    """All operations of one path."""

    def __init__(
        self, pattern: str, operations: Iterable[Operation], services: Mapping[str, Service], wrong_keys: WrongKeys
    ) -> None:
        self._pattern, self._services, self._wrong_keys = pattern, services, wrong_keys
        self._operations = {operation.method: operation for operation in operations}
        if "GET" in self._operations and self._operations["GET"].is_file:
            self._operations["HEAD"] = self._operations["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, run the handler in a thread, and send its answer."""
        scope["pattern"] = self._pattern
        operation = self._operations.get(scope["method"])
        if operation is None:
            raise not_allowed(scope, self._operations)
        request, params = Request(scope, receive), dict(scope.get("path_params", {}))
        name = params.pop("collection", None)
        if name is not None and name not in self._services:
            raise Problem(404, "unknown-collection", f"There is no collection {name[:80]!r} here.")
        service = next(iter(self._services.values())) if name is None else self._services[name]
        if service.keys is not None:
            demand_key(request, service.keys, self._wrong_keys, write=operation.writes)
        executor: Executor = getattr(service, operation.executor)
        media, body = request.headers.get("content-type", "").partition(";")[0].strip().lower(), b""
        deadline = Deadline(service.limits.timeout)
        if operation.request is not None:
            if media not in operation.bodies:
                rule = f"Content-Type is {media[:80]!r}; send {' or '.join(operation.bodies)}."
                raise Problem(415, "media-type", rule, field="Content-Type", value=media)
            executor.check()
            body = await service.read_body(request)

        decoded: Any = None

        def work() -> Content | Response:
            given: dict[str, Any] = params
            if operation.request is not None:
                sent = decode(operation.request, media, body, service.limits) if decoded is None else decoded
                given = {"request": sent, **params}
            if operation.has_deadline:
                given["deadline"] = deadline
            if operation.executor == "writing":
                service.key = request.headers.get("idempotency-key", "") if operation.repeats else ""
                service.checksum = crc32(body + request.url.path.encode())
            answer = operation.handler(service, **given)
            if isinstance(answer, Response):
                return answer
            if not isinstance(answer, ArrayAnswer):
                return encode(answer), JSON
            if NPY not in request.headers.get("accept", ""):
                return encode(answer.whole), JSON
            file = io.BytesIO()
            np.save(file, answer.array, allow_pickle=False)
            file.write(encode(answer.rest))
            return file.getvalue(), NPY

        try:
            if operation.is_short is not None and len(body) <= MAX_SHORT_BODY:
                decoded = decode(operation.request, media, body, service.limits)
            if operation.is_short is not None and decoded is not None and operation.is_short(service, decoded):
                answer = work()  # handing it to a thread would take longer
            elif operation.executor in ("writing", "insight"):  # completed even if the client leaves
                answer = await executor.run(work)
            else:
                answer = await executor.run(work, deadline, None if operation.request is None else receive)
        finally:
            service.n_body_bytes -= len(body)
        if isinstance(answer, Response):
            await answer({**scope, "headers": []}, receive, send)  # a file as a whole, no ranges of it
        else:
            await respond(send, *answer)


class ReadOnly:
    """What can be read at one path."""

    def __init__(
        self, path: str, read: Callable[[Request], Awaitable[Content]], methods: Iterable[str] = ("GET", "HEAD")
    ) -> None:
        self._path, self._read, self._methods = path, read, methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope["pattern"] = self._path
        if scope["method"] not in self._methods:
            raise not_allowed(scope, self._methods)
        await respond(send, *await self._read(Request(scope, receive)))


def not_allowed(scope: Scope, methods: Iterable[str]) -> Problem:
    """Return the problem of a method that a path does not have."""
    allowed = ", ".join(sorted(methods))
    return no_route(scope, 405, f"use {allowed}", {"Allow": allowed})


async def respond(
    send: Send, content: bytes, media: str = JSON, status: int = 200, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Send a response."""
    length = (b"content-length", b"%d" % len(content))
    start = [(b"content-type", media.encode()), length, *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": content})
