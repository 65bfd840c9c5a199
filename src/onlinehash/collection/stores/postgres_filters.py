"""Filters on payloads in the SQL of PostgreSQL, and the indexes that serve them."""

from __future__ import annotations

import json
from typing import Any

from onlinehash.collection.filters import Compare, FieldPath, Filter
from onlinehash.collection.stores.label_texts import LABELS
from onlinehash.collection.stores.sqlite_filters import index_name, joined

PREFIX = 250  # characters of a string that an index holds: PostgreSQL refuses entries of more than 2700 bytes
LABELS_START = f'(left(labels, {PREFIX}) COLLATE "C")'


def condition(where: Filter) -> tuple[str, dict[str, Any]]:
    """Return a condition on the column ``payload``, and its values by name; where it is unknown, it does not hold.

    Examples
    --------
    >>> from onlinehash.collection.filters import parse_where
    >>> condition(parse_where({"a": {"$ne": True}}))
    ("((payload::jsonb -> 'a') = ANY(%(where_0)s::text[]::jsonb[])) IS NOT TRUE", {'where_0': ['true']})
    """
    values: dict[str, Any] = {}

    def mark(value: Any) -> str:
        name = f"where_{len(values)}"
        values[name] = value
        return f"%({name})s"

    def compared(part: Compare) -> str:
        texts = [json.dumps(value) for value in part.values]
        is_any = f"= ANY({mark(texts)}::text[]::jsonb[])" if part.operator == "in" else ""
        if part.type == "number":
            return f"{_number(part.path)} {is_any or f'{part.operator} {mark(texts[0])}::jsonb'}"
        if part.type != "string":
            return f"{_value(part.path)} {is_any}"
        starts = [value[:PREFIX] for value in part.values]
        if part.operator == "in":
            return f"{_start(part.path)} = ANY({mark(starts)}::text[]) AND {_value(part.path)} {is_any}"
        within = part.operator[0] + "="  # what is in order is so, or equal, at its start
        exact = f'{_text(part.path)} COLLATE "C" {part.operator} {mark(part.values[0])}'
        return f"{_start(part.path)} {within} {mark(starts[0])} AND {exact}"

    return joined(where, _value, compared), values


def _value(path: FieldPath) -> str:
    """Return the value at a path; one key at a time, so that a number is a key and never a place in a list."""
    keys = "".join(" -> '{}'".format(key.replace("'", "''").replace("%", "%%")) for key in path)
    return f"(payload::jsonb{keys})"


def _number(path: FieldPath) -> str:
    return f"(CASE WHEN jsonb_typeof({_value(path)}) = 'number' THEN {_value(path)} END)"


def _text(path: FieldPath) -> str:
    return f"(CASE WHEN jsonb_typeof({_value(path)}) = 'string' THEN {_value(path)} #>> '{{}}' END)"


def _start(path: FieldPath) -> str:
    return f'(left({_text(path)}, {PREFIX}) COLLATE "C")'


def indexes_of(path: FieldPath) -> dict[str, str]:
    """Return what the indexes of a path hold, by name: numbers, and strings; or labels, by id and by arrival."""
    if path == (LABELS,):
        return {f"items_by_labels_{column}": f"{LABELS_START}, {column}" for column in ("id", "seq")}
    return {f"{index_name(path)}_number": _number(path), f"{index_name(path)}_string": _start(path)}
