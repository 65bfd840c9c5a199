"""Run the service: until a signal arrives, or in a thread."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import socket
import ssl
import sys
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import errorcode
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from onlinehash.collection import Collection
from onlinehash.exceptions import InvalidInputError, OnlineHashError
from onlinehash.service.api_keys import ApiKeys, check_address
from onlinehash.service.app import Application, create_app
from onlinehash.service.limits import Limits

_log = logging.getLogger("onlinehash.service")
STOP_SECONDS = 10  # to finish running requests when the service stops
SWITCH_SECONDS = 0.0005  # between thread switches: short, so that a search need not wait for a change
MAX_HEADER_BYTES = 1 << 16
MAX_HEADERS = 200
HEADER_SECONDS = 10  # until the headers of a request are complete, and the TLS handshake before
STALLED_SECONDS = 30  # in which a client takes nothing of its answer
SEND_BUFFER_BYTES = 1 << 18  # of the kernel, per connection: with more, it shows late that a client is reading


def listen(host: str, port: int, keys: ApiKeys) -> socket.socket:
    """Return a listening socket; a host that other machines reach requires API keys, and port 0 is any free port."""
    check_address(host, keys)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(address[:2], family=family, backlog=2048)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        return listening
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None) or 0
        reason = os.strerror(number) if number in errorcode else error
        raise InvalidInputError(
            f"host={host!r}, port={port} cannot be listened on: {reason}. Choose another --port, or --host."
        ) from error


def read_certificate(certfile: Path, keyfile: Path) -> ssl.SSLContext:
    """Return what TLS needs of a certificate and a private key."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        tls.load_cert_chain(certfile, keyfile, password=_refuse_password)
    except OSError as error:
        known = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        reason = (known or "one of them is not a PEM file").lower().replace("_", " ")
        raise InvalidInputError(
            f"certfile={str(certfile)!r} and keyfile={str(keyfile)!r} cannot be used for TLS: {reason}. Give a "
            "certificate and its own private key, both PEM files."
        ) from error
    return tls


def _refuse_password() -> str:
    raise InvalidInputError("The private key has a password; give one without, in a file that only the service reads.")


def check_proxies(trusted_proxies: str) -> None:
    """Raise if text is neither ``*`` nor addresses and networks separated by commas."""
    for proxy in trusted_proxies.split(",") if trusted_proxies not in ("", "*") else ():
        try:
            ipaddress.ip_network(proxy.strip())
        except ValueError as error:
            raise InvalidInputError(
                f"trusted_proxies={trusted_proxies!r} cannot be used: {error}. Give addresses such as 127.0.0.1 or "
                "networks such as 10.0.0.0/8, separated by commas, or '*' for all."
            ) from error


