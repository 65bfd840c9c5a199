"""Checks of numbers, names and other parameters."""

from __future__ import annotations

import numbers
import os
from typing import Any

from onlinehash.exceptions import InvalidInputError, StorageError


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_n_bits(n_bits: Any) -> int:
    """Return the number of bits as an int of at least 1."""
    return check_positive_int("n_bits", n_bits)


def check_positive_int(name: str, value: Any) -> int:
    """Return value as an int of at least 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InvalidInputError(f"{name}={value!r} is not an integer; use 1 or more.")
    if value < 1:
        raise InvalidInputError(f"{name}={value} is not positive; use at least 1.")
    return int(value)


def check_non_negative_int(name: str, value: Any) -> int:
    """Return value as an int of at least 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 0:
        raise InvalidInputError(f"{name}={value!r} is not an integer of at least 0.")
    return int(value)


def check_positive(name: str, value: Any) -> float:
    """Return value as a positive, finite float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidInputError(f"{name}={value!r} is not a number; use a positive one.")
    if not 0 < float(value) < float("inf"):
        raise InvalidInputError(f"{name}={value} is not positive and finite.")
    return float(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return value if it is one of the choices."""
    if value not in choices:
        raise InvalidInputError(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}.")
    return str(value)


def check_process(place: str, process: int) -> None:
    """Raise if the current process is a fork of the process that opened ``place``."""
    if os.getpid() != process:
        raise StorageError(
            f"{place} was opened in process {process}, and this is process {os.getpid()}, a fork of it. Open it again "
            "here."
        )
