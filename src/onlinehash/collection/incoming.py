"""Checks of what is put into a collection: once, before anything changes."""

from __future__ import annotations

import json
import numbers
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._validation import check_features, check_finite, check_targets, is_one_row
from onlinehash.collection.types import Key, Label
from onlinehash.exceptions import InvalidFeaturesError, InvalidInputError, InvalidLabelsError
from onlinehash.types import LabelSets

MARK = "mark:"  # begins the names of the settings that hold marks
MAX_PAYLOAD = 1 << 16
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


def is_single(keys: Any) -> bool:
    """Tell whether this is one key, not several."""
    return isinstance(keys, (str, numbers.Integral))


def check_keys(keys: Any, kind: str | None) -> list[Any]:
    """Return keys as a list of int or of str, all different.

    Parameters
    ----------
    keys : int, str, or several
    kind : "int", "str" or None
        What the keys of the collection are, if it has any.

    Examples
    --------
    >>> check_keys(np.array([3, 1]), "int"), check_keys("a", None)
    ([3, 1], ['a'])
    """
    if is_single(keys):
        keys = [keys]
    elif isinstance(keys, np.ndarray):
        keys = keys.ravel().tolist() if keys.ndim <= 1 else None
    if not isinstance(keys, Iterable) or isinstance(keys, (bytes, dict)):
        raise InvalidInputError("keys are integers or strings: pass one, or a list or 1-D array of them.")
    listed = _plain(keys)
    given = kind_of(listed, "keys")
    if kind is not None and given not in (None, kind):
        raise InvalidInputError(f"keys holds {given}; the keys of this collection are {kind}.")
    if given == "int" and not (min(listed) >= _LOWEST and max(listed) <= _HIGHEST):
        raise InvalidInputError("keys holds integers beyond int64; use smaller ones, or strings.")
    if given == "str":
        _check_encodable("keys", listed)
    if len(set(listed)) < len(listed):
        twice = Counter(listed).most_common(1)[0][0]
        raise InvalidInputError(f"keys holds {twice!r} twice; pass every key once.")
    return listed


def _plain(values: Iterable[Any]) -> list[Any]:
    """Return values with those of NumPy as those of Python."""
    listed = list(values)
    if any(issubclass(kind, np.generic) for kind in set(map(type, listed))):
        return [value.item() if isinstance(value, np.generic) else value for value in listed]
    return listed


def kind_of(values: list[Any], name: str) -> str | None:
    """Return "int" or "str", whichever all values are; None of none."""
    types = set(map(type, values))
    if types <= {int} or types <= {str}:
        return types.pop().__name__ if types else None
    kinds = ", ".join(sorted(kind.__name__ for kind in types))
    raise InvalidInputError(f"{name} holds {kinds}; pass only integers or only strings.")


def check_rows(X: ArrayLike, n_rows: int, single: bool, n_features: int | None, dtype: str) -> NDArray[Any]:
    """Return features, one row a key, as they will be stored."""
    if single and is_one_row(X):
        X = np.asarray(X)[np.newaxis]
    rows = check_features(X, n_features=n_features, owner="this collection")
    if len(rows) != n_rows:
        raise InvalidFeaturesError(f"X has {len(rows)} rows for {n_rows} keys; pass one row a key.")
    check_finite(rows, np.dtype(np.float64))
    with np.errstate(over="ignore"):
        stored = np.ascontiguousarray(rows, dtype)
    if not np.isfinite(stored).all():
        raise InvalidFeaturesError(
            f"X holds values too large for {dtype}, in which this collection stores them; scale X first."
        )
    return stored


