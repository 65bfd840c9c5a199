"""Middleware: checks of Host and Origin, security headers, errors, metrics, request ids and the access log."""

from __future__ import annotations

import json
import logging
from functools import lru_cache
from itertools import count
from secrets import token_hex
from time import perf_counter, time

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onlinehash.exceptions import OnlineHashError
from onlinehash.service.api_keys import is_loopback
from onlinehash.service.endpoints import refuse
from onlinehash.service.metrics import Metrics
from onlinehash.service.problems import LATER, Problem, no_route

access_log = logging.getLogger("onlinehash.access")
_log = logging.getLogger("onlinehash.service")
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_CONTENT = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob: https:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", _CONTENT.encode()),
]
_LONGEST_ID = 128
_DRAINED = 1 << 16  # bytes of a refused body that are read, so that the connection can be used again


class RequestMiddleware:
    """Refuse requests from pages of other sites, answer errors, add headers, count and log requests.

    A browser sends requests on behalf of any page. ``Origin`` holds the address of that page, and ``Host`` the name
    that it used for this service, which may be a foreign one that resolves to this machine (DNS rebinding). With
    ``local``, only names of this machine are accepted.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics, self.local = app, metrics, True
        self._prefix, self._numbers = token_hex(6), count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status, size = perf_counter(), 500, 0
        headers = dict(scope["headers"])
        id = self._request_id(headers.get(b"x-request-id", b""))

        async def send_on(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS, (b"x-request-id", id)]
            else:
                size += len(message.get("body", b""))
            await send(message)

        self._metrics.active.inc()
        try:
            self._check(scope["headers"], headers)
            await self._app(scope, receive, send_on)
        except ClientDisconnect:
            status = 499
        except Exception as error:
            problem = _problem(scope, error)
            if not scope.get("is_read") and _announced(headers) > _DRAINED:
                problem.headers["Connection"] = "close"
            if problem.status == 500 or isinstance(error, MemoryError):
                _log.error("%s %s failed (request %s)", scope["method"], scope["path"], id.decode(), exc_info=error)
            await refuse(send_on, problem)
            del problem  # its traceback refers to this frame: the cycle would keep the body of the request
        finally:
            self._metrics.active.dec()
            seconds = perf_counter() - start
            method = scope["method"] if scope["method"] in _METHODS else "other"
            pattern = scope.get("pattern", "other")  # not the path: there are few patterns
            self._metrics.count(method, pattern, status, seconds)
            if access_log.isEnabledFor(logging.INFO):
                access_log.info(_line(scope, id, status, size, seconds))

    def _request_id(self, given: bytes) -> bytes:
        """Return the id that the client or a proxy has given, or a new one."""
        if 0 < len(given) <= _LONGEST_ID and given.isascii() and given.decode().isprintable():
            return given
        return f"{self._prefix}-{next(self._numbers)}".encode()

    def _check(self, listed: list[tuple[bytes, bytes]], headers: dict[bytes, bytes]) -> None:
        if len(listed) != len(headers):
            for name in (b"host", b"origin"):
                if sum(one == name for one, _ in listed) > 1:
                    raise Problem(400, "http", f"There are two headers {name.decode().capitalize()}; send one.")
        host = headers.get(b"host", b"").decode("latin-1")
        if self.local and not _is_local(host):
            raise Problem(
                421,
                "wrong-host",
                f"Host is {host[:80]!r}; this service has no API keys and accepts only 127.0.0.1 and localhost.",
                field="Host",
                value=host,
            )
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and origin.partition("://")[2] != host:
            raise Problem(
                403,
                "wrong-origin",
                f"Origin is {origin[:80]!r}; pages of other sites may not use this service. Send it without a browser.",
                field="Origin",
                value=origin,
            )


def _problem(scope: Scope, error: Exception) -> Problem:
    """Return the problem document of an error."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, OnlineHashError):
        return Problem.of_error(error)
    if isinstance(error, HTTPException):
        return no_route(scope, error.status_code, error.detail, error.headers)
    if isinstance(error, MemoryError):
        detail = "The service has too little memory for this request now; send fewer items or queries, or try later."
        return Problem(503, "busy", detail, headers=LATER)
    return Problem(500, "internal", "The service failed to answer this request; its log has the reason.")


def _announced(headers: dict[bytes, bytes]) -> float:
    """Return the number of bytes of a body, as its headers announce it."""
    if b"transfer-encoding" in headers:
        return float("inf")
    length = headers.get(b"content-length", b"0")
    return int(length) if length.isdigit() else 0


def _line(scope: Scope, id: bytes, status: int, size: int, seconds: float) -> str:
    """Return a line of the access log."""
    client = scope.get("client")
    return json.dumps(
        {
            "time": round(time(), 3),
            "client": None if client is None else client[0],
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "bytes": size,
            "ms": round(1000 * seconds, 3),
            "request_id": id.decode(),
        }
    )


@lru_cache(maxsize=64)
def _is_local(host: str) -> bool:
    """Return whether a host, with or without its port, is a name of this machine."""
    name, colon, port = host.rpartition(":")
    return is_loopback(name if colon and port.isdecimal() else host)
