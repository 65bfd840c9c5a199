"""Filters on payloads in the SQL of SQLite, and the indexes that serve them."""

from __future__ import annotations

import json
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
    if isinstance(where, Not):
        part, values = condition(where.part)
        return f"({part}) IS NOT TRUE", values
    if isinstance(where, (AllOf, AnyOf)):
        listed = [condition(part) for part in where.parts]
        word = " AND " if isinstance(where, AllOf) else " OR "
        empty = "true" if isinstance(where, AllOf) else "false"
        return word.join(f"({part})" for part, _ in listed) or empty, [value for _, some in listed for value in some]
    if isinstance(where, Exists):
        return f"{type_of(where.path)} IS NOT NULL", []
    return _compared(where)


def _compared(where: Compare) -> tuple[str, list[Any]]:
    type_ = type_of(where.path)
    if where.type not in _TYPES:
        return f"{type_} IN ({', '.join(repr(_CONSTANTS[value]) for value in where.values)})", []
    # A float is read as the payload is, so that the same digits are the same number.
    marks = ["json_extract(?, '$')" if isinstance(value, float) else "?" for value in where.values]
    values = [repr(value) if isinstance(value, float) else value for value in where.values]
    if where.operator == "in":
        test = f"= {marks[0]}" if len(marks) == 1 else f"IN ({', '.join(marks)})"
    else:
        test = f"{where.operator} {marks[0]}"
    return f"{type_} {_TYPES[where.type]} AND {value_of(where.path)} {test}", values


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
