"""The routes of the HTTP API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from onlinehash.service import metrics, schemas
from onlinehash.service.api_keys import ApiKeys
from onlinehash.service.executors import Executor
from onlinehash.service.handlers import Answer, Service
from onlinehash.service.parsing import ARROW, JSON, NPY, media_type
from onlinehash.service.problems import MEDIA_TYPE, Problem

_REASONS = {
    401: "The API key is missing or wrong.",
    403: "The API key does not allow this, the service is read-only, or the request comes from a page of another site.",
    404: "There is no such item.",
    408: "The body took too long to arrive.",
    409: "The hasher has not learned enough yet.",
    413: "The body is too large.",
    415: "The media type of the body is not supported.",
    421: "The host is not a name of this machine, and there are no API keys.",
    422: "A value is invalid or exceeds a limit.",
    429: "Too many requests are waiting.",
    503: "The disk is full or read-only, or the service is busy or stopping.",
}
_ANY = (401, 403, 421, 429, 503)
_BODY = (408, 413, 415, 422)
_POLL = 0.05  # seconds between two checks of a running refresh


def make_router(service: Service) -> APIRouter:
    """Return the routes of a service."""

    async def may_read(request: Request) -> None:
        demand_key(request, service.keys)

    async def may_write(request: Request) -> None:
        demand_key(request, service.keys, write=True)

    async def handle(
        request: Request, executor: Executor, call: Callable[[str, bytes], Answer], *accepted: str
    ) -> Response:
        media = media_type(request, *accepted)
        executor.check()
        body = await service.bodies.read(request)
        try:
            return _json(await executor.run(lambda: _dumps(call(media, body))))
        finally:
            service.bodies.release(body)

    async def read(call: Callable[[], Answer]) -> Response:
        return _json(await reading.run(lambda: _dumps(call())))

    reading, writing = service.executors.reading, service.executors.writing
    router = APIRouter(redirect_slashes=False)
    reads = partial(_route, router, [Depends(may_read)])
    writes = partial(_route, router, [Depends(may_write)])

    @writes("PUT", "/api/v1/items", schemas.ChangeAnswer, "items", _BODY, _content(schemas.UpsertRequest, NPY, ARROW))
    async def upsert_items(request: Request) -> Response:
        """Insert items, or replace those with the same ids; durable, and all or nothing.

        `application/x-npy`: records with the fields `id`, `vectors` and `label` (optional). Arrow stream: the
        columns `id`, `vectors`, `label` and `payload` (JSON text), the last two optional.
        """
        return await handle(request, writing, service.upsert, JSON, NPY, ARROW)

    @writes("PATCH", "/api/v1/items", schemas.ChangeAnswer, "items", (404, *_BODY), _content(schemas.UpdateRequest))
    async def update_items(request: Request) -> Response:
        """Change vectors, labels or payload of existing items; fields left out are kept, null removes."""
        return await handle(request, writing, service.update, JSON)

    @writes(
        "POST", "/api/v1/items/delete", schemas.ChangeAnswer, "items", (404, *_BODY), _content(schemas.DeleteRequest)
    )
    async def delete_items(request: Request) -> Response:
        """Delete items; with `unlearn`, also remove them from what the hasher has learned."""
        return await handle(request, writing, service.delete, JSON)

    @reads("POST", "/api/v1/items/get", schemas.ItemsAnswer, "items", (404, *_BODY), _content(schemas.IdsRequest))
    async def get_items(request: Request) -> Response:
        """Return items in the order of their ids."""
        return await handle(request, reading, service.get, JSON)

    @reads("POST", "/api/v1/items/list", schemas.ItemsAnswer, "items", _BODY, _content(schemas.ListRequest))
    async def list_items(request: Request) -> Response:
        """Return items in order of id: all, or those whose payload passes a filter."""
        return await handle(request, reading, service.list_items, JSON)

    @reads("POST", "/api/v1/items/count", schemas.CountAnswer, "items", _BODY, _content(schemas.WhereRequest))
    async def count_items(request: Request) -> Response:
        """Return the number of items, or of those whose payload passes a filter."""
        return await handle(request, reading, service.count, JSON)

    @reads("GET", "/api/v1/indexes", schemas.IndexesAnswer, "items")
    async def indexes() -> Response:
        """Return the paths in the payload that have an index."""
        return await read(service.indexes)

    @writes("POST", "/api/v1/indexes", schemas.IndexesAnswer, "items", _BODY, _content(schemas.IndexRequest))
    async def create_index(request: Request) -> Response:
        """Make filters by a path in the payload fast."""
        return await handle(request, writing, service.create_index, JSON)

    @writes("DELETE", "/api/v1/indexes/{path:path}", schemas.IndexesAnswer, "items", (422,))
    async def drop_index(path: str) -> Response:
        """Drop the index of a path in the payload."""
        return _json(await writing.run(lambda: _dumps(service.drop_index(path))))

    @reads("GET", "/api/v1/items/{id:path}", schemas.ItemAnswer, "items", (404, 422))
    async def get_item(id: str) -> Response:
        """Return one item."""
        return await read(partial(service.get_one, id))

    @writes("DELETE", "/api/v1/items/{id:path}", schemas.ChangeAnswer, "items", (404, 422))
    async def delete_item(id: str) -> Response:
        """Delete one item."""
        return _json(await writing.run(lambda: _dumps(service.delete_one(id))))

    @reads(
        "POST", "/api/v1/search", schemas.SearchAnswer, "search", (404, *_BODY), _content(schemas.SearchRequest, NPY)
    )
    async def search(request: Request, options: Annotated[schemas.SearchOptions, Query()]) -> Response:
        """Find the nearest items of vectors or of stored items, exactly.

        `application/x-npy`: one vector per row, and the options in the query string.
        """
        return await handle(request, reading, partial(service.search, options), JSON, NPY)

    @reads(
        "POST", "/api/v1/encode", schemas.EncodeAnswer, "search", (409, *_BODY), _content(schemas.EncodeRequest, NPY)
    )
    async def encode(request: Request) -> Response:
        """Return the codes of vectors, made by the encoder in use."""
        return await handle(request, reading, service.encode, JSON, NPY)

    @reads("GET", "/api/v1/label_counts", schemas.LabelCountsAnswer, "state")
    async def label_counts() -> Response:
        """Count items by label."""
        return await read(service.label_counts)

    @reads("POST", "/api/v1/label_counts", schemas.LabelCountsAnswer, "state", _BODY, _content(schemas.WhereRequest))
    async def passing_label_counts(request: Request) -> Response:
        """Count items by label, those whose payload passes a filter."""
        return await handle(request, reading, service.passing_label_counts, JSON)

    @reads("GET", "/api/v1/stats", schemas.StatsAnswer, "state")
    async def stats() -> Response:
        """Return the collection statistics."""
        return await read(service.stats)

    @reads("GET", "/api/v1/versions", schemas.VersionAnswer, "state")
    async def versions() -> Response:
        """Return the version of the encoder in use, and how stale it is."""
        return await read(service.version)

    @reads("GET", "/api/v1/limits", schemas.LimitsAnswer, "state")
    async def limits() -> Response:
        """Return the request limits."""
        return _json(_dumps(schemas.LimitsAnswer.of(service.limits).model_dump()))

    @writes("POST", "/api/v1/refresh", schemas.VersionAnswer, "state", (409, *_BODY), _content(schemas.RefreshRequest))
    async def refresh(request: Request) -> Response:
        """Encode all items again with the current hasher, in the background; searches go on."""
        begun = await handle(request, writing, service.refresh, JSON)
        state = json.loads(bytes(begun.body))
        wait = state.pop("wait")
        while wait and state["refreshing"] and state["refresh_error"] is None and not service.executors.stopping:
            await asyncio.sleep(_POLL)
            state = await reading.run(service.version)
        return _json(_dumps(state))

    @_route(router, [], "GET", "/healthz", schemas.HealthAnswer, "health", always=(403, 421))
    async def healthz() -> Response:
        """Return the health status: the process runs."""
        return _json(b'{"status": "ok"}')

    @_route(router, [], "GET", "/readyz", schemas.HealthAnswer, "health", always=(403, 421, 503))
    async def readyz() -> Response:
        """Return the readiness status: the service accepts requests."""
        if service.executors.stopping:
            raise Problem(503, "stopping", "The service is stopping.")
        return _json(b'{"status": "ok"}')

    @router.get(
        "/metrics",
        tags=["health"],
        dependencies=[Depends(may_read)],
        response_class=PlainTextResponse,
        responses=_refusals(_ANY),
    )
    async def metrics_text() -> Response:
        """Return metrics for Prometheus."""
        return Response(await reading.run(service.metrics_text), media_type=metrics.MEDIA_TYPE)

    return router


def _route(
    router: APIRouter,
    dependencies: list[Any],
    method: str,
    path: str,
    answer: type[BaseModel],
    tag: str,
    refusals: tuple[int, ...] = (),
    content: dict[str, Any] | None = None,
    *,
    always: tuple[int, ...] = _ANY,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the decorator of a route, with its answers documented."""
    return router.api_route(
        path,
        methods=[method],
        tags=[tag],
        dependencies=dependencies,
        response_model=None,
        responses={200: {"model": answer}, **_refusals((*always, *refusals))},
        openapi_extra=content,
    )


