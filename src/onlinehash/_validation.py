"""Checks of user input: one place, one wording, before anything changes."""

from __future__ import annotations

import numbers
import os
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._containers import as_array, as_column, column_names, is_missing, library_of
from onlinehash.exceptions import (
    InvalidCodesError,
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
    NotNumbersError,
    StorageError,
)
from onlinehash.types import Codes, Features, Labels, LabelSets, QueryValues

_SEVERAL = (list, tuple, set, frozenset, np.ndarray)  # what holds several labels of one row
_HIGHEST = np.iinfo(np.int64).max
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
    if type(X) is not np.ndarray or X.dtype.kind == "O":
        X = as_array(X)
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
        if X.shape[1] == 1 and np.ndim(X[0, 0]):
            raise InvalidFeaturesError("X is a table with one column of lists; pass the column, such as X['vector'].")
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
    """Return labels, of which none is missing, as a one-dimensional array of int64 or of strings.

    Takes one label per row as :func:`check_targets` does.
    """
    labels, labelled = check_targets(y, n_samples)
    if isinstance(labels, LabelSets):
        raise InvalidLabelsError("y should be a 1d array of labels, but it holds lists; pass one label per row.")
    if labelled is not None:
        raise InvalidLabelsError(f"y has no label in row {np.argmin(labelled)}; leave out rows that have no label.")
    return labels


def check_targets(y: Any, n_samples: int) -> tuple[Labels | LabelSets, NDArray[np.bool_] | None]:
    """Return one label per row, or several, and which rows have any (None where all do).

    Takes integers or strings, one per row, with None, NaN or NA where there is none; members of an Enum stand for their
    values, whole floating-point numbers for integers. Several labels per row are lists of labels, or a 0/1 indicator
    matrix, whose columns are the labels: by name in a DataFrame with named columns, else 0, 1, 2, ...
    """
    if type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "iuU":
        _check_n_labels(y, n_samples)
        return _labels_of_array(y)
    if y is None:
        raise InvalidLabelsError(
            "This method requires y to be passed, but the target y is None; pass one label per row."
        )
    column = as_column(y, "y", InvalidLabelsError)
    if isinstance(column, list):
        column = _plain_scalars(column)
        several = any(map(_is_several, set(map(type, column))))
        _check_n_labels(column, n_samples, several=several)
        return _label_sets(column) if several else _labels_of_list(column)
    if column.ndim == 2:
        _check_n_labels(column, n_samples, several=True)
        return _label_sets(_from_indicator(column, column_names(y)))
    if column.ndim != 1:
        raise InvalidLabelsError(f"y should be a 1d array of labels, but it has shape {column.shape}.")
    _check_n_labels(column, n_samples)
    return _labels_of_array(column)


def plain_label(label: Any, name: str = "y") -> int | str | bool | None:
    """Return a label as Python's int, str or bool, or None if it is missing; raise if that would change it.

    Examples
    --------
    >>> plain_label(np.float32(3)), plain_label(np.str_("cat")), plain_label(float("nan"))
    (3, 'cat', None)
    """
    if isinstance(label, Enum):
        return plain_label(label.value, name)
    if is_missing(label):
        return None
    if isinstance(label, str):
        return str.__str__(label)
    if isinstance(label, (bool, np.bool_)):
        return bool(label)
    if isinstance(label, (int, np.integer)):
        return int.__int__(label) if isinstance(label, int) else int(label)
    if isinstance(label, (float, np.floating)):
        if np.isinf(label):
            raise InvalidLabelsError(f"{name} contains NaN or inf; leave out rows that have no label.")
        if not (abs(label) < _end_of_exact(label) and int(label) == label):
            raise InvalidLabelsError(
                f"Unknown label type: {name} holds {label}, which is not exactly an integer; "
                "labels are integers or strings."
            )
        return int(label)
    raise InvalidLabelsError(
        f"Unknown label type: {name} holds {type(label).__name__}, such as {label!r}; labels are integers or strings."
    )


def check_ids(ids: Any, name: str) -> NDArray[Any] | list[Any]:
    """Return ids as an array of integers, or a list of which all are int or all are str.

    Members of an Enum stand for their values. Nothing else is converted: no floating-point numbers, no bool.
    """
    column = as_column(ids, name, InvalidInputError)
    if isinstance(column, np.ndarray):
        if column.ndim > 1:
            raise InvalidInputError(f"{name} has shape {column.shape}; pass a 1-D array of integers or strings.")
        if column.dtype.kind in "iu":
            return column.ravel()
        if column.dtype.kind not in "U" and column.size:
            raise InvalidInputError(f"{name} holds {column.dtype}; pass only integers or only strings.")
        column = column.ravel().tolist()
    types = set(map(type, column))
    if not (types <= {int} or types <= {str}):
        column = [_plain_id(value) for value in _plain_scalars(column)]
        types = set(map(type, column))
        if not (types <= {int} or types <= {str}):
            kinds = ", ".join(sorted(kind.__name__ for kind in types))
            raise InvalidInputError(f"{name} holds {kinds}; pass only integers or only strings.")
    if types == {int} and not (min(column) >= ~_HIGHEST and max(column) <= _HIGHEST):
        raise InvalidInputError(f"{name} holds integers beyond int64; use smaller ones, or strings.")
    return column


