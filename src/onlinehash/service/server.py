"""Run the service: until a signal arrives, or in a thread."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import errorcode
from threading import Thread
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from onlinehash.collection import Collection
from onlinehash.exceptions import InvalidInputError
from onlinehash.service.api_keys import ApiKeys, check_address
from onlinehash.service.app import create_app
from onlinehash.service.limits import Limits

_GRACE = 10  # seconds to finish running requests when the service stops
_HEADER_BYTES = 1 << 16
_HEADER_SECONDS = 10
_SWITCH = 0.0005  # seconds between thread switches: short, so that a search need not wait for a change


class _Protocol(HttpToolsProtocol):
    """HTTP with limits on the size of headers and on the time until they are complete."""

    _timer: asyncio.TimerHandle | None = None
    _n_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        if self._timer is not None:
            self._n_bytes += len(data)
        super().data_received(data)
        if self._timer is not None and self._n_bytes > _HEADER_BYTES:
            self._disconnect()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._timer is None:
            self._expect_headers()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _expect_headers(self) -> None:
        self._n_bytes = 0
        self._timer = asyncio.get_running_loop().call_later(_HEADER_SECONDS, self._disconnect)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _disconnect(self) -> None:
        self._stop_timer()
        self.transport.close()


def listen(host: str, port: int, keys: ApiKeys) -> socket.socket:
    """Return a listening socket; a host that other machines reach requires API keys, and port 0 is any free port."""
    check_address(host, keys)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None) or 0
        reason = os.strerror(number) if number in errorcode else error
        raise InvalidInputError(
            f"host={host!r}, port={port} cannot be listened on: {reason}. Choose another --port, or --host."
        ) from error


def url_of(listening: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(app: FastAPI, listening: socket.socket, limits: Limits) -> None:
    """Serve until SIGTERM or SIGINT, then finish running requests."""
    sys.setswitchinterval(_SWITCH)
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)  # uvicorn raises the signal again at the end
    try:
        with suppress(KeyboardInterrupt):
            _server(app, limits).run(sockets=[listening])
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def serve_in_thread(
    collection: Collection, *, limits: Limits | None = None, keys: ApiKeys | None = None
) -> Iterator[str]:
    """Serve a collection from a thread while the block lasts; yields the URL, on a free port of this machine.

    Parameters
    ----------
    collection : Collection
    limits : Limits, optional
    keys : ApiKeys, optional

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from onlinehash.client import Client
    >>> folder = TemporaryDirectory()
    >>> with Collection.open(f"{folder.name}/things.oh", "hcoh") as things, serve_in_thread(things) as url:
    ...     with Client(url) as client:
    ...         client.upsert([1, 2], [[0.0, 1.0], [1.0, 0.0]], labels=["a", "b"])
    ...         client.stats().n_items
    2
    >>> folder.cleanup()
    """
    limits = limits or Limits()
    listening = listen("127.0.0.1", 0, keys or ApiKeys())
    server = _server(create_app(collection, limits=limits, keys=keys), limits)
    thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="onlinehash service")
    thread.start()
    try:
        yield url_of(listening)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def _server(app: FastAPI, limits: Limits) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=limits.max_connections,
            timeout_graceful_shutdown=_GRACE,
        )
    )
