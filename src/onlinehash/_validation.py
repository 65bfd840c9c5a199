"""Checks of user input: one place, one wording, before anything changes."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash.exceptions import (
    InvalidCodesError,
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
    NotNumbersError,
)
from onlinehash.types import Codes, Features, Labels, LabelSets, SoftCodes

_SEVERAL = (list, tuple, set, frozenset, np.ndarray)  # what holds several labels of one row
_ROWS_AT_A_TIME = 1 << 20  # elements; a memory-mapped file is never read whole


def is_number(text: str) -> bool:
    """Tell whether a text is a number.

    Examples
    --------
    >>> is_number("1e-3"), is_number("x0")
    (True, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_one_row(X: Any) -> bool:
    """Tell whether X is a single row and no table of them; rows of different lengths are refused elsewhere.

    Examples
    --------
    >>> is_one_row([1.0, 2.0]), is_one_row([[1.0, 2.0]]), is_one_row([[1.0], [1.0, 2.0]])
    (True, False, False)
    """
    try:
        return np.ndim(X) == 1
    except ValueError:
        return False


def check_features(X: ArrayLike, *, n_features: int | None = None, owner: str = "the model") -> Features:
    """Return X as a two-dimensional array of real numbers, without a copy where it already is one.

    Values are not looked at: see :func:`check_finite`.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    n_features : int, optional
        The width that ``owner`` learned from.
    owner : str
        Named in the error.
    """
    if not isinstance(X, np.ndarray):
        if hasattr(X, "toarray"):
            raise InvalidFeaturesError("Sparse input is not supported; pass X.toarray().")
        try:
            X = np.asarray(X)
        except ValueError as error:
            raise InvalidFeaturesError("X has rows of different lengths; pass one row a sample.") from error
    if X.ndim != 2:
        raise InvalidFeaturesError(
            f"Expected a 2D array, but X has shape {X.shape}. Reshape your data: X.reshape(1, -1) for one sample."
        )
    if X.shape[0] == 0:
        raise InvalidFeaturesError(f"Found array with 0 sample(s) (shape={X.shape}); pass at least one row.")
    if X.shape[1] == 0:
        raise InvalidFeaturesError(f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    if X.dtype.kind not in "fiub":
        X = _as_numbers(X)
    if n_features is not None and X.shape[1] != n_features:
        raise InvalidFeaturesError(
            f"X has {X.shape[1]} features, but {owner} is expecting {n_features} features as input, "
            "the width it learned from. Use features of that width, or a new object."
        )
    return X


def _as_numbers(X: NDArray[Any]) -> NDArray[Any]:
    if X.dtype.kind == "c":
        raise InvalidFeaturesError("Complex data not supported; pass real features, such as X.real.")
    if X.dtype.kind == "O":
        try:
            return X.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise NotNumbersError(f"X holds objects that are not numbers: {error}.") from error
    raise InvalidFeaturesError(f"X has dtype {X.dtype}; pass numbers, such as X.astype(np.float32).")


def precision_of(X: NDArray[Any]) -> np.dtype[Any]:
    """Return the precision to compute in: that of X, float32 for half precision, float64 for integers."""
    if X.dtype in (np.float32, np.float16):
        return np.dtype(np.float32)
    return np.dtype(np.float64)


def check_finite(X: NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Raise if X holds NaN or infinity, or a value too large for ``dtype``; reads X in pieces."""
    if X.dtype.kind != "f":
        return
    largest = None if X.dtype.itemsize <= dtype.itemsize else np.finfo(dtype).max
    step = max(1, _ROWS_AT_A_TIME // X.shape[1])
    for start in range(0, len(X), step):
        piece = X[start : start + step]
        with np.errstate(over="ignore", invalid="ignore"):
            total = piece.sum()  # NaN and infinity spread to it: one quick pass tells that there are none
        if largest is None and np.isfinite(total):
            continue
        finite = np.isfinite(piece)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise InvalidFeaturesError(
                f"X contains NaN or inf: {piece[row, column]} at row {start + row}, feature {column}. "
                "Drop or fill such rows first."
            )
        if largest is not None and max(piece.max(), -piece.min()) > largest:
            raise InvalidFeaturesError(
                f"X holds values too large for {dtype}, in which this object learns; scale X first."
            )


def check_labels(y: Any, n_samples: int) -> Labels:
    """Return labels as a one-dimensional array of int64 or of strings.

    Whole floating-point numbers are taken as integers.
    """
    if y is None:
        raise InvalidLabelsError("This method requires y to be passed, but the target y is None; pass one label a row.")
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InvalidLabelsError(f"y should be a 1d array of labels, but it has shape {labels.shape}.")
    if len(labels) != n_samples:
        raise InvalidLabelsError(
            f"Found input variables with inconsistent numbers of samples: y has {len(labels)} labels, X has "
            f"{n_samples} rows; pass one label a row."
        )
    if labels.dtype.kind == "O":
        labels = _labels_of_objects(labels)
    if labels.dtype.kind in "iub":
        if labels.dtype == np.uint64 and labels.size and labels.max() > np.iinfo(np.int64).max:
            raise InvalidLabelsError("y holds integers beyond int64; pass smaller integers, or strings.")
        return labels.astype(np.int64, copy=False)
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise InvalidLabelsError("y contains NaN or inf; leave out rows that have no label.")
        whole = labels.astype(np.int64)
        if (whole != labels).any():
            raise InvalidLabelsError(
                f"Unknown label type: y holds {labels[whole != labels][0]}; labels are integers or strings."
            )
        return whole
    if labels.dtype.kind == "U":
        if not isinstance(y, np.ndarray):
            _labels_of_objects(np.array(y, object).ravel())  # [1, "a"] is an array of strings to NumPy
        return labels
    raise InvalidLabelsError(f"Unknown label type: y has dtype {labels.dtype}; labels are integers or strings.")


def _labels_of_objects(labels: NDArray[Any]) -> NDArray[Any]:
    if all(isinstance(label, str) for label in labels):
        return labels.astype(np.str_)
    if all(isinstance(label, numbers.Integral) for label in labels):
        try:
            return labels.astype(np.int64)
        except OverflowError:
            raise InvalidLabelsError("y holds integers beyond int64; use smaller ones, or strings.") from None
    if all(isinstance(label, numbers.Real) for label in labels):
        return labels.astype(np.float64)
    kinds = sorted({type(label).__name__ for label in labels})
    raise InvalidLabelsError(f"Unknown label type: y mixes {', '.join(kinds)}; labels are all integers or all strings.")


def check_targets(y: Any, n_samples: int) -> tuple[Labels | LabelSets, NDArray[np.bool_] | None]:
    """Return one label a row, or several, and which rows have any (None where all do).

    Takes labels as :func:`check_labels` does, with None or NaN where there is none; lists of labels; or a 0/1
    indicator matrix, whose columns are the labels 0, 1, 2, ...
    """
    if isinstance(y, np.ndarray) and y.dtype.kind in "iuU" and y.ndim == 1:
        return check_labels(y, n_samples), None
    listed = isinstance(y, (list, tuple)) or (isinstance(y, np.ndarray) and y.dtype.kind == "O" and y.ndim == 1)
    if listed and any(isinstance(labels, _SEVERAL) for labels in y):
        return _check_label_sets(list(y), n_samples)
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] > 1:
        if labels.dtype.kind not in "biuf" or not np.isin(labels, (0, 1)).all():
            raise InvalidLabelsError(
                f"y should be a 1d array of labels, a list of lists of labels, or a 0/1 indicator matrix; it has shape "
                f"{labels.shape} and other values."
            )
        return _check_label_sets([np.flatnonzero(row) for row in labels], n_samples)
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    elif labels.dtype.kind == "O":
        missing = np.array([_is_missing(label) for label in labels.ravel()], bool).reshape(labels.shape)
    else:
        missing = np.zeros(0, bool)
    if y is None or not missing.any():
        return check_labels(y, n_samples), None
    kept = labels[~missing]
    filled = labels.copy()
    filled[missing] = kept[0] if len(kept) else 0
    return check_labels(filled, n_samples), ~missing.ravel()


def _is_missing(label: Any) -> bool:
    return label is None or (isinstance(label, float) and np.isnan(label))


def _label_set(labels: Any) -> tuple[Any, ...]:
    if isinstance(labels, (set, frozenset)):
        return tuple(sorted(labels))  # the order of a set differs from run to run
    if isinstance(labels, _SEVERAL):
        return tuple(labels)
    return () if _is_missing(labels) else (labels,)


def _check_label_sets(y: list[Any], n_samples: int) -> tuple[LabelSets, NDArray[np.bool_] | None]:
    rows = [_label_set(labels) for labels in y]
    if len(rows) != n_samples:
        raise InvalidLabelsError(
            f"y has labels for {len(rows)} rows, X has {n_samples}; pass one list of labels a row."
        )
    if any(isinstance(label, (*_SEVERAL, dict)) for labels in rows for label in labels):
        raise InvalidLabelsError("y holds lists in lists of labels; pass one list of integers or strings a row.")
    if any(len(set(labels)) < len(labels) for labels in rows):
        raise InvalidLabelsError("y holds a list with the same label twice; pass an indicator matrix as np.array(y).")
    flat = [label for labels in rows for label in labels]
    plain = iter(check_labels(flat, len(flat)).tolist() if flat else [])
    sets = LabelSets(tuple(next(plain) for _ in labels) for labels in rows)
    labelled = np.array([bool(labels) for labels in sets], bool)
    return sets, None if labelled.all() else labelled


def check_codes(codes: Any, n_bits: int | None = None) -> Codes:
    """Return packed codes as they are; never guess a cast.

    With ``n_bits`` the width and the padding are checked too.
    """
    packed: Codes = np.asarray(codes)
    if packed.dtype != np.uint8:
        raise InvalidCodesError(
            f"codes has dtype {packed.dtype}; packed codes are uint8. Use pack_signs or pack_bits first."
        )
    if packed.ndim != 2 or packed.shape[1] == 0:
        raise InvalidCodesError(f"codes has shape {packed.shape}; pass one row a code, (n_samples, n_bytes).")
    if n_bits is not None:
        width = (n_bits + 7) // 8
        if packed.shape[1] != width:
            raise InvalidCodesError(f"codes has {packed.shape[1]} bytes a row, but {n_bits} bits take {width}.")
        if n_bits % 8 and (packed[:, -1] >> (n_bits % 8)).any():
            raise InvalidCodesError(f"codes has bits set beyond bit {n_bits}; those padding bits must be zero.")
    return packed


def check_soft_codes(soft: Any, n_bits: int | None = None) -> SoftCodes:
    """Return soft codes in single precision; with ``n_bits`` the width is checked too."""
    values = np.asarray(soft)
    if values.dtype.kind not in "fi":
        raise InvalidCodesError(
            f"soft has dtype {values.dtype}; soft codes are real values from -1 to 1, as encode_soft returns."
        )
    if values.ndim != 2 or values.shape[1] == 0:
        raise InvalidCodesError(f"soft has shape {values.shape}; pass one row a query, (n_queries, n_bits).")
    if n_bits is not None and values.shape[1] != n_bits:
        raise InvalidCodesError(
            f"soft has {values.shape[1]} values a row, but codes have {n_bits} bits; pass one a bit."
        )
    wrong = ~((values >= -1) & (values <= 1))  # NaN is on neither side
    if wrong.any():
        row, bit = np.argwhere(wrong)[0]
        raise InvalidCodesError(
            f"soft holds {values[row, bit]} at row {row}, bit {bit}; soft codes go from -1 to 1. Use encode_soft, or "
            "np.tanh of projections."
        )
    return np.ascontiguousarray(values, np.float32)


def check_same_width(queries: Codes, codes: Codes) -> None:
    """Raise if two sets of codes have different widths."""
    if queries.shape[1] != codes.shape[1]:
        raise InvalidCodesError(
            f"queries have {queries.shape[1]} bytes a row, codes have {codes.shape[1]}; encode both alike."
        )


def check_n_bits(n_bits: Any) -> int:
    """Return the number of bits as an int of at least 1."""
    return check_positive_int("n_bits", n_bits)


def check_positive_int(name: str, value: Any) -> int:
    """Return value as an int of at least 1."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise InvalidInputError(f"{name}={value!r} is not an integer; use 1 or more.")
    if value < 1:
        raise InvalidInputError(f"{name}={value} is not positive; use at least 1.")
    return int(value)


def check_positive(name: str, value: Any) -> float:
    """Return value as a positive, finite float."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise InvalidInputError(f"{name}={value!r} is not a number; use a positive one.")
    if not 0 < float(value) < float("inf"):
        raise InvalidInputError(f"{name}={value} is not positive and finite.")
    return float(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return value if it is one of the choices."""
    if value not in choices:
        raise InvalidInputError(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}.")
    return str(value)
