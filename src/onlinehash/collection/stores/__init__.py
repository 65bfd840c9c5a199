"""Stores: where the items of a collection are kept, in a file or in PostgreSQL."""

from __future__ import annotations

import os
import re
from pathlib import Path

from onlinehash._internal.plugins import plugin
from onlinehash.collection.stores.sql import SqlStore
from onlinehash.collection.stores.sqlite import SqliteStore
from onlinehash.exceptions import InvalidInputError

STORES = {
    "postgres": "onlinehash.collection.stores.postgres:PostgresStore",
    "postgresql": "onlinehash.collection.stores.postgres:PostgresStore",
}
"""Our stores by the scheme of an address. Other packages add theirs with the entry points ``onlinehash.stores``."""

_NAME = re.compile(r"[A-Za-z0-9_]{1,48}", re.ASCII)


def open_store(path: str | os.PathLike[str], store: str | None = None, *, readonly: bool = False) -> SqlStore:
    """Open the store of a collection; create it if there is none, unless it is ``readonly``.

    Parameters
    ----------
    path : path of a file, or name
        With a store, the name of the collection there: letters, digits and ``_``, at most 48.
    store : str, optional
        ``"postgresql://..."``. None: one SQLite file.
    readonly : bool, default=False

    Examples
    --------
    >>> open_store("photos", "oracle://host/database")
    Traceback (most recent call last):
    onlinehash.exceptions.InvalidInputError: store 'oracle' is unknown; use 'postgresql://user@host/database', or leave
    it out for a file.
    """
    if store is None:
        return SqliteStore(Path(path), readonly=readonly)
    kind = str(store).partition(":")[0]
    found = plugin("onlinehash.stores", kind, STORES)
    if found is None:
        raise InvalidInputError(
            f"store {kind!r} is unknown; use 'postgresql://user@host/database', or leave it out for a file."
        )
    if not _NAME.fullmatch(str(path)):
        raise InvalidInputError(
            f"{str(path)!r} is not a name for a collection in {kind}; use at most 48 letters, digits and _."
        )
    opened: SqlStore = found.load()(str(path), store, readonly=readonly)
    return opened