def _refusals(statuses: tuple[int, ...]) -> dict[int | str, dict[str, Any]]:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemAnswer"}}}
    return {status: {"description": _REASONS[status], "content": content} for status in sorted(statuses)}


def _content(model: type[BaseModel], *arrays: str) -> dict[str, Any]:
    """Return the OpenAPI description of a request body."""
    content: dict[str, Any] = {JSON: {"schema": model.model_json_schema()}}
    content |= {media: {"schema": {"type": "string", "format": "binary"}} for media in arrays}
    return {"requestBody": {"required": True, "content": content}}


def demand_key(request: Request, keys: ApiKeys, *, write: bool = False) -> None:
    """Refuse a request without the API key it needs."""
    if not keys:
        return
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not keys.may_read(token.strip()):
        raise Problem(
            401,
            "key",
            "The API key is missing or wrong; send 'Authorization: Bearer <key>'.",
            field="Authorization",
            headers={"WWW-Authenticate": "Bearer"},
        )
    if write and not keys.may_write(token.strip()):
        raise Problem(403, "key", "This API key only reads; use a write key.", field="Authorization")


def _dumps(answer: Answer) -> bytes:
    return json.dumps(answer, separators=(",", ":")).encode()


def _json(content: bytes) -> Response:
    return Response(content, media_type=JSON)
