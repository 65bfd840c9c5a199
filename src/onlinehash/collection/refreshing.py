"""RefreshingCollection: the part of a collection that changes its codes and its hasher."""

from __future__ import annotations

from contextlib import AbstractContextManager

from onlinehash.collection.reader import CollectionReader
from onlinehash.exceptions import NotLearnedError, StorageError
from onlinehash.hashers import OnlineHasher
from onlinehash.types import Progress


class RefreshingCollection(CollectionReader):
    """The part of a collection that changes its codes and its hasher."""

    def refresh(self, *, wait: bool = True) -> None:
        """Encode all items again with what the hasher knows now, in the background.

        Nothing happens if it has learned nothing since. A refresh that was interrupted is finished first.

        Parameters
        ----------
        wait : bool, default=True
            Return when the new codes are in use, and raise what went wrong; without, see :meth:`stats`.
        """
        with self._writing():
            self._reencoder.error = None
            self._reencoder.start()
        if wait:
            self._reencoder.wait()
        with self._writing():
            self._reencoder.refresh()
        if wait:
            self._reencoder.wait()

    def change_hasher(
        self,
        hasher: OnlineHasher | str | int,
        *,
        wait: bool = True,
        progress: Progress = lambda done, total: None,
    ) -> None:
        """Learn with another hasher, from all stored items in order of arrival, and encode all items again.

        HROH changes its number of bits without learning again, and so keeps what it learned from items deleted since.
        Changes wait while it learns; searches use the current codes until the new ones take their place.

        Parameters
        ----------
        hasher : hasher, name of one, or number of bits
            A number of bits keeps the hasher otherwise as it is.
        wait : bool, default=True
            As for :meth:`refresh`.
        progress : callable, optional
            Called as ``progress(done, total)`` while it learns. What it raises ends that, and nothing has changed; for
            the encoding, see :meth:`stats`.
        """
        self._reencoder.halt()
        with self._writing():
            try:
                new = self._learner.make_other(hasher, progress)
            except BaseException:
                self._reencoder.start()
                raise
            try:
                encoder = new.snapshot() if len(self) else None
            except NotLearnedError:
                encoder = None
            self._learner.hasher = None
            with self._store.writing():  # one transaction: never the new hasher beside codes that nobody replaces
                self._learner.replace(new, self._position.seq)
                number = None if encoder is None else self._store.begin_generation(encoder.to_bytes())
            self._learner.hasher, self._learner.n_learned = new, new.version_
            if encoder is not None:
                self._reencoder.begin(encoder, number)
                self._reencoder.start()
        if wait:
            self._reencoder.wait()

    def _writing(self) -> AbstractContextManager[None]:
        """Keep other changes out, with the hasher and the index in step with the store."""
        return _Writing(self)

    def _prepare_change(self) -> None:
        """Bring the hasher and the index in step with the store."""
        if self._closed:
            self._check_open()
        if self._store.readonly:
            raise StorageError("This collection is open with readonly=True; open it for writing to change it.")
        if self._learner.hasher is None:
            with self._store.writing():  # where another might have written meanwhile, not before it is ruled out
                self._read()

    def _read(self) -> None:
        """Read the hasher and all codes from the store."""
        self._position = self._store.position()
        self._index.read(self._position)
        if self._learner.hasher is None:
            self._learner.read()
        self._reencoder.read()


class _Writing:
    """A block that changes a collection: an object, since a generator would take longer than the block does."""

    def __init__(self, collection: RefreshingCollection) -> None:
        self._collection = collection

    def __enter__(self) -> None:
        self._collection._check_open()
        self._collection._changes.acquire()
        try:
            self._collection._prepare_change()
        except BaseException:
            self._collection._changes.release()
            raise

    def __exit__(self, *error: object) -> None:
        self._collection._changes.release()
