"""FileCare: check the structure of a collection's file, copy it while it is in use, and compact it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from onlinehash.collection.stores.sqlite_codes import CodeTables
from onlinehash.collection.stores.sqlite_log import unreadable_commits
from onlinehash.exceptions import DamagedError, OnlineHashError, StorageError
from onlinehash.types import Progress

_PAGES = 1000  # copied at a time
_STEPS = 1000  # of SQLite between two signs of progress
_STEPS_PER_ROW = 4.5  # of SQLite when it compacts a table, measured


class FileCare(CodeTables):
    """Check, copy and compact the file."""

    def __init__(self, path: Path, *, readonly: bool = False, partial: bool = False) -> None:
        self._partial = partial
        super().__init__(path, readonly=readonly)

    def _open(self) -> None:
        if not self._partial:
            self._check_log()
        super()._open()

    def _check_log(self) -> None:
        """Refuse a file whose write-ahead log SQLite would read in part only, without an error."""
        n_lost = unreadable_commits(self._file, shared=not self._is_shared())
        if n_lost:
            raise self._damage(
                f"{self._log.name} holds changes that are not in the file yet, and the last {n_lost} or more of them "
                "cannot be read",
                f"; to go on without them, call Collection.restore({str(self.path)!r}, elsewhere, partial=True)",
            )

    @property
    def file(self) -> Path:
        """The file that holds everything."""
        return self._file

    def reopen(self) -> Self:
        """Open the same file again, to read what is stored and not what is in memory."""
        return type(self)(self._file, readonly=True)

    def structure(self) -> Iterator[str]:
        """Yield what is wrong with the database, the small tables and the counters."""
        looks: tuple[Callable[[], Any], ...] = (
            self._all_settings,
            lambda: self._small("retired"),
            lambda: self._small("deleted"),
            self._deletions,
            self._check_all_items,
        )
        for (line,) in self._query("PRAGMA integrity_check"):
            if line != "ok":
                yield f"SQLite finds: {line}"
        for look in looks:
            try:
                look()
            except OnlineHashError as error:
                yield error.problem if isinstance(error, DamagedError) else str(error)

    def _check_all_items(self) -> None:
        self._check_tree("items")
        ((n_items,),) = self._query("SELECT (SELECT count(*) FROM items) - (SELECT count(*) FROM retired)")
        self._check_count("items", n_items)

    def backup(self, path: Path, progress: Progress) -> None:
        """Copy the file, as it is at one moment, to a new one."""
        try:
            with self.reading(), self._connection() as source, closing(sqlite3.connect(path)) as copy:
                source.execute("SELECT count(*) FROM sqlite_master")  # from now on, what is seen stays the same
                source.backup(copy, pages=_PAGES, progress=lambda _, left, total: progress(total - left, total))
                copy.execute("PRAGMA journal_mode = DELETE")  # those who read it leave no files beside it
            with path.open("rb+") as file:
                os.fsync(file.fileno())
        except StorageError as error:
            raise StorageError(f"{path} could not be written from {self.path}: {error}") from error

    def compact(self, progress: Progress) -> None:
        """Rewrite all tables without gaps, and shorten the file."""
        n_rows = 2 * self.count() + int(self.setting("n_deleted"))
        total, done = int(_STEPS_PER_ROW * n_rows) // _STEPS + 1, 0

        def step() -> int:
            nonlocal done
            done = min(done + 1, total)
            progress(done, total)
            return 0

        with self.writing():
            self._drop_dead_codes()
        with self._errors(), self._users:
            self._writer.set_progress_handler(step, _STEPS)
            try:
                self._writer.execute("VACUUM")
            finally:
                self._writer.set_progress_handler(None, 0)
            self._empty_log()
        progress(total, total)
