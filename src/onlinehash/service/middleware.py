"""Middleware: checks of Host and Origin, security headers, metrics."""

from __future__ import annotations

from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onlinehash.service.api_keys import is_loopback
from onlinehash.service.metrics import Metrics
from onlinehash.service.problems import Problem

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_CONTENT = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
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


class RequestMiddleware:
    """Refuse requests from pages of other sites, add security headers, and count requests.

    A browser sends requests on behalf of any page. ``Origin`` holds the address of that page, and ``Host`` the name
    that it used for this service, which may be a foreign one that resolves to this machine (DNS rebinding). With
    ``local``, only names of this machine are accepted.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, local: bool) -> None:
        self._app, self._metrics, self._local = app, metrics, local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = perf_counter(), 500

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            with self._metrics.active.track_inprogress():
                refused = self._refusal(dict(scope["headers"]))
                await (self._app if refused is None else refused.response())(scope, receive, send_on)
        finally:
            method = scope["method"] if scope["method"] in _METHODS else "other"
            pattern = getattr(scope.get("route"), "path", "other")  # not the path: there are few patterns
            self._metrics.count(method, pattern, status, perf_counter() - start)

    def _refusal(self, headers: dict[bytes, bytes]) -> Problem | None:
        host = headers.get(b"host", b"").decode("latin-1")
        if self._local and not is_loopback(_name(host)):
            return Problem(
                421,
                "wrong-host",
                f"Host is {host[:80]!r}; this service has no API keys and accepts only 127.0.0.1 and localhost.",
                field="Host",
                value=host,
            )
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and origin.partition("://")[2] != host:
            return Problem(
                403,
                "wrong-origin",
                f"Origin is {origin[:80]!r}; pages of other sites may not use this service. Send it without a browser.",
                field="Origin",
                value=origin,
            )
        return None


def _name(host: str) -> str:
    """Return a host without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host