def _plain_id(value: Any) -> Any:
    """Return an id as Python's int or str; anything else as it is."""
    if isinstance(value, Enum):
        return _plain_id(value.value)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    return plain_label(value) if isinstance(value, (int, str, np.integer)) else value


def _check_n_labels(labels: Any, n_samples: int, *, several: bool = False) -> None:
    if len(labels) != n_samples and several:
        raise InvalidLabelsError(
            f"y has labels for {len(labels)} rows, X has {n_samples}; pass one list of labels per row."
        )
    if len(labels) != n_samples:
        raise InvalidLabelsError(
            f"Found input variables with inconsistent numbers of samples: y has {len(labels)} labels, X has "
            f"{n_samples} rows; pass one label per row."
        )


def _labels_of_array(labels: NDArray[Any]) -> tuple[Labels, NDArray[np.bool_] | None]:
    kind = labels.dtype.kind
    if kind in "iub":
        if labels.dtype == np.uint64 and labels.size and labels.max() > _HIGHEST:
            raise InvalidLabelsError("y holds integers beyond int64; use smaller ones, or strings.")
        return labels.astype(np.int64, copy=False), None
    if kind == "U":
        return labels, None
    if kind == "f":
        labelled = ~np.isnan(labels)
        known = labels[labelled]
        whole = np.zeros(len(labels), np.int64)
        exact = np.abs(known) < _end_of_exact(labels)
        whole[labelled] = np.where(exact, known, 0)
        wrong = known[~exact | (whole[labelled] != known)]
        if len(wrong):
            plain_label(wrong[0])
        return _filled(whole, labelled)
    if kind in "mM" and np.isnat(labels).all():
        return _filled(np.zeros(len(labels), np.int64), np.zeros(len(labels), bool))
    raise InvalidLabelsError(f"Unknown label type: y has dtype {labels.dtype}; labels are integers or strings.")


def _labels_of_list(labels: list[Any]) -> tuple[Labels, NDArray[np.bool_] | None]:
    types = set(map(type, labels))
    labelled = None
    if not (types <= {int} or types <= {str}):
        if len({kind for kind in types if issubclass(kind, Enum)}) > 1:
            raise InvalidLabelsError("y mixes members of different Enums, whose values may be equal; use one Enum.")
        labels = [plain_label(label) for label in labels]
        types = set(map(type, labels)) - {type(None)}
        if len(types) > 1:
            kinds = ", ".join(sorted(kind.__name__ for kind in types))
            raise InvalidLabelsError(f"Unknown label type: y mixes {kinds}; pass only integers or only strings.")
        labelled = np.array([label is not None for label in labels], bool)
        empty = "" if types == {str} else 0
        labels = [empty if label is None else label for label in labels]
    if types != {str}:
        try:
            return _filled(np.array(labels, np.int64), labelled)
        except OverflowError:
            raise InvalidLabelsError("y holds integers beyond int64; use smaller ones, or strings.") from None
    texts = np.array(labels, np.str_)
    if "\0" in "".join(labels) and texts.tolist() != labels:
        raise InvalidLabelsError("y holds a string that ends in a zero character, which arrays drop; leave it out.")
    return _filled(texts, labelled)


def _filled(labels: Labels, labelled: NDArray[np.bool_] | None) -> tuple[Labels, NDArray[np.bool_] | None]:
    """Return labels with a known one in the place of those that are missing, and which are not."""
    if labelled is None or labelled.all():
        return labels, None
    if labelled.any():
        labels[~labelled] = labels[labelled][0]
    return labels, labelled


def _end_of_exact(value: Any) -> Any:
    """Return where integers begin that a floating-point type cannot tell from their neighbours."""
    return 2.0 ** min(np.finfo(getattr(value, "dtype", np.float64)).nmant + 1, 63)


def _plain_scalars(values: list[Any]) -> list[Any]:
    """Return values with scalars of Arrow, and arrays and tensors of no dimension, as those of Python."""
    types = set(map(type, values))
    if any(kind is np.ndarray or hasattr(kind, "detach") or library_of(kind) == "pyarrow" for kind in types):
        return [_plain_scalar(value) for value in values]
    return values


