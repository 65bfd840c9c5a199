"""SettingsFile: the settings of a collection in SQLite, and the transactions of its one writer."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any
from zlib import crc32

from onlinehash.collection.stores.protocol import Position
from onlinehash.collection.stores.sqlite_file import Database
from onlinehash.collection.stores.sqlite_transactions import Transaction
from onlinehash.exceptions import FileFormatError, StorageError

HEAD = (
    "n_settings",
    "term",
    "seq",
    "learned_to",
    "n_stream",
    "n_items",
    "n_deleted",
    "n_learned",
    "generation",
    "n_generations",
    "since",
    "until",
    "cursor",
    "n_coded",
    "bits_recomputed",
)
"""Names of the counters, which are one setting."""

_COUNTERS = frozenset(HEAD)
_counters = itemgetter(*HEAD)


class SettingsFile(Database):
    """Read and write settings, which are JSON; a writer has all of them in memory.

    The counters are one setting, the head. Every transaction writes it if it is what it was, so that a writer that was
    overtaken by another changes nothing.
    """

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self._settings: dict[str, Any] = {}  # of a writer, as committed
        self._written: dict[str, Any] = {}  # in the transaction under way
        self._head, self._written_head = "", ""  # the counters of both, as they are stored
        super().__init__(path, readonly=readonly)

    def _create_settings(self) -> None:
        text = _head_text(dict.fromkeys(HEAD, 0) | {"n_settings": 1, "term": 1})
        self._writer.execute("INSERT INTO settings VALUES ('head', ?, ?)", (text, _setting_checksum("head", text)))

    def _read_settings(self) -> None:
        self._settings = self._all_settings()
        self._head = _head_text(self._settings)

    # ------------------------------------------------------------------ transactions of a writer

    def _begin_term(self) -> None:
        """Begin a term: a writer of an earlier one cannot commit any more."""
        with self._errors(), self._users, Transaction(self._writer, self._active, "BEGIN IMMEDIATE"):
            self._read_settings()
            self._written = {"term": self._settings["term"] + 1}
            self._flush()
        self._keep_written()

    def _keep_written(self) -> None:
        self._settings.update(self._written)
        self._written, self._head = {}, self._written_head

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Apply all writes of the block, durably, or none."""
        if self.readonly:
            raise StorageError(f"The collection {self.path} is open with readonly=True; open it for writing.")
        with self._users:
            assert self._lock is not None
            self._lock.renew()
            self._written = {}
            try:
                with Transaction(self._writer, self._active, "BEGIN IMMEDIATE"):
                    yield
                    if os.getpid() != self._process:  # forked in the block
                        self._users.refuse()
                    self._demand_file()
                    self._flush()
                self._keep_written()
            except (sqlite3.Error, UnicodeDecodeError, FileFormatError) as error:
                if self._file_head() not in (None, self._head):  # it may be because of what another has written
                    raise self._overtaken() from error
                if isinstance(error, FileFormatError):
                    raise
                raise self._translated(error) from error
            finally:
                self._written = {}

    def _file_head(self) -> str | None:
        try:
            return str(self._writer.execute("SELECT value FROM settings WHERE name = 'head'").fetchone()[0])
        except (sqlite3.Error, TypeError):
            return None

    # ------------------------------------------------------------------ settings

    def setting(self, name: str, default: Any = None) -> Any:
        """Return a setting; a writer has all of them in memory."""
        active = self._active.connection
        if active is None and not (self.readonly or self._users.closed):  # most often, so without another call
            return self._settings.get(name, default)
        if not self._reads_a_snapshot():
            return self._written[name] if name in self._written else self._settings.get(name, default)
        if name in _COUNTERS:
            return self.head()[name]
        found = self._query("SELECT name, value, checksum FROM settings WHERE name = ?", name)
        if not found:  # is it missing, or not found because of another that is damaged?
            return self._all_settings().get(name, default)
        return self._value(*found[0])

    def _reads_a_snapshot(self) -> bool:
        """Return whether this thread sees what is stored, not what is in the memory of the writer."""
        active = self._active.connection
        if active is None and self._users.closed:
            self._users.refuse()
        return self.readonly or (active is not None and active is not self._writer)

    def head(self) -> dict[str, int]:
        """Return the counters of the collection, as they are stored."""
        found = self._query("SELECT name, value, checksum FROM settings WHERE name = 'head'")
        with self._checking("the head"):
            ((name, value, checksum),) = found
            return dict(zip(HEAD, self._value(name, value, checksum), strict=True))

    def _all_settings(self) -> dict[str, Any]:
        values = {row[0]: self._value(*row) for row in self._query("SELECT name, value, checksum FROM settings")}
        with self._checking("the head"):
            values |= dict(zip(HEAD, values.pop("head"), strict=True))
        if len(values) - len(HEAD) + 1 != values["n_settings"]:
            raise self._damage("settings are missing")
        return values

    def _value(self, name: Any, value: Any, checksum: int) -> Any:
        with self._checking("a setting"):
            if _setting_checksum(name, value) != checksum:
                raise self._damage(f"the setting {name!r} does not match its checksum")
            return json.loads(value)

    def put_setting(self, name: str, value: Any) -> None:
        """Write a setting when the transaction is committed, if it is another."""
        if name not in self._written:
            if name not in self._settings:
                self._add(n_settings=1)
            elif self._settings[name] == value:
                return
        self._written[name] = value

    def _add(self, **counts: int) -> None:
        """Add to counters."""
        for name, count in counts.items():
            self._written[name] = self._written.get(name, self._settings[name]) + count

    def _flush(self) -> None:
        """Write the settings that have changed, and the head if it is what it was."""
        for name in sorted(self._written.keys() - _COUNTERS):
            text = json.dumps(self._written[name])
            row = (name, text, _setting_checksum(name, text))
            self._writer.execute("INSERT OR REPLACE INTO settings VALUES (?, ?, ?)", row)
        self._written_head = text = _head_text(self._settings | self._written)
        changed = self._writer.execute(
            "UPDATE settings SET value = ?, checksum = ? WHERE name = 'head' AND value = ?",
            (text, _setting_checksum("head", text), self._head),
        )
        if changed.rowcount != 1:
            raise self._overtaken()

    def _overtaken(self) -> StorageError:
        return StorageError(
            f"{self.path} was opened for writing elsewhere meanwhile. Nothing of this call was stored; close the "
            "collection, and open it again."
        )

    def position(self) -> Position:
        """Return where the store stands."""
        if self._reads_a_snapshot():
            head = self.head()
            return Position(head["seq"], head["generation"])
        return Position(self.setting("seq"), self.setting("generation"))

    def count(self) -> int:
        """Return the number of items."""
        return int(self.setting("n_items", 0))


def _head_text(values: Mapping[str, Any]) -> str:
    return str(list(_counters(values)))  # which is JSON


def _setting_checksum(name: str, text: str) -> int:
    return crc32(f"{name}\n{text}".encode())
