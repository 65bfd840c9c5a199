"""Checks of the ids of items, the same in a collection and in its clients."""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Any

import numpy as np

from onlinehash._validation import check_ids
from onlinehash.exceptions import InvalidInputError


def is_single(ids: Any) -> bool:
    """Return whether this is one id, not several."""
    return isinstance(ids, (str, numbers.Integral, Enum))


def demand_single(id: Any) -> None:
    """Raise TypeError if this is not one id."""
    if not is_single(id):
        raise TypeError(f"{id!r} is not one id; use get for several.")


def check_item_ids(ids: Any, kind: str | None, *, ordered: bool = False, repeated: bool = False) -> list[Any]:
    """Return ids as a list of int or of str, all different; ``kind`` is what those of the collection are, if any.

    ``ordered``: there is a row for every id, so a set will not do. ``repeated``: an id that comes twice is taken once.

    Examples
    --------
    >>> check_item_ids(np.array([3, 1]), "int"), check_item_ids("a", None)
    ([3, 1], ['a'])
    """
    if type(ids) is int and kind == "int" and abs(ids) < 2**63:  # the common cases, quickly
        return [ids]
    if type(ids) is str and kind == "str" and ids.isascii():
        return [ids]
    if is_single(ids):
        ids = [ids]
    if not isinstance(ids, Iterable) or isinstance(ids, (bytes, dict)):
        raise InvalidInputError("ids are integers or strings: pass one, or a list or 1-D array of them.")
    if ordered and isinstance(ids, (set, frozenset)):
        raise InvalidInputError("ids is a set, which has no order; pass a list, in the order of the rows.")
    ids = check_ids(ids if isinstance(ids, list) or hasattr(ids, "__array__") else list(ids), "ids")
    listed = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    given = type(listed[0]).__name__ if listed else None
    if kind is not None and given not in (None, kind):
        raise InvalidInputError(f"ids holds {given}; the ids of this collection are {kind}.")
    if given == "str":
        check_encodable("ids", listed)
    if repeated:
        return list(dict.fromkeys(listed))
    if len(set(listed)) < len(listed):
        twice = Counter(listed).most_common(1)[0][0]
        raise InvalidInputError(f"ids holds {twice!r} twice; pass every id once.")
    return listed


def check_encodable(name: str, values: list[Any]) -> None:
    """Refuse strings that are no Unicode text."""
    try:
        "".join(map(str, values)).encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{name} holds a string that is no Unicode text (a lone surrogate).") from None
