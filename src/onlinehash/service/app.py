"""The ASGI application: routes, pages and error handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from onlinehash import __version__
from onlinehash.collection import Collection
from onlinehash.exceptions import OnlineHashError
from onlinehash.service.api_keys import ApiKeys
from onlinehash.service.handlers import Service
from onlinehash.service.limits import Limits
from onlinehash.service.middleware import RequestMiddleware
from onlinehash.service.pages import make_pages
from onlinehash.service.problems import Problem
from onlinehash.service.routes import make_router
from onlinehash.service.schemas import ProblemAnswer


def create_app(
    collection: Collection,
    *,
    limits: Limits | None = None,
    keys: ApiKeys | None = None,
    routers: Iterable[APIRouter] = (),
) -> FastAPI:
    """Return the HTTP service of a collection, for any ASGI server.

    Parameters
    ----------
    collection : Collection
        Not closed by the application: close it after the server has stopped.
    limits : Limits, optional
    keys : ApiKeys, optional
        Without keys, every client may read and write.
    routers : iterable of APIRouter
        Additional routes.

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
    service = Service(collection, limits or Limits(), keys or ApiKeys())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.executors.close)

    app = FastAPI(
        title="onlinehash",
        version=__version__,
        description="A collection of vectors that learns its binary codes as items arrive, and is searched meanwhile.",
        lifespan=lifespan,
        docs_url=None,  # these pages load scripts from other sites
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_middleware(RequestMiddleware, metrics=service.metrics, local=not service.keys)
    app.include_router(make_router(service))
    for router in routers:
        app.include_router(router)
    app.include_router(make_pages())
    for kind in (Problem, OnlineHashError, RequestValidationError, HTTPException, ClientDisconnect, Exception):
        app.add_exception_handler(kind, _answer_error)
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = plain()
            components = document.setdefault("components", {})
            components["schemas"]["ProblemAnswer"] = ProblemAnswer.model_json_schema(
                ref_template="#/components/schemas/{model}"
            )
            components["schemas"] |= components["schemas"]["ProblemAnswer"].pop("$defs")
            components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{}, {"key": []}]
        return plain()

    app.openapi = openapi  # type: ignore[method-assign]
    return app


async def _answer_error(request: Request, error: Exception) -> Response:
    if isinstance(error, ClientDisconnect):
        return Response(status_code=400)
    return _problem(request, error).response()


def _problem(request: Request, error: Exception) -> Problem:
    """Return the problem document of an error."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, OnlineHashError):
        return Problem.of_error(error)
    if isinstance(error, RequestValidationError):
        return Problem.of_validation(error)
    if isinstance(error, HTTPException):
        detail = f"{request.method} {request.url.path[:80]}: {error.detail}. The routes are listed in /openapi.json."
        return Problem(error.status_code, "http", detail, headers=error.headers)
    return Problem(500, "internal", "The service failed to answer this request; its log has the reason.")
