"""Filters on payloads: a ``where`` as users write it becomes a small tree, checked once.

The rule, which is the same in every store. A path leads to a value in the payload, or to none. A comparison is true or
false, never unknown. Numbers compare with numbers (``1`` equals ``1.0``), strings with strings by code points, ``true``
and ``false`` with booleans, ``None`` with a null that is there; values of different types are different, and no order
holds between them. Where there is no value, or a list or an object, no comparison holds but ``$ne`` and ``$nin``, which
are the opposites of ``$eq`` and ``$in``. ``$contains`` holds for a list that has an element which equals the value.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from onlinehash.exceptions import InvalidInputError

FieldPath = tuple[str, ...]
"""Keys that lead from the payload to a value."""

Type = Literal["number", "string", "boolean", "null"]

MAX_CONDITIONS = 200
MAX_DEPTH = 16
MAX_VALUES = 10_000
_MAX_TEXT = 1 << 16
_ORDERS = {"$lt": "<", "$lte": "<=", "$gt": ">", "$gte": ">="}
_OPERATORS = {"$contains": "contains", **_ORDERS}  # that take one value
_FIELD = ("$eq", "$ne", *_ORDERS, "$in", "$nin", "$contains", "$exists", "$not")
_WHOLE = ("$and", "$or", "$not")


class Compare(NamedTuple):
    """What a value at a path is.

    It is any of some values of one type ("in"), or in order with one ("<", "<=", ">", ">="); it is a list with an
    element that equals one ("contains"); or it is there, and may be null ("exists").
    """

    path: FieldPath
    operator: str
    type: Type = "null"
    values: tuple[Any, ...] = ()


class Not(NamedTuple):
    """A part does not hold."""

    part: Filter


class Joined(NamedTuple):
    """All parts hold ("AND"), or any does ("OR")."""

    word: str
    parts: tuple[Filter, ...]


Filter = Compare | Not | Joined
"""A condition on a payload."""


def parse_where(where: Any) -> Filter:
    """Return the tree of a filter.

    Parameters
    ----------
    where : mapping
        Conditions by path, all of which hold; ``$and``, ``$or``, ``$not``.

    Examples
    --------
    >>> parse_where({"price": {"$lt": 20}})
    Compare(path=('price',), operator='<', type='number', values=(20,))
    >>> parse_where({"price": {"$near": 20}})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    onlinehash.exceptions.InvalidInputError: where: unknown operator '$near' for 'price'; use $eq, $ne, $lt, $lte, ...
    """
    counted: Counter[str] = Counter()
    return _all_of(where, MAX_DEPTH, counted)


def _all_of(where: Any, depth: int, counted: Counter[str]) -> Filter:
    """Return the tree of a mapping of conditions by path or operator."""
    if not isinstance(where, Mapping):
        raise InvalidInputError(f"where: {_shown(where)} is not a filter; pass conditions by path, as {_EXAMPLE}.")
    if not where:
        raise InvalidInputError(f"where: {{}} has no condition; leave it out, or pass one, as {_EXAMPLE}.")
    if not depth:
        raise InvalidInputError(f"where is nested more than {MAX_DEPTH} levels deep; write it flatter.")
    parts: list[Filter] = []
    for name, given in where.items():
        if name in ("$and", "$or"):
            if not isinstance(given, (list, tuple)) or not given:
                raise InvalidInputError(f"where: {name} takes a list of filters, not {_shown(given)}.")
            some = tuple(_all_of(part, depth - 1, counted) for part in given)
            parts.append(Joined(name[1:].upper(), some))
        elif name == "$not":
            parts.append(Not(_all_of(given, depth - 1, counted)))
        elif isinstance(name, str) and name.startswith("$"):
            raise InvalidInputError(f"where: unknown operator {name!r}; use {', '.join(_WHOLE)}, or start with a path.")
        else:
            parts.append(_field(parse_path(name), given, depth - 1, counted))
    return parts[0] if len(parts) == 1 else Joined("AND", tuple(parts))


def _field(path: FieldPath, given: Any, depth: int, counted: Counter[str]) -> Filter:
    """Return the tree of what a value should be: a value, or conditions by operator, all of which hold."""
    if not isinstance(given, Mapping):
        given = {"$eq": given}
    if not given or not depth:
        raise InvalidInputError(f"where: {_name(path)} has no condition, or is nested too deep.")
    parts: list[Filter] = []
    for operator, value in given.items():
        counted["conditions"] += 1
        if counted["conditions"] > MAX_CONDITIONS:
            raise InvalidInputError(f"where has more than {MAX_CONDITIONS} conditions; use $in for many values.")
        if operator not in _FIELD:
            raise InvalidInputError(f"where: unknown operator {operator!r} for {_name(path)}; use {', '.join(_FIELD)}.")
        parts.append(_condition(path, operator, value, depth, counted))
    return parts[0] if len(parts) == 1 else Joined("AND", tuple(parts))


def _condition(path: FieldPath, operator: str, value: Any, depth: int, counted: Counter[str]) -> Filter:
    if operator == "$not":
        return Not(_field(path, value, depth - 1, counted))
    if operator == "$exists":
        if not isinstance(value, (bool, np.bool_)):
            raise InvalidInputError(f"where: $exists of {_name(path)} is {_shown(value)}; use True or False.")
        there = Compare(path, "exists")
        return there if value else Not(there)
    if operator in _OPERATORS:
        type_, plain = _typed(path, operator, value)
        if operator in _ORDERS and type_ not in ("number", "string"):
            raise InvalidInputError(
                f"where: {operator} of {_name(path)} is {_shown(value)}, which has no order; use a number or a string."
            )
        return Compare(path, _OPERATORS[operator], type_, (plain,))
    if operator in ("$in", "$nin"):
        if not isinstance(value, (list, tuple, set, frozenset, np.ndarray)):
            raise InvalidInputError(f"where: {operator} of {_name(path)} takes a list of values, not {_shown(value)}.")
        values = list(value)
    else:
        values = [value]
    counted["values"] += len(values)
    if counted["values"] > MAX_VALUES:
        raise InvalidInputError(f"where has more than {MAX_VALUES} values; ask in several calls.")
    listed: dict[Type, dict[Any, None]] = {}
    for each in values:
        type_, plain = _typed(path, operator, each)
        listed.setdefault(type_, {})[plain] = None
    parts = tuple(Compare(path, "in", type_, tuple(some)) for type_, some in listed.items())
    one_of = parts[0] if len(parts) == 1 else Joined("OR", parts)
    return Not(one_of) if operator in ("$ne", "$nin") else one_of


def _typed(path: FieldPath, operator: str, value: Any) -> tuple[Type, Any]:
    """Return a value and its type; a float without a fraction becomes an integer, which is exact."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return "null", None
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, str):
        if not is_plain_text(value) or len(value) > _MAX_TEXT:
            raise InvalidInputError(
                f"where: {operator} of {_name(path)} is a string that no payload holds; use at most {_MAX_TEXT} "
                "characters, without U+0000 and lone surrogates."
            )
        return "string", str(value)
    if isinstance(value, float) and math.isfinite(value):
        whole = value.is_integer() and abs(value) < 1 << 63
        return "number", int(value) if whole else float(value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return "number", int(value)
    raise InvalidInputError(
        f"where: {operator} of {_name(path)} is {_shown(value)}; compare with a string, a number of at most 64 bits, a "
        "boolean or None."
    )


def to_sql(where: Filter, leaf: Callable[[Compare], str]) -> str:
    """Return a condition in SQL from those of its leaves; what is unknown does not hold."""
    if isinstance(where, Compare):
        return leaf(where)
    if isinstance(where, Not):
        return f"({to_sql(where.part, leaf)}) IS NOT TRUE"
    return f" {where.word} ".join(f"({to_sql(part, leaf)})" for part in where.parts) or "false"  # any of no values


def compared_paths(where: Filter) -> set[FieldPath]:
    """Return the paths of all comparisons with values."""
    if isinstance(where, Compare):
        return set() if where.operator in ("contains", "exists") else {where.path}
    parts = (where.part,) if isinstance(where, Not) else where.parts
    return set().union(*map(compared_paths, parts))


def parse_path(name: Any) -> FieldPath:
    """Return the keys of a dotted path."""
    parts = tuple(name.split(".")) if isinstance(name, str) else ()
    if not parts or not all(parts) or '"' in name or len(name) > 1000 or len(parts) > MAX_DEPTH:
        raise InvalidInputError(
            f"{_shown(name)} is not a path; join at most {MAX_DEPTH} keys of the payload by dots, none empty or with "
            "quotation marks."
        )
    if not is_plain_text(name):
        raise InvalidInputError(f"{_shown(name)} is not a path: it has U+0000 or a lone surrogate.")
    return parts


def is_plain_text(text: str) -> bool:
    """Return whether every database can hold a text: without U+0000 and lone surrogates."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


_EXAMPLE = json.dumps({"price": {"$lt": 20}})


def _name(path: FieldPath) -> str:
    return repr(".".join(path))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
