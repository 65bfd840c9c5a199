"""The one door of a collection: what users pass is checked once, and converted to plain columns."""

from __future__ import annotations

import json
import numbers
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import (
    as_array,
    check_choice,
    check_feature_names,
    check_features,
    check_finite,
    check_ids,
    check_labels,
    check_targets,
    records,
)
from onlinehash.collection.filters import Filter, is_plain_text, parse_where
from onlinehash.collection.types import Batch, Id, Label
from onlinehash.exceptions import InvalidFeaturesError, InvalidInputError, InvalidLabelsError, counted
from onlinehash.types import LabelSets

CHECKPOINT = "checkpoint:"
"""Begins the names of the settings that hold checkpoints."""

MAX_PAYLOAD = 1 << 16
"""Characters of JSON per payload."""

MAX_CHECKPOINT = 1 << 20
"""Characters of JSON of all checkpoints of a change."""

PARTS = ("labels", "payload", "vectors")
"""What a search can include."""

_encode = json.JSONEncoder(allow_nan=False).encode
_label_text = lru_cache(maxsize=4096)(_encode)  # of one label


class SearchFilter(NamedTuple):
    """What to search among: items with any of the labels, one of the ids, and a payload that passes; None: no filter.

    Examples
    --------
    >>> SearchFilter(labels=["cat", "dog"])
    SearchFilter(labels=['cat', 'dog'], ids=None, where=None)
    """

    labels: list[Label] | None = None
    ids: list[Any] | None = None
    where: Filter | None = None


@contextmanager
def _named() -> Iterator[None]:
    """Call vectors and labels so in errors of checks that hashers have too, where they are X and y."""
    try:
        yield
    except (InvalidFeaturesError, InvalidLabelsError) as error:
        text = re.sub(r"\bX\b", "vectors", re.sub(r"\by\b", "labels", str(error)))
        raise type(error)(text) from error.__cause__


def check_batch(ids: Any, vectors: Any, labels: Any, payload: Any, settings: Mapping[str, Any]) -> Batch:
    """Return items as they will be stored in a collection with these settings."""
    single, listed = is_single(ids), check_item_ids(ids, settings.get("id_type"), ordered=True)
    if not listed:
        return Batch([], np.empty((0, 0)), [], [])
    rows = check_vectors(vectors, len(listed), single, settings)
    texts = label_texts(labels, len(listed), single, settings.get("label_type"))
    payloads: list[str | None] = [None] * len(listed)
    if payload is not None:
        payloads = payload_texts(payload, len(listed), single)
    return Batch(listed, rows, texts, payloads)


# ------------------------------------------------------------------ ids


def is_single(ids: Any) -> bool:
    """Return whether this is one id, not several."""
    return isinstance(ids, (str, numbers.Integral, Enum))


def demand_single(id: Any) -> None:
    """Raise TypeError if this is not one id."""
    if not is_single(id):
        raise TypeError(f"{id!r} is not one id; use get for several.")


def check_item_ids(ids: Any, id_type: str | None, *, ordered: bool = False, repeated: bool = False) -> list[Any]:
    """Return ids as a list of int or of str, all different; ``id_type`` is that of the collection, if it has one.

    ``ordered``: there is a row for every id, so a set will not do. ``repeated``: an id that comes twice is taken once.

    Examples
    --------
    >>> check_item_ids(np.array([3, 1]), "int"), check_item_ids("a", None)
    ([3, 1], ['a'])
    """
    if is_single(ids):
        ids = [ids]
    if not isinstance(ids, Iterable) or isinstance(ids, (bytes, dict)):
        raise InvalidInputError("ids are integers or strings: pass one, or a list or 1-D array of them.")
    if ordered and isinstance(ids, (set, frozenset)):
        raise InvalidInputError("ids is a set, which has no order; pass a list, in the order of the rows.")
    checked = check_ids(ids if isinstance(ids, list) or hasattr(ids, "__array__") else list(ids))
    listed = checked.tolist() if isinstance(checked, np.ndarray) else list(checked)
    _check_type("ids", listed, id_type, InvalidInputError)
    if repeated:
        return list(dict.fromkeys(listed))
    if len(set(listed)) < len(listed):
        twice = Counter(listed).most_common(1)[0][0]
        raise InvalidInputError(f"ids holds {twice!r} twice; pass every id once.")
    return listed


