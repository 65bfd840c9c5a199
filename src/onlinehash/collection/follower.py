"""StoreFollower: an index in step with its store, and with one embedding model during each search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from threading import RLock
from typing import TypeVar

from onlinehash._validation import check_process
from onlinehash.collection.code_index import CodeIndex
from onlinehash.collection.locks import SharedLock
from onlinehash.collection.store_index import StoreIndex
from onlinehash.collection.stores.protocol import Position, Store
from onlinehash.exceptions import OnlineHashError, StorageError

T = TypeVar("T")


class StoreFollower:
    """The part of a collection that follows what other processes and threads commit."""

    _store: Store
    _index: CodeIndex | StoreIndex
    _changes: RLock  # one change at a time
    _space: SharedLock  # one embedding model during a search
    _position: Position  # up to which the index follows the store
    _n_migrations: int  # changes of the embedding model, as far as the index follows
    _closed: bool
    _process: int

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("This collection is closed; open it again.")
        check_process("This collection", self._process)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Keep other changes out; in a forked process the lock may be held by a thread that is not there."""
        self._check_open()
        with self._changes:
            self._check_open()
            yield

    def _catch_up(self) -> None:
        """Apply what another process has committed since, or what the engine has failed to apply."""
        self._check_open()
        if not self._index.is_behind and (not self._store.readonly or self._store.position() == self._position):
            return
        with self._changes, self._store.reading():
            position = self._store.position()
            with self._space.changing() if self._has_migrated() else nullcontext():
                if self._index.is_behind:
                    self._index.read(position)
                else:
                    self._index.follow(self._position, position)
                self._position, self._n_migrations = position, self._store.setting("n_migrations", 0)

    def _in_one_space(self, search: Callable[[], T], *, uses_store: bool) -> T:
        """Search with one embedding model; again, if another process has changed it meanwhile."""
        is_alone = not uses_store and isinstance(self._index, CodeIndex)
        while True:
            with self._space.reading():
                try:
                    found = search()
                    if is_alone or not self._has_migrated():
                        return found
                except OnlineHashError:
                    if not self._has_migrated():
                        raise
            self._catch_up()

    def _has_migrated(self) -> bool:
        """Return whether another process has changed the embedding model since the index was brought up to date."""
        return self._store.readonly and bool(self._store.setting("n_migrations", 0) != self._n_migrations)
