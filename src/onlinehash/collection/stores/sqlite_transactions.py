"""Users of the connections of a SQLite file, and its transactions; small, because every change uses them."""

from __future__ import annotations

import os
import sqlite3
import threading

from onlinehash._validation import check_process
from onlinehash.exceptions import StorageError


class Active(threading.local):
    """The connection whose transaction a thread is in."""

    connection: sqlite3.Connection | None = None


class Users:
    """Count the blocks that use the connections of a file; :meth:`close` waits until there are none.

    Parameters
    ----------
    place : str
        What is used, for errors.

    Examples
    --------
    >>> users = Users("a.oh")
    >>> with users:
    ...     pass
    >>> users.close()
    >>> users.closed
    True
    """

    def __init__(self, place: str) -> None:
        self._place, self._process = place, os.getpid()
        self._lock, self._n, self.closed = threading.RLock(), 0, False
        self._left = threading.Condition(self._lock)

    def __enter__(self) -> None:
        with self._lock:
            if self.closed:
                self.refuse()
            self._n += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n -= 1
            if self.closed:
                self._left.notify_all()

    def refuse(self) -> None:
        """Raise the error for a file that is closed, or was opened by another process."""
        check_process(self._place, self._process)
        raise StorageError(f"The collection {self._place} is closed.")

    def close(self) -> None:
        """Refuse new blocks, and wait until those that run have ended."""
        with self._lock:
            self.closed = True
            self._left.wait_for(lambda: not self._n)

    def disown(self) -> None:
        """In a forked child, which has none of the threads that hold the lock: refuse all blocks."""
        self._lock, self.closed = threading.RLock(), True


class Transaction:
    """Commit a block as one transaction, in which its thread reads, too."""

    def __init__(self, connection: sqlite3.Connection, active: Active, begin: str) -> None:
        self._connection, self._active, self._begin = connection, active, begin
        self._process = os.getpid()

    def __enter__(self) -> None:
        self._connection.execute(self._begin)
        self._active.connection = self._connection

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            self._active.connection = None
            if self._connection.in_transaction and os.getpid() == self._process:
                self._connection.execute("ROLLBACK")
