"""Checks of the ids of an index."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._validation import check_ids
from onlinehash.exceptions import InvalidInputError, UnknownIdError
from onlinehash.types import Codes, Ids


def check_item_ids(ids: ArrayLike) -> Ids:
    """Return ids as a new array of int64."""
    array: NDArray[Any] = ids if type(ids) is np.ndarray else _quickly(ids)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        column = check_ids(ids, "ids")
        if np.ndim(ids) == 0 or (len(column) and isinstance(column[0], str)):
            raise InvalidInputError("ids is not a 1-D array of integers; pass one.")
        array = np.asarray(column, None if isinstance(column, np.ndarray) else np.int64)
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise InvalidInputError("ids holds integers beyond int64; use smaller ones.")
    return array.astype(np.int64)


def _quickly(ids: Any) -> NDArray[Any]:
    """Return a list of integers as an array; an empty array of floats if it may hold anything else."""
    if isinstance(ids, list):
        try:
            array = np.asarray(ids)
        except ValueError:
            return np.empty(0)
        # NumPy turns True and False into 1 and 0.
        if array.dtype.kind == "i" and array.ndim == 1:
            doubtful = np.flatnonzero((array == 0) | (array == 1)).tolist()
            if not any(isinstance(ids[i], (bool, np.bool_)) for i in doubtful):
                return array
    return np.empty(0)


def check_different_ids(ids: ArrayLike) -> Ids:
    """Return ids as a new array of int64, checked to be distinct."""
    array = check_item_ids(ids)
    if not rising(array) and not rising(np.sort(array)):
        raise InvalidInputError("ids contains an id twice; pass every id once.")
    return array


def check_new_ids(ids: ArrayLike | None, codes: Codes, first: int) -> Ids:
    """Return one id per code: those given, or consecutive integers from ``first``."""
    if ids is None:
        if first + len(codes) > np.iinfo(np.int64).max:
            raise InvalidInputError(
                f"Ids from {first} to {first + len(codes) - 1} do not all fit into int64; pass ids."
            )
        return np.arange(first, first + len(codes))
    array = check_different_ids(ids)
    if len(array) != len(codes):
        raise InvalidInputError(
            f"ids has length {len(array)}, but codes has length {len(codes)}; pass one id per code."
        )
    return array


def check_id_filter(ids: ArrayLike) -> Ids:
    """Return the allowed ids, sorted and distinct."""
    array = check_item_ids(ids)
    return array if rising(array) else np.unique(array)


def rising(ids: Ids) -> bool:
    """Return whether the ids are strictly increasing."""
    return bool((ids[1:] > ids[:-1]).all())


def is_id(value: object) -> TypeGuard[int]:
    """Return whether a value can be an id: an integer of 64 bits."""
    return isinstance(value, (int, np.integer)) and -(2**63) <= int(value) < 2**63


def unknown_id(id: int, n_items: int) -> UnknownIdError:
    """Return the error that there is no such id."""
    return UnknownIdError(f"There is no item with id {id} in this index of {n_items}.")
