"""The one door for input: what users pass is checked and converted here, once, to plain NumPy arrays and lists.

Data frames and series of any library are read through narwhals, which is imported when something comes that is neither
an array nor a list nor a scalar. One rule and one wording for each kind of input, before anything changes.
"""

from __future__ import annotations

import json
import numbers
import os
import sys
from collections.abc import Sequence
from datetime import date, time
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.arrays import dtype_name, is_on_device, namespace, tensor_values, to_host, way_to_host
from onlinehash.exceptions import (
    InvalidCodesError,
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
    NotNumbersError,
    StorageError,
    counted,
)
from onlinehash.types import Codes, Features, Labels, LabelSets, QueryValues

_Error = type[InvalidInputError]
_Mask = NDArray[np.bool_] | None

_VALUES_AT_A_TIME = 1 << 20  # a memory-mapped file is never read whole
_MAX_INT = np.iinfo(np.int64).max
_EXACT_IN_NUMPY = {"Boolean", "Float32", "Float64", *(f"{sign}Int{n}" for sign in ("", "U") for n in (8, 16, 32, 64))}

# ---------------------------------------------------------------------- containers of other libraries


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, or NA and NaT of pandas."""
    if isinstance(value, (float, np.generic)):
        return bool(value != value)  # noqa: PLR0124 (NaN, and NaT of NumPy)
    pandas = sys.modules.get("pandas")
    return value is None or (pandas is not None and (value is pandas.NA or value is pandas.NaT))


def _unwrap(values: Any, name: str, error: _Error) -> Any:
    """Return a data frame or series of any library as one of narwhals, and anything else as an array."""
    if isinstance(values, np.ma.MaskedArray):
        raise error(f"{name} is a masked array; pass {name}.filled(...) with a value, or only the rows that have one.")
    if hasattr(values, "toarray"):
        raise error(f"Sparse input is not supported; pass {name}.toarray(), if that fits into memory.")
    is_tensor = hasattr(values, "detach")
    if "cpu" not in str(values.device) if is_tensor else is_on_device(values):
        kind = "a tensor" if is_tensor else "an array"
        raise error(f"{name} is {kind} on {values.device}; pass {way_to_host(values, name)}.")
    frame = None if is_tensor else _as_narwhals(values, name, error)
    if frame is not None:
        return frame
    try:
        if hasattr(values, "__dlpack__") and not hasattr(values, "__array__"):
            return np.asarray(np.from_dlpack(values))
        return tensor_values(values) if is_tensor else np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as cause:
        raise error(f"{name} is a {type(values).__name__} that is not an array: {cause}.") from cause


def _as_narwhals(values: Any, name: str, error: _Error) -> Any:
    if isinstance(values, (np.ndarray, np.generic, list, tuple, set, dict, str, bytes, numbers.Number, Enum)):
        return None
    import narwhals.stable.v2 as nw

    pa = sys.modules.get("pyarrow")
    if pa is not None and isinstance(values, pa.RecordBatch):
        values = pa.table(values)
    elif pa is not None and isinstance(values, pa.Array) and not isinstance(values, pa.ExtensionArray):
        values = pa.chunked_array([values])
    try:
        found: Any = nw.from_native(values, pass_through=True, allow_series=True)
    except ValueError as cause:
        raise error(f"{name} is a table with a column name twice; use different names: {cause}") from cause
    if isinstance(found, nw.LazyFrame):
        raise error(f"{name} is a {type(values).__name__}; pass {name}.collect().")
    return found if isinstance(found, (nw.DataFrame, nw.Series)) else None


def as_array(X: Any) -> NDArray[Any]:
    """Return one vector, or a table of vectors, as an array.

    Accepts what NumPy accepts, data frames, columns of lists, and tensors in the memory of the host.
    """
    if type(X) is np.ndarray and X.dtype.kind != "O":
        return X
    array: Any
    try:
        array = np.asarray(X) if isinstance(X, (list, tuple)) else _unwrap(X, "X", InvalidFeaturesError)
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, InvalidFeaturesError):
            raise
        return _stacked(X)
    if str(array.dtype if hasattr(array, "dtype") else "").startswith(("List", "Array")):
        return _from_lists(array.to_arrow())
    table = array if isinstance(array, np.ndarray) else np.asarray(array.to_numpy())
    if table.dtype.kind == "O" and table.ndim == 1 and len(table):
        return _stacked(table)
    return table.astype(np.float32) if table.dtype.name == "bfloat16" else table


def _stacked(rows: Any) -> NDArray[Any]:
    """Stack vectors of one length; return rows that hold no vectors as an array of objects."""
    if not any(isinstance(row, (list, tuple)) or np.ndim(row) or hasattr(row, "detach") for row in rows):
        return np.array(rows, object)
    vectors = [None if is_missing(row) else as_array(row) for row in rows]
    _check_lengths(np.array([np.nan if vector is None else vector.size for vector in vectors]))
    return np.stack(vectors)  # type: ignore[arg-type]


def _from_lists(column: Any) -> NDArray[Any]:
    """Return an Arrow array of lists of one length as a table."""
    import pyarrow.compute as pc

    lengths = np.asarray(pc.list_value_length(column), np.float64)  # NaN where there is no list
    _check_lengths(lengths)
    shape = len(column), int(lengths[0]) if len(lengths) else 0
    return np.asarray(column.flatten()).reshape(shape) if all(shape) else np.empty(shape)


def _check_lengths(lengths: NDArray[np.float64]) -> None:
    for row in np.flatnonzero(np.isnan(lengths)):
        raise InvalidFeaturesError(f"X has no vector in row {row}, but null; drop or fill such rows first.")
    for row in np.flatnonzero(lengths != lengths[:1]):
        raise InvalidFeaturesError(
            f"X has rows of different lengths: {lengths[row]:.0f} numbers in row {row}, {lengths[0]:.0f} in row 0; "
            "pass vectors of one length."
        )


def as_column(values: Any, name: str, error: _Error) -> NDArray[Any] | list[Any]:
    """Return a column of labels or ids as an array if NumPy holds them unchanged, else as a list.

    An array with several columns is returned as it is. ``name`` and ``error`` are used for errors.
    """
    if isinstance(values, (list, tuple)):
        return values if isinstance(values, list) else list(values)
    if type(values) is np.ndarray and values.ndim == 1 and values.dtype.kind not in "OT":
        return values
    dtype = getattr(values, "dtype", np.dtype(object))
    column: Any = np.asarray(values.as_py()) if hasattr(values, "as_py") else _unwrap(values, name, error)
    if hasattr(column, "columns") and len(column.columns) == 1:
        column = column[:, 0]
    if hasattr(column, "to_list") and not (isinstance(dtype, np.dtype) and dtype.kind != "O"):
        plain = str(column.dtype) in _EXACT_IN_NUMPY and not column.null_count()
        return np.asarray(column.to_numpy()) if plain else list(column.to_list())
    if not isinstance(column, np.ndarray):
        return np.asarray(column.to_numpy())
    if not isinstance(dtype, np.dtype) and hasattr(values, "tolist"):  # an index or an extension array of pandas
        return list(values.tolist())
    column = column[:, 0] if column.ndim == 2 and column.shape[1] == 1 else column
    return list(column.tolist()) if column.ndim == 1 and column.dtype.kind in "OT" else np.asarray(column)


def records(payload: Any, n_rows: int) -> list[Any]:
    """Return one JSON value per row: those of a list or a series, or the rows of a data frame as dictionaries.

    Missing values are None, dates are ISO strings, scalars of NumPy are those of Python.

    Examples
    --------
    >>> import pandas as pd
    >>> records(pd.DataFrame({"price": [1.5, None], "day": pd.to_datetime(["2026-01-31", None])}), 2)
    [{'price': 1.5, 'day': '2026-01-31T00:00:00'}, {'price': None, 'day': None}]
    """
    frame = _as_narwhals(payload, "payload", InvalidInputError)
    values = payload if frame is None else frame.rows(named=True) if hasattr(frame, "rows") else frame.to_list()
    if not isinstance(values, (list, tuple, np.ndarray)) or len(values) != n_rows:
        raise InvalidInputError(
            f"payload is not a list of {counted(n_rows, 'value')}, one per id; pass None for an id without."
        )
    try:
        plain: list[Any] = _as_json(list(values))
        return plain
    except (TypeError, ValueError, RecursionError):
        for row, value in enumerate(values):
            _refuse_unless_json(value, f"row {row}")
        raise


def _refuse_unless_json(value: Any, place: str) -> None:
    """Raise an error that names the place at fault."""
    try:
        _as_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        for key, inner in value.items() if isinstance(value, dict) else ():
            _refuse_unless_json(inner, f"{place}, key {key!r}")
        raise InvalidInputError(f"payload cannot be written as JSON: {place}: {error}.") from error


def _as_json(value: Any) -> Any:
    return _FROM_JSON.decode(_TO_JSON.encode(value))


def _missing_constant(name: str) -> None:
    if name != "NaN":
        raise ValueError(f"{name} is not a number that JSON has; pass None")


def _plain_json(value: Any) -> Any:
    if is_missing(value):
        return None
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, np.datetime64):
        return str(value)
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"{type(value).__name__}, such as {value!r:.80}, is not a JSON value")


_TO_JSON, _FROM_JSON = json.JSONEncoder(default=_plain_json), json.JSONDecoder(parse_constant=_missing_constant)


def column_names(X: Any) -> list[Any] | None:
    """Return the column names of a table, or the index of one of its rows; None if it has none."""
    frame: Any = None if hasattr(X, "detach") or is_on_device(X) else _as_narwhals(X, "X", InvalidFeaturesError)
    if hasattr(frame, "columns"):
        return list(frame.columns)
    if hasattr(X, "iloc") and not (len(X) and np.ndim(X.iloc[0])):  # a column of lists has ids in its index
        return list(X.index)
    return None


def check_feature_names(X: Any, known: Sequence[str] | None = None) -> list[str] | None:
    """Return the names of X's columns if they are strings; raise if they are not those known, in the same order.

    X without names is not checked. The wording is scikit-learn's.
    """
    names = None if isinstance(X, (np.ndarray, list, tuple)) else column_names(X)
    if not names or not any(isinstance(name, str) for name in names):
        return None
    if not all(isinstance(name, str) for name in names):
        kinds = sorted({type(name).__qualname__ for name in names})
        raise InvalidFeaturesError(
            "Feature names are only supported if all input features have string names, but your input has "
            f"{kinds} as feature name / column name types. Pass strings: X.columns = X.columns.astype(str)."
        )
    if known is None or list(known) == names:
        return names
    message = "The feature names should match those that were passed during fit.\n"
    unseen, missing = sorted(set(names) - set(known)), sorted(set(known) - set(names))
    for what, some in (("unseen at fit time", unseen), ("seen at fit time, yet now missing", missing)):
        if some:
            shown = "".join(f"- {name}\n" for name in some[:5]) + "- ...\n" * (len(some) > 5)
            message += f"Feature names {what}:\n{shown}"
    if not unseen and not missing:
        message += "Feature names must be in the same order as they were in fit.\n"
    raise InvalidFeaturesError(message)


# ---------------------------------------------------------------------- vectors


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
    rows = X if stays else as_array(X)
    if rows.ndim != 2:
        raise InvalidFeaturesError(
            f"Expected a 2D array, but X has shape {rows.shape}. Reshape your data: X.reshape(1, -1) for one sample."
        )
    for axis, what in enumerate(("sample", "feature")):
        if rows.shape[axis] == 0:
            raise InvalidFeaturesError(
                f"Found array with 0 {what}(s) (shape={rows.shape}) while a minimum of 1 is required."
            )
    if namespace(rows).isdtype(rows.dtype, "complex floating") if stays else rows.dtype.kind == "c":
        raise InvalidFeaturesError("Complex data not supported; pass real features, such as X.real.")
    if not stays and rows.dtype.kind == "O":
        if rows.shape[1] == 1 and np.ndim(rows[0, 0]):
            raise InvalidFeaturesError("X is a table with one column of lists; pass the column, such as X['vector'].")
        try:
            rows = rows.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise NotNumbersError(f"X holds objects that are not numbers: {error}.") from error
    elif not stays and rows.dtype.kind not in "fiub":
        raise InvalidFeaturesError(f"X has dtype {rows.dtype}; pass numbers, such as X.astype(np.float32).")
    if n_features is not None and rows.shape[1] != n_features:
        raise InvalidFeaturesError(
            f"X has {rows.shape[1]} features, but {owner} is expecting {n_features} features as input, as in the rows "
            "it learned from."
        )
    checked: Features = rows
    return checked


def precision_of(X: NDArray[Any]) -> np.dtype[Any]:
    """Return the precision to compute in: that of X, float32 for half precision, float64 for integers."""
    return np.dtype(np.float32 if dtype_name(X) in ("float32", "float16", "bfloat16") else np.float64)


def check_finite(X: NDArray[Any], dtype: np.dtype[Any], *, raw: bool = False) -> None:
    """Raise if X holds NaN or infinity, or values too large to be learned from in ``dtype``; reads X in pieces.

    The difference of two values must not overflow. Rows that are ``raw``, not scaled to unit length, are multiplied
    with each other and with weights that are sums of rows: the product of three lengths must not overflow.
    """
    most = float(np.finfo(np.promote_types(dtype, np.float32)).max)
    largest, longest = most / 4.0, most ** (1.0 / 3.0)  # of a value, and of a raw row
    if type(X) is not np.ndarray and is_on_device(X):
        xp = namespace(X)
        if xp.isdtype(X.dtype, "real floating"):
            harmless = min(longest / X.shape[1] if raw else largest, float(xp.finfo(X.dtype).max))  # as X can hold it
            if not bool(xp.all(xp.abs(X) <= harmless)):
                check_finite(to_host(X), dtype, raw=raw)  # which names the row
        return
    if X.dtype.kind != "f" and not raw:
        return
    step = max(1, _VALUES_AT_A_TIME // X.shape[1])
    for start in range(0, len(X), step):
        piece = X[start : start + step]
        if X.dtype.kind != "f":
            piece = piece.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.ravel(piece)
            total = float(np.dot(values, values))  # finite only if all values are: one fast pass
        if total <= longest * longest:
            continue
        for row, column in np.argwhere(~np.isfinite(piece)):
            raise InvalidFeaturesError(
                f"X contains NaN or inf: {piece[row, column]} at row {start + row}, feature {column}. "
                "Drop or fill such rows first."
            )
        if float(max(piece.max(), -piece.min())) > largest:
            raise InvalidFeaturesError(
                f"X holds values too large for {dtype}, in which this object learns; scale X first."
            )
        with np.errstate(over="ignore"):
            lengths = np.linalg.norm(piece.astype(np.float64, copy=False), axis=1)
        if raw and lengths.max() > longest:
            raise InvalidFeaturesError(
                f"Row {start + lengths.argmax()} of X is longer than {longest:.0e}, the most that is learned from in "
                f"{dtype} with preprocess='none'; scale X first, or use preprocess='unit'."
            )


# ---------------------------------------------------------------------- labels and ids


def check_labels(y: Any, n_samples: int) -> Labels:
    """Return one label per row, none missing, as an array of int64 or of strings; see :func:`check_targets`."""
    labels, labelled = check_targets(y, n_samples)
    if isinstance(labels, LabelSets):
        raise InvalidLabelsError("y should be a 1d array of labels, but it holds lists; pass one label per row.")
    if labelled is not None:
        raise InvalidLabelsError(f"y has no label in row {np.argmin(labelled)}; leave out rows that have no label.")
    return labels


def check_targets(y: Any, n_samples: int) -> tuple[Labels | LabelSets, _Mask]:
    """Return the labels, one or several per row, and a mask of the rows that have any (None if all do).

    Labels are integers or strings; None, NaN and NA are missing labels. Members of an Enum are replaced by their
    values, whole floating-point numbers by integers. Several labels per row are lists, or a 0/1 indicator matrix whose
    labels are the column names of a DataFrame, else 0, 1, 2, ...
    """
    if type(y) is np.ndarray and y.dtype == np.int64 and y.shape == (n_samples,):
        return y, None  # the common cases, quickly
    if type(y) is list and n_samples == len(y) == 1 and type(y[0]) is int and -_MAX_INT <= y[0] <= _MAX_INT:
        return np.array(y, np.int64), None
    if y is None:
        raise InvalidLabelsError(
            "This method requires y to be passed, but the target y is None; pass one label per row."
        )
    column = as_column(y, "y", InvalidLabelsError)
    several = False
    if isinstance(column, list):
        if not set(map(type, column)) <= {int, str}:
            column = list(map(_plain_scalar, column))
            several = any(map(_is_several, set(map(type, column))))
    elif column.ndim == 2:
        column, several = _from_indicator(column, column_names(y)), True
    elif column.ndim != 1:
        raise InvalidLabelsError(f"y should be a 1d array of labels, but it has shape {column.shape}.")
    if len(column) != n_samples:
        raise InvalidLabelsError(
            f"y has labels for {len(column)} rows, X has {n_samples}; pass one list of labels per row."
            if several
            else f"Found input variables with inconsistent numbers of samples: y has {len(column)} labels, X has "
            f"{n_samples} rows; pass one label per row."
        )
    if several:
        return _label_sets(list(column))
    if isinstance(column, np.ndarray):
        if column.dtype.kind == "U":
            return column, None
        if column.dtype.kind in "iub":
            return _within_int64(column, "y", InvalidLabelsError), None
    return _labels_of_list(list(column))


def plain_label(label: Any, name: str = "y") -> int | str | bool | None:
    """Return a label as Python's int, str or bool, or None if it is missing; raise if that would change it."""
    if isinstance(label, Enum):
        return plain_label(label.value, name)
    if is_missing(label):
        return None
    if isinstance(label, str):
        return str.__str__(label)
    if isinstance(label, (bool, np.bool_)):
        return bool(label)
    if isinstance(label, (int, np.integer)):
        return int(label)
    if isinstance(label, (float, np.floating)):
        n_exact_bits = np.finfo(np.asarray(label).dtype).nmant + 1  # beyond them, several integers have the same value
        if not (np.trunc(label) == label and abs(float(label)) < 2.0 ** min(n_exact_bits, 63)):
            raise InvalidLabelsError(
                f"Unknown label type: {name} holds {label}, which is not exactly an integer; "
                "labels are integers or strings."
            )
        return int(label)
    raise InvalidLabelsError(
        f"Unknown label type: {name} holds {type(label).__name__}, such as {label!r}; labels are integers or strings."
    )


