"""CollectionCare: refresh, check, back up, restore and compact a collection, change its hasher and its indexes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from onlinehash._files import kind_of
from onlinehash.collection._validation import checkpoint_settings
from onlinehash.collection.check import CheckReport, check_collection, check_store
from onlinehash.collection.filters import parse_path
from onlinehash.collection.locks import WriterLock
from onlinehash.collection.reader import CollectionReader
from onlinehash.collection.stores.protocol import Store
from onlinehash.collection.stores.sqlite import SqliteStore
from onlinehash.exceptions import DamagedError, DataNotFoundError, InvalidInputError, NotLearnedError, StorageError
from onlinehash.hashers import OnlineHasher
from onlinehash.types import Progress

_SAMPLE = 1000
_STEPS = 1000  # of a progress bar, for each of several parts


def _silent(done: int, total: int) -> None:
    """Show no progress."""


class CollectionCare(CollectionReader):
    """The part of a collection that looks after what is stored: codes, hasher, indexes, files."""

    @property
    def file(self) -> Path | None:
        """The file that holds the collection; None if it is in PostgreSQL."""
        return self._store.file

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
        progress: Progress = _silent,
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

    def create_index(self, path: str, *, checkpoint: Mapping[str, Any] | None = None) -> None:
        """Make filters by a path in the payload fast, now and for all items to come.

        It costs some time and space per item, and pays off where few items pass. Nothing happens if there is one. In a
        file, the first filters after opening gain most: later ones are answered from memory, with or without it.

        Parameters
        ----------
        path : str
            Keys joined by dots, as in ``where``. ``"$labels"`` makes listing and counting by label fast instead.
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`Collection.upsert`.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/shop.oh", "hcoh") as shop:
        ...     shop.create_index("maker.country")
        ...     shop.indexes()
        ['maker.country']
        """
        keys, noted = parse_path(path), checkpoint_settings(checkpoint)
        with self._writing():
            known = self.indexes()
            if path not in known:
                noted["indexes"] = [*known, path]
            with self._store.writing():
                self._put_settings(noted)
                if path not in known:
                    self._store.create_index(keys)

    def drop_index(self, path: str, *, checkpoint: Mapping[str, Any] | None = None) -> None:
        """Drop the index of a path in the payload; filters by it work as before, the first ones slowly.

        Parameters
        ----------
        path : str
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`Collection.upsert`.
        """
        keys, noted = parse_path(path), checkpoint_settings(checkpoint)
        with self._writing():
            known = self.indexes()
            if path not in known:
                raise InvalidInputError(f"There is no index of {path!r}; there are: {', '.join(known) or 'none'}.")
            with self._store.writing():
                self._put_settings(noted | {"indexes": [name for name in known if name != path]})
                self._store.drop_index(keys)

    def check(self, *, sample: int = _SAMPLE, progress: Progress = _silent) -> CheckReport:
        """Verify everything that is stored, and return what is wrong.

        Reads all of it again from the disk: the structure of the database, every checksum, items against codes against
        counts, the hasher and the encoders. Computes the codes of a sample again. Searches and changes go on.

        Parameters
        ----------
        sample : int, default=1000
            Items whose codes are computed again, about; ``len(collection)`` for all.
        progress : callable, optional
            Called as ``progress(done, total)``.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/pets.oh", "hcoh") as pets:
        ...     pets.upsert([1, 2], [[1.0, 0.5], [-1.0, 0.5]], ["dog", "cat"])
        ...     pets.check().ok
        True
        """
        self._check_open()
        with closing(self._store.reopen()) as stored:
            return check_store(stored, sample, progress)

    def backup(self, path: str | os.PathLike[str], *, progress: Progress = _silent) -> None:
        """Write a copy of the collection to a file, which is itself a collection, and check it.

        The copy shows one moment. Searches and changes go on, here and in other processes. It takes its place when it
        is complete and :meth:`check` has found nothing wrong with it; an older backup stays until then.

        Parameters
        ----------
        path : path
            A new file, or an older backup that is not open for writing. Any other file is refused.
        progress : callable, optional
            Called as ``progress(done, total)``.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder:
        ...     with Collection.open(f"{folder}/pets.oh", "hcoh") as pets:
        ...         pets.upsert([1, 2], [[1.0, 0.5], [-1.0, 0.5]], ["dog", "cat"])
        ...         pets.backup(f"{folder}/monday.oh")
        ...     with Collection.open(f"{folder}/monday.oh", readonly=True) as copy:
        ...         len(copy)
        2
        """
        self._check_open()
        _copy(self._store, Path(path), progress)

    @staticmethod
    def restore(
        backup: str | os.PathLike[str],
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        partial: bool = False,
        progress: Progress = _silent,
    ) -> None:
        """Check a backup, and put a copy of it where a collection is to be.

        Parameters
        ----------
        backup : path
            A file that :meth:`backup` wrote, or any other collection.
        path : path
            Where the collection is to be. Nobody may have it open for writing; those who read it open it again.
        overwrite : bool, default=False
            Replace a collection that is there.
        partial : bool, default=False
            Accept a write-ahead log that is damaged, and with it the loss of the last changes.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        target = Path(path)
        if target.exists() and not overwrite:
            raise InvalidInputError(f"{path} exists already; pass overwrite=True to replace it, or another path.")
        with closing(SqliteStore(Path(backup), readonly=True, partial=partial)) as kept:
            _copy(kept, target, progress)

    def compact(self, *, progress: Progress = _silent) -> int:
        """Give the space of deleted and replaced items back to the disk, and return the number of bytes.

        Changes wait; searches go on. Takes as much free space as the collection will need.

        Parameters
        ----------
        progress : callable, optional
            Called as ``progress(done, total)``.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/pets.oh", "lsh") as pets:
        ...     pets.upsert(range(2000), [[1.0, 0.5]] * 2000)
        ...     n_deleted = pets.delete(range(1, 2000))
        ...     pets.compact() > 100_000
        True
        """
        with self._exclusive():
            if self._store.readonly:
                raise StorageError("This collection is open with readonly=True; open it for writing to compact it.")
            self._save_hasher()  # what it has learned from may go then
            before = self._store.size()
            self._store.compact(progress)
            return before - self._store.size()


