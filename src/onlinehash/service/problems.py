"""Problem documents (RFC 9457) that name the field, the value and the way out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from starlette.types import Scope

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
LATER = {"Retry-After": "1"}
MAX_SHOWN_CHARACTERS = 80  # of a value
MAX_SEARCHED_BYTES = 1 << 16  # of a body in which the invalid value is looked up
_FIELD = re.compile(r"(?:unknown|missing required) field `(.*?)`")
_NAMED = re.compile(r"([a-z][\w.]*)(?:=(\S+?))?,?(?= )")
_PLACE = re.compile(r" - at `(?:key in )?\$(.*)`$")


def about(description: str, **limits: Any) -> msgspec.Meta:
    """Return the description of a field, and what bounds its values, for msgspec."""
    return msgspec.Meta(description=description, **limits)


class FieldError(msgspec.Struct):
    """An invalid field."""

    field: str
    value: Annotated[str | None, about("The value given, shortened.")]
    detail: str


class ProblemAnswer(msgspec.Struct):
    """A problem document (RFC 9457): what was given, the rule, and the way out."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError] = []


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
        self.errors = [] if field is None else [FieldError(field, _shown(value), detail)]

    def content(self) -> bytes:
        """Return the document."""
        title = HTTPStatus(self.status).phrase
        return msgspec.json.encode(
            ProblemAnswer(f"urn:onlinehash:{self.kind}", title, self.status, self.detail, self.errors)
        )

    @classmethod
    def of_decoding(cls, error: Exception, body: bytes | bytearray) -> Problem:
        """Return the problem of a body that cannot be decoded."""
        text = str(error)
        named, place = _FIELD.search(text), _PLACE.search(text)
        path = re.findall(r"[^.\[\]]+", place[1]) if place else []
        field = ".".join([*path, *([named[1]] if named else [])]) or "body"
        rule = re.sub(r"^[A-Z](?![A-Z])", lambda first: first[0].lower(), _PLACE.sub("", text))
        return invalid(field, f"{field}: {rule}.", _value(body, field.split(".")))

    @classmethod
    def of_error(cls, error: Exception) -> Problem:
        """Return the problem of any error; only those of the library are shown."""
        text = str(error)
        if isinstance(error, Problem):
            return error
        if isinstance(error, MemoryError):
            rule = "The service has too little memory for this request now; send fewer items or queries, or try later."
            return cls(503, "busy", rule, headers=LATER)
        if not isinstance(error, OnlineHashError):
            return cls(500, "internal", "The service failed to do this; its log has the reason.")
        if isinstance(error, UnknownIdError):
            return cls(404, "unknown-id", text, field="ids")
        if isinstance(error, NotLearnedError):
            return cls(409, "not-learned", text)
        if isinstance(error, InvalidFeaturesError):
            return invalid("vectors", re.sub(r"\bX\b", "vectors", text))
        if isinstance(error, InvalidLabelsError):
            return invalid("labels", re.sub(r"\by\b", "labels", text))
        if isinstance(error, InvalidInputError):
            named = _NAMED.match(text)
            return cls(422, "invalid-input", text) if named is None else invalid(named[1], text, named[2] or ...)
        if isinstance(error, (StorageError, FileFormatError)):
            return cls(503, "storage", re.sub(r"(/\S+/)", "", text), headers={"Retry-After": "5"})
        return cls(500, "internal", text)


def invalid(field: str, detail: str, value: Any = ...) -> Problem:
    """Return the problem of an invalid field."""
    return Problem(422, "invalid-input", detail, field=field, value=value)


def stopping() -> Problem:
    """Return the problem of a service that stops."""
    return Problem(503, "stopping", "The service is stopping; try again when it is back.", headers=LATER)


def no_route(scope: Scope, status: int, reason: str, headers: Mapping[str, str] | None = None) -> Problem:
    """Return the problem of a method or a path that is not there."""
    detail = f"{scope['method'][:20]} {scope['path'][:80]}: {reason}. The routes are listed in /openapi.json."
    return Problem(status, "http", detail, headers=headers)


def _shown(value: Any) -> str | None:
    """Return a value as a short text; None if there is none."""
    if value is ...:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}…"


def _value(body: bytes | bytearray, path: list[str]) -> Any:
    """Return the value at a place of a small body."""
    try:
        found: Any = msgspec.json.decode(body) if len(body) <= MAX_SEARCHED_BYTES else None
        for part in path:
            found = found[int(part) if isinstance(found, list) else part]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError, ValueError):
        return ...
    return found