def _labels_of_list(labels: list[Any]) -> tuple[Labels, _Mask]:
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
            raise _beyond_int64("y", InvalidLabelsError) from None
    texts = np.array(labels, np.str_)
    if "\0" in "".join(labels) and texts.tolist() != labels:
        raise InvalidLabelsError("y holds a string that ends in a zero character, which arrays drop; leave it out.")
    return _filled(texts, labelled)


def _filled(labels: Labels, labelled: _Mask) -> tuple[Labels, _Mask]:
    """Return labels with missing ones replaced by a known label, and the mask of those that are known."""
    if labelled is None or labelled.all():
        return labels, None
    if labelled.any():
        labels[~labelled] = labels[labelled][0]
    return labels, labelled


def _plain_scalar(value: Any) -> Any:
    """Return an Arrow scalar, or an array or tensor without dimensions, as a Python scalar."""
    if hasattr(value, "as_py"):
        return value.as_py()
    is_wrapped = hasattr(value, "item") and not isinstance(value, np.generic) and np.ndim(value) == 0
    return value.item() if is_wrapped else value


def _is_several(kind: type) -> bool:
    return hasattr(kind, "__len__") and not issubclass(kind, (str, bytes, np.generic, Enum))


def _from_indicator(indicator: NDArray[Any], names: list[Any] | None) -> list[Any]:
    """Return the labels of every row of a 0/1 matrix."""
    if indicator.dtype.kind not in "biuf" or not np.isin(indicator, (0, 1)).all():
        raise InvalidLabelsError(
            "y should be a 1d array of labels, a list of lists of labels, or a 0/1 indicator matrix; it has shape "
            f"{indicator.shape} and other values."
        )
    columns = names if names and all(isinstance(name, str) for name in names) else range(indicator.shape[1])
    return [[columns[i] for i in np.flatnonzero(row)] for row in indicator]


