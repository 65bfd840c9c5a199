"""Checks of keys and limits that every index shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._validation import check_ids
from onlinehash.exceptions import InvalidInputError
from onlinehash.types import Codes, Keys


def check_keys(keys: ArrayLike, name: str = "keys") -> Keys:
    """Return keys as a new array of int64."""
    array: NDArray[Any] = keys if type(keys) is np.ndarray else _quickly(keys)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        ids = check_ids(keys, name)
        if np.ndim(keys) == 0 or (len(ids) and isinstance(ids[0], str)):
            raise InvalidInputError(f"{name} is not a 1-D array of integers; pass one.")
        array = np.asarray(ids, None if isinstance(ids, np.ndarray) else np.int64)
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise InvalidInputError(f"{name} holds integers beyond int64; use smaller ones.")
    return array.astype(np.int64)


def _quickly(keys: Any) -> NDArray[Any]:
    """Return a list of integers as an array; an empty array of no integers if it might hold anything else."""
    if isinstance(keys, list):
        try:
            array = np.asarray(keys)
        except ValueError:
            return np.empty(0)
        # True and False are 1 and 0 in an array of integers.
        if array.dtype.kind == "i" and array.ndim == 1:
            doubtful = np.flatnonzero((array == 0) | (array == 1)).tolist()
            if not any(isinstance(keys[i], (bool, np.bool_)) for i in doubtful):
                return array
    return np.empty(0)


def check_different_keys(keys: ArrayLike) -> Keys:
    """Return keys, checked to be distinct."""
    array = check_keys(keys)
    if not rising(array) and not rising(np.sort(array)):
        raise InvalidInputError("keys holds a key twice; pass every key once.")
    return array


def check_new_keys(keys: ArrayLike | None, codes: Codes, first: int) -> Keys:
    """Return a key for every code: those given, or numbers from ``first`` on."""
    if keys is None:
        if first + len(codes) > np.iinfo(np.int64).max:
            raise InvalidInputError(f"There are no {len(codes)} keys from {first} on in int64; pass keys.")
        return np.arange(first, first + len(codes))
    array = check_keys(keys)
    if len(array) != len(codes):
        raise InvalidInputError(f"There are {len(array)} keys for {len(codes)} codes; pass one key a code.")
    return check_different_keys(array)


def check_within(within: ArrayLike) -> Keys:
    """Return the allowed keys, sorted and distinct."""
    array = check_keys(within, "within")
    return array if rising(array) else np.unique(array)


def check_radius(radius: Any) -> int:
    """Return the radius as an int of at least 0."""
    if isinstance(radius, bool) or not isinstance(radius, (int, np.integer)) or radius < 0:
        raise InvalidInputError(f"radius={radius!r} is not an integer of at least 0.")
    return int(radius)


def rising(keys: Keys) -> bool:
    """Return whether the keys are strictly increasing."""
    return bool((keys[1:] > keys[:-1]).all())
