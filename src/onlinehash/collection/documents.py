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
from onlinehash.exceptions import InvalidInputError, UnknownNameError, counted

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

    @property
    def are_kept(self) -> bool:
        """Whether documents are kept in the payload."""
        return bool(self._settings.get("keep_documents", True))

    def use(self, given: Embedder | None, keep: bool | None) -> dict[str, Any]:
        """Embed with this, and return its name and what to keep as settings; raise if the collection has another."""
        settings: dict[str, Any] = {} if keep is None else {"keep_documents": bool(keep)}
        if given is not None:
            self.given = given
            if self.name is None:
                settings["embedder"] = given.name
            elif self.name != given.name:
                raise InvalidInputError(
                    f"This collection embeds with {self.name!r}, not {given.name!r}, and their vectors cannot be "
                    "compared. Open it without embed=, and call collection.migrate(embed=...) to change the embedder."
                )
        return {name: value for name, value in settings.items() if self._settings.get(name) != value}

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
        if self.name is not None and self.are_kept:
            kept = _with_documents(listed, [payload] if single else payload)
            payload = kept[0] if single else kept
        rows = self.vectors(listed)
        return rows[0] if single else rows, payload

    def changed(
        self, vectors: Any, documents: Any, payload: Any, single: bool, texts: Sequence[str | None]
    ) -> tuple[Any, Any]:
        """Return new vectors and payload of items from their documents; ``texts`` are the payloads they have."""
        if payload is ... and self.are_kept:
            old = [json.loads(text or "null") for text in texts]
            return self.columns(vectors, documents, old[0] if single else old, single)
        rows, kept = self.columns(vectors, documents, None if payload is ... else payload, single)
        return rows, kept if self.are_kept else payload

    def kept(self, old: Sequence[str | None], new: list[str | None]) -> list[str | None]:
        """Return new payloads, as JSON, with the documents that the old ones hold and the new ones do not name."""
        if self.name is None or not self.are_kept:
            return new
        texts = list(new)
        for i, (before, after) in enumerate(zip(old, new, strict=True)):
            had, has = json.loads(before or "null"), json.loads(after or "null")
            document = had.get(FIELD) if isinstance(had, dict) else None
            if isinstance(document, str) and not (isinstance(has, dict) and FIELD in has):
                (texts[i],) = payload_texts(_with_documents([document], [has]), 1, False)
        return texts


def _with_documents(documents: Sequence[Any], payload: Any) -> list[dict[str, Any]]:
    """Return payloads that hold the documents too, in the field ``FIELD``."""
    payloads = [None] * len(documents) if payload is None else list(payload)
    if len(payloads) != len(documents):
        values, wanted = counted(len(payloads), "value"), counted(len(documents), "document")
        raise InvalidInputError(f"payload has {values} for {wanted}; pass one per document.")
    for document, value in zip(documents, payloads, strict=True):
        if not isinstance(document, (str, os.PathLike)):
            raise InvalidInputError(
                f"A document of type {type(document).__name__} cannot be kept in the payload, which is JSON. Open the "
                "collection with keep_documents=False, or pass paths."
            )
        if not isinstance(value, (dict, type(None))):
            raise InvalidInputError(
                f"payload={value!r} has no fields to keep the document in; pass a dict, or open the collection with "
                "keep_documents=False."
            )
    return [{**(value or {}), FIELD: os.fspath(doc)} for doc, value in zip(documents, payloads, strict=True)]


def document_of(id: Any, payload: str | None) -> Any:
    """Return the document that a payload holds."""
    value: Mapping[str, Any] | Any = json.loads(payload or "null")
    if not isinstance(value, dict) or value.get(FIELD) is None:
        raise InvalidInputError(
            f"Item {id!r} has no {FIELD!r} in its payload to embed; pass its new vector with vectors=, which may go "
            "together with embed=."
        )
    return value[FIELD]
