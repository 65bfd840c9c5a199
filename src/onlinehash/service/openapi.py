"""The OpenAPI document, from the operations and the types of their bodies."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import msgspec

from onlinehash import __version__
from onlinehash.service import schemas
from onlinehash.service.operations import Operation
from onlinehash.service.parsing import JSON, NPY
from onlinehash.service.problems import MEDIA_TYPE

_REASONS = {
    400: "A header is given twice.",
    401: "The API key is missing or wrong.",
    403: "The API key does not allow this, the service is read-only, or the request comes from a page of another site.",
    404: "There is no such item, collection or image.",
    408: "The body took too long to arrive.",
    409: "The hasher has not learned enough yet, another job is running, or there is no backup.",
    413: "The body is too large.",
    415: "The media type of the body is not supported.",
    421: "The host is not a name of this machine, and there are no API keys.",
    422: "A value is invalid or exceeds a limit.",
    429: "Too many requests are waiting.",
    503: "The disk is full or read-only, memory is short, or the service is busy or stopping.",
}
_REF = "#/components/schemas/{name}"
_BYTES = {"type": "string", "format": "binary"}
_PARTS = {
    "id": "Id of an item.",
    "collection": "Name of a collection.",
    "path": "Keys in the payload, joined by dots.",
    "name": "Name of a checkpoint.",
    "file": "Path below the folder of media.",
}


def make_document(paths: Iterable[tuple[str, Operation]], root_path: str) -> dict[str, Any]:
    """Return the OpenAPI document of operations and their full paths."""
    listed = list(paths)
    kinds = {kind for _, one in listed for kind in (one.request, one.answer) if kind is not None}
    kinds |= {schemas.SearchOptions, schemas.ProblemAnswer, schemas.HealthAnswer}
    _, components = msgspec.json.schema_components(sorted(kinds, key=lambda kind: kind.__name__), ref_template=_REF)
    found: dict[str, dict[str, Any]] = {}
    for path, operation in listed:
        plain = path.replace(":path}", "}")
        found.setdefault(plain, {})[operation.method.lower()] = _describe(plain, operation, components)
    requests = {one.request.__name__ for _, one in listed if one.request is not None}
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "onlinehash",
            "version": __version__,
            "description": "A collection of vectors that learns its binary codes as items arrive, and is searched "
            "meanwhile.",
        },
        "paths": found,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in requests},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }
    return document | ({"servers": [{"url": root_path}]} if root_path else {})


def _describe(path: str, operation: Operation, components: dict[str, Any]) -> dict[str, Any]:
    text = inspect.getdoc(operation.handler) or ""
    name = operation.handler.__name__
    refused = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(name="ProblemAnswer")}}}
    answered = operation.media[0] if operation.answer is msgspec.Struct else JSON
    schema = {"type": "string"} if answered != JSON else {"$ref": _REF.format(name=operation.answer.__name__)}
    described: dict[str, Any] = {
        "tags": [operation.tag],
        "summary": name.replace("_", " ").capitalize(),
        "description": text,
        "operationId": f"{operation.method.lower()}{path.replace('/', '_').replace('{', '').replace('}', '')}",
        "parameters": [
            {"name": part, "in": "path", "required": True, "schema": {"type": "string"}, "description": _PARTS[part]}
            for part in _PARTS
            if f"{{{part}}}" in path
        ],
        "responses": {
            "200": {
                "description": "Done.",
                "content": {answered: {"schema": schema}} | ({NPY: {"schema": _BYTES}} if operation.arrays else {}),
            },
            **{str(status): {"description": _REASONS[status], "content": refused} for status in _refusals(operation)},
        },
    }
    if operation.answer is msgspec.Struct and len(operation.media) > 1:
        described["responses"]["200"]["content"] = {media: {"schema": _BYTES} for media in operation.media}
    if operation.request is not None:
        described["requestBody"] = {
            "required": True,
            "content": {
                media: {"schema": components[operation.request.__name__] if media == JSON else _BYTES}
                for media in operation.media
            },
        }
    if operation.request is schemas.SearchRequest:
        described["parameters"] += [
            {"name": option, "in": "query", "required": False, "schema": schema}
            for option, schema in components["SearchOptions"]["properties"].items()
        ]
    return described


def _refusals(operation: Operation) -> list[int]:
    """Return the statuses of refusals."""
    found = {400, 403, 421, 503, *operation.refusals}
    if operation.tag != "health":
        found |= {401, 429}
    if operation.request is not None:
        found |= {408, 413, 415, 422}
    if "{" in operation.path:
        found |= {404, 422}
    return sorted(found)
