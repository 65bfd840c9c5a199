"""Real servers for tests, started on a free port of this machine and stopped again."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest


def program(name: str, package: str) -> str:
    """Return the path of a program; without it the test is skipped, and fails if CI=true."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin"))  # which only root's has
    elsewhere = map(str, sorted(Path("/usr/lib").glob(f"{package}/*/bin/{name}")))
    found = shutil.which(name, path=path) or next(elsewhere, None)
    if found is None:
        reason = f"There is no {name} here; on Debian, run: apt-get install {package}"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    return found


# Below those that the system gives to connections, which could take one before the server does.
_BLOCKS = range(12_000, 32_000, 50)
_taken: list[socket.socket] = []


@cache
def _ports() -> Iterator[int]:
    """Return ports, over and over, that no other process that runs tests uses: this one keeps the first of them."""
    own = os.getpid() % len(_BLOCKS)
    for first in (*_BLOCKS[own:], *_BLOCKS[:own]):
        with suppress(OSError):
            _taken.append(socket.create_server(("127.0.0.1", first)))
            atexit.register(_taken[0].close)
            return itertools.cycle(range(first + 1, first + 50))
    raise AssertionError


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody uses."""
    for port in _ports():
        with socket.socket() as listening, suppress(OSError):
            listening.bind(("127.0.0.1", port))
            return port
    raise AssertionError


def wait_until(ready: Callable[[], bool], seconds: float = 120.0) -> None:
    """Return when something is so."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError("A server did not start in time.")
        time.sleep(0.05)
