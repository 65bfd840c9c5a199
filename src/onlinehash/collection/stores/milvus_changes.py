"""MilvusChanges: a collection in Milvus as one change after the other, each whole or not at all."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Lock, RLock, local
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from onlinehash.collection.stores.milvus_journal import Head, Journal
from onlinehash.collection.stores.milvus_lease import Lease
from onlinehash.collection.stores.milvus_tables import Tables
from onlinehash.collection.stores.protocol import Rows
from onlinehash.exceptions import DataNotFoundError, InvalidInputError, LockedError, StorageError
from onlinehash.indexes.engines._milvus import MOST, Milvus

_WRITTEN: set[tuple[Path, str]] = set()  # collections in files that this process writes to
_guard = Lock()


class MilvusChanges:
    """Hold a collection in Milvus open, for one writer and many readers; parameters as for :class:`MilvusStore`."""

    def __init__(self, name: str, uri: str, *, readonly: bool = False, create: bool = True) -> None:
        if name[:1].isdigit():
            raise InvalidInputError(f"{name!r} is no name for Milvus, which takes no digit first.")
        self.readonly = readonly
        self._name, self._local, self._recovering = name, local(), RLock()
        self._closed, self._in_doubt = False, False
        self._head: Head | None = None
        self._lease: Lease | None = None
        self._file: tuple[Path, str] | None = None
        self._milvus = Milvus(uri)
        self._place = f"the collection {name!r} in {self._milvus.place}"
        self._journal, self._tables = Journal(self._milvus, name), Tables(self._milvus, name)
        try:
            self._open(create)
        except BaseException:
            self.close()
            raise

    def _open(self, create: bool) -> None:
        exists = self._journal.exists()
        if not exists and (self.readonly or not create):
            raise DataNotFoundError(f"There is no {self._place.removeprefix('the ')}; pass a hasher to create it.")
        if self.readonly:
            return
        self._journal.create()
        if self._milvus.file is None:
            self._lease = Lease(self._journal, self._place)
        else:
            self._keep_others_out(self._milvus.file)
        self._recover()

    def _keep_others_out(self, file: Path) -> None:
        with _guard:
            if (file, self._name) in _WRITTEN:
                raise LockedError(
                    f"{self._place} is open for writing already in this process; one writer at a time. Close the "
                    "other, or open this one with readonly=True."
                )
            _WRITTEN.add((file, self._name))
            self._file = (file, self._name)

    def close(self) -> None:
        """Let go of everything; the store cannot be used again."""
        self._closed = True
        if self._lease is not None:
            self._lease.release()
            self._lease = None
        if self._file is not None:
            with _guard:
                _WRITTEN.discard(self._file)
            self._file = None
        self._milvus.close()

    # ------------------------------------------------------------------ changes

    def _look(self) -> Head:
        """Return the head as this thread sees it: what it writes, or what was committed last."""
        pending: Head | None = getattr(self._local, "pending", None)
        if pending is not None:
            return pending
        if self._closed:
            raise StorageError(f"{self._place} is closed.")
        if self.readonly:
            self._head = self._journal.newest(self._head)
        elif self._in_doubt:
            self._recover()
        assert self._head is not None
        return self._head

    def reading(self) -> AbstractContextManager[None]:
        """Do nothing: Milvus cannot hold a moment. Each read looks again."""
        return nullcontext()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Apply all writes of the block, durably, or none."""
        if self.readonly:
            raise StorageError(f"{self._place} is open with readonly=True; open it for writing.")
        before = self._look().next()
        head = before.next()
        self._local.pending, self._local.moved, self._local.rows = head, {}, {}
        try:
            yield
            if self._lease is not None:
                self._lease.demand()
            if head != before:
                self._commit(head)
        except BaseException:
            self._in_doubt = True  # what was written ahead must go, or what was committed be done
            raise
        finally:
            self._local.pending = None

    def _commit(self, head: Head) -> None:
        self._journal.commit(head)
        self._do(head, self._local.rows)
        self._head = head
        self._tidy(head)

    def _recover(self) -> None:
        """Make everything as the last head says."""
        with self._recovering:
            if self._head is not None and not self._in_doubt:
                return  # another thread has done it
            if self._lease is not None:
                self._lease.demand()
            head = self._journal.newest()
            known = "key_kind" in head.settings
            self._tables.keep({head.generation, *head.generations} if known else (), items=known)
            if known:
                self._tables.delete_items_after(head.seq)
            self._do(head, {})
            self._tidy(head)
            self._head, self._in_doubt = head, False

    def _do(self, head: Head, fresh: Mapping[int, Rows]) -> None:
        """Do what a head says, so that what it committed is found."""
        for name, given in head.log:
            if name == "put":
                rows = fresh.get(given["first"])
                if rows is None:
                    rows = self._between(given["first"] - 1, given["last"])
                for number, text in given["codes"].items():
                    self._tables.put_codes(int(number), rows, unpacked(text, np.uint8, len(rows)))
            elif name == "delete":
                for number in given["numbers"]:
                    self._tables.delete_codes(number, given["keys"])
            elif name == "replace":
                features = unpacked(given["features"], np.float32, len(given["seqs"]))
                rows = Rows(given["keys"], given["seqs"], features, given["labels"], given["payloads"])
                self._tables.put_items(rows)

    def _tidy(self, head: Head) -> None:
        """Remove what a head has no use for."""
        for name, given in head.log:
            if name == "dead":
                self._tables.delete_items(given["seqs"])
            elif name == "forget":
                rows = self._between(given["after"], given["last"])
                live = self._are_live(rows, head.generation)
                self._tables.delete_items(seq for seq, alive in zip(rows.seqs, live, strict=True) if not alive)
            elif name == "drop":
                self._tables.drop_codes(given["number"])
        self._journal.sweep(head)

    def _between(self, after: int, last: int) -> Rows:
        """Return what comes after one sequence number up to another, without features and payloads."""
        keys: list[Any] = []
        seqs: list[int] = []
        labels: list[str | None] = []
        while len(rows := self._tables.items_between(after, last, MOST)):
            keys, seqs, labels, after = keys + rows.keys, seqs + rows.seqs, labels + rows.labels, rows.seqs[-1]
        return Rows(keys, seqs, np.empty((len(keys), 0), np.float32), labels, [])

    def _are_live(self, rows: Rows, number: int) -> list[bool]:
        """Tell which rows are neither replaced nor deleted: those that the generation in use knows."""
        found = self._tables.seqs(number, set(rows.keys))
        return [found.get(key) == seq for key, seq in zip(rows.keys, rows.seqs, strict=True)]


def packed(array: NDArray[Any]) -> str:
    """Return an array as text.

    Examples
    --------
    >>> packed(np.array([[1], [2]], np.uint8)), unpacked("AQI=", np.uint8, 2).tolist()
    ('AQI=', [[1], [2]])
    """
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def unpacked(text: str, dtype: DTypeLike, n_rows: int) -> NDArray[Any]:
    """Return the array of a text, with so many rows."""
    return np.frombuffer(base64.b64decode(text), dtype).reshape(n_rows, -1)
