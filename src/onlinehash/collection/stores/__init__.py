"""Stores: where the items of a collection are kept, in a file or in PostgreSQL."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path

from onlinehash.collection.stores.protocol import Store
from onlinehash.collection.stores.sqlite import SqliteStore
from onlinehash.exceptions import DataNotFoundError, InvalidInputError

# By the scheme of their addresses: the module here and its store, which takes the name of a collection and an address.
_STORES = {
    "postgresql": ("postgres", "PostgresStore"),
    "postgres": ("postgres", "PostgresStore"),
}
_NAME = re.compile(r"[A-Za-z0-9_]{1,48}", re.ASCII)


def open_store(
    path: str | os.PathLike[str], store: str | None = None, *, readonly: bool = False, create: bool = True
) -> Store:
    """Open the store of a collection.

    Parameters
    ----------
    path : path of a file, or name
        With a store, the name of the collection there: letters, digits and ``_``, at most 48.
    store : str, optional
        ``"postgresql://..."``. None: one SQLite file.
    readonly : bool, default=False
    create : bool, default=True
        Make an empty one if there is none, unless it is ``readonly``.

    Examples
    --------
    >>> open_store("photos", "oracle://host/database")
    Traceback (most recent call last):
    onlinehash.exceptions.InvalidInputError: store 'oracle' is unknown; use 'postgresql://user@host/database', or leave
    it out for a file.
    """
    if store is None:
        file = Path(path)
        if not (create or readonly or file.exists()):
            raise DataNotFoundError(f"There is no collection {file}; pass a hasher to create it.")
        return SqliteStore(file, readonly=readonly)
    kind, _, rest = str(store).partition(":")
    if kind not in _STORES:
        raise InvalidInputError(
            f"store {kind!r} is unknown; use 'postgresql://user@host/database', or leave it out for a file."
        )
    name = str(path)
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"{name!r} is no name for a collection in PostgreSQL; use letters, digits and _, at most 48 of them."
        )
    module, class_name = _STORES[kind]
    store_class = getattr(import_module(f"{__name__}.{module}"), class_name)
    address = store if rest.startswith("//") else rest  # a URL is passed on whole
    opened: Store = store_class(name, address, readonly=readonly, create=create)
    return opened
