"""Parameters of hashers: their checks, and what may change once learning has begun."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from onlinehash._internal.validation import check_choice, check_n_bits
from onlinehash.exceptions import InvalidInputError

MAX_BITS = 1 << 14
"""Longest code: 2 KiB. A longer one would take more room than its vector, and 16 bits could not hold its distances."""

Changeable = Mapping[str, Callable[[str, Any], object]]
"""Parameters that may change after learning has begun, each with the check of its value: ``check(name, value)``."""


def check_output(name: str, value: Any) -> str:
    """Return the value if it is one that :meth:`OnlineHasher.transform` knows."""
    return check_choice(name, value, ("codes", "bits", "signs"))


def check_code_length(n_bits: Any) -> int:
    """Return the number of bits as an int from 1 to ``MAX_BITS``."""
    if check_n_bits(n_bits) > MAX_BITS:
        raise InvalidInputError(f"n_bits={n_bits} is too many; a code has at most {MAX_BITS} bits.")
    return int(n_bits)


def draw_seed(random_state: Any) -> int:
    """Return ``random_state`` if it is an integer, otherwise an integer drawn from it."""
    if isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    try:
        return int(check_random_state(random_state).randint(2**31))
    except ValueError as error:
        raise InvalidInputError(
            f"random_state={random_state!r} is not None, a non-negative integer or a NumPy generator."
        ) from error


def frozen_value(value: Any) -> Any:
    """Return a copy of a parameter, which does not change if the caller changes the original."""
    if isinstance(value, Mapping):
        return {label: np.array(word) for label, word in value.items()}
    return np.array(value) if _is_array(value) else value


def check_changed(hasher: Any, name: str, before: Any) -> None:
    """Check a parameter that may have changed since learning began: it has the same value, or one it may change to."""
    value = getattr(hasher, name)
    if _is_same(before, value):
        return
    if name not in hasher.changeable:
        way = f"with_{name.removeprefix('n_')}"
        other = f", or {way}({_shown(value)})" if hasattr(hasher, way) else ""
        raise InvalidInputError(
            f"{name}={_shown(value)} was changed after {type(hasher).__name__} learned with "
            f"{name}={_shown(before)}; call fit to start again{other}."
        )
    hasher.changeable[name](name, value)


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, list, tuple))


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(np.array_equal(one[label], other[label]) for label in one)
    return np.array_equal(one, other) if _is_array(one) or _is_array(other) else bool(one == other)


def _shown(value: Any) -> str:
    """Return a parameter for a message: only the size of arrays and mappings."""
    if isinstance(value, Mapping):
        return f"<{len(value)} codewords>"
    return f"<array of shape {np.shape(value)}>" if _is_array(value) else repr(value)
