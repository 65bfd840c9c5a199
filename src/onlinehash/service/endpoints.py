"""Endpoints: from an HTTP request to a handler, and from its answer to a response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any
from zlib import crc32

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from onlinehash.service.answers import ArrayAnswer
from onlinehash.service.api_keys import ApiKeys, WrongKeys
from onlinehash.service.executors import Deadline, Executor
from onlinehash.service.handlers import Service
from onlinehash.service.operations import Operation
from onlinehash.service.parsing import JSON, NPY, decode, media_type
from onlinehash.service.problems import LATER, MEDIA_TYPE, Problem, no_route

_LARGE = 1 << 16  # bytes of a body that a thread decodes
_encode = msgspec.json.Encoder().encode

Content = tuple[bytes, str]
"""Bytes and their media type."""


class Endpoint:
    """All operations of one path."""

    def __init__(
        self, pattern: str, operations: Iterable[Operation], services: Mapping[str, Service], wrong_keys: WrongKeys
    ) -> None:
        self._pattern, self._services, self._wrong_keys = pattern, services, wrong_keys
        self._operations = {operation.method: operation for operation in operations}
        if "GET" in self._operations and self._operations["GET"].answer is msgspec.Struct:  # a file
            self._operations["HEAD"] = self._operations["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope["pattern"] = self._pattern
        operation = self._operations.get(scope["method"])
        if operation is None:
            raise not_allowed(scope, self._operations)
        request, params = Request(scope, receive), dict(scope["path_params"])
        service = self._find(params.pop("collection", None))
        demand_key(request, service.keys, self._wrong_keys, write=operation.writes)
        answer = await self._answer(operation, service, request, params)
        if isinstance(answer, Response):
            await answer({**scope, "headers": []}, receive, send)  # a file as a whole, no ranges of it
        else:
            await respond(send, *answer)

    def _find(self, name: str | None) -> Service:
        if name is None:
            return next(iter(self._services.values()))
        try:
            return self._services[name]
        except KeyError:
            raise Problem(404, "unknown-collection", f"There is no collection {name[:80]!r} here.") from None

    async def _answer(
        self, operation: Operation, service: Service, request: Request, params: dict[str, str]
    ) -> Content | Response:
        """Read the body, run the handler, and return its answer as bytes, or a file."""
        kind, handler, body = operation.request, operation.handler, b""
        executor: Executor = getattr(service.executors, operation.executor or "reading")
        deadline = Deadline(service.limits.timeout, request.receive)
        read: Callable[[], Any] | None = None

        def call() -> Any:
            return handler(service, **params) if read is None else handler(service, read(), **params)

        try:
            if kind is not None:
                media = media_type(request, *operation.media)
                executor.check()
                body = await service.bodies.read(request)
                request.scope["is_read"] = True
                read = partial(decode, kind, media, body, dict(request.query_params), service.limits)
            if not operation.executor:
                answer = await handler(service, read, deadline, len(body) > _LARGE)
                if not isinstance(answer, ArrayAnswer):
                    return _encode(answer), JSON
                return await deadline.wait(executor.submit(partial(answer.write, _accepts_array(request))))
            if operation.executor != "writing":
                return await deadline.wait(executor.submit(lambda: _content(call(), _accepts_array(request))))
            key = request.headers.get("idempotency-key", "")
            # A deletion that is repeated may allow for ids that are gone.
            checksum = 0 if handler is Service.delete else crc32(body + request.url.path.encode())
            # It is completed even if the client leaves.
            return await executor.run(lambda: (_encode(service.once(key, checksum, call, operation.answer)), JSON))
        finally:
            service.bodies.release(body)


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


def _content(answer: Any, as_array: bool) -> Content | Response:
    if isinstance(answer, ArrayAnswer):
        return answer.write(as_array)
    return answer if isinstance(answer, Response) else (_encode(answer), JSON)


def _accepts_array(request: Request) -> bool:
    return NPY in request.headers.get("accept", "")


def demand_key(request: Request, keys: ApiKeys, wrong_keys: WrongKeys | None = None, *, write: bool = False) -> None:
    """Refuse a request without the API key it needs."""
    if not keys:
        return
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not keys.may_read(token.strip()):
        address = "" if request.client is None else request.client.host
        if token and wrong_keys is not None and wrong_keys.count(address):
            raise Problem(429, "key", "Too many wrong API keys came from this address; wait a minute.", headers=LATER)
        raise Problem(
            401,
            "key",
            "The API key is missing or wrong; send 'Authorization: Bearer <key>'.",
            field="Authorization",
            headers={"WWW-Authenticate": "Bearer"},
        )
    if write and not keys.may_write(token.strip()):
        raise Problem(403, "key", "This API key only reads; use a write key.", field="Authorization")


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
