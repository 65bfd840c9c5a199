"""StoreFollower: an index and a hasher in step with their store, and one embedding model during each search."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from threading import Lock, RLock
from typing import Any, TypeVar

from onlinehash._validation import check_process
from onlinehash.collection.code_index import CodeIndex
from onlinehash.collection.documents import Documents
from onlinehash.collection.learner import Learner
from onlinehash.collection.locks import SharedLock
from onlinehash.collection.reencoder import Reencoder
from onlinehash.collection.refresh import Policy
from onlinehash.collection.store_index import StoreIndex
from onlinehash.collection.stores.protocol import GenerationGone, Position, Store
from onlinehash.encoders import Encoder
from onlinehash.exceptions import OnlineHashError, StorageError

T = TypeVar("T")


class StoreFollower:
    """The part of a collection that follows what other processes and threads commit."""

    def __init__(self, store: Store, index: CodeIndex | StoreIndex, policy: Policy) -> None:
        self._store, self._index = store, index
        self._changes = RLock()  # one change at a time
        self._learner, self._documents = Learner(store), Documents(store)
        self._reencoder = Reencoder(store, index, self._learner, self._changes, policy)
        self._position = Position(0, 0)  # up to which the index follows the store
        self._space, self._n_migrations = SharedLock(), 0  # one embedding model during a search
        self._migrating = Lock()
        self._closed = False
        self._process = os.getpid()

    @property
    def sequence(self) -> int:
        """Sequence number of the last change that was applied here."""
        self._catch_up()
        return self._position.seq

    @property
    def encoder(self) -> Encoder | None:
        """The encoder of the generation in use; None before the first."""
        self._catch_up()
        return None if self._index.current is None else self._index.current.encoder

    def _check_open(self) -> None:
        self._check_not_closed()
        if os.getpid() != self._process:
            check_process("This collection", self._process)

    def _check_not_closed(self) -> None:
        if self._closed:
            raise StorageError("This collection is closed; open it again.")

    def _exclusive(self) -> AbstractContextManager[None]:
        """Keep other changes out."""
        return _Exclusive(self, self._check_not_closed)

    def _writing(self) -> AbstractContextManager[None]:
        """Keep other changes out, with the hasher and the index in step with the store."""
        return _Exclusive(self, self._prepare_change)

    def _prepare_change(self) -> None:
        self._check_not_closed()
        if self._store.readonly:
            raise StorageError("This collection is open with readonly=True; open it for writing to change it.")
        if self._learner.hasher is None:
            with self._store.writing():  # where another might have written meanwhile, not before it is ruled out
                self._read()

    def _read(self) -> None:
        """Read all codes from the store, and the hasher if it is out of step."""
        self._position = self._store.position()
        try:
            self._index.read(self._position)
        except GenerationGone:  # and nobody else writes
            raise _missing_codes(self._position) from None
        if self._learner.hasher is None:
            self._learner.read()
        self._reencoder.read()

    def _save_hasher(self) -> None:
        """Write the state of the hasher, unless the store has it."""
        if not self._learner.is_saved:
            with self._learner as hasher, self._store.writing():
                self._learner.save(hasher, self._position.seq)

    def _put_settings(self, settings: Mapping[str, Any]) -> None:
        for name, value in settings.items():
            self._store.put_setting(name, value)

    def _catch_up(self) -> None:
        """Apply what another process has committed since, or what the engine has failed to apply."""
        self._check_open()
        if not self._index.is_behind and (not self._store.readonly or self._store.position() == self._position):
            return
        position: Position | None = None
        while True:
            before = position
            try:
                with self._changes, self._store.reading():
                    position = self._store.position()
                    self._follow(position)
                return
            except GenerationGone:  # dropped between the two
                if before is not None and position is not None and before.generation == position.generation:
                    raise _missing_codes(position) from None

    def _follow(self, position: Position) -> None:
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


class _Exclusive:
    """A block that keeps other changes out: an object, because each change enters it and a generator takes longer."""

    def __init__(self, follower: StoreFollower, prepare: Callable[[], None]) -> None:
        self._follower, self._prepare = follower, prepare

    def __enter__(self) -> None:
        self._follower._check_open()  # in a forked process the lock may be held by a thread that is not there
        self._follower._changes.acquire()
        try:
            self._prepare()
        except BaseException:
            self._follower._changes.release()
            raise

    def __exit__(self, *error: object) -> None:
        self._follower._changes.release()


def _missing_codes(position: Position) -> StorageError:
    return StorageError(f"The codes of generation {position.generation}, which is in use, are missing.")
