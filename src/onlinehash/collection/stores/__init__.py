"""Stores: where a collection can live, in a file of its own or in an engine that searches."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path

from onlinehash.collection.stores.protocol import Store
from onlinehash.collection.stores.sqlite import SqliteStore
from onlinehash.exceptions import DataNotFoundError, InvalidInputError

# By the scheme of their addresses: the module here and its store, which takes the name of a collection and an address.
_ENGINES = {
    "postgresql": ("postgres", "PostgresStore"),
    "postgres": ("postgres", "PostgresStore"),
}
_NAME = re.compile(r"[A-Za-z0-9_]{1,48}", re.ASCII)


def open_store(
    path: str | os.PathLike[str], engine: str | None = None, *, readonly: bool = False, create: bool = True
) -> Store:
    """Open the store of a collection.

    Parameters
    ----------
    path : path of a file, or name
        With an engine, the name of the collection there: letters, digits and ``_``, at most 48.
    engine : str, optional
        ``"postgresql://..."``. None: one SQLite file.
    readonly : bool, default=False
    create : bool, default=True
        Make an empty one if there is none, unless it is ``readonly``.

    Examples
    --------
    >>> open_store("photos", "oracle://host/database")
    Traceback (most recent call last):
    onlinehash.exceptions.InvalidInputError: engine 'oracle' is unknown; use 'postgresql://user@host/database', or leave
    it out for a file.
    """
    if engine is None:
        file = Path(path)
        if not (create or readonly or file.exists()):
            raise DataNotFoundError(f"There is no collection {file}; pass a hasher to create it.")
        return SqliteStore(file, readonly=readonly)
    kind, _, rest = str(engine).partition(":")
    if kind not in _ENGINES:
        raise InvalidInputError(
            f"engine {kind!r} is unknown; use 'postgresql://user@host/database', or leave it out for a file."
        )
    name = str(path)
    if not _NAME.fullmatch(name):
        raise InvalidInputError(f"{name!r} is no name for an engine; use letters, digits and _, at most 48 of them.")
    module, class_name = _ENGINES[kind]
    store_class = getattr(import_module(f"{__name__}.{module}"), class_name)
    address = engine if rest.startswith("//") else rest  # a URL is passed on whole
    store: Store = store_class(name, address, readonly=readonly, create=create)
    return store
