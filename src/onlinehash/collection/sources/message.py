"""What a message of a stream says: an item to store, or an id to delete.

One format for all sources, a JSON object::

    {"id": "shoe-7", "vectors": [0.5, 2.0], "labels": ["shoe", "red"], "payload": {"title": "Trail runner"}}
    {"id": "shoe-7", "vectors": "AAAAPwAAAEA=", "label": "shoe"}
    {"id": "shoe-7", "deleted": true}

The vector is a list of numbers, or the base64 text of little-endian float32. Labels and payload may be left out. Other
fields are passed over. Where a message has fields of its own (a Redis entry, a row of a table) they have these names.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.transfer.chunks import Columns, vector_of
from onlinehash.collection.types import Id
from onlinehash.exceptions import InvalidInputError


class Message(NamedTuple):
    """A message as it came.

    Parameters
    ----------
    id : int or str
        What its source calls it.
    content : bytes, or mapping of str to value
        A JSON object, or its fields.
    handle : optional
        What its source needs to acknowledge it, or to go on behind it.
    """

    id: int | str
    content: bytes | Mapping[str, Any]
    handle: Any = None


class Change(NamedTuple):
    """What a message asks for: to store an item; without a vector, to delete it."""

    id: Id
    vectors: NDArray[Any] | None
    labels: Any = None
    payload: Any = None


def read_message(content: bytes | Mapping[str, Any]) -> Change:
    """Return what a message asks for.

    What the collection itself checks (width, NaN, kinds of ids and labels) is left to it.

    Parameters
    ----------
    content : bytes, or mapping of str to value
        Values that are bytes are JSON where they can be, and else text; a vector that is no JSON is raw float32.

    Examples
    --------
    >>> read_message(b'{"id": 7, "vectors": [0.5, 2], "label": "shoe"}')
    Change(id=7, vectors=array([0.5, 2. ]), labels='shoe', payload=None)
    >>> read_message({"id": b"shoe-7", "vectors": np.ones(2, "<f4").tobytes()}).vectors
    array([1., 1.], dtype=float32)
    >>> read_message(b'{"id": 7, "deleted": true}').vectors is None
    True
    """
    if not content:
        raise InvalidInputError("The message is empty, or was deleted before it was read.")
    fields = _object(content) if isinstance(content, bytes) else content
    id = _meaning(_field(fields, "id"))
    if type(id) not in (int, str):
        raise InvalidInputError(f"The id is {_shortened(id)}; every message has a 'id', an integer or a string.")
    if _meaning(fields.get("deleted")) in (True, 1):
        return Change(id, None)
    labels = _meaning(_field(fields, "labels"))
    if not all(type(label) in (int, str) for label in _listed(labels)):
        raise InvalidInputError(f"The labels are {_shortened(labels)}; pass an integer, a string, or a list of them.")
    return Change(id, _vector(_field(fields, "vectors")), labels, _meaning(_field(fields, "payload")))


def _object(content: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"The message is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise InvalidInputError('The message is not a JSON object, like {"id": 1, "vectors": [0.5, 2.0], "label": 7}.')
    return value


def _field(fields: Mapping[str, Any], role: str) -> Any:
    """Return a field under any of its usual names."""
    return next((fields[name] for name in Columns.USUAL[role] if name in fields), None)


def _meaning(value: Any) -> Any:
    """Return what bytes mean: JSON, or else text."""
    if not isinstance(value, bytes):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        pass
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"A field is neither JSON nor UTF-8 text: {_shortened(value)}.") from error


def _vector(value: Any) -> NDArray[Any]:
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, bytes):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return _floats(value)
    if isinstance(value, str):
        try:
            content = b64decode(value, validate=True)
        except ValueError as error:
            raise InvalidInputError(f"The vector {_shortened(value)} is not base64.") from error
        return _floats(content)
    if value is None:
        raise InvalidInputError("There is no 'vectors'; to delete an item, say \"deleted\": true.")
    try:
        return vector_of(value, None, "vectors")
    except ValueError as error:
        raise InvalidInputError(str(error)) from error


def _floats(content: bytes) -> NDArray[np.float32]:
    if not content or len(content) % 4:
        raise InvalidInputError(f"The vector has {len(content)} bytes; float32 takes 4 a number.")
    return np.frombuffer(content, "<f4")


def _listed(labels: Any) -> list[Any]:
    if labels is None:
        return []
    return labels if isinstance(labels, list) else [labels]


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
