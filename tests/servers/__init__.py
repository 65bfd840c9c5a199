"""Real servers for tests, started on a free port of this machine and stopped again."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest


def program(name: str, package: str) -> str:
    """Return the path of a program; without it the test is skipped, and fails if CI=true."""
    found = shutil.which(name) or next(map(str, sorted(Path("/usr/lib").glob(f"{package}/*/bin/{name}"))), None)
    if found is None:
        reason = f"There is no {name} here; on Debian, run: apt-get install {package}"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    return found


# Below those that the system gives to connections, which could take one before the server does; and each process that
# runs tests has its own.
_FIRST_PORT = 12_000 + os.getpid() * 50 % 20_000
_PORTS = itertools.cycle(range(_FIRST_PORT, _FIRST_PORT + 50))


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody uses."""
    for port in _PORTS:
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
