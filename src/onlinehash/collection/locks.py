"""Who may write: one process to a file, and one thread to an index while none reads it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition

from onlinehash.exceptions import LockedError, StorageError


class WriterLock:
    """Hold the right to write to a file: a lock of the operating system on ``<path>.lock``, gone with the process.

    The path must be without symbolic links.
    """

    def __init__(self, path: Path) -> None:
        self._target = path
        self._path = f"{path}.lock"
        self._file = self._take()

    def _take(self) -> int:
        """Return an open file that is locked and is the one beside the target."""
        while True:
            try:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                raise StorageError(
                    f"Cannot write to {self._target.parent}: {error.strerror}. Open the collection with readonly=True, "
                    "or move it."
                ) from error
            try:
                _lock(file)
            except OSError:
                holder = os.read(file, 32).decode(errors="replace").strip()
                os.close(file)
                raise LockedError(
                    f"{self._target} is open for writing already{f' (process {holder})' if holder else ''}; one writer "
                    "at a time. Close the other, or open this one with readonly=True."
                ) from None
            identity = os.fstat(file)
            self._identity = identity.st_dev, identity.st_ino
            if self._is_in_place():
                os.ftruncate(file, 0)
                os.write(file, f"{os.getpid()}\n".encode())
                return file
            os.close(file)  # removed after it was opened: lock the next one

    def _is_in_place(self) -> bool:
        try:
            found = os.stat(self._path)  # noqa: PTH116 (faster, for every change)
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def renew(self) -> None:
        """Take the lock again if its file was removed or moved, unless another has taken it meanwhile."""
        if not self._is_in_place():
            old, self._file = self._file, self._take()
            os.close(old)

    def release(self) -> None:
        """Let another write. In a forked child, this leaves the lock to the parent."""
        os.close(self._file)


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        os.lseek(file, 1 << 20, os.SEEK_SET)  # far from the text, which others read
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        os.lseek(file, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class SharedLock:
    """Let many threads read, or one change; one that wants to change goes before new readers.

    A thread that reads must not ask to read again: a change may be waiting in between.
    """

    def __init__(self) -> None:
        self._condition = Condition()
        self._n_readers = 0
        self._n_changing = 0  # at work or waiting

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep changes out."""
        with self._condition:
            self._condition.wait_for(lambda: not self._n_changing)
            self._n_readers += 1
        try:
            yield
        finally:
            with self._condition:
                self._n_readers -= 1
                self._condition.notify_all()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Keep everybody else out."""
        with self._condition:
            self._n_changing += 1
            self._condition.wait_for(lambda: not self._n_readers)
            try:
                yield
            finally:
                self._n_changing -= 1
                self._condition.notify_all()
