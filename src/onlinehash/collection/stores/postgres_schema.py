"""The tables of a collection in PostgreSQL."""

from __future__ import annotations

from typing import Any
from zlib import crc32

VERSION = 2

# ``writer`` has one row: the term of who writes, and the last transaction that was committed in it. ``commits`` has the
# last sequence number of every batch that the last state of the hasher has not learned from.
# All numbers and codes follow from the items, which are in the order of the stream. Those replaced or deleted after the
# last state of the hasher wait in ``retired`` until the next. Both are made with the first item, when it is known what
# ids are; the narrow table of codes with each generation, so that a search touches neither vectors nor payloads.
TABLES = """
CREATE SCHEMA {schema};
CREATE TABLE {schema}.settings (name text PRIMARY KEY, value text NOT NULL, checksum int NOT NULL);
CREATE TABLE {schema}.writer (id int PRIMARY KEY CHECK (id = 0), term bigint NOT NULL, commit xid8);
INSERT INTO {schema}.writer VALUES (0, 0, NULL);
CREATE TABLE {schema}.commits (seq bigint PRIMARY KEY);
CREATE TABLE {schema}.hasher (id int PRIMARY KEY CHECK (id = 0), state bytea NOT NULL, learned_to bigint NOT NULL);
CREATE TABLE {schema}.generations (number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, current bool NOT NULL,
                                   n_bits int NOT NULL, encoder bytea NOT NULL, cursor bigint NOT NULL DEFAULT 0);
ALTER TABLE {schema}.hasher ALTER state SET STORAGE EXTERNAL;
ALTER TABLE {schema}.generations ALTER encoder SET STORAGE EXTERNAL
"""
ITEMS = """
CREATE TABLE {schema}.items (seq bigint PRIMARY KEY, id {kind} UNIQUE NOT NULL, vectors bytea NOT NULL, labels text,
                             payload text, checksum int NOT NULL, payload_checksum int NOT NULL);
CREATE TABLE {schema}.retired (seq bigint PRIMARY KEY, id {kind} NOT NULL, vectors bytea NOT NULL, labels text,
                               payload text, checksum int NOT NULL, payload_checksum int NOT NULL);
CREATE TABLE {schema}.deleted (seq bigint PRIMARY KEY, id {kind} NOT NULL);
ALTER TABLE {schema}.items ALTER vectors SET STORAGE EXTERNAL;
ALTER TABLE {schema}.retired ALTER vectors SET STORAGE EXTERNAL
"""
MIGRATION = """
CREATE TABLE {schema}.new_vectors (seq bigint PRIMARY KEY, vectors bytea NOT NULL, checksum int NOT NULL);
CREATE TABLE {schema}.new_hasher (id int PRIMARY KEY CHECK (id = 0), state bytea NOT NULL);
ALTER TABLE {schema}.new_vectors ALTER vectors SET STORAGE EXTERNAL
"""
CODES = """
CREATE TABLE {table} (id {kind} PRIMARY KEY, seq bigint NOT NULL, labels text[], code bit({n_bits}) NOT NULL)
"""


def checksum(*parts: Any, content: bytes = b"") -> int:
    """Return the CRC-32 of values and bytes, as an ``int`` of PostgreSQL, which has a sign.

    Examples
    --------
    >>> checksum("colour", '"red"')
    1353260267
    """
    return crc32(content, crc32("\0".join(map(str, parts)).encode())) - (1 << 31)
