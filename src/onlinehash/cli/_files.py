"""What commands read and write: files and collections."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from onlinehash._internal.files import kind_of
from onlinehash.cli._screen import warn
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError

if TYPE_CHECKING:
    from onlinehash.collection import Collection
    from onlinehash.collection.types import Stats

TARGET = "A file, as in items.oh; or a database and a name, as in postgresql://user@host/database#items."
_STORES = ("postgresql:", "postgres:")
_USES = {
    "collection": "onlinehash collection search {0} ..., or onlinehash collection export {0} codes.npz --codes",
    "hasher": "onlinehash encode {0} ...",
    "encoder": "onlinehash encode {0} ...",
    "index": "onlinehash.FlatIndex.load, from Python",
}


def refuse_other_kinds(path: Path, *wanted: str) -> None:
    """Raise if the file is one of ours, but of another kind, and name the command that takes it."""
    kind = kind_of(path) if path.is_file() else None
    if kind is None or kind in wanted:
        return
    article = "an" if kind[0] in "aeiou" else "a"
    raise FileFormatError(f"{path} is {article} {kind}; use: {_USES[kind].format(path)}")


def check_input(path: Path, *kinds: str) -> None:
    """Raise, before any work is done, if there is no such file, or if it is one of ours but none of these kinds."""
    _refuse_folder(path)
    if not path.exists():
        raise DataNotFoundError(f"There is no file {path}.")
    refuse_other_kinds(path, *kinds)


def check_output(path: Path, *suffixes: str) -> None:
    """Raise, before any work is done, if the path cannot be written to or has another extension."""
    _check_folder(path)
    if suffixes and path.suffix.lower() not in suffixes:
        raise FileFormatError(f"{path} has the extension {path.suffix!r}; use one of {', '.join(suffixes)}.")
    if path.is_file() and kind_of(path) == "collection":
        raise InvalidInputError(f"{path} is a collection, which is not overwritten; choose another name.")


def _check_folder(path: Path) -> None:
    """Raise if no file can be created at the path."""
    if not path.parent.is_dir():
        raise DataNotFoundError(f"There is no folder {path.parent} to write {path.name} to.")
    if not os.access(path.parent, os.W_OK):
        raise InvalidInputError(f"The folder {path.parent} is not writable.")
    _refuse_folder(path)


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise FileFormatError(f"{path} is a folder; name a file.")


# ---------------------------------------------------------------------- collections


class Target(NamedTuple):
    """The name of a collection, and the store that holds it unless it is a file.

    Examples
    --------
    >>> Target.parse("postgresql://me@host/shop#photos")
    Target(name='photos', store='postgresql://me@host/shop')
    >>> str(Target.parse("items.oh"))
    'items.oh'
    """

    name: str
    store: str | None = None

    @classmethod
    def parse(cls, text: str) -> Target:
        """Return the target that an argument names."""
        if not text:
            raise typer.BadParameter("the name of the collection is empty.")
        if not text.startswith(_STORES):
            return cls(text)
        store, mark, name = text.rpartition("#")
        if not mark:
            raise typer.BadParameter(f"{text} names no collection; append #NAME.")
        return cls(name, store)

    def __str__(self) -> str:
        return self.name

    def exists(self) -> bool:
        """Return whether there is a collection, or any file of that name; an empty file may become a collection."""
        if self.store is None:
            return Path(self.name).exists() and Path(self.name).stat().st_size > 0
        from onlinehash.collection import Collection

        try:
            Collection.open(self.name, store=self.store, readonly=True).close()
        except DataNotFoundError:
            return False
        return True

    def check(self, *, new: bool = False) -> None:
        """Raise if this is a folder or a file of another kind that we wrote; or if no new collection can be here."""
        if self.store is None:
            (_check_folder if new else _refuse_folder)(Path(self.name))
            refuse_other_kinds(Path(self.name), "collection")

    def open(self, *given: Any, **named: Any) -> Collection:
        """Open the collection, as :meth:`Collection.open` does; only a hasher creates it."""
        from onlinehash.collection import Collection

        self.check()
        if not any(given) and not self.exists():
            raise DataNotFoundError(
                f"There is no collection {self}; 'onlinehash ingest' and 'onlinehash collection create' make one."
            )
        return Collection.open(self.name, *given, store=self.store, **named)


TargetArgument = Annotated[Target, typer.Argument(metavar="COLLECTION", help=TARGET, parser=Target.parse)]


def finish_refresh(collection: Collection, *, wanted: bool = True) -> None:
    """Refresh what is pending; or close the collection without, which logs what is pending."""
    if not wanted:
        collection.close(refresh=False)
    elif collection.stats().pending:
        collection.refresh()


def warn_unless_searchable(stats: Stats) -> None:
    """Warn if some items cannot be found, and say why."""
    from onlinehash.hashers import HASHERS

    if stats.n_searchable >= stats.n_items:
        return
    hasher = HASHERS.get(stats.method)
    if stats.refresh_error is not None:
        why = f"encoding failed: {stats.refresh_error}"
    elif stats.refreshing:
        why = "the others are being encoded."
    elif not stats.n_learned and hasher is not None and hasher.supervised:
        why = (
            f"{stats.method} learns from labels, and none has one. Ingest them again with --labels COLUMN, or create "
            "a collection with --method itq, which needs none."
        )
    else:
        why = f"{stats.method} has not learned from enough items yet; add more."
    warn(f"{stats.n_searchable} of {stats.n_items} items are searchable: {why}")


def documents_of(collection: Collection, payloads: Sequence[Any]) -> list[Any] | None:
    """Return what items were embedded from, by their payloads; None if the collection does not embed documents."""
    if collection.embedder is None:
        return None
    return [payload.get("document") if isinstance(payload, dict) else None for payload in payloads]
