"""The tables of a collection's file."""

from __future__ import annotations

from collections.abc import Iterable

APPLICATION_ID = 0x6F686173  # "ohas", in the header of the file
VERSION = 2

# An item is one row of ``items``, in order of arrival; ``batch`` is the first sequence number committed with it. Small
# columns come before the vectors, which may fill pages of their own. Each generation has a narrow table besides, by id:
# sequence number, labels and code. Opening, filtering and looking for ids never touch the vectors. All counters are one
# setting, the head, which every transaction writes and compares with what it was.
#
# Every row carries a checksum. An item has three, side by side: of its vectors, of its payload, and of the rest with
# the other two. That of a code covers its whole row, and stands behind the code.
_TABLES = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE hasher (id INTEGER PRIMARY KEY CHECK (id = 0), checksum INTEGER NOT NULL, state BLOB NOT NULL);
CREATE TABLE generations (number INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, encoder BLOB NOT NULL);
CREATE TABLE items (seq INTEGER PRIMARY KEY, batch INTEGER NOT NULL, id NOT NULL, labels TEXT, checksums BLOB NOT NULL,
                    vectors BLOB NOT NULL, payload TEXT);
CREATE TABLE retired (seq INTEGER PRIMARY KEY, checksum INTEGER NOT NULL);
CREATE TABLE deleted (seq INTEGER PRIMARY KEY, id NOT NULL, checksum INTEGER NOT NULL)
"""
TABLES = {statement.split()[2]: statement for statement in _TABLES.strip().split(";\n")}
"""The statements that make them, by name."""

MIGRATION = {
    name: f"CREATE TABLE {name} ({id} INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, {content} BLOB NOT NULL)"
    for name, id, content in (("new_vectors", "seq", "vectors"), ("new_hasher", "id", "state"))
}
"""Those of a migration under way, by name."""


def codes_table(number: int, id_type: str) -> str:
    """Return the statement that makes the table of the codes of a generation.

    Examples
    --------
    >>> codes_table(3, "INTEGER")
    'CREATE TABLE codes_3 (id INTEGER PRIMARY KEY NOT NULL, seq INTEGER NOT NULL, labels TEXT, code BLOB NOT NULL)'
    """
    rowless = " WITHOUT ROWID" if id_type == "TEXT" else ""
    columns = f"id {id_type} PRIMARY KEY NOT NULL, seq INTEGER NOT NULL, labels TEXT, code BLOB NOT NULL"
    return f"CREATE TABLE codes_{number} ({columns}){rowless}"


def tables(id_type: str | None, generations: Iterable[int]) -> dict[str, str]:
    """Return the statements of all tables of a collection, by name."""
    if id_type is None:
        return TABLES
    return TABLES | {f"codes_{number}": codes_table(number, id_type) for number in generations}
