"""Conversion of the containers of other libraries, none of which is imported, to arrays and lists."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._arrays import is_on_device, way_to_host
from onlinehash.exceptions import InvalidFeaturesError, InvalidInputError

_LIBRARIES = {"pandas", "polars", "pyarrow"}
_EXACT_IN_NUMPY = {  # column types, as polars and Arrow write them, whose values NumPy holds unchanged
    *("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64", "Boolean"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float", "double", "bool"),
}


def library_of(kind: type) -> str | None:
    """Return "pandas", "polars" or "pyarrow" for a class of theirs, or one derived from it."""
    return next((root for one in kind.__mro__ if (root := one.__module__.partition(".")[0]) in _LIBRARIES), None)


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, or NA and NaT of pandas."""
    if value is None:
        return True
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    pandas = sys.modules.get("pandas")
    return pandas is not None and (value is pandas.NA or value is pandas.NaT)


def as_array(X: Any) -> NDArray[Any]:
    """Return one vector, or a table of vectors, as an array.

    Accepts what NumPy accepts, columns of lists (of objects, polars or Arrow), and tensors in the memory of the host.
    """
    if type(X) is np.ndarray and X.dtype.kind != "O":
        return X
    _refuse_masked(X, "X", InvalidFeaturesError)
    array = np.asarray(X) if isinstance(X, np.ndarray) else _converted(X)
    if array.dtype.kind == "O" and array.ndim == 1 and len(array):
        return _stacked(array)
    if array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    return array


def as_column(values: Any, name: str, error: type[InvalidInputError]) -> NDArray[Any] | list[Any]:
    """Return a column of labels or ids as an array if NumPy holds them unchanged, else as a list.

    An array with several columns is returned as it is. ``name`` and ``error`` are used for errors.
    """
    if isinstance(values, (list, tuple)):
        return values if isinstance(values, list) else list(values)
    _refuse_masked(values, name, error)
    _refuse_device(values, name, error)
    if _is_tensor(values):
        values = _of_tensor(values, name, error)
    library = library_of(type(values))
    if library is not None:
        return _of_library(library, values)
    try:
        column = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as cause:
        raise error(f"{name} is a {type(values).__name__} that is not an array: {cause}.") from cause
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    return column.tolist() if column.ndim == 1 and column.dtype.kind in "OT" else column


def column_names(X: Any) -> list[Any] | None:
    """Return the column names of a table, or the index of one of its rows; None if it has none."""
    if isinstance(X, (np.ndarray, list, tuple)):
        return None
    if library_of(type(X)) == "pyarrow":
        return getattr(X, "column_names", None)
    shape = getattr(X, "shape", ())
    if len(shape) == 2 and hasattr(X, "columns"):
        return list(X.columns)
    if len(shape) == 1 and hasattr(X, "index") and library_of(type(X)) == "pandas":
        return None if len(X) and np.ndim(X.iloc[0]) else list(X.index)  # a column of lists has ids in its index
    return None


def check_feature_names(X: Any, known: Sequence[str] | None = None) -> list[str] | None:
    """Return the names of X's columns if they are strings; raise if they are not those known, in the same order.

    X without names is not checked. The wording is scikit-learn's.
    """
    names = column_names(X)
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
    unseen, missing = sorted(set(names) - set(known)), sorted(set(known) - set(names))
    message = "The feature names should match those that were passed during fit.\n"
    if unseen:
        message += f"Feature names unseen at fit time:\n{_listing(unseen)}"
    if missing:
        message += f"Feature names seen at fit time, yet now missing:\n{_listing(missing)}"
    if not unseen and not missing:
        message += "Feature names must be in the same order as they were in fit.\n"
    raise InvalidFeaturesError(message)


def _listing(names: list[str]) -> str:
    return "".join(f"- {name}\n" for name in names[:5]) + "- ...\n" * (len(names) > 5)


def _refuse_masked(values: Any, name: str, error: type[InvalidInputError]) -> None:
    if isinstance(values, np.ma.MaskedArray):
        raise error(f"{name} is a masked array; pass {name}.filled(...) with a value, or only the rows that have one.")


def _converted(X: Any) -> NDArray[Any]:
    if hasattr(X, "toarray"):
        raise InvalidFeaturesError("Sparse input is not supported; pass X.toarray(), if that fits into memory.")
    _refuse_device(X, "X", InvalidFeaturesError)
    if _is_tensor(X):
        return _of_tensor(X, "X", InvalidFeaturesError)
    if hasattr(X, "__dlpack__") and not hasattr(X, "__array__"):
        return np.asarray(np.from_dlpack(X))
    library = library_of(type(X))
    if library == "polars" and type(getattr(X, "dtype", None)).__name__ in ("List", "Array"):
        return _from_polars_lists(X)
    if library == "pyarrow" and hasattr(getattr(X, "type", None), "value_field"):
        chunks = getattr(X, "chunks", None)
        return _from_arrow_lists([X] if chunks is None else chunks)
    try:
        array = np.asarray(X)
        if library == "pandas" and array.dtype.kind == "O":
            array = _with_nan(X, array)
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(X, (list, tuple)):
            return _stacked(X)
        raise InvalidFeaturesError(f"X is a {type(X).__name__} that is not an array of numbers: {error}.") from error
    if array.ndim == 0 and hasattr(X, "collect"):
        raise InvalidFeaturesError(f"X is a {type(X).__name__}; pass X.collect().")
    return array


