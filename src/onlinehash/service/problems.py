"""Problem documents (RFC 9457) that name the field, the value and the way out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import Response
from pydantic import ValidationError

from onlinehash.exceptions import (
    FileFormatError,
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
    NotLearnedError,
    OnlineHashError,
    StorageError,
    UnknownIdError,
)

MEDIA_TYPE = "application/problem+json"
_SHOWN = 80  # characters of a value
_MOST = 10  # errors of one request


class Problem(Exception):  # noqa: N818 (the word of RFC 9457)
    """A refused request: HTTP status, short name of the problem for programs, message, invalid field and its value."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        field: str | None = None,
        value: Any = ...,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.headers = status, kind, detail, dict(headers or {})
        self.errors = [] if field is None else [_error(field, value, detail)]

    def response(self) -> Response:
        """Return the HTTP response."""
        content: dict[str, Any] = {
            "type": f"urn:onlinehash:{self.kind}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "errors": self.errors,
        }
        return Response(json.dumps(content), self.status, self.headers, MEDIA_TYPE)

    @classmethod
    def of_validation(cls, error: ValidationError | Any, place: str = "") -> Problem:
        """Return the problem of a validation error, with one entry per field."""
        rules: dict[str, list[str]] = {}
        values = {}
        for one in error.errors():
            field = (
                ".".join([place] * bool(place) + [str(part) for part in one["loc"] if not _is_branch(part)]) or "body"
            )
            rules.setdefault(field, []).append(one["msg"])
            values[field] = one.get("input", ...)
        problem = cls(422, "invalid-input", "")
        problem.errors = [
            _error(field, values[field], f"{field}: {'; or '.join(dict.fromkeys(some))}.")
            for field, some in list(rules.items())[:_MOST]
        ]
        problem.detail = " ".join(one["detail"] for one in problem.errors)
        return problem

    @classmethod
    def of_error(cls, error: OnlineHashError) -> Problem:
        """Return the problem of an error of the library."""
        text = str(error)
        if isinstance(error, UnknownIdError):
            return cls(404, "unknown-id", text, field="ids")
        if isinstance(error, NotLearnedError):
            return cls(409, "not-learned", text)
        if isinstance(error, InvalidFeaturesError):
            return invalid("vectors", re.sub(r"\bX\b", "vectors", text))
        if isinstance(error, InvalidLabelsError):
            return invalid("labels", re.sub(r"\by\b", "labels", text))
        if isinstance(error, InvalidInputError):
            field, _, rest = text.partition(" ")
            name, equals, value = field.partition("=")
            return invalid(name, text, value if equals and rest else ...)
        if isinstance(error, (StorageError, FileFormatError)):
            return cls(503, "storage", re.sub(r"(/\S+/)", "", text), headers={"Retry-After": "5"})
        return cls(500, "internal", text)


def invalid(field: str, detail: str, value: Any = ...) -> Problem:
    """Return the problem of an invalid field."""
    return Problem(422, "invalid-input", detail, field=field, value=value)


def over_limit(field: str, value: int, most: int, way_out: str, status: int = 422) -> Problem:
    """Return the problem of a value beyond a limit."""
    detail = f"{field} is {value}, more than {most}, the limit of this service; {way_out}."
    return Problem(status, "over-limit", detail, field=field, value=value)


def _error(field: str, value: Any, detail: str) -> dict[str, Any]:
    """Describe an invalid field, with its value as a short text."""
    if value is ...:
        return {"field": field, "value": None, "detail": detail}
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    try:
        text = value if isinstance(value, str) else json.dumps(value)
    except (TypeError, ValueError):
        text = f"<{type(value).__name__}>"
    return {"field": field, "value": text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…", "detail": detail}


def _is_branch(part: Any) -> bool:
    """Return whether a part of a pydantic location is a branch of a union and not a field."""
    return isinstance(part, str) and (part in ("constrained-int", "str", "query", "body") or "[" in part)
