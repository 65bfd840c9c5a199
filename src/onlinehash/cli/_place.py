"""Where a collection is: in a file, or under a name in an engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from onlinehash.collection import Collection

PLACE = "A file, as in items.oh; or an engine and a name, as in postgresql://user@host/database#items."
_ENGINES = ("postgresql:", "postgres:")


class Place(NamedTuple):
    """A collection as the command line names it.

    Examples
    --------
    >>> Place.parse("postgresql://me@host/shop#photos")
    Place(name='photos', engine='postgresql://me@host/shop')
    >>> str(Place.parse("items.oh"))
    'items.oh'
    """

    name: str
    engine: str | None = None

    @classmethod
    def parse(cls, text: str) -> Place:
        """Read what was typed."""
        if not text:
            raise typer.BadParameter("the name of the collection is empty.")
        if not text.startswith(_ENGINES):
            return cls(text)
        engine, mark, name = text.rpartition("#")
        if not mark:
            raise typer.BadParameter(f"{text} names no collection; put #NAME behind it.")
        return cls(name, engine)

    def __str__(self) -> str:
        return self.name

    def exists(self) -> bool:
        """Tell whether there is anything."""
        from onlinehash.exceptions import DataNotFoundError

        if self.engine is None:
            return Path(self.name).exists()
        try:
            self.open(readonly=True).close()
        except DataNotFoundError:
            return False
        return True

    def check(self) -> None:
        """Refuse a place where no collection can be made, before the work and not after it."""
        from onlinehash.cli._writing import check_folder

        if self.engine is None:
            check_folder(Path(self.name))

    def open(self, *given: Any, **named: Any) -> Collection:
        """Open the collection, as :meth:`Collection.open` does."""
        from onlinehash.cli._kinds import refuse_other_kinds
        from onlinehash.collection import Collection
        from onlinehash.exceptions import FileFormatError

        if self.engine is None:
            if Path(self.name).is_dir():
                raise FileFormatError(f"{self.name} is a folder; name a file.")
            refuse_other_kinds(Path(self.name), "collection")
        return Collection.open(self.name, *given, engine=self.engine, **named)
