"""Checks of labels and ids."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._containers import as_column, column_names, is_missing, library_of
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError
from onlinehash.types import Labels, LabelSets

_HIGHEST = np.iinfo(np.int64).max


def check_labels(y: Any, n_samples: int) -> Labels:
    """Return one label per row, none missing, as an array of int64 or of strings; see :func:`check_targets`."""
    labels, labelled = check_targets(y, n_samples)
    if isinstance(labels, LabelSets):
        raise InvalidLabelsError("y should be a 1d array of labels, but it holds lists; pass one label per row.")
    if labelled is not None:
        raise InvalidLabelsError(f"y has no label in row {np.argmin(labelled)}; leave out rows that have no label.")
    return labels


def check_targets(y: Any, n_samples: int) -> tuple[Labels | LabelSets, NDArray[np.bool_] | None]:
    """Return the labels, one or several per row, and a mask of the rows that have any (None if all do).

    Labels are integers or strings; None, NaN and NA are missing labels. Members of an Enum are replaced by their
    values, whole floating-point numbers by integers. Several labels per row are lists, or a 0/1 indicator matrix whose
    labels are the column names of a DataFrame, else 0, 1, 2, ...
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
    """Return ids as an array of integers, or a list of only int or only str.

    Members of an Enum are replaced by their values; floating-point numbers and bool are refused.
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
        raise beyond_int64(name, InvalidInputError)
    return column


def beyond_int64(name: str, error: type[InvalidInputError]) -> InvalidInputError:
    """Return the error about integers that int64 cannot hold."""
    return error(f"{name} holds integers beyond int64; use smaller ones, or strings.")


def _plain_id(value: Any) -> Any:
    """Return an id as Python's int or str, other values unchanged."""
    if isinstance(value, Enum):
        return _plain_id(value.value)
    return plain_label(value) if isinstance(value, (int, str, np.integer, np.bool_)) else value


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
            raise beyond_int64("y", InvalidLabelsError)
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
            raise beyond_int64("y", InvalidLabelsError) from None
    texts = np.array(labels, np.str_)
    if "\0" in "".join(labels) and texts.tolist() != labels:
        raise InvalidLabelsError("y holds a string that ends in a zero character, which arrays drop; leave it out.")
    return _filled(texts, labelled)


def _filled(labels: Labels, labelled: NDArray[np.bool_] | None) -> tuple[Labels, NDArray[np.bool_] | None]:
    """Return labels with missing ones replaced by a known label, and the mask of those that are known."""
    if labelled is None or labelled.all():
        return labels, None
    if labelled.any():
        labels[~labelled] = labels[labelled][0]
    return labels, labelled


def _end_of_exact(value: Any) -> Any:
    """Return the first integer from which on a floating-point type does not hold every integer."""
    return 2.0 ** min(np.finfo(getattr(value, "dtype", np.float64)).nmant + 1, 63)


def _plain_scalars(values: list[Any]) -> list[Any]:
    """Return values with Arrow scalars, and arrays and tensors without dimensions, as Python scalars."""
    types = set(map(type, values))
    if any(kind is np.ndarray or hasattr(kind, "detach") or library_of(kind) == "pyarrow" for kind in types):
        return [_plain_scalar(value) for value in values]
    return values


def _plain_scalar(value: Any) -> Any:
    if hasattr(value, "as_py"):
        return value.as_py()
    return value.item() if hasattr(value, "item") and np.ndim(value) == 0 else value


def _is_several(kind: type) -> bool:
    if issubclass(kind, (list, tuple, set, frozenset, np.ndarray, dict)) or hasattr(kind, "detach"):
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
        column = as_column(labels, "y", InvalidLabelsError)
        return column.tolist() if isinstance(column, np.ndarray) and column.dtype.kind in "iu" else list(column)
    return [] if is_missing(labels) else [labels]
