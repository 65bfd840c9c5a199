"""Middleware: checks of Host and Origin, security headers, errors, metrics, request ids and the access log."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import lru_cache
from itertools import count
from secrets import token_hex
from time import perf_counter, time

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onlinehash.collection import Stats
from onlinehash.service.api_keys import is_loopback
from onlinehash.service.problems import Problem, no_route
from onlinehash.service.routes import refuse

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
MAX_ID_CHARACTERS = 128
MAX_DRAINED_BYTES = 1 << 16  # of a refused body that are read, so that the connection can be used again
METRICS_TYPE = CONTENT_TYPE_LATEST
_EDGES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_COLLECTION = {  # name: attribute of the statistics, description
    "items": ("n_items", "Items stored."),
    "items_searchable": ("n_searchable", "Items with a code."),
    "instances_learned": ("n_learned", "Instances that the hasher has learned from."),
    "code_bits": ("n_bits", "Bits per code."),
    "generation": ("generation", "Generation of the codes searched."),
    "encoder_version": ("version", "Version of the encoder in use; 0 if there is none."),
    "staleness": ("staleness", "Instances learned since the encoder version in use."),
    "refreshing": ("refreshing", "1 while a refresh runs."),
    "refresh_progress": ("progress", "Share of the items that the running refresh has encoded."),
    "refresh_failed": ("refresh_error", "1 if the last refresh failed."),
    "bits_recomputed": ("bits_recomputed", "Bits computed again by all refreshes."),
    "file_bytes": ("n_bytes", "Bytes of the file, or of all tables."),
}
_SERVICE = {
    "reading_waiting": "Requests waiting to read.",
    "writing_waiting": "Requests waiting to write.",
    "body_bytes": "Bytes of request bodies in memory.",
}


class Metrics:
    """Count requests by route and status, and measure their duration.

    Parameters
    ----------
    collections : list of str
        Names of the collections; empty for a service of one.
    """

    def __init__(self, collections: list[str]) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "onlinehash_requests", "Requests answered.", ["method", "route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "onlinehash_request_seconds", "Seconds per request.", ["route"], buckets=_EDGES, registry=registry
        )
        self.active = Gauge("onlinehash_requests_active", "Requests being answered.", registry=registry)
        self._by_name, names = bool(collections), ["collection"] if collections else []
        texts = {name: text for name, (_, text) in _COLLECTION.items()} | _SERVICE
        self._gauges = {
            name: Gauge(f"onlinehash_{name}", text, names, registry=registry) for name, text in texts.items()
        }

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request to a route, given as its pattern."""
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def set(self, collection: str, stats: Stats, gauges: Mapping[str, float]) -> None:
        """Set the gauges of a collection: its statistics, and others by name."""
        values = {name: getattr(stats, attribute) for name, (attribute, _) in _COLLECTION.items()} | dict(gauges)
        values["refresh_failed"] = values["refresh_failed"] is not None
        for name, value in values.items():
            gauge = self._gauges[name].labels(collection) if self._by_name else self._gauges[name]
            gauge.set(value or 0)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


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
            if not scope.get("is_read") and _announced(headers) > MAX_DRAINED_BYTES:
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
        if 0 < len(given) <= MAX_ID_CHARACTERS and given.isascii() and given.decode().isprintable():
            return given
        return f"{self._prefix}-{next(self._numbers)}".encode()

    def _check(self, listed: list[tuple[bytes, bytes]], headers: dict[bytes, bytes]) -> None:
        if len(listed) != len(headers):
            for name in (b"host", b"origin"):
                if sum(one == name for one, _ in listed) > 1:
                    raise Problem(400, "http", f"There are two headers {name.decode().capitalize()}; send one.")
        host = headers.get(b"host", b"").decode("latin-1")
        if self.local and not _is_local(host):
            rule = f"Host is {host[:80]!r}; this service has no API keys and accepts only 127.0.0.1 and localhost."
            raise Problem(421, "wrong-host", rule, field="Host", value=host)
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and origin.partition("://")[2] != host:
            rule = (
                f"Origin is {origin[:80]!r}; pages of other sites may not use this service. Send it without a browser."
            )
            raise Problem(403, "wrong-origin", rule, field="Origin", value=origin)


def _problem(scope: Scope, error: Exception) -> Problem:
    """Return the problem document of an error."""
    if isinstance(error, HTTPException):
        return no_route(scope, error.status_code, error.detail, error.headers)
    return Problem.of_error(error)


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
