"""Filters on payloads in the SQL of SQLite, and the indexes that serve them."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from onlinehash.collection.filters import AllOf, AnyOf, Compare, Exists, FieldPath, Filter, Not
from onlinehash.collection.stores.label_texts import LABELS

_TYPES = {"number": "IN ('integer', 'real')", "string": "= 'text'"}
_BOTH = ("ids", "items")  # in order of id, and of arrival
_CONSTANTS = {None: "null", True: "true", False: "false"}


def condition(where: Filter) -> tuple[str, list[Any]]:
    """Return a condition on the column ``payload``, and its values; where it is unknown, it does not hold.

    Examples
    --------
    >>> from onlinehash.collection.filters import parse_where
    >>> print(condition(parse_where({"a": {"$ne": True}}))[0])
    (json_type(payload, '$."a"') IN ('true')) IS NOT TRUE
    """
    values: list[Any] = []

    def compared(part: Compare) -> str:
        type_ = type_of(part.path)
        if part.type not in _TYPES:
            return f"{type_} IN ({', '.join(repr(_CONSTANTS[value]) for value in part.values)})"
        # A float is read as the payload is, so that the same digits are the same number.
        marks = ["json_extract(?, '$')" if isinstance(value, float) else "?" for value in part.values]
        values.extend(repr(value) if isinstance(value, float) else value for value in part.values)
        if part.operator == "in":
            test = f"= {marks[0]}" if len(marks) == 1 else f"IN ({', '.join(marks)})"
        else:
            test = f"{part.operator} {marks[0]}"
        return f"{type_} {_TYPES[part.type]} AND {value_of(part.path)} {test}"

    return joined(where, type_of, compared), values


def joined(where: Filter, found: Callable[[FieldPath], str], compared: Callable[[Compare], str]) -> str:
    """Return a condition in SQL from that of each comparison; ``found`` is NULL where nothing is at a path."""
    if isinstance(where, Not):
        return f"({joined(where.part, found, compared)}) IS NOT TRUE"
    if isinstance(where, (AllOf, AnyOf)):
        word, empty = (" AND ", "true") if isinstance(where, AllOf) else (" OR ", "false")
        return word.join(f"({joined(part, found, compared)})" for part in where.parts) or empty
    return f"{found(where.path)} IS NOT NULL" if isinstance(where, Exists) else compared(where)


def type_of(path: FieldPath) -> str:
    """Return SQL for the type of what is at a path; NULL where nothing is.

    Examples
    --------
    >>> print(type_of(("a",)))
    json_type(payload, '$."a"')
    """
    return f"json_type(payload, {_literal(path)})"


def value_of(path: FieldPath) -> str:
    """Return SQL for the value at a path.

    Examples
    --------
    >>> print(value_of(("a",)))
    json_extract(payload, '$."a"')
    """
    return f"json_extract(payload, {_literal(path)})"


def _literal(path: FieldPath) -> str:
    """Return a path in quotes; older versions of SQLite compare keys as they are written, which is in ASCII."""
    text = "$" + "".join(f".{json.dumps(key)}" for key in path)
    return "'{}'".format(text.replace("'", "''"))


def index_name(path: FieldPath) -> str:
    """Return the name of the index of a path.

    Examples
    --------
    >>> index_name(("price",))
    'payload_72c8d811d5'
    """
    return f"payload_{sha256(json.dumps(path).encode()).hexdigest()[:10]}"


def indexes_of(path: FieldPath) -> dict[str, tuple[str, str]]:
    """Return the tables and the statements of the indexes of a path, or of labels, by name.

    An index of a path has types first, so that it alone answers a comparison.
    """
    if path == (LABELS,):
        return {f"{table}_by_labels": (table, f"CREATE INDEX {table}_by_labels ON {table} (labels)") for table in _BOTH}
    return {
        index_name(path): ("items", f"CREATE INDEX {index_name(path)} ON items ({type_of(path)}, {value_of(path)})")
    }
