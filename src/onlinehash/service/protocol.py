"""HTTP with limits on headers: their bytes, their number, and the time until they are complete."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 1 << 16
MAX_HEADERS = 200
HEADER_SECONDS = 10


class Protocol(HttpToolsProtocol):
    """HTTP that disconnects a client whose headers or trailers are too many, too long or too slow.

    The parser keeps what it has read of a header until it is complete, so the bytes that came without completing
    anything are counted too.
    """

    _timer: asyncio.TimerHandle | None = None
    _n_bytes = _n_headers = 0  # of the request that is being read
    _n_pending = 0  # bytes since a part of a body, or the end of a request
    _is_refused = False

    def connection_made(self, transport: Any) -> None:
        """Start the time for headers."""
        super().connection_made(transport)
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        """Parse bytes within the limits."""
        if self._is_refused:
            return
        self._n_pending += len(data)
        super().data_received(data)
        if self._n_pending > MAX_HEADER_BYTES:
            self._refuse()

    def on_message_begin(self) -> None:
        """Start the time for headers."""
        super().on_message_begin()
        if self._timer is None:
            self._expect_headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header or a trailer."""
        self._n_bytes += len(name) + len(value)
        self._n_headers += 1
        if self._n_bytes > MAX_HEADER_BYTES or self._n_headers > MAX_HEADERS:
            self._refuse()
        elif self._timer is not None:  # trailers, which come after the headers, are of no use here
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop the time for headers."""
        self._stop_timer()
        if not self._is_refused:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._n_pending = 0
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._n_pending = 0
        if not self._is_refused:
            super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time for headers."""
        self._stop_timer()
        super().connection_lost(exc)

    def _expect_headers(self) -> None:
        self._n_bytes = self._n_headers = self._n_pending = 0
        self._timer = asyncio.get_running_loop().call_later(HEADER_SECONDS, self._refuse)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self) -> None:
        self._stop_timer()
        self._is_refused = True
        self.transport.close()