def url_of(listening: socket.socket, *, tls: bool = False) -> str:
    """Return the URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http{'s' * tls}://{f'[{host}]' if ':' in host else host}:{port}"


def run(
    app: Application,
    listening: socket.socket,
    limits: Limits,
    *,
    read_keys: Callable[[], ApiKeys | Mapping[str, ApiKeys]] | None = None,
    tls: ssl.SSLContext | None = None,
    trusted_proxies: str = "",
    announce: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish running requests.

    Parameters
    ----------
    app : Application
    listening : socket
    limits : Limits
    read_keys : callable, optional
        Returns the API keys; called again on SIGHUP. If it fails then, the keys stay as they are.
    tls : ssl.SSLContext, optional
        Made by :func:`read_certificate`.
    trusted_proxies : str
        Addresses whose X-Forwarded-For and X-Forwarded-Proto are believed, separated by commas.
    announce : callable, optional
        Called when signals are handled, and requests are about to be.
    """
    sys.setswitchinterval(SWITCH_SECONDS)

    def read_again() -> None:
        assert read_keys is not None
        try:
            app.use_keys(read_keys())
            _log.info("The API keys were read again.")
        except OnlineHashError as error:
            _log.error("The API keys stay as they are: %s", error)

    handlers: dict[int, Any] = {signal.SIGTERM: lambda number, frame: None}  # uvicorn raises the signal again
    if read_keys is not None and hasattr(signal, "SIGHUP"):
        # In a thread: the signal may come while this one writes to stderr, where the log goes too.
        handlers[signal.SIGHUP] = lambda number, frame: Thread(target=read_again).start()
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    announce()
    options = {
        "proxy_headers": bool(trusted_proxies),
        "forwarded_allow_ips": trusted_proxies,
        "root_path": app.root_path,
    }
    try:
        with suppress(KeyboardInterrupt):
            _server(app, limits, tls, **options).run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def serve_in_thread(
    collection: Collection | Mapping[str, Collection],
    *,
    limits: Limits | None = None,
    keys: ApiKeys | Mapping[str, ApiKeys] | None = None,
    media: str | os.PathLike[str] | None = None,
) -> Iterator[str]:
    """Serve a collection, or several by name, from a thread while the block lasts, on a free port of this machine.

    Yields the URL.

    Parameters
    ----------
    collection : Collection, or mapping of str to Collection
    limits : Limits, optional
    keys : ApiKeys, or mapping of str to ApiKeys, optional
    media : path, optional
        Folder of images, as for :func:`create_app`.

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
    listening = listen("127.0.0.1", 0, ApiKeys())
    server = _server(create_app(collection, limits=limits, keys=keys, media=media), limits)
    thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="onlinehash service")
    thread.start()
    try:
        yield url_of(listening)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def _server(app: Application, limits: Limits, tls: ssl.SSLContext | None = None, **options: Any) -> uvicorn.Server:
    protocol: Any = partial(Protocol, tls)
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=limits.max_connections,
            timeout_graceful_shutdown=STOP_SECONDS,
            **({"proxy_headers": False} | options),
        )
    )


class Protocol(HttpToolsProtocol):
    """HTTP that disconnects a client whose handshake, headers or trailers are too many, too long or too slow.

    The parser keeps what it has read of a header until it is complete, so all bytes are counted that are no body. TLS
    begins here, so that a connection counts before its handshake. A client that does not read is disconnected, too.
    """

    def __init__(self, tls: ssl.SSLContext | None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tls = tls
        self._timer: asyncio.TimerHandle | None = None  # while headers are expected
        self._stalled: asyncio.TimerHandle | None = None  # while bytes wait to be sent
        self._n_headers = self._n_pending = 0  # of the request that is read; bytes since its start or a part of a body

    def connection_made(self, transport: Any) -> None:
        """Start the time for headers, and TLS, after which this is called again."""
        self.transport = transport
        if self in self.connections:
            super().connection_made(transport)
        elif len(self.connections) >= 2 * (self.limit_concurrency or 0):
            transport.abort()
        else:
            self._timer = self.loop.call_later(HEADER_SECONDS, transport.abort)
            self.connections.add(self)
            if self._tls is None:
                super().connection_made(transport)
                return
            shaken = self.loop.create_future()
            shaken.add_done_callback(self._end_handshake)
            secure = SSLProtocol(self.loop, self, self._tls, shaken, server_side=True)
            transport.set_protocol(secure)
            secure.connection_made(transport)

    def _end_handshake(self, shaken: asyncio.Future[None]) -> None:
        """Forget a connection whose handshake has failed."""
        shaken.exception()
        if self.flow is None:
            self.connection_lost(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        for timer in (self._timer, self._stalled):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes within the limits."""
        self._n_pending += len(data)
        super().data_received(data)
        if self._n_pending > MAX_HEADER_BYTES:
            self.transport.close()

    def on_message_begin(self) -> None:
        """Start the time for headers."""
        super().on_message_begin()
        self._n_headers = self._n_pending = 0
        if self._timer is None:
            self._timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header or a trailer."""
        self._n_headers += 1
        if self._n_headers > MAX_HEADERS:
            raise ValueError("too many headers")  # answered with 400
        if self._timer is not None:  # trailers, which come after the headers, are of no use here
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop the time for headers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._n_pending = 0
        super().on_body(body)

    def pause_writing(self) -> None:
        """Start the time in which the client must read."""
        self._watch_client()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Stop that time."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Go on with the next request, or let the client read what is left before the connection closes."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_client()

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection when the client has read what is left."""
        super().timeout_keep_alive_handler()
        self._watch_client()

    def _watch_client(self) -> None:
        if self._stalled is None:
            self._stalled = self.loop.call_later(STALLED_SECONDS, self.transport.abort)
