"""The tables of a collection's file, and how older ones are brought up to date."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

APPLICATION_ID = 0x6F686173  # "ohas", in the header of the file
VERSION = 1

Migration = Callable[[sqlite3.Connection], None]
MIGRATIONS: dict[int, Migration] = {}
"""From a schema version to the next: each runs in the transaction that raises the version."""

# An item is a row of ``items``, in the order of the stream. A generation has a narrow table besides, by key: where the
# item is, its labels, its code. Opening, filtering and looking for keys never touch the features.
TABLES = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE hasher (id INTEGER PRIMARY KEY CHECK (id = 0), state BLOB NOT NULL, learned_to INTEGER NOT NULL);
CREATE TABLE generations (number INTEGER PRIMARY KEY AUTOINCREMENT, current INTEGER NOT NULL, encoder BLOB NOT NULL,
                          cursor INTEGER NOT NULL DEFAULT 0);
CREATE TABLE items (seq INTEGER PRIMARY KEY, key NOT NULL, features BLOB NOT NULL, labels TEXT, payload TEXT);
CREATE TABLE commits (seq INTEGER PRIMARY KEY);
CREATE TABLE retired (seq INTEGER PRIMARY KEY);
CREATE TABLE deleted (seq INTEGER PRIMARY KEY, key NOT NULL);
"""
CODES = "CREATE TABLE codes_{number} (key {kind} PRIMARY KEY NOT NULL, seq INTEGER NOT NULL, labels TEXT, code BLOB)"