def label_texts(labels: Any, n_rows: int, single: bool, kind: str | None) -> tuple[list[str | None], str | None]:
    """Return the labels of every row as JSON, None where there are none, and what labels are: "int" or "str".

    Examples
    --------
    >>> label_texts([3, None, 5], 3, False, None)
    (['3', None, '5'], 'int')
    >>> label_texts(["cat", "pet"], 1, True, None)
    (['["cat", "pet"]'], 'str')
    """
    if labels is None:
        return [None] * n_rows, kind
    targets, labelled = check_targets([labels] if single else labels, n_rows)
    several = isinstance(targets, LabelSets)
    values: list[Any] = [list(some) for some in targets] if several else np.asarray(targets).tolist()
    flat = [label for some in values for label in some] if several else values
    given = kind_of(flat, "labels")
    if kind is not None and given not in (None, kind) and (labelled is None or labelled.any()):
        raise InvalidLabelsError(f"labels holds {given}; the labels of this collection are {kind}.")
    if given == "str":
        _check_encodable("labels", flat)
    if labelled is None or several:
        texts = _texts(values, several)
    else:
        texts = [text if some else None for text, some in zip(_texts(values, several), labelled.tolist(), strict=True)]
    return texts, given or kind if any(text is not None for text in texts) else kind


def _texts(values: list[Any], several: bool) -> list[str | None]:
    """Return values as JSON; labels repeat, so each text is made once."""
    if not several:
        distinct, which = np.unique(values, return_inverse=True)
        texts: list[str | None] = np.array([json.dumps(label) for label in distinct.tolist()], object)[which].tolist()
        return texts
    known: dict[Any, str | None] = {}
    for value in values:
        if tuple(value) not in known:
            known[tuple(value)] = _text(value)
    return [known[tuple(value)] for value in values]


def _text(labels: list[Any]) -> str | None:
    if len(labels) < 2:
        return json.dumps(labels[0]) if labels else None
    return json.dumps(labels)


@lru_cache(maxsize=4096)
def labels_of(text: str | None) -> Label | tuple[Label, ...] | None:
    """Return labels from their JSON."""
    value: Any = None if text is None else json.loads(text)
    return tuple(value) if isinstance(value, list) else value


def payload_texts(payload: Any, n_rows: int, single: bool) -> list[str | None]:
    """Return the payload of every row as JSON.

    Examples
    --------
    >>> payload_texts([{"title": "A"}, None], 2, single=False)
    ['{"title": "A"}', None]
    """
    if payload is None:
        return [None] * n_rows
    values = [payload] if single else payload
    if not isinstance(values, (list, tuple, np.ndarray)) or len(values) != n_rows:
        raise InvalidInputError(f"payload is not a list of {n_rows} values, one a key; pass None for a key without.")
    try:
        texts = [None if value is None else json.dumps(value, allow_nan=False) for value in values]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"payload cannot be written as JSON: {error}.") from error
    longest = max((len(text) for text in texts if text is not None), default=0)
    if longest > MAX_PAYLOAD:
        raise InvalidInputError(
            f"payload has an entry of {longest} characters of JSON; at most {MAX_PAYLOAD}. Store a link instead."
        )
    return texts


def mark_settings(marks: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return marks as settings of the store.

    Examples
    --------
    >>> mark_settings({"queue": 17})
    {'mark:queue': 17}
    """
    if marks is None:
        return {}
    if not isinstance(marks, Mapping) or not all(isinstance(name, str) for name in marks):
        raise InvalidInputError(f"marks is {marks!r}, not a mapping from names to JSON values.")
    try:
        json.dumps(dict(marks), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"marks cannot be written as JSON: {error}.") from error
    return {f"{MARK}{name}": value for name, value in marks.items()}


def wanted_labels(labels: Any) -> list[Label]:
    """Return the labels to filter by: one, or several of which an item has any."""
    listed = [labels] if is_single(labels) else list(labels)
    plain = _plain(listed)
    if not plain:
        raise InvalidInputError("labels is empty; name the labels to search among, or leave it out.")
    kind_of(plain, "labels")
    return plain


def _check_encodable(name: str, values: list[Key]) -> None:
    try:
        "".join(map(str, values)).encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{name} holds a string that is no Unicode text (a lone surrogate).") from None
