"""Messages of a stream: an item to store, or an id to delete.

One format for all sources, a JSON object::

    {"id": "shoe-7", "vectors": [0.5, 2.0], "labels": ["shoe", "red"], "payload": {"title": "Trail runner"}}
    {"id": "shoe-7", "vectors": "AAAAPwAAAEA=", "label": "shoe"}
    {"id": "shoe-7", "document": "Trail runner, red", "label": "shoe"}
    {"id": "shoe-7", "deleted": true}

Fields have the same names as the columns of a file. The vector is a list of numbers, or the base64 text of
little-endian float32. Instead of it there may be a document, which the embedder of the collection takes. Labels and
payload may be missing. Other fields are ignored. Where a message has fields of its own (a Redis entry, a row of a
table) they have these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from onlinehash.collection.types import Id
from onlinehash.exceptions import FileFormatError, InvalidInputError
from onlinehash.tables.columns import find_column
from onlinehash.tables.text import json_object, json_or_text, vector_of

DOCUMENT = "document"


class Message(NamedTuple):
    """A message as it came."""

    id: int | str
    content: bytes | Mapping[str, Any]
    handle: Any = None


class Change(NamedTuple):
    """What a message asks for: to store an item; without a vector and a document, to delete it."""

    id: Id
    vectors: NDArray[Any] | None
    labels: Any = None
    payload: Any = None
    document: str | None = None

    @property
    def kind(self) -> str:
        """Whether it is a deletion, a vector or a document."""
        return "document" if self.document is not None else "deletion" if self.vectors is None else "vector"


def read_message(content: bytes | Mapping[str, Any]) -> Change:
    """Return what a message asks for.

    Values that are bytes are JSON where they can be, and else text; a vector that is not JSON is raw float32. What the
    collection itself checks (width, NaN, types of ids and labels) is left to it.
    """
    if not content:
        raise InvalidInputError("The message is empty, or was deleted before it was read.")
    try:
        fields = json_object(content) if isinstance(content, bytes) else content
    except FileFormatError as error:
        raise InvalidInputError(f"The message is {error}") from error
    id, labels, payload = (_meaning(_field(fields, role)) for role in ("id", "labels", "payload"))
    if type(id) not in (int, str):
        raise InvalidInputError(f"The id is {_shortened(id)}; every message has an 'id', an integer or a string.")
    if _meaning(fields.get("deleted")) in (True, 1):
        return Change(id, None)
    several = labels if isinstance(labels, list) else [] if labels is None else [labels]
    if not all(type(label) in (int, str) for label in several):
        raise InvalidInputError(f"The labels are {_shortened(labels)}; pass an integer, a string, or a list of them.")
    vector = _field(fields, "vectors")
    if vector is None:
        document = _decoded(fields.get(DOCUMENT))
        if not isinstance(document, str):
            raise InvalidInputError(
                "There is no 'vectors' and no 'document' of text; to delete an item, say \"deleted\": true."
            )
        return Change(id, None, labels, payload, document)
    try:
        return Change(id, vector_of(_numbers(vector), "vectors"), labels, payload)
    except FileFormatError as error:
        raise InvalidInputError(str(error)) from error


def _field(fields: Mapping[str, Any], role: str) -> Any:
    name = find_column(role, fields, "The message", "send one of them.")
    return None if name is None else fields[name]


def _decoded(value: Any) -> Any:
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"A field is neither JSON nor UTF-8 text: {_shortened(value)}.") from error


def _meaning(value: Any) -> Any:
    """Return what bytes mean: JSON, or else text."""
    return json_or_text(_decoded(value)) if isinstance(value, bytes) else value


def _numbers(value: Any) -> Any:
    """Return the list that bytes are in JSON, or else the bytes: four of them can be JSON by chance."""
    found = json_or_text(value) if isinstance(value, bytes) else value
    return found if isinstance(found, list) else value


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
