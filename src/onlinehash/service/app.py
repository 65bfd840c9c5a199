"""The ASGI application: collections, pages and health."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cached_property, partial
from mimetypes import guess_type
from pathlib import Path
from typing import Any, Literal

import msgspec
from starlette.requests import Request
from starlette.routing import BaseRoute, Route, Router
from starlette.types import Receive, Scope, Send

from onlinehash.collection import Collection
from onlinehash.exceptions import InvalidInputError
from onlinehash.service import handlers, maintenance
from onlinehash.service.api_keys import ApiKeys, WrongKeys, demand_key
from onlinehash.service.limits import Limits
from onlinehash.service.middleware import METRICS_TYPE, Metrics, RequestMiddleware
from onlinehash.service.openapi import make_document
from onlinehash.service.problems import Problem, no_route, stopping
from onlinehash.service.requests import JSON
from onlinehash.service.routes import Content, Endpoint, Operation, ReadOnly, Service, encode

STATIC = Path(__file__).with_name("static")  # the web page
_PATHS = {"index.html": "/", "docs.html": "/docs"}
_API = "/api/v1"
_SEVERAL = f"{_API}/collections/{{collection}}"
_OPERATIONS = [one for module in (handlers, maintenance) for one in vars(module).values() if isinstance(one, Operation)]


class HealthAnswer(msgspec.Struct):
    """Health status."""

    status: Literal["ok"] = "ok"


class CollectionAnswer(msgspec.Struct):
    """A collection of this service."""

    name: str
    n_items: int
    readonly: bool


class CollectionsAnswer(msgspec.Struct):
    """The collections of this service."""

    collections: list[CollectionAnswer]


class Application:
    """The HTTP service of one or several collections; an ASGI application.

    Made by :func:`create_app`.
    """

    def __init__(self, services: dict[str, Service], limits: Limits, root_path: str) -> None:
        self.services, self.root_path = services, root_path
        self._wrong_keys = WrongKeys(limits.max_wrong_keys)
        self._metrics = Metrics(list(services) if len(services) > 1 else [])
        router = Router(
            [*self._routes(), *make_pages()], redirect_slashes=False, lifespan=self._lifespan, default=_nowhere
        )
        self._app = RequestMiddleware(router, self._metrics)

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
            service.keys = replace(each[name], required=has_keys)
        self._app.local = not has_keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        yield
        for service in self.services.values():
            await asyncio.to_thread(service.close)

    # ------------------------------------------------------------------ routes

    def _routes(self) -> Iterator[BaseRoute]:
        by_path: dict[str, list[Operation]] = {}
        for operation in sorted(_OPERATIONS, key=lambda one: "{" in one.path):  # what names any item comes last
            by_path.setdefault(operation.path, []).append(operation)
        for prefix in (_API, _SEVERAL) if len(self.services) == 1 else (_SEVERAL,):
            for path, operations in by_path.items():
                pattern = prefix + path
                yield Route(pattern, Endpoint(pattern, operations, self.services, self._wrong_keys))
        for operation in _OWN:
            methods = ("GET", "HEAD") if operation.tag == "health" else ("GET",)
            yield Route(operation.path, ReadOnly(operation.path, partial(operation.handler, self), methods))

    @cached_property
    def _document(self) -> dict[str, Any]:
        prefix = _API if len(self.services) == 1 else _SEVERAL
        own = [(operation.path, operation) for operation in _OWN if operation.tag]
        return make_document([*((prefix + one.path, one) for one in _OPERATIONS), *own], self.root_path)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        return self._document

    # ------------------------------------------------------------------ own operations

    async def healthz(self, request: Request) -> Content:
        """Return the health status: the process runs."""
        return _json(HealthAnswer())

    async def readyz(self, request: Request) -> Content:
        """Return the readiness status: the collections can be read, and the service accepts requests."""
        for service in self.services.values():
            if service.stopping:
                raise stopping()
            await service.operations.run(service.collection.stats)
        return _json(HealthAnswer())

    async def metrics(self, request: Request) -> Content:
        """Return metrics for Prometheus."""
        self._demand_any(request)
        for name, service in self.services.items():
            gauges = {
                "reading_waiting": service.reading.n_waiting,
                "writing_waiting": service.writing.n_waiting,
                "body_bytes": service.bodies.n_bytes,
            }
            self._metrics.set(name, await service.operations.run(service.collection.stats), gauges)
        return self._metrics.text(), METRICS_TYPE

    async def collections(self, request: Request) -> Content:
        """List the collections that the API key may read."""
        self._demand_any(request)
        readable = [
            CollectionAnswer(name, len(service.collection), service.collection.readonly)
            for name, service in self.services.items()
            if _may_read(request, service)
        ]
        return _json(CollectionsAnswer(readable))

    async def document(self, request: Request) -> Content:
        """Return this document."""
        return _json(self._document)

    def _demand_any(self, request: Request) -> None:
        """Demand a key that reads any of the collections."""
        if not any(_may_read(request, service) for service in self.services.values()):
            demand_key(request, ApiKeys(required=True), self._wrong_keys)


_OWN = (
    Operation(Application.collections, "GET", f"{_API}/collections", "state", CollectionsAnswer),
    Operation(Application.healthz, "GET", "/healthz", "health", HealthAnswer),
    Operation(Application.readyz, "GET", "/readyz", "health", HealthAnswer),
    Operation(Application.metrics, "GET", "/metrics", "state", Content, media=(METRICS_TYPE,)),
    Operation(Application.document, "GET", "/openapi.json", "", Content),
)


def _may_read(request: Request, service: Service) -> bool:
    try:
        demand_key(request, service.keys)
    except Problem:
        return False
    return True


def _json(answer: Any) -> Content:
    return encode(answer), JSON


def make_pages(folder: Path = STATIC) -> Iterator[BaseRoute]:
    """Yield one route per file of a folder; ``index.html`` is at ``/`` and ``docs.html`` at ``/docs``.

    The files are read once, so that no request path reaches the file system.
    """
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            name = file.relative_to(folder).as_posix()
            path, media = _PATHS.get(name, f"/{name}"), guess_type(name)[0] or "application/octet-stream"
            content = file.read_bytes(), f"{media}; charset=utf-8" if media.startswith("text/") else media
            yield Route(path, ReadOnly(path, partial(_page, content)))


async def _page(content: Content, request: Request) -> Content:
    return content


async def _nowhere(scope: Scope, receive: Receive, send: Send) -> None:
    raise no_route(scope, 404, "Not Found")


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
    services = {name: Service(one, limits, folder) for name, one in several.items()}
    app = Application(services, limits, root_path)
    app.use_keys(keys or ApiKeys())
    return app
