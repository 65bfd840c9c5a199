"""Documents: what a collection embeds, with which embedder, and what it keeps of them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.inputs import payload_texts
from onlinehash.embedders import Embedder, documents_of, is_document, make_embedder
from onlinehash.exceptions import InvalidInputError, MissingExtraError, UnknownNameError, counted

FIELD = "document"
"""Field of a payload that holds the document."""


class Documents:
    """Embed the documents of a collection, which remembers the name of its embedder.

    Parameters
    ----------
    settings : dict
        Those of the collection, in memory.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self.given: Embedder | None = None  # that the collection was opened with, or that was made by its name

    @property
    def name(self) -> str | None:
        """Name of the embedder of the collection; None if it has none."""
        return self._settings.get("embedder")

    @property
    def takes(self) -> str | None:
        """What the embedder takes, "text" or "image"; None if there is none, or none of that name."""
        name, given = self.name, self.given
        if name is None:
            return None
        return given.takes if given is not None and given.name == name else documents_of(name)

    def use(self, given: Embedder) -> dict[str, Any]:
        """Embed with this, and return its name as a setting; raise if the collection has another."""
        if self.name not in (None, given.name):
            raise InvalidInputError(
                f"This collection embeds with {self.name!r}, not {given.name!r}, and their vectors cannot be "
                "compared. Open it without embed=, and call collection.migrate(embed=...) to change the embedder."
            )
        self.given = given
        return {"embedder": given.name}

    def embedder(self) -> Embedder:
        """Return the embedder of the collection."""
        name, given = self.name, self.given
        if given is not None and name in (None, given.name):
            return given
        if name is None:
            raise InvalidInputError(
                "This collection has no embedder for documents; pass vectors, or open it with embed=, such as "
                "embed='char_ngrams'."
            )
        try:
            self.given = make_embedder(name)
        except UnknownNameError:
            raise InvalidInputError(
                f"This collection embeds with {name!r}, which is not registered by that name; open it with embed=."
            ) from None
        except MissingExtraError as error:
            raise MissingExtraError(f"This collection embeds documents with {name!r}: {error}") from error
        return self.given

    def vectors(self, documents: Sequence[Any]) -> NDArray[np.float32]:
        """Return one vector per document, of the width of the collection."""
        embedder, width = self.embedder(), self._settings.get("n_features")
        rows = embedder(documents)
        if width not in (None, rows.shape[1]):
            raise InvalidInputError(
                f"The embedder {embedder.name!r} gives {rows.shape[1]} numbers per document, and this collection has "
                f"vectors of {width}. Call collection.migrate(embed=...) to change the embedder."
            )
        return rows

    def queries(self, given: Any) -> Any:
        """Return the vectors of queries that are documents, and others as they are."""
        if is_document(given):
            return self.vectors([given])[0]
        if isinstance(given, (list, tuple)) and given and is_document(given[0]):
            return self.vectors(given)
        return given

    def columns(self, vectors: Any, documents: Any, payload: Any, single: bool) -> tuple[Any, Any]:
        """Return vectors and payload of items, from their documents if these are given; ``single`` is for one id."""
        if (vectors is None) == (documents is None):
            raise InvalidInputError("Pass vectors or documents, one of the two.")
        if documents is None:
            return vectors, payload
        if not single and is_document(documents):
            raise InvalidInputError(f"documents={documents!r} is one document; pass a list with one per id.")
        listed = [documents] if single else list(documents)
        rows, kept = self.vectors(listed), _with_documents(listed, [payload] if single else payload)
        return (rows[0], kept[0]) if single else (rows, kept)

    def kept(self, old: Sequence[str | None], new: list[str | None]) -> list[str | None]:
        """Return new payloads, as JSON, with the documents that the old ones hold and the new ones do not name."""
        if self.name is None:
            return new
        texts = list(new)
        for i, (before, after) in enumerate(zip(old, new, strict=True)):
            had, has = json.loads(before or "null"), json.loads(after or "null")
            document = had.get(FIELD) if isinstance(had, dict) else None
            if isinstance(document, str) and not (isinstance(has, dict) and FIELD in has):
                (texts[i],) = payload_texts(_with_documents([document], [has]), 1, False)
        return texts


def _with_documents(documents: Sequence[Any], payload: Any) -> list[Any]:
    """Return payloads that hold the documents that are text or paths, in the field ``FIELD``."""
    payloads = [None] * len(documents) if payload is None else list(payload)
    if len(payloads) != len(documents):
        values, wanted = counted(len(payloads), "value"), counted(len(documents), "document")
        raise InvalidInputError(f"payload has {values} for {wanted}; pass one per document.")
    for i, (document, value) in enumerate(zip(documents, payloads, strict=True)):
        if isinstance(document, (str, os.PathLike)):
            if not isinstance(value, (dict, type(None))):
                raise InvalidInputError(f"payload={value!r} has no fields to keep the document in; pass a dict.")
            payloads[i] = {**(value or {}), FIELD: os.fspath(document)}
    return payloads


def without_document(payload: str | None) -> Any:
    """Return what else a payload holds."""
    value = json.loads(payload or "null")
    return {name: part for name, part in value.items() if name != FIELD} if isinstance(value, dict) else value


def document_of(id: Any, payload: str | None) -> Any:
    """Return the document that a payload holds."""
    value: Mapping[str, Any] | Any = json.loads(payload or "null")
    if not isinstance(value, dict) or value.get(FIELD) is None:
        raise InvalidInputError(
            f"Item {id!r} has no {FIELD!r} in its payload to embed; pass its new vector with vectors=, which may go "
            "together with embed=."
        )
    return value[FIELD]
