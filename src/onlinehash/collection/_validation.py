"""Checks of the input of a collection: once, before anything changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._containers import as_array, as_column, check_feature_names, is_missing, library_of
from onlinehash._validation import check_features, check_finite, check_labels, check_targets
from onlinehash.collection.filters import is_plain_text
from onlinehash.collection.ids import check_encodable, is_single
from onlinehash.collection.stores.protocol import Store
from onlinehash.collection.types import Label
from onlinehash.exceptions import InvalidFeaturesError, InvalidInputError, InvalidLabelsError, counted
from onlinehash.types import LabelSets, Targets

CHECKPOINT = "checkpoint:"  # begins the names of the settings that hold checkpoints
MAX_PAYLOAD = 1 << 16
_MODERATE = 1e37  # squared length of a vector, up to which none of its values is too large


def check_names(vectors: Any, store: Store) -> dict[str, Any]:
    """Return the feature names of vectors as a setting, if the store has none yet; raise if it has others."""
    if type(vectors) is np.ndarray or check_feature_names(vectors) is None:
        return {}
    known = store.setting("feature_names")
    names = check_feature_names(vectors, known)
    return {} if known is not None else {"feature_names": names}


def check_rows(vectors: ArrayLike, n_rows: int, single: bool, n_features: int | None, dtype: str) -> NDArray[Any]:
    """Return vectors, one row per id, as they will be stored."""
    if (  # the common case, quickly; NaN fails
        single
        and type(vectors) is np.ndarray
        and vectors.dtype == dtype
        and vectors.shape == (n_features,)
        and (np.vdot(vectors, vectors) <= _MODERATE if dtype == "float32" else np.isfinite(vectors).all())
    ):
        return np.ascontiguousarray(vectors)[np.newaxis]
    given = as_array(vectors)
    rows = check_features(
        given[np.newaxis] if single and given.ndim == 1 else given, n_features=n_features, owner="this collection"
    )
    if len(rows) != n_rows:
        raise InvalidFeaturesError(
            f"vectors has {counted(len(rows), 'row')} for {counted(n_rows, 'id')}; pass one row per id."
        )
    check_finite(rows, np.dtype(np.float32))  # in which hashers learn here
    if rows.dtype == dtype:
        return np.ascontiguousarray(rows)
    with np.errstate(over="ignore"):
        stored = np.ascontiguousarray(rows, dtype)
    if not np.isfinite(stored).all():
        raise InvalidFeaturesError(
            f"vectors holds values too large for {dtype}, in which this collection stores them; scale vectors first."
        )
    return stored


class LabelColumn(NamedTuple):
    """Checked labels: as a hasher takes them, and as they are stored."""

    targets: Targets  # one label or several per row; None if no row has any
    labelled: NDArray[np.bool_] | None  # which rows have labels; None if all have
    texts: list[str | None]  # as JSON; None for a row without
    type: str | None  # "int" or "str", of the labels of the collection


def check_label_column(labels: Any, n_rows: int, single: bool, type_: str | None) -> LabelColumn:
    """Return the labels of every row.

    Examples
    --------
    >>> check_label_column([3, None, 5], 3, False, None).texts
    ['3', None, '5']
    >>> check_label_column(["cat", "pet"], 1, True, None).texts
    ['["cat", "pet"]']
    """
    if labels is None:
        return LabelColumn(None, np.zeros(n_rows, bool), [None] * n_rows, type_)
    if single and type(labels) is int and type_ == "int" and abs(labels) < 2**63:  # the common case, quickly
        return LabelColumn(np.array([labels], np.int64), None, [str(labels)], type_)
    given = [labels] if single else as_column(labels, "y", InvalidLabelsError)
    if isinstance(given, np.ndarray) and not given.ndim:
        raise InvalidLabelsError(
            f"labels={labels!r} is not a list or 1d array of {counted(n_rows, 'label')}, one per id; pass None for an "
            "id without."
        )
    targets, labelled = check_targets([labels] if single else labels, n_rows)
    several = isinstance(targets, LabelSets)
    values: list[Any] = [list(some) for some in targets] if several else np.asarray(targets).tolist()
    flat = [label for some in values for label in some] if several else values
    kind = type(flat[0]).__name__ if flat else None
    if type_ is not None and kind not in (None, type_) and (labelled is None or labelled.any()):
        raise InvalidLabelsError(f"labels holds {kind}; the labels of this collection are {type_}.")
    if kind == "str":
        check_encodable("labels", flat)
    texts = _texts(values, several)
    if labelled is not None and not several:
        texts = [text if some else None for text, some in zip(texts, labelled.tolist(), strict=True)]
    return LabelColumn(targets, labelled, texts, kind or type_ if any(text is not None for text in texts) else type_)


def _texts(values: list[Any], several: bool) -> list[str | None]:
    """Return values as JSON; labels repeat, so each text is made once."""
    if not several:
        known = {value: str(value) if type(value) is int else json.dumps(value) for value in set(values)}
        return [known[value] for value in values]
    sets = {tuple(value): json.dumps(value[0] if len(value) == 1 else value) for value in values if value}
    return [sets.get(tuple(value)) for value in values]


@lru_cache(maxsize=4096)
def labels_of(text: str | None) -> Label | tuple[Label, ...] | None:
    """Return labels from their JSON."""
    value: Any = None if text is None else json.loads(text)
    return tuple(value) if isinstance(value, list) else value


def label_set(text: str | None) -> frozenset[Label]:
    """Return labels from their JSON, as a set."""
    labels = labels_of(text)
    return frozenset() if labels is None else frozenset(labels if isinstance(labels, tuple) else [labels])


def payload_texts(payload: Any, n_rows: int, single: bool) -> list[str | None]:
    """Return the payload of every row as JSON."""
    if payload is None:
        return [None] * n_rows
    values = [payload] if single else payload
    if library_of(type(values)) is not None:
        values = [None if is_missing(value) else value for value in as_column(values, "payload", InvalidInputError)]
    if not isinstance(values, (list, tuple, np.ndarray)) or len(values) != n_rows:
        raise InvalidInputError(
            f"payload is not a list of {counted(n_rows, 'value')}, one per id; pass None for an id without."
        )
    try:
        texts = [None if value is None else json.dumps(value, allow_nan=False) for value in values]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"payload cannot be written as JSON: {error}.") from error
    for text in texts:
        if text is not None and ("\\u0000" in text or "\\ud" in text) and not _is_storable(text):
            raise InvalidInputError(
                "payload holds a string with U+0000 or a lone surrogate; no database filters by it."
            )
    longest = max((len(text) for text in texts if text is not None), default=0)
    if longest > MAX_PAYLOAD:
        raise InvalidInputError(
            f"payload has an entry of {longest} characters of JSON; at most {MAX_PAYLOAD}. Store a link instead."
        )
    return texts


def _is_storable(text: str) -> bool:
    """Return whether the strings of a JSON text are without U+0000 and lone surrogates."""
    return is_plain_text(json.dumps(json.loads(text), ensure_ascii=False).replace("\\\\", "").replace("\\u0000", "\0"))


def checkpoint_settings(checkpoint: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return checkpoints as settings of the store."""
    if checkpoint is None:
        return {}
    if not isinstance(checkpoint, Mapping) or not all(isinstance(name, str) for name in checkpoint):
        raise InvalidInputError(f"checkpoint is {checkpoint!r}, not a mapping from names to JSON values.")
    try:
        copied = json.loads(json.dumps(dict(checkpoint), allow_nan=False))  # the caller may change what it passed
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"checkpoint cannot be written as JSON: {error}.") from error
    return {f"{CHECKPOINT}{name}": value for name, value in copied.items()}


def wanted_labels(labels: Any, kind: str | None) -> list[Label]:
    """Return the labels to filter by: one, or several of which an item has any.

    Examples
    --------
    >>> wanted_labels("cat", "str"), wanted_labels(np.array([3.0, 1.0]), "int")
    (['cat'], [3, 1])
    """
    if getattr(labels, "ndim", None) == 0:
        labels = labels.item()
    if is_single(labels) or isinstance(labels, bytes) or not isinstance(labels, Iterable):
        labels = [labels]
    listed: Any = labels if hasattr(labels, "__array__") else list(labels)
    if len(listed) == 0:
        raise InvalidInputError("labels is empty; name the labels to search among, or leave it out.")
    plain: list[Label] = check_labels(listed, len(listed)).tolist()
    given = type(plain[0]).__name__
    if kind is not None and given != kind:
        raise InvalidLabelsError(f"labels holds {given}; the labels of this collection are {kind}.")
    return plain