def _label_sets(y: list[Any]) -> tuple[LabelSets, _Mask]:
    rows = [_labels_of_row(labels) for labels in y]
    flat = [_plain_scalar(label) for labels in rows for label in labels]
    if any(map(_is_several, set(map(type, flat)))):
        raise InvalidLabelsError("y holds lists in lists of labels; pass one list of integers or strings per row.")
    plain, known = _labels_of_list(flat)
    if known is not None:
        raise InvalidLabelsError("y holds a list with a missing label; leave it out (an empty list is no label).")
    labels = iter(plain.tolist())
    sets = LabelSets(
        tuple(sorted(some) if isinstance(given, (set, frozenset)) else some)  # the order of a set differs between runs
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
        return list(as_column(labels, "y", InvalidLabelsError))
    return [] if is_missing(labels) else [labels]


def check_ids(ids: Any) -> NDArray[Any] | list[Any]:
    """Return ids as an array of integers within int64, or a list of only int or only str.

    Members of an Enum are replaced by their values; floating-point numbers and bool are refused.
    """
    if type(ids) is np.ndarray and ids.dtype == np.int64 and ids.ndim == 1:
        return ids  # the common case, quickly
    column = as_column(ids, "ids", InvalidInputError)
    if isinstance(column, np.ndarray):
        if column.ndim > 1:
            raise InvalidInputError(f"ids has shape {column.shape}; pass a 1-D array of integers or strings.")
        if column.dtype.kind in "iu":
            return _within_int64(column.ravel(), "ids", InvalidInputError)
        column = list(column.ravel())
    types = set(map(type, column))
    if not (types <= {int} or types <= {str}):
        column = [_plain_id(_plain_scalar(value)) for value in column]
        types = set(map(type, column))
        if not (types <= {int} or types <= {str}):
            kinds = ", ".join(sorted(kind.__name__ for kind in types))
            raise InvalidInputError(f"ids holds {kinds}; pass only integers or only strings.")
    if types == {int} and not (min(column) >= ~_MAX_INT and max(column) <= _MAX_INT):
        raise _beyond_int64("ids", InvalidInputError)
    return column


def _plain_id(value: Any) -> Any:
    """Return an id as Python's int or str, other values unchanged."""
    plain = value.value if isinstance(value, Enum) else value
    return plain_label(plain) if isinstance(plain, (int, str, np.integer, np.bool_)) else plain


def _within_int64(values: NDArray[Any], name: str, error: _Error) -> NDArray[np.int64]:
    """Return an array of integers or bool as int64."""
    if values.dtype == np.uint64 and values.size and values.max() > _MAX_INT:
        raise _beyond_int64(name, error)
    return values.astype(np.int64, copy=False)


def _beyond_int64(name: str, error: _Error) -> InvalidInputError:
    return error(f"{name} holds integers beyond int64; use smaller ones, or strings.")


# ---------------------------------------------------------------------- codes


def check_codes(codes: Any, n_bits: int | None = None, *, on_device: bool = False) -> Codes:
    """Return packed codes without a cast; with ``n_bits``, the width and the padding are checked too.

    With ``on_device``, codes are an array that may be on a device.
    """
    packed: Codes = codes if on_device or type(codes) is np.ndarray else _codes_on_host(codes, "codes")
    if packed.dtype != np.uint8:
        raise InvalidCodesError(
            f"codes has dtype {packed.dtype}; packed codes are uint8. Use pack_signs or pack_bits first."
        )
    if packed.ndim != 2 or packed.shape[1] == 0:
        raise InvalidCodesError(f"codes has shape {packed.shape}; pass one row per code, (n_samples, n_bytes).")
    if n_bits is not None:
        width = (n_bits + 7) // 8
        if packed.shape[1] != width:
            raise InvalidCodesError(f"codes has {packed.shape[1]} bytes per row, but {n_bits} bits take {width}.")
        if n_bits % 8 and (packed[:, -1] >> (n_bits % 8)).any():
            raise InvalidCodesError(f"codes has bits set beyond bit {n_bits}; those padding bits must be zero.")
    return packed


def check_query_values(queries: Any, n_bits: int | None = None) -> QueryValues:
    """Return the queries of an asymmetric search in single precision; with ``n_bits`` the width is checked too."""
    values = _codes_on_host(queries, "queries")
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


def _codes_on_host(codes: Any, name: str) -> NDArray[Any]:
    if is_on_device(codes):
        raise InvalidCodesError(
            f"{name} are on {codes.device}, which only GpuIndex takes; pass {way_to_host(codes, name)}."
        )
    return np.asarray(codes)


# ---------------------------------------------------------------------- parameters


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
