"""A SQLite file with a table ``codes`` of sqlite-vec: columns ``id`` and ``code``, of bits.

Written by apsw: the sqlite3 of many builds of Python cannot load extensions.
"""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

from onlinehash.collection.exports.coded import Coded
from onlinehash.exceptions import DataNotFoundError, MissingExtraError


def write(path: Path, coded: Coded) -> None:
    """Write the table, and one called ``about``."""
    try:
        import apsw
        import sqlite_vec
    except ImportError as error:
        raise MissingExtraError.of("sqlite-vec", "sqlite-vec") from error
    if not path.parent.is_dir():
        raise DataNotFoundError(f"There is no folder {path.parent} to write {path.name} to; make it first.")
    kind = "integer" if isinstance(coded.ids[0], int) else "text"
    aside = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        connection = apsw.Connection(str(aside))
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        with connection:
            connection.execute("CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT)")
            connection.executemany("INSERT INTO about VALUES (?, ?)", coded.about().items())
            width = coded.codes.shape[1]
            connection.execute(f"CREATE VIRTUAL TABLE codes USING vec0(id {kind} PRIMARY KEY, code bit[{8 * width}])")
            rows = ((id, code.tobytes()) for id, code in zip(coded.ids, coded.codes, strict=True))
            connection.executemany("INSERT INTO codes VALUES (?, vec_bit(?))", rows)
        connection.close()
        with aside.open("rb+") as file:
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
