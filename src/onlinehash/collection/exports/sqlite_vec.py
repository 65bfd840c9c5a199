"""A SQLite file with a table ``codes`` of sqlite-vec: columns ``id`` and ``code``, of bits.

Written by apsw: the sqlite3 of many builds of Python cannot load extensions.
"""

from __future__ import annotations

from pathlib import Path

from onlinehash._files import write_bytes
from onlinehash.collection.exports import Coded
from onlinehash.exceptions import MissingExtraError


def write(path: Path, coded: Coded) -> None:
    """Write the table, and one called ``about``."""
    try:
        import apsw
        import sqlite_vec
    except ImportError as error:
        raise MissingExtraError.of("sqlite-vec", "sqlite-vec") from error
    kind, width = "integer" if isinstance(coded.ids[0], int) else "text", coded.codes.shape[1]
    connection = apsw.Connection(":memory:")
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    with connection:
        connection.execute("CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT)")
        connection.executemany("INSERT INTO about VALUES (?, ?)", coded.about().items())
        connection.execute(f"CREATE VIRTUAL TABLE codes USING vec0(id {kind} PRIMARY KEY, code bit[{8 * width}])")
        rows = ((id, code.tobytes()) for id, code in zip(coded.ids, coded.codes, strict=True))
        connection.executemany("INSERT INTO codes VALUES (?, vec_bit(?))", rows)
    write_bytes(path, connection.serialize("main"))
    connection.close()