def _copy(store: Store, path: Path, progress: Progress) -> None:
    """Copy a store to a file, check the copy, and let it take its place."""
    if store.file == path.resolve():
        raise InvalidInputError(f"{path} is the collection itself; name another file.")
    with replacing(path) as aside:
        store.backup(aside, part_of(progress, 0, 2))
        report = check_collection(aside, sample=_SAMPLE, progress=part_of(progress, 1, 2))
        if not report.ok:
            listed = "; ".join(report.problems[:3]) + ("; ..." if len(report.problems) > 3 else "")
            raise DamagedError(
                f"{path} was not written: the copy is damaged, because the original is. {listed}.", listed
            )


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a name beside ``path`` for a collection that takes its place at the end; nobody may be writing to it."""
    target = path.resolve()
    if not target.parent.is_dir():
        raise DataNotFoundError(f"There is no folder {path.parent} to write {path.name} to; make it first.")
    if target.is_dir() or (target.exists() and target.stat().st_size and kind_of(target) != "collection"):
        raise InvalidInputError(f"{path} exists already and is not a collection; name another file.")
    lock = WriterLock(target) if target.exists() else None
    aside = target.with_name(f"{target.name}.{uuid4().hex}.part")
    try:
        yield aside
        _discard_log(target)  # of what is replaced
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)
        _discard_log(aside)
        if lock is not None:
            lock.release()


def _discard_log(path: Path) -> None:
    for suffix in ("-wal", "-shm"):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def part_of(progress: Progress, part: int, n_parts: int) -> Progress:
    """Return the progress of one of several parts of equal length."""

    def shown(done: int, total: int) -> None:
        progress(part * _STEPS + (_STEPS * done // total if total else 0), n_parts * _STEPS)

    return shown
