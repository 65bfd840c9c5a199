"""Run the service: until a signal arrives, or in a thread."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import errorcode
from threading import Thread

import uvicorn

from onlinehash.collection import Collection
from onlinehash.exceptions import InvalidInputError
from onlinehash.service.api_keys import ApiKeys, check_address
from onlinehash.service.app import Application, create_app
from onlinehash.service.limits import Limits
from onlinehash.service.protocol import Protocol

_GRACE = 10  # seconds to finish running requests when the service stops
_SWITCH = 0.0005  # seconds between thread switches: short, so that a search need not wait for a change


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


def run(app: Application, listening: socket.socket, limits: Limits) -> None:
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


def _server(app: Application, limits: Limits) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=Protocol,
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
