"""Real servers for tests, started on a free port of this machine and stopped again."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest


def program(name: str, package: str) -> str:
    """Return the path of a program; without it the test is skipped, and fails if CI=true."""
    found = shutil.which(name) or next(map(str, sorted(Path("/usr/lib").glob(f"{package}/*/bin/{name}"))), None)
    if found is None:
        reason = f"There is no {name} here; on Debian, run: apt-get install {package}"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    return found


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def wait_until(ready: Callable[[], bool], seconds: float = 60.0) -> None:
    """Return when something is so."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError("A server did not start in time.")
        time.sleep(0.05)
