"""Checks of vectors."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._arrays import dtype_name, is_on_device, namespace, to_host
from onlinehash._containers import as_array
from onlinehash.exceptions import InvalidFeaturesError, NotNumbersError
from onlinehash.types import Features

_VALUES_AT_A_TIME = 1 << 20  # a memory-mapped file is never read whole


def check_features(
    X: Any, *, n_features: int | None = None, owner: str = "the model", on_device: bool = False
) -> Features:
    """Return X as a 2-D array of real numbers, without a copy if it is one; :func:`check_finite` checks the values.

    With ``n_features``, X must have the width that ``owner`` learned from. With ``on_device``, an array on a device
    stays there.
    """
    if type(X) is np.ndarray and X.dtype.kind in "fiub" and X.ndim == 2 and X.size and n_features == X.shape[1]:
        return X  # the common case, quickly
    stays = on_device and is_on_device(X)
    if not stays and (type(X) is not np.ndarray or X.dtype.kind == "O"):
        X = as_array(X)
    if X.ndim != 2:
        raise InvalidFeaturesError(
            f"Expected a 2D array, but X has shape {X.shape}. Reshape your data: X.reshape(1, -1) for one sample."
        )
    if X.shape[0] == 0:
        raise InvalidFeaturesError(f"Found array with 0 sample(s) (shape={X.shape}); pass at least one row.")
    if X.shape[1] == 0:
        raise InvalidFeaturesError(f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    is_complex = namespace(X).isdtype(X.dtype, "complex floating") if stays else X.dtype.kind == "c"
    if is_complex:
        raise InvalidFeaturesError("Complex data not supported; pass real features, such as X.real.")
    if not stays and X.dtype.kind not in "fiub":
        X = _as_numbers(X)
    if n_features is not None and X.shape[1] != n_features:
        raise InvalidFeaturesError(
            f"X has {X.shape[1]} features, but {owner} is expecting {n_features} features as input, "
            "the width it learned from. Use features of that width, or a new object."
        )
    checked: Features = X
    return checked


def _as_numbers(X: NDArray[Any]) -> NDArray[Any]:
    if X.dtype.kind == "O":
        if X.shape[1] == 1 and np.ndim(X[0, 0]):
            raise InvalidFeaturesError("X is a table with one column of lists; pass the column, such as X['vector'].")
        try:
            return X.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise NotNumbersError(f"X holds objects that are not numbers: {error}.") from error
    raise InvalidFeaturesError(f"X has dtype {X.dtype}; pass numbers, such as X.astype(np.float32).")


def precision_of(X: NDArray[Any]) -> np.dtype[Any]:
    """Return the precision to compute in: that of X, float32 for half precision, float64 for integers."""
    if is_on_device(X):
        return np.dtype(np.float32 if dtype_name(X) in ("float32", "float16", "bfloat16") else np.float64)
    if X.dtype in (np.float32, np.float16):
        return np.dtype(np.float32)
    return np.dtype(np.float64)


def check_finite(X: NDArray[Any], dtype: np.dtype[Any], *, raw: bool = False) -> None:
    """Raise if X holds NaN or infinity, or values too large to be learned from in ``dtype``; reads X in pieces.

    The difference of two values must not overflow. Rows that are ``raw``, not scaled to unit length, are multiplied
    with each other and with weights that are sums of rows: the product of three lengths must not overflow.
    """
    if is_on_device(X):
        _check_finite_on_device(X, dtype, raw)
        return
    if X.dtype.kind != "f" and not raw:
        return
    largest, longest = _limits(dtype)
    step = max(1, _VALUES_AT_A_TIME // X.shape[1])
    for start in range(0, len(X), step):
        piece = X[start : start + step]
        if X.dtype.kind != "f":
            piece = piece.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            values = piece.reshape(-1) if piece.flags.c_contiguous else np.ravel(piece)
            total = float(np.dot(values, values))  # finite only if all values are: one fast pass
        if total <= longest * longest:
            continue
        finite = np.isfinite(piece)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise InvalidFeaturesError(
                f"X contains NaN or inf: {piece[row, column]} at row {start + row}, feature {column}. "
                "Drop or fill such rows first."
            )
        if float(max(piece.max(), -piece.min())) > largest:
            raise InvalidFeaturesError(
                f"X holds values too large for {dtype}, in which this object learns; scale X first."
            )
        with np.errstate(over="ignore"):
            lengths = np.linalg.norm(piece.astype(np.float64, copy=False), axis=1) if raw else np.zeros(1)
        if lengths.max() > longest:
            raise InvalidFeaturesError(
                f"Row {start + lengths.argmax()} of X is longer than {longest:.0e}, the most that is learned from in "
                f"{dtype} with preprocess='none'; scale X first, or use preprocess='unit'."
            )


@cache
def _limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the largest value, and the largest length of a raw row, to learn from in a precision."""
    most = float(np.finfo(np.promote_types(dtype, np.float32)).max)
    return most / 4.0, most ** (1.0 / 3.0)


def _check_finite_on_device(X: Any, dtype: np.dtype[Any], raw: bool) -> None:
    xp = namespace(X)
    if not xp.isdtype(X.dtype, "real floating"):
        return
    largest, longest = _limits(dtype)
    harmless = min(longest / X.shape[1] if raw else largest, float(xp.finfo(X.dtype).max))  # as X can hold it
    if not bool(xp.all(xp.abs(X) <= harmless)):
        check_finite(to_host(X), dtype, raw=raw)  # which names the row
