"""The methods of the client that take care of a collection."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from numpy.typing import ArrayLike

from onlinehash import _care_calls as care
from onlinehash._transport import Transport
from onlinehash.collection.check import CheckReport
from onlinehash.collection.types import Id
from onlinehash.hashers import OnlineHasher
from onlinehash.types import Progress


class CareMethods:
    """Back up, check, compact, change the hasher, migrate; the service does one of these at a time."""

    _http: Transport

    def checkpoint(self, name: str) -> Any:
        """Return what a change last stored under a name; None if nothing.

        Parameters
        ----------
        name : str
        """
        return self._http.run(care.checkpoint(name))

    def backup(self, path: str | os.PathLike[str], *, progress: Progress = care.silent) -> None:
        """Write a copy of the collection to a file, which is itself a collection.

        The service copies the collection as it is at one moment, and checks the copy. It takes its place here when all
        of it has come and its digest is right; an older backup stays until then. A read key is enough.

        Parameters
        ----------
        path : path
            A new file, or an older backup. Any other file is refused.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        self._http.run(care.backup(path, progress))

    def check(self, *, sample: int = 1000, progress: Progress = care.silent) -> CheckReport:
        """Verify everything that is stored, and return what is wrong, as :meth:`Collection.check`.

        Parameters
        ----------
        sample : int, default=1000
            Items whose codes are computed again, about.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        return self._http.run(care.check(sample, progress))

    def compact(self, *, progress: Progress = care.silent) -> int:
        """Give unused space back to the disk, and return the number of bytes, as :meth:`Collection.compact`.

        Parameters
        ----------
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        return self._http.run(care.compact(progress))

    def change_hasher(self, hasher: OnlineHasher | str | int, *, progress: Progress = care.silent) -> None:
        """Learn with another hasher, and encode all items again, as :meth:`Collection.change_hasher`.

        Parameters
        ----------
        hasher : hasher, name of one, or number of bits
            Of a hasher, the name and the parameters are sent, not what it has learned.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        self._http.run(care.change_hasher(hasher, progress))

    def migrate(
        self,
        *,
        embed: str | None = None,
        vectors: Iterable[tuple[Id, ArrayLike]] | None = None,
        hasher: OnlineHasher | str | None = None,
        progress: Progress = care.silent,
    ) -> None:
        """Move to another embedding model, of any width, as :meth:`Collection.migrate`.

        Parameters
        ----------
        embed : str, optional
            Name of an embedder that needs no model to be loaded, such as ``"char_ngrams:512"``.
        vectors : iterable of (id, vector), optional
            New vectors of all items.
        hasher : hasher or name of one, optional
            By default one like the present one.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        self._http.run(care.migrate(embed, vectors, hasher, progress))

    def abandon_migration(self) -> None:
        """Drop the new vectors of a migration that is not complete; the collection stays as it is."""
        self._http.run(care.abandon_migration())