def _check_type(name: str, values: list[Any], known: str | None, error: type[InvalidInputError]) -> None:
    """Refuse values of another type than those of the collection, and strings that are not Unicode text."""
    given = type(values[0]).__name__ if values else known
    if known is not None and given != known:
        raise error(f"{name} holds {given}; the {name} of this collection are {known}.")
    try:
        if given == "str":
            "".join(values).encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{name} holds a string that is not Unicode text (a lone surrogate).") from None


# ------------------------------------------------------------------ vectors


@_named()
def named_features(vectors: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the feature names of vectors, if they have any, as a setting; raise if others are known."""
    names = check_feature_names(vectors, settings.get("feature_names"))
    return {} if names is None else {"feature_names": names}


@_named()
def check_vectors(vectors: Any, n_rows: int, single: bool, settings: Mapping[str, Any]) -> NDArray[Any]:
    """Return vectors, one row per id, as they will be stored."""
    given = as_array(vectors) if single else vectors
    n_features, dtype = settings.get("n_features"), settings["vector_dtype"]
    rows = check_features(
        given[np.newaxis] if single and given.ndim == 1 else given, n_features=n_features, owner="this collection"
    )
    if len(rows) != n_rows:
        raise InvalidFeaturesError(
            f"vectors has {counted(len(rows), 'row')} for {counted(n_rows, 'id')}; pass one vector or document per id."
        )
    check_finite(rows, np.dtype(np.float32))  # in which hashers learn here
    with np.errstate(over="ignore"):
        stored = np.ascontiguousarray(rows, dtype)
    if stored.dtype != rows.dtype and not np.isfinite(stored).all():
        raise InvalidFeaturesError(
            f"vectors holds values too large for {dtype}, in which this collection stores them; scale vectors first."
        )
    return stored


@_named()
def check_queries(vectors: Any, n_features: int | None, names: Sequence[str] | None) -> tuple[NDArray[Any], bool]:
    """Return queries, one per row, and whether there is one alone."""
    check_feature_names(vectors, names)
    rows = as_array(vectors)
    single = rows.ndim == 1
    return check_features(rows[np.newaxis] if single else rows, n_features=n_features, owner="this collection"), single


# ------------------------------------------------------------------ labels


@_named()
def label_texts(labels: Any, n_rows: int, single: bool, label_type: str | None) -> list[str | None]:
    """Return the labels of every row as JSON; None for a row without any.

    Examples
    --------
    >>> label_texts([3, None, 5], 3, False, None)
    ['3', None, '5']
    >>> label_texts(["cat", "pet"], 1, True, None)
    ['["cat", "pet"]']
    """
    if labels is None:
        return [None] * n_rows
    if not single and (isinstance(labels, (str, bytes, numbers.Number)) or getattr(labels, "ndim", None) == 0):
        raise InvalidLabelsError(
            f"labels={labels!r} is not a list or 1d array of {counted(n_rows, 'label')}, one per id; pass None for an "
            "id without."
        )
    targets, labelled = check_targets([labels] if single else labels, n_rows)
    several = isinstance(targets, LabelSets)
    values: list[Any] = [list(some) for some in targets] if several else np.asarray(targets).tolist()
    flat = [label for some in values for label in some] if several else values
    if labelled is None or labelled.any():
        _check_type("labels", flat, label_type, InvalidLabelsError)
    if several:
        return [_encode(value[0] if len(value) == 1 else value) if value else None for value in values]
    texts: list[str | None] = list(map(_label_text, values))
    for row in [] if labelled is None else np.flatnonzero(~labelled):
        texts[row] = None
    return texts


def label_type_of(texts: Iterable[str | None]) -> str | None:
    """Return the type of labels, "int" or "str", from their JSON; None if there are none."""
    text = next(filter(None, texts), None)
    return None if text is None else "str" if '"' in text else "int"


@lru_cache(maxsize=4096)
def labels_of(text: str | None) -> Label | tuple[Label, ...] | None:
    """Return labels from their JSON."""
    value: Any = None if text is None else json.loads(text)
    return tuple(value) if isinstance(value, list) else value


@lru_cache(maxsize=4096)
def label_set(text: str | None) -> frozenset[Label]:
    """Return labels from their JSON, as a set."""
    labels = labels_of(text)
    return frozenset() if labels is None else frozenset(labels if isinstance(labels, tuple) else [labels])


_LINK, _FIRST_LINK = "link-", -1_000_000_001


def link_label(number: int, label_type: str | None) -> Label:
    """Return the label of items that were linked, of which this is the n-th.

    Examples
    --------
    >>> link_label(1, None), link_label(2, "int"), is_link("link-1"), is_link(7)
    ('link-1', -1000000002, True, False)
    """
    return 1 + _FIRST_LINK - number if label_type == "int" else f"{_LINK}{number}"


def is_link(label: Label) -> bool:
    """Return whether a label was made by :func:`link_label`."""
    if isinstance(label, int):
        return label <= _FIRST_LINK
    return label.startswith(_LINK) and label.removeprefix(_LINK).isdecimal()


# ------------------------------------------------------------------ payloads and checkpoints


def payload_texts(payload: Any, n_rows: int, single: bool) -> list[str | None]:
    """Return the payload of every row as JSON."""
    values = records([payload] if single else payload, n_rows)
    texts = [None if value is None else _encode(value) for value in values]
    for row, text in enumerate(texts):
        if text is None:
            continue
        if ("\\u0000" in text or "\\ud" in text) and not _is_storable(text):
            raise InvalidInputError(
                f"payload of row {row} holds a string with U+0000 or a lone surrogate; no database filters by it."
            )
        if len(text) > MAX_PAYLOAD:
            raise InvalidInputError(
                f"payload of row {row} has {len(text)} characters of JSON; at most {MAX_PAYLOAD}. Store a link instead."
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
        text = _encode(dict(checkpoint))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"checkpoint cannot be written as JSON: {error}.") from error
    if len(text) > MAX_CHECKPOINT:
        raise InvalidInputError(f"checkpoint has {len(text)} characters of JSON; at most {MAX_CHECKPOINT}.")
    copied = json.loads(text)  # the caller may change what it passed
    return {f"{CHECKPOINT}{name}": value for name, value in copied.items()}


# ------------------------------------------------------------------ searches


def check_include(include: Any) -> tuple[str, ...]:
    """Return the parts to include."""
    if isinstance(include, str) or not isinstance(include, Iterable):
        raise InvalidInputError(f"include={include!r} is not a list; pass some of {', '.join(PARTS)} in one.")
    return tuple(check_choice("include", part, PARTS) for part in dict.fromkeys(include))


def search_filter(labels: Any, ids: Iterable[Id] | None, where: Any, settings: Mapping[str, Any]) -> SearchFilter:
    """Return the filters of a search, checked."""
    return SearchFilter(
        None if labels is None else list(dict.fromkeys(_wanted_labels(labels, settings.get("label_type")))),
        None if ids is None else check_item_ids(ids, settings.get("id_type"), repeated=True),
        None if where is None else parse_where(where),
    )


def check_label(label: Any, label_type: str | None) -> Label:
    """Return one label, of the type of those of the collection."""
    if isinstance(label, (list, tuple)):
        raise InvalidLabelsError(f"{label!r} is not one label.")
    return _wanted_labels(label, label_type)[0]


def _wanted_labels(labels: Any, label_type: str | None) -> list[Label]:
    """Return the labels to filter by: one, or several of which an item has any."""
    if getattr(labels, "ndim", None) == 0:
        labels = labels.item()
    if is_single(labels) or isinstance(labels, bytes) or not isinstance(labels, Iterable):
        labels = [labels]
    listed: Any = labels if hasattr(labels, "__array__") else list(labels)
    if len(listed) == 0:
        raise InvalidInputError("labels is empty; name the labels to search among, or leave it out.")
    plain: list[Label] = check_labels(listed, len(listed)).tolist()
    _check_type("labels", plain, label_type, InvalidLabelsError)
    return plain