def _with_nan(X: Any, array: NDArray[Any]) -> NDArray[Any]:
    """Return nullable columns of pandas with NaN for missing values, and other objects unchanged."""
    try:
        return np.asarray(X.to_numpy(np.float64, na_value=np.nan))
    except (TypeError, ValueError):
        return array


def _stacked(rows: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    """Stack vectors of one length; return rows that hold no vectors as an array of objects."""
    if not any(_is_vector(row) for row in rows):
        return np.array(rows, object)
    vectors: list[NDArray[Any]] = []
    for i, row in enumerate(rows):
        if is_missing(row):
            raise InvalidFeaturesError(f"X has no vector in row {i}, but {row}; drop or fill such rows first.")
        vector = as_array(row)
        if vector.ndim != 1:
            raise InvalidFeaturesError(f"X has shape {vector.shape} in row {i}; pass one vector per row.")
        if vectors and len(vector) != len(vectors[0]):
            _refuse_lengths(i, len(vector), len(vectors[0]))
        vectors.append(vector)
    return np.stack(vectors)


def _is_vector(row: Any) -> bool:
    return isinstance(row, (list, tuple)) or (hasattr(row, "__array__") and not isinstance(row, np.generic))


def _refuse_lengths(row: int, length: int, first: int) -> None:
    raise InvalidFeaturesError(
        f"X has rows of different lengths: {length} numbers in row {row}, {first} in row 0; pass vectors of one length."
    )


def _width(lengths: NDArray[np.float64]) -> int:
    """Return the common length of lists; NaN is the length of a missing list."""
    missing = np.flatnonzero(np.isnan(lengths))
    if len(missing):
        raise InvalidFeaturesError(f"X has no vector in row {missing[0]}, but null; drop or fill such rows first.")
    wrong = np.flatnonzero(lengths != lengths[:1])
    if len(wrong):
        _refuse_lengths(int(wrong[0]), int(lengths[wrong[0]]), int(lengths[0]))
    return int(lengths[0]) if len(lengths) else 0


def _from_polars_lists(column: Any) -> NDArray[Any]:
    lists = column.list if type(column.dtype).__name__ == "List" else column.arr
    shape = len(column), _width(np.asarray(lists.len().to_numpy(), np.float64))
    return np.asarray(column.explode().to_numpy()).reshape(shape) if all(shape) else np.empty(shape)


def _from_arrow_lists(chunks: Sequence[Any]) -> NDArray[Any]:
    lengths = [np.asarray(chunk.value_lengths(), np.float64) for chunk in chunks]
    shape = sum(map(len, chunks)), _width(np.concatenate([np.empty(0), *lengths]))
    return (
        np.concatenate([np.asarray(chunk.flatten()) for chunk in chunks]).reshape(shape)
        if all(shape)
        else np.empty(shape)
    )


def _refuse_device(values: Any, name: str, error: type[InvalidInputError]) -> None:
    if is_on_device(values) and not _is_tensor(values):
        raise error(f"{name} is an array on {values.device}; pass {way_to_host(values, name)}.")


def _is_tensor(X: Any) -> bool:
    return hasattr(X, "detach") and hasattr(X, "device")


def _of_tensor(tensor: Any, name: str, error: type[InvalidInputError]) -> NDArray[Any]:
    if str(tensor.device).partition(":")[0] != "cpu":
        raise error(f"{name} is a tensor on {tensor.device}; pass {name}.cpu().")
    plain = tensor.detach()
    if str(plain.dtype).rpartition(".")[2].startswith(("bfloat16", "float8")):  # not supported by NumPy
        plain = plain.float()
    try:
        return np.asarray(plain.numpy())
    except (TypeError, RuntimeError) as cause:
        raise error(f"{name} is a tensor that cannot be converted to an array: {cause}") from cause


def _of_library(library: str, column: Any) -> NDArray[Any] | list[Any]:
    """Return a column of pandas, polars or Arrow, or of their tables that have one column."""
    if library == "pandas":
        if column.ndim == 2:
            return _of_library(library, column.iloc[:, 0]) if column.shape[1] == 1 else np.asarray(column)
        plain = isinstance(column.dtype, np.dtype) and column.dtype.kind != "O"
        return np.asarray(column) if plain else list(column.tolist())
    if library == "polars":
        if len(column.shape) == 2:
            return _of_library(library, column.to_series(0)) if column.shape[1] == 1 else np.asarray(column)
        plain = str(column.dtype) in _EXACT_IN_NUMPY and not column.null_count()
        return np.asarray(column) if plain else list(column.to_list())
    if hasattr(column, "column_names"):
        return _of_library(library, column.column(0)) if column.num_columns == 1 else np.asarray(column)
    if not hasattr(column, "to_pylist"):  # a scalar
        return np.asarray(column.as_py())
    plain = str(column.type) in _EXACT_IN_NUMPY and not column.null_count
    return np.asarray(column) if plain else list(column.to_pylist())
