"""The ASGI application: collections, pages and health; security headers, errors, request ids, and what is counted."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
import os
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from itertools import count
from mimetypes import guess_type
from pathlib import Path
from secrets import token_hex
from time import perf_counter
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from starlette.requests import ClientDisconnect
from starlette.routing import Router
from starlette.types import Message, Receive, Scope, Send

from onlinehash.collection import Collection
from onlinehash.exceptions import InvalidInputError
from onlinehash.service import handlers, maintenance
from onlinehash.service.api_keys import ApiKeys, WrongKeys, demand_key, is_local, key_of, may_read
from onlinehash.service.limits import Call, Limits, Memory
from onlinehash.service.metrics import METRICS_TYPE, Metrics, access_log, log_access
from onlinehash.service.openapi import make_document
from onlinehash.service.problems import MEDIA_TYPE, Problem, about, no_route, stopping
from onlinehash.service.requests import JSON
from onlinehash.service.routes import Content, Operation, Service, encode, respond

STATIC = Path(__file__).with_name("static")  # the web page
MAX_ID_CHARACTERS = 128  # of a request id
MAX_DRAINED_BYTES = 1 << 16  # of a refused body that are read, so that the connection can be used again
_API, _SEVERAL = "/api/v1", "/api/v1/collections/{collection}"
_OPERATIONS = [one for module in (handlers, maintenance) for one in vars(module).values() if isinstance(one, Operation)]
_log = logging.getLogger("onlinehash.service")
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_INLINE = re.findall(r"<style>(.*?)</style>", (STATIC / "index.html").read_text(encoding="utf-8"), re.DOTALL)
_HASHES = " ".join(f"'sha256-{b64encode(hashlib.sha256(style.encode()).digest()).decode()}'" for style in _INLINE)
_CONTENT = (
    f"default-src 'none'; script-src 'self'; style-src 'self' {_HASHES}; img-src 'self' data: blob: https:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", _CONTENT.encode()),
]


class HealthAnswer(msgspec.Struct):
    """Health status."""

    status: Literal["ok"] = "ok"


class CollectionAnswer(msgspec.Struct):
    """A collection of this service."""

    name: str
    n_items: int
    readonly: Annotated[bool, about("Whether this service or the API key only reads.")]


class CollectionsAnswer(msgspec.Struct):
    """The collections of this service."""

    collections: list[CollectionAnswer]


class Page(NamedTuple):
    """A file of the web page."""

    content: bytes
    zipped: bytes
    media: str
    tag: bytes  # another for other content

    async def respond(self, headers: dict[bytes, bytes], send: Send) -> None:
        """Send the file, unless the browser has it."""
        sent = [(b"etag", self.tag), (b"cache-control", b"no-cache"), (b"vary", b"accept-encoding")]
        if headers.get(b"if-none-match") == self.tag:
            await respond(send, b"", self.media, 304, sent)
        elif b"gzip" in headers.get(b"accept-encoding", b""):
            await respond(send, self.zipped, self.media, 200, [*sent, (b"content-encoding", b"gzip")])
        else:
            await respond(send, self.content, self.media, 200, sent)


def read_pages() -> dict[str, Page]:
    """Return the files of the web page by path: ``index.html`` is at ``/`` and ``docs.html`` at ``/docs``.

    The files are read once, so that no request path reaches the file system.
    """
    pages = dict[str, Page]()
    for file in filter(Path.is_file, STATIC.rglob("*")):
        name = file.relative_to(STATIC).as_posix()
        path = {"index.html": "/", "docs.html": "/docs"}.get(name, f"/{name}")
        content, media = file.read_bytes(), guess_type(name)[0] or "application/octet-stream"
        media += "; charset=utf-8" if media.startswith("text/") else ""
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'.encode()
        pages[path] = Page(content, gzip.compress(content, mtime=0), media, tag)
    return pages


class Application:
    """The HTTP service of one or several collections; an ASGI application, made by :func:`create_app`.

    A browser sends requests on behalf of any page. ``Origin`` holds the address of that page, and ``Host`` the name
    that it used for this service, which may be a foreign one that resolves to this machine (DNS rebinding). Pages of
    other sites are refused; without keys, only names of this machine are accepted.
    """

    def __init__(self, services: dict[str, Service], limits: Limits, memory: Memory, root_path: str) -> None:
        self.services, self.root_path, self._limits, self._memory = services, root_path, limits, memory
        self._document, self._pages = _json(self.openapi()), read_pages()
        self._wrong_keys, self._metrics = WrongKeys(limits.max_wrong_keys), Metrics()
        self._prefix, self._numbers = token_hex(6), count(1)
        self._lifespan = Router(lifespan=self._close_at_end)
        self._own = {operation.path: operation for operation in _OWN}
        self._operations: dict[str, dict[str, Operation]] = {}
        for one in _OPERATIONS:
            methods = self._operations.setdefault(one.path.partition("{")[0], {})
            methods[one.method] = one
            if one.method == "GET" and one.is_file:
                methods["HEAD"] = one

    def use_keys(self, keys: ApiKeys | Mapping[str, ApiKeys]) -> None:
        """Replace the API keys: those of all collections, or of each by name.

        A service that has keys does not lose the last of them while it runs: it would be open to everyone.
        """
        each = {name: keys if isinstance(keys, ApiKeys) else keys.get(name, ApiKeys()) for name in self.services}
        has_keys = any(each.values())
        if not has_keys and any(service.keys for service in self.services.values()):
            raise InvalidInputError(
                "There are no API keys any more, and without any, everyone may read and write. Add a key, or start the "
                "service again without keys."
            )
        for name, service in self.services.items():
            service.keys = replace(each[name], required=True) if has_keys else None
        self._is_open = not has_keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._lifespan(scope, receive, send)
            return
        start, status, size, call = perf_counter(), 500, 0, Call(scope, receive, self._limits, self._memory)
        id = call.headers.get(b"x-request-id", b"")  # of the client, or of a proxy
        if not 0 < len(id) <= MAX_ID_CHARACTERS or not id.isascii() or not id.decode().isprintable():
            id = f"{self._prefix}-{next(self._numbers)}".encode()

        async def send_on(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS, (b"x-request-id", id)]
            else:
                size += len(message.get("body", b""))
            await send(message)

        self._metrics.n_active += 1
        try:
            self._check_site(call)
            await self._answer(call, send_on)
        except ClientDisconnect:
            status = 499
        except Exception as error:
            await self._refuse(call, send_on, id, error)
        finally:
            call.release()
            self._metrics.n_active -= 1
            seconds = perf_counter() - start
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.count(method, call.pattern, status, seconds)
            if access_log.isEnabledFor(logging.INFO):
                log_access(scope, id, status, size, seconds)

    async def _answer(self, call: Call, send: Send) -> None:
        """Find what a request is for, and answer it."""
        scope, method = call.scope, call.scope["method"]
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        page, own = self._pages.get(path), self._own.get(path)
        if page is not None or own is not None:
            call.pattern = path
            allowed = ("GET", "HEAD") if own is None or own.tag == "health" else ("GET",)
            if method not in allowed:
                raise wrong_method(scope, allowed)
            if page is not None:
                await page.respond(call.headers, send)
            elif own is not None:
                await respond(send, *await own.handler(self, call))
            return
        prefix, name, rest = _API, next(iter(self.services)), path.removeprefix(_API)
        if rest.startswith("/collections/"):
            prefix, (name, slash, rest) = _SEVERAL, rest.removeprefix("/collections/").partition("/")
            rest = slash + rest
        elif len(self.services) > 1 or rest == path:
            raise no_route(scope, 404, "Not Found")
        operations = self._operations.get(rest) or self._operations.get(rest[: rest.find("/", 1) + 1], {})
        if not operations:
            raise no_route(scope, 404, "Not Found")
        pattern = next(iter(operations.values())).path
        folder, is_open, param = pattern.partition("{")
        params = {param[:-1]: rest.removeprefix(folder)} if is_open else {}
        call.pattern = prefix + pattern
        if method not in operations:
            raise wrong_method(scope, operations)
        operation, service = operations[method], self.services.get(name)
        for one in self.services.values() if service is None else [service]:  # who may not read all sees no names
            if one.keys is not None:
                demand_key(call, one.keys, self._wrong_keys, write=operation.writes and service is not None)
        if service is None:
            raise Problem(404, "unknown-collection", f"There is no collection {name[:80]!r} here.")
        await service.answer(operation, call, params, send)

    def _check_site(self, call: Call) -> None:
        listed = call.scope["headers"]
        if len(listed) != len(call.headers):
            for name in (b"host", b"origin"):
                if sum(one == name for one, _ in listed) > 1:
                    raise Problem(400, "http", f"There are two headers {name.decode().capitalize()}; send one.")
        host, origin = call.header(b"host"), call.header(b"origin")
        if self._is_open and not is_local(host):
            rule = f"Host is {host[:80]!r}; this service has no API keys and accepts only 127.0.0.1 and localhost."
            raise Problem(421, "wrong-host", rule, field="Host", value=host)
        if origin and origin.partition("://")[2] != host:
            rule = (
                f"Origin is {origin[:80]!r}; pages of other sites may not use this service. Send it without a browser."
            )
            raise Problem(403, "wrong-origin", rule, field="Origin", value=origin)

    async def _refuse(self, call: Call, send: Send, id: bytes, error: Exception) -> None:
        """Send the problem document of an error."""
        problem, length = Problem.of_error(error), call.header(b"content-length")
        announced = int(length) if length.isdecimal() else 0
        if not call.is_read and (announced > MAX_DRAINED_BYTES or b"transfer-encoding" in call.headers):
            problem.headers["Connection"] = "close"
        if problem.status == 500 or isinstance(error, MemoryError):
            method, path = call.scope["method"], call.scope["path"]
            _log.error("%s %s failed (request %s)", method, path, id.decode(), exc_info=error)
        sent = [(name.lower().encode(), value.encode("latin-1")) for name, value in problem.headers.items()]
        await respond(send, problem.content(), MEDIA_TYPE, problem.status, [*sent, (b"cache-control", b"no-store")])

    @asynccontextmanager
    async def _close_at_end(self, app: Any) -> AsyncIterator[None]:
        yield
        for service in self.services.values():
            await asyncio.to_thread(service.close)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        prefix = _API if len(self.services) == 1 else _SEVERAL
        own = [(operation.path, operation) for operation in _OWN if operation.tag]
        return make_document([*((prefix + one.path, one) for one in _OPERATIONS), *own], self.root_path)

    # ------------------------------------------------------------------ own operations

    async def healthz(self, call: Call) -> Content:
        """Return the health status: the process runs."""
        return _json(HealthAnswer())

    async def readyz(self, call: Call) -> Content:
        """Return the readiness status: the collections can be read, and the service accepts requests."""
        for service in self.services.values():
            if service.stopping:
                raise stopping()
            await service.operations.run(service.collection.stats)
        return _json(HealthAnswer())

    async def metrics(self, call: Call) -> Content:
        """Return metrics for Prometheus, of the collections that the API key may read."""
        found = dict[str, dict[str, Any]]()
        for name, service in self._readable(call).items():
            found[name if len(self.services) > 1 else ""] = {
                **asdict(await service.operations.run(service.collection.stats)),
                "reading_waiting": service.reading.n_waiting,
                "writing_waiting": service.writing.n_waiting,
                "body_bytes": service.memory.n_bytes,
            }
        return self._metrics.text(found), METRICS_TYPE

    async def collections(self, call: Call) -> Content:
        """List the collections that the API key may read."""
        readable = [
            CollectionAnswer(
                name,
                len(one.collection),
                one.collection.readonly or bool(one.keys and not one.keys.may_write(key_of(call))),
            )
            for name, one in self._readable(call).items()
        ]
        return _json(CollectionsAnswer(readable))

    async def document(self, call: Call) -> Content:
        """Return this document."""
        return self._document

    def _readable(self, call: Call) -> dict[str, Service]:
        """Return the collections that the key of a request may read, one at least."""
        readable = {name: one for name, one in self.services.items() if one.keys is None or may_read(call, one.keys)}
        if not readable:
            demand_key(call, ApiKeys(required=True), self._wrong_keys)
        return readable


_OWN = (
    Operation(Application.collections, "GET", f"{_API}/collections", "state", CollectionsAnswer),
    Operation(Application.healthz, "GET", "/healthz", "health", HealthAnswer),
    Operation(Application.readyz, "GET", "/readyz", "health", HealthAnswer),
    Operation(Application.metrics, "GET", "/metrics", "state", Content, media=(METRICS_TYPE,)),
    Operation(Application.document, "GET", "/openapi.json", "", Content),
)


def _json(answer: Any) -> Content:
    return encode(answer), JSON


def wrong_method(scope: Scope, methods: Iterable[str]) -> Problem:
    """Return the problem of a method that a path does not have."""
    allowed = ", ".join(sorted(methods))
    return no_route(scope, 405, f"use {allowed}", {"Allow": allowed})


def create_app(
    collection: Collection | Mapping[str, Collection],
    *,
    limits: Limits | None = None,
    keys: ApiKeys | Mapping[str, ApiKeys] | None = None,
    root_path: str = "",
    media: str | os.PathLike[str] | None = None,
) -> Application:
    """Return the HTTP service of a collection, or of several by name, for any ASGI server.

    Parameters
    ----------
    collection : Collection, or mapping of str to Collection
        Not closed by the application: close them after the server has stopped.
    limits : Limits, optional
        For each collection.
    keys : ApiKeys, or mapping of str to ApiKeys, optional
        Without keys, every client may read and write. If some collections have keys, the others are closed.
    root_path : str, default=""
        Path below which a proxy serves the application.
    media : path, optional
        Folder of images, which are served to all who may read; such as those that payloads name.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> with Collection.open(f"{folder.name}/things.oh", "hcoh") as things:
    ...     app = create_app(things)
    >>> "/api/v1/search" in app.openapi()["paths"]
    True
    >>> folder.cleanup()
    """
    limits = limits or Limits()
    several = dict(collection) if isinstance(collection, Mapping) else {"default": collection}
    folder = None if media is None else Path(media).resolve()
    if folder is not None and not folder.is_dir():
        raise InvalidInputError(f"media={os.fspath(media or '')!r} is not a folder; pass one that has images.")
    memory = Memory(limits.max_memory_bytes)
    services = {name: Service(one, limits, memory, folder) for name, one in several.items()}
    app = Application(services, limits, memory, root_path)
    app.use_keys(keys or ApiKeys())
    return app
