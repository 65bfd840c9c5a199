"""The tables of a collection's file."""

from __future__ import annotations

from collections.abc import Iterable

APPLICATION_ID = 0x6F686173  # "ohas", in the header of the file
VERSION = 2

# An item is one row of ``items``, in order of arrival; ``batch`` is the first sequence number committed with it. Small
# columns come before the vectors, which may fill pages of their own. ``ids`` is a narrow table besides: sequence number
# and labels of every id, and the code that the generation then in use, if any, gave the item. Opening, filtering and
# looking for ids never touch the vectors. All counters are one setting, the head, which every transaction writes and
# compares with what it was.
#
# A generation writes the codes of the items that are there already in chunks, rows of ``codes_<number>``: the sequence
# numbers, then the codes. Items written while it is being built have a chunk too. Once it is in use, codes of sequence
# numbers up to ``since`` (of the head) are in the chunks, the others in ``ids``.
#
# Every row carries a checksum. An item has three, side by side: of its vector and sequence number, of its payload, and
# of the rest with the other two. That of an id covers the row without the code, which has its own behind it.
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


def ids_table(id_type: str) -> str:
    """Return the statement that makes the table of ids.

    Examples
    --------
    >>> ids_table("INTEGER").partition(", ")[0]
    'CREATE TABLE ids (id INTEGER PRIMARY KEY NOT NULL'
    """
    rowless = " WITHOUT ROWID" if id_type == "TEXT" else ""
    columns = f"id {id_type} PRIMARY KEY NOT NULL, seq INTEGER NOT NULL, labels TEXT"
    return f"CREATE TABLE ids ({columns}, checksum BLOB NOT NULL, code BLOB){rowless}"


def codes_table(number: int) -> str:
    """Return the statement that makes the table of the chunks of a generation.

    Examples
    --------
    >>> codes_table(3)
    'CREATE TABLE codes_3 (seq INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, codes BLOB NOT NULL)'
    """
    return f"CREATE TABLE codes_{number} (seq INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, codes BLOB NOT NULL)"


def tables(id_type: str | None, generations: Iterable[int]) -> dict[str, str]:
    """Return the statements of all tables of a collection, by name."""
    if id_type is None:
        return TABLES
    chunks = {f"codes_{number}": codes_table(number) for number in generations if number}
    return TABLES | {"ids": ids_table(id_type)} | chunks
