"""PostgresCare: check what a collection in PostgreSQL holds; the database itself is cared for by its own programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Self

from onlinehash.collection.stores.postgres_codes import PostgresCodes
from onlinehash.exceptions import DamagedError, InvalidInputError
from onlinehash.types import Progress


class PostgresCare(PostgresCodes):
    """Check what is stored, and name the programs that back it up and compact it.

    Parameters
    ----------
    name, url, readonly, create
        As for :class:`PostgresStore`.
    """

    file = None

    def reopen(self) -> Self:
        """Open the same collection again, on connections of its own."""
        return type(self)(self._schema.strip('"').removeprefix("onlinehash_"), self._url, readonly=True)

    def structure(self) -> Iterator[str]:
        """Yield what is wrong with the settings and counters; PostgreSQL's own amcheck verifies tables and indexes."""
        for (name,) in self._query(f"SELECT name FROM {self._schema}.settings ORDER BY name"):
            try:
                self._stored_setting(name, None)
            except DamagedError as error:
                yield error.problem
        if self._kind() is not None:
            ((n_items,),) = self._query(f"SELECT count(*) FROM {self._schema}.items")
            if n_items != self.count():
                yield f"there are {n_items} items of {self.count()}"

    def backup(self, path: Path, progress: Progress) -> None:
        """Refuse: PostgreSQL has better."""
        raise InvalidInputError(
            f"{self.place} is backed up by PostgreSQL itself. Run: pg_dump --schema={self._schema.strip(chr(34))} ... "
            "To write its items to a file, call export_items."
        )

    def compact(self, progress: Progress) -> None:
        """Refuse: PostgreSQL does it."""
        raise InvalidInputError(
            f"{self.place} is compacted by PostgreSQL itself, in the background. To give space back to the disk, run: "
            f"VACUUM FULL {self._schema}.items"
        )
