"""RefreshingCollection: the part of a collection that changes its codes and its hasher."""

from __future__ import annotations

from onlinehash.collection.reader import CollectionReader
from onlinehash.exceptions import NotLearnedError
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