def _plain_scalar(value: Any) -> Any:
    if hasattr(value, "as_py"):
        return value.as_py()
    return value.item() if hasattr(value, "item") and np.ndim(value) == 0 else value


def _is_several(kind: type) -> bool:
    if issubclass(kind, (*_SEVERAL, dict)) or hasattr(kind, "detach"):
        return True
    return library_of(kind) is not None and hasattr(kind, "__len__")


def _from_indicator(indicator: NDArray[Any], names: list[Any] | None) -> list[Any]:
    """Return the labels of every row of a 0/1 matrix."""
    if indicator.dtype.kind not in "biuf" or not np.isin(indicator, (0, 1)).all():
        raise InvalidLabelsError(
            "y should be a 1d array of labels, a list of lists of labels, or a 0/1 indicator matrix; it has shape "
            f"{indicator.shape} and other values."
        )
    columns = names if names and all(isinstance(name, str) for name in names) else range(indicator.shape[1])
    if len(set(columns)) < len(columns):
        raise InvalidLabelsError("y is an indicator matrix with a column name twice; use different names.")
    return [[columns[i] for i in np.flatnonzero(row)] for row in indicator]


def _label_sets(y: list[Any]) -> tuple[LabelSets, NDArray[np.bool_] | None]:
    rows = [_labels_of_row(labels) for labels in y]
    flat = _plain_scalars([label for labels in rows for label in labels])
    if any(map(_is_several, set(map(type, flat)))):
        raise InvalidLabelsError("y holds lists in lists of labels; pass one list of integers or strings per row.")
    plain, known = _labels_of_list(flat)
    if known is not None:
        raise InvalidLabelsError("y holds a list with a missing label; leave it out (an empty list is no label).")
    labels = iter(plain.tolist())
    sets = LabelSets(
        tuple(sorted(some) if isinstance(given, (set, frozenset)) else some)  # a set's order differs from run to run
        for given, some in ((given, [next(labels) for _ in row]) for given, row in zip(y, rows, strict=True))
    )
    if any(len(set(some)) < len(some) for some in sets):
        raise InvalidLabelsError("y holds a list with the same label twice; pass an indicator matrix as np.array(y).")
    labelled = np.array([bool(some) for some in sets], bool)
    return sets, None if labelled.all() else labelled


def _labels_of_row(labels: Any) -> list[Any]:
    if isinstance(labels, (list, tuple, set, frozenset)):
        return list(labels)
    if isinstance(labels, dict):
        raise InvalidLabelsError("y holds a dict; pass one label, or a list of labels, per row.")
    if _is_several(type(labels)):
        column = as_column(labels, "y", InvalidLabelsError)
        return column.tolist() if isinstance(column, np.ndarray) and column.dtype.kind in "iu" else list(column)
    return [] if is_missing(labels) else [labels]


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


def check_query_values(soft: Any, n_bits: int | None = None) -> QueryValues:
    """Return the queries of an asymmetric search in single precision; with ``n_bits`` the width is checked too."""
    values = np.asarray(soft)
    if values.dtype.kind not in "fi":
        raise InvalidCodesError(
            f"The queries have dtype {values.dtype}; pass real values from -1 to 1, as encode_asymmetric returns."
        )
    if values.ndim != 2 or values.shape[1] == 0:
        raise InvalidCodesError(f"The queries have shape {values.shape}; pass one row per query, (n_queries, n_bits).")
    if n_bits is not None and values.shape[1] != n_bits:
        raise InvalidCodesError(
            f"The queries have {values.shape[1]} values per row, but codes have {n_bits} bits; pass one value per bit."
        )
    wrong = ~((values >= -1) & (values <= 1))  # NaN is on neither side
    if wrong.any():
        row, bit = np.argwhere(wrong)[0]
        raise InvalidCodesError(
            f"The queries hold {values[row, bit]} at row {row}, bit {bit}; values go from -1 to 1. Use "
            "encode_asymmetric, or np.tanh of projections."
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


def check_non_negative_int(name: str, value: Any) -> int:
    """Return value as an int of at least 0."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral) or value < 0:
        raise InvalidInputError(f"{name}={value!r} is not an integer of at least 0.")
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


def check_process(place: str, process: int) -> None:
    """Refuse to use in a fork what the process that it was forked from has opened."""
    if os.getpid() != process:
        raise StorageError(
            f"{place} was opened in process {process}, and this is process {os.getpid()}, a fork of it. Open it again "
            "here."
        )
