"""The tables of a collection in PostgreSQL, and how older ones are brought up to date."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

VERSION = 1

Migration = Callable[[Any, str], None]
MIGRATIONS: dict[int, Migration] = {}
"""From a schema version to the next, given a connection and the schema; in the transaction that raises the version."""

# All numbers and codes follow from the items, which are in the order of the stream. Those replaced or deleted after the
# last state of the hasher wait in ``retired`` until the next. Both are made with the first item, when it is known what
# keys are; the narrow table of codes with each generation, so that a search touches neither features nor payloads.
TABLES = """
CREATE SCHEMA {schema};
CREATE TABLE {schema}.settings (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE {schema}.hasher (id int PRIMARY KEY CHECK (id = 0), state bytea NOT NULL, learned_to bigint NOT NULL);
CREATE TABLE {schema}.generations (number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, current bool NOT NULL,
                                   n_bits int NOT NULL, encoder bytea NOT NULL, cursor bigint NOT NULL DEFAULT 0);
ALTER TABLE {schema}.hasher ALTER state SET STORAGE EXTERNAL;
ALTER TABLE {schema}.generations ALTER encoder SET STORAGE EXTERNAL
"""
ITEMS = """
CREATE TABLE {schema}.items (seq bigint PRIMARY KEY, key {kind} UNIQUE NOT NULL, features bytea NOT NULL, labels text,
                             payload text);
CREATE TABLE {schema}.retired (seq bigint PRIMARY KEY, key {kind} NOT NULL, features bytea NOT NULL, labels text,
                               payload text);
ALTER TABLE {schema}.items ALTER features SET STORAGE EXTERNAL;
ALTER TABLE {schema}.retired ALTER features SET STORAGE EXTERNAL
"""
CODES = "CREATE TABLE {table} (key {kind} PRIMARY KEY, labels text[], code bit({n_bits}) NOT NULL)"
