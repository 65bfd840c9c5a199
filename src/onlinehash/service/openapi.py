"""The OpenAPI document, from the operations and the types of their bodies."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec

from onlinehash import __version__
from onlinehash.service.problems import MEDIA_TYPE, ProblemAnswer
from onlinehash.service.requests import JSON, NPY
from onlinehash.service.routes import MAX_KEY_CHARACTERS, Operation

_REF = "#/components/schemas/{name}"
_BYTES = {"type": "string", "format": "binary"}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": MAX_KEY_CHARACTERS},
    "description": "Printable ASCII; a request with the key of one that was applied gets its answer, and no more.",
}


def make_document(paths: Iterable[tuple[str, Operation]], root_path: str) -> dict[str, Any]:
    """Return the OpenAPI document of operations and their full paths."""
    listed = list(paths)
    requests = {one.request for _, one in listed if one.request is not None}
    kinds = requests | {one.answer for _, one in listed if not one.is_file} | {ProblemAnswer}
    named = sorted(kinds, key=lambda kind: str(kind.__name__))
    _, components = msgspec.json.schema_components(named, ref_template=_REF, schema_hook=_array_schema)
    components["Item"]["required"].remove("vectors")  # a list may leave them out
    _complete(components)
    found: dict[str, dict[str, Any]] = {}
    for path, operation in listed:
        found.setdefault(path, {})[operation.method.lower()] = _describe(path, operation, components)
    for kind in requests:
        components.pop(kind.__name__)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "onlinehash",
            "version": __version__,
            "description": "A collection of vectors that learns its binary codes as items arrive, and is searched "
            "meanwhile.",
        },
        "paths": found,
        "components": {"schemas": components, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"key": []}],
    }
    return document | ({"servers": [{"url": root_path}]} if root_path else {})


def _array_schema(kind: type) -> dict[str, Any]:
    numbers = {"type": "array", "items": {"type": "number"}}
    return {"anyOf": [numbers, {"type": "string"}], "description": "Numbers; a packed code as hexadecimal digits."}


def _complete(schema: Any) -> None:
    """Add what msgspec leaves out, and keep only the first paragraph of a docstring."""
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _complete(part)
    if isinstance(schema, dict):
        if schema.get("type") == "integer":
            schema["format"] = "int64"
        elif schema.get("type") == "array":
            parts = schema.pop("prefixItems", [schema.get("items") or {}])
            schema["items"] = parts[0] if parts.count(parts[0]) == len(parts) else {"anyOf": parts}
        if isinstance(text := schema.get("description"), str):
            schema["description"] = text.partition("\n\n")[0]


def _describe(path: str, operation: Operation, components: dict[str, Any]) -> dict[str, Any]:
    refused = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(name="ProblemAnswer")}}}
    if operation.is_file:
        content = {media: {"schema": _BYTES} for media in operation.media}
    else:
        content = {JSON: {"schema": {"$ref": _REF.format(name=operation.answer.__name__)}}}
    if operation.arrays:
        content[NPY] = {"schema": _BYTES}
    described: dict[str, Any] = {
        "tags": [operation.tag],
        "summary": operation.handler.__name__.replace("_", " ").capitalize(),
        "description": inspect.getdoc(operation.handler) or "",
        "operationId": operation.handler.__name__,
        "parameters": [
            {"name": part, "in": "path", "required": True, "schema": {"type": "string"}}
            for part in re.findall(r"{(\w+)}", path)
        ],
        "responses": {
            "200": {"description": "Done.", "content": content},
            **{
                str(status): {"description": HTTPStatus(status).phrase, "content": refused}
                for status in _refusals(operation)
            },
        },
    }
    if operation.repeats:
        described["parameters"].append(_KEY)
    if operation.request is not None:
        schema = components[operation.request.__name__]
        bodies = {media: {"schema": schema if media == JSON else _BYTES} for media in operation.bodies}
        described["requestBody"] = {"required": True, "content": bodies}
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
