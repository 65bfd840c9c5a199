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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import errorcode
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
HEADER_SECONDS = 10  # until the headers of a request are complete


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


def check_certificate(certfile: Path, keyfile: Path) -> None:
    """Raise if a certificate and a private key cannot be used for TLS."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certfile, keyfile, password=_refuse_password)
    except OSError as error:
        known = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        reason = (known or "one of them is not a PEM file").lower().replace("_", " ")
        raise InvalidInputError(
            f"certfile={str(certfile)!r} and keyfile={str(keyfile)!r} cannot be used for TLS: {reason}. Give a "
            "certificate and its own private key, both PEM files."
        ) from error


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
    certfile: Path | None = None,
    keyfile: Path | None = None,
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
    certfile, keyfile : Path, optional
        Certificate and private key for TLS.
    trusted_proxies : str
        Addresses whose X-Forwarded-For and X-Forwarded-Proto are believed, separated by commas.
    announce : callable, optional
        Called when signals are handled, and requests are about to be.
    """
    sys.setswitchinterval(SWITCH_SECONDS)

    def read_again(number: int, frame: object) -> None:
        assert read_keys is not None
        try:
            app.use_keys(read_keys())
            _log.info("The API keys were read again.")
        except OnlineHashError as error:
            _log.error("The API keys stay as they are: %s", error)

    handlers: dict[int, Any] = {signal.SIGTERM: lambda number, frame: None}  # uvicorn raises the signal again
    if read_keys is not None and hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = read_again
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    announce()
    options = {
        "ssl_certfile": certfile,
        "ssl_keyfile": None if keyfile is None else str(keyfile),
        "proxy_headers": bool(trusted_proxies),
        "forwarded_allow_ips": trusted_proxies,
        "root_path": app.root_path,
    }
    try:
        with suppress(KeyboardInterrupt):
            _server(app, limits, **options).run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def serve_in_thread(
    collection: Collection | Mapping[str, Collection],
    *,
    limits: Limits | None = None,
    keys: ApiKeys | None = None,
    media: str | os.PathLike[str] | None = None,
) -> Iterator[str]:
    """Serve a collection, or several by name, from a thread while the block lasts, on a free port of this machine.

    Yields the URL.

    Parameters
    ----------
    collection : Collection, or mapping of str to Collection
    limits : Limits, optional
    keys : ApiKeys, optional
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
    listening = listen("127.0.0.1", 0, keys or ApiKeys())
    server = _server(create_app(collection, limits=limits, keys=keys, media=media), limits)
    thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="onlinehash service")
    thread.start()
    try:
        yield url_of(listening)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def _server(app: Application, limits: Limits, **options: Any) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=Protocol,
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
    """HTTP that disconnects a client whose headers or trailers are too many, too long or too slow.

    The parser keeps what it has read of a header until it is complete, so all bytes are counted that are no body.
    """

    _timer: asyncio.TimerHandle | None = None  # while headers are expected
    _n_headers = _n_pending = 0  # headers of the request that is being read; bytes since its start or a part of a body

    def connection_made(self, transport: Any) -> None:
        """Start the time for headers."""
        super().connection_made(transport)
        self._timer = asyncio.get_running_loop().call_later(HEADER_SECONDS, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time for headers."""
        if self._timer is not None:
            self._timer.cancel()
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
            self._timer = asyncio.get_running_loop().call_later(HEADER_SECONDS, self.transport.close)

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
