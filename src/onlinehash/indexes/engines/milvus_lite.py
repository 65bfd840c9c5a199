"""The files of Milvus Lite that this process has open, and the servers behind them."""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, TextIO

from onlinehash.exceptions import LockedError, StorageError, needs_extra

_LETTING_GO = 5.0  # seconds


class LiteFiles:
    """The files of Milvus Lite that this process has open.

    Each has its own server, which ends when the lock on a file beside it is free. Milvus Lite refuses a file that
    another process has open, but removes its lock file; so the lock is tested first.
    """

    def __init__(self) -> None:
        self._guard = Lock()
        self._users: Counter[Path] = Counter()
        self._locks: dict[Path, TextIO] = {}

    def take(self, file: Path) -> None:
        """Keep other processes out."""
        with self._guard:
            if not self._users[file]:
                self._locks[file] = _lock(file)
            self._users[file] += 1

    def leave(self, file: Path) -> None:
        """End the server if there is no other user."""
        with self._guard:
            self._users[file] -= 1
            if not self._users[file]:
                _servers().release_server(str(file))
                self._locks.pop(file).close()


def _servers() -> Any:
    """Return what starts and ends the servers of Milvus Lite."""
    with needs_extra("milvus-lite", "milvus"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "pkg_resources is deprecated as an API", UserWarning)
        return import_module("milvus_lite.server_manager").server_manager_instance


def _lock(file: Path) -> TextIO:
    """Return the lock of Milvus Lite; a server whose process has just ended takes a moment to release it."""
    _servers()
    import fcntl  # not on Windows, where there is no Milvus Lite

    path = file.with_name(f".{file.name}.lock")
    deadline = time.monotonic() + _LETTING_GO
    while time.monotonic() < deadline:
        try:
            lock = path.open("a")
        except OSError as error:
            raise StorageError(f"Cannot write to {file.parent}: {error.strerror}; move {file.name}.") from error
        with suppress(OSError):
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.stat().st_ino == os.fstat(lock.fileno()).st_ino:  # not removed meanwhile
                return lock
        lock.close()
        time.sleep(0.05)
    raise LockedError(
        f"{file} is open in another process, and Milvus Lite serves one at a time, readers too. Close it there, or run "
        "a Milvus server and use its address."
    )


LITE_FILES = LiteFiles()
