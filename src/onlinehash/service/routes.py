"""Operations on a served collection: from an HTTP request to a handler, and from its answer to a response."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutinefunction
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

from onlinehash.collection import Collection
from onlinehash.service.api_keys import ApiKeys, WrongKeys, demand_key
from onlinehash.service.executors import Deadline, Executor, Jobs, Searches, T
from onlinehash.service.limits import BodyReader, Limits
from onlinehash.service.problems import MEDIA_TYPE, Problem, invalid, no_route
from onlinehash.service.requests import JSON, NPY, decode

LARGE_BODY_BYTES = 1 << 16  # that a thread decodes
MAX_RECENT_CHANGES = 128
MAX_KEY_CHARACTERS = 128  # of an idempotency key
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
    need not wait for either.
    """

    def __init__(self, collection: Collection, limits: Limits, media: Path | None = None) -> None:
        self.collection, self.limits, self.media, self.keys = collection, limits, media, ApiKeys()
        self.reading = Executor("reading", limits.n_threads, limits.max_searches)
        self.writing = Executor("writing", 1, limits.max_changes)
        self.operations = Executor("operations", 1, limits.max_searches)
        self.searches, self.jobs = Searches(collection, self.reading, limits), Jobs()
        self.bodies, self.stopping = BodyReader(limits), False
        self.backup: TemporaryDirectory[str] | None = None  # the folder of the copy that the last backup made
        self.backup_digest = b""
        self._recent: list[list[Any]] | None = None  # key, checksum of the request, number of items changed
        self._key, self._checksum = "", 0  # of the change at work

    def demand_writer(self) -> None:
        """Refuse a change of a collection that another process writes to."""
        if self.collection.readonly:
            raise Problem(403, "read-only", "This service only reads; send changes to the one that writes.")

    def begin(self, key: str, checksum: int, call: Callable[[], T]) -> T:
        """Return the answer to a request that writes; the key is empty if the client gave none."""
        self._key, self._checksum = key, checksum
        return call()

    def _known(self) -> int | None:
        """Return the number of items that the change at work has changed if it was applied already."""
        key, checksum = self._key, self._checksum
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
        if not self._key:
            apply(checkpoint=checkpoint)
        elif (known := self._known()) is not None:
            changed = known
        else:
            recent = [*(self._recent or []), [self._key, self._checksum, changed]][-MAX_RECENT_CHANGES:]
            apply(checkpoint={**(checkpoint or {}), _CHANGES: recent})
            self._recent = recent
        return ChangeAnswer(changed, len(self.collection))

    def close(self) -> None:
        """End the job that runs, delete the backup, and complete the running calls."""
        self.stopping = True
        self.jobs.close()
        self.drop_backup()
        for executor in (self.writing, self.reading, self.operations):
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

    The handler is called with the service, the request if there is a body, and the parts of the path; a coroutine also
    with the deadline. Its docstring is the documentation.
    """

    handler: Callable[..., Any]
    method: str
    path: str
    tag: str
    answer: Any
    request: Any = None
    executor: str = "reading"  # that runs the handler
    media: tuple[str, ...] = (JSON,)  # types of the body, or of an answer that is a file
    refusals: tuple[int, ...] = ()  # statuses further to those that body and path imply
    writes: bool = False  # whether a write key is needed
    arrays: bool = False  # whether the answer may be an .npy file, followed by JSON
    repeats: bool = False  # whether a change has its answer by an idempotency key

    @property
    def is_file(self) -> bool:
        """Whether the answer is not JSON."""
        return self.answer in (Response, Content)


def operation(method: str, path: str, tag: str, **options: Any) -> Callable[[Callable[..., Any]], Operation]:
    """Return a decorator that makes an operation of a handler; its annotations name the request and the answer."""

    def make(handler: Callable[..., Any]) -> Operation:
        hints = get_type_hints(handler)
        given = {"answer": hints["return"], "request": hints.get("request")}
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
        """Answer a request."""
        scope["pattern"] = self._pattern
        operation = self._operations.get(scope["method"])
        if operation is None:
            raise not_allowed(scope, self._operations)
        request, params = Request(scope, receive), dict(scope["path_params"])
        name = params.pop("collection", None)
        if name is not None and name not in self._services:
            raise Problem(404, "unknown-collection", f"There is no collection {name[:80]!r} here.")
        service = next(iter(self._services.values())) if name is None else self._services[name]
        demand_key(request, service.keys, self._wrong_keys, write=operation.writes)
        answer = await self._answer(operation, service, request, params)
        if isinstance(answer, Response):
            await answer({**scope, "headers": []}, receive, send)  # a file as a whole, no ranges of it
        else:
            await respond(send, *answer)

    async def _answer(
        self, operation: Operation, service: Service, request: Request, params: dict[str, str]
    ) -> Content | Response:
        """Read the body, run the handler, and return its answer as bytes, or a file."""
        executor: Executor = getattr(service, operation.executor)
        deadline = Deadline(service.limits.timeout, request.receive)
        call, body = partial(operation.handler, service, **params), b""
        write = partial(_content, as_array=NPY in request.headers.get("accept", ""))
        try:
            if operation.request is not None:
                media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if media not in operation.media:
                    rule = f"Content-Type is {media[:80]!r}; send {' or '.join(operation.media)}."
                    raise Problem(415, "media-type", rule, field="Content-Type", value=media)
                executor.check()
                body = await service.bodies.read(request)
                request.scope["is_read"] = True
                read = partial(decode, operation.request, media, body, dict(request.query_params), service.limits)
                is_large = len(body) > LARGE_BODY_BYTES
                call = partial(call, await deadline.wait(executor.submit(read)) if is_large else read())
            if iscoroutinefunction(operation.handler):
                answer = await call(deadline)
                if not isinstance(answer, ArrayAnswer):
                    return write(answer)
                return await deadline.wait(executor.submit(partial(write, answer)))
            if operation.executor != "writing":
                return await deadline.wait(executor.submit(lambda: write(call())))
            key = request.headers.get("idempotency-key", "") if operation.repeats else ""
            checksum = crc32(body + request.url.path.encode())
            # It is completed even if the client leaves.
            return await executor.run(lambda: write(service.begin(key, checksum, call)))
        finally:
            service.bodies.n_bytes -= len(body)


def _content(answer: Any, *, as_array: bool) -> Content | Response:
    if isinstance(answer, Response):
        return answer
    if not isinstance(answer, ArrayAnswer):
        return encode(answer), JSON
    if not as_array:
        return encode(answer.whole), JSON
    file = io.BytesIO()
    np.save(file, answer.array, allow_pickle=False)
    file.write(encode(answer.rest))
    return file.getvalue(), NPY


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


async def refuse(send: Send, problem: Problem) -> None:
    """Send a problem document."""
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in problem.headers.items()]
    await respond(send, problem.content(), MEDIA_TYPE, problem.status, headers)
