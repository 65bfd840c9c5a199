"""Embedder: a function from documents to vectors, and its name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import check_choice
from onlinehash.exceptions import InvalidFeaturesError, InvalidInputError

Function = Callable[[list[Any]], Any]
"""What turns documents into vectors, one row each."""


@dataclass(frozen=True)
class Embedder:
    """A function from documents to vectors, under the name by which a collection remembers it.

    Parameters
    ----------
    name : str
        Give another model another name: vectors of two models must not meet in one collection.
    function : callable
        ``function(documents)`` takes a list and returns an array of shape (n_documents, n_features), dense or sparse.
    takes : "text" or "image", default="text"
        What documents are. A service takes images for the latter.

    Examples
    --------
    >>> lengths = Embedder("lengths", lambda texts: [[len(text)] for text in texts])
    >>> lengths(["cat", "horse"])
    array([[3.],
           [5.]], dtype=float32)
    """

    name: str
    function: Function
    takes: str = "text"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidInputError(f"name={self.name!r} is no name of an embedder; use text, such as 'my-model-2'.")
        if not callable(self.function):
            raise InvalidInputError(f"function={self.function!r} cannot be called; pass f(documents) -> vectors.")
        check_choice("takes", self.takes, ("text", "image"))

    def __call__(self, documents: Sequence[Any]) -> NDArray[np.float32]:
        """Return one vector per document."""
        listed = list(documents)
        found = self.function(listed)
        try:
            rows = np.asarray(found.toarray() if hasattr(found, "toarray") else found, np.float32)
        except (TypeError, ValueError) as error:
            raise InvalidFeaturesError(
                f"The embedder {self.name!r} returned {type(found).__name__}, not numbers: {error}."
            ) from error
        if rows.ndim != 2 or len(rows) != len(listed):
            raise InvalidFeaturesError(
                f"The embedder {self.name!r} returned an array of shape {rows.shape} for {len(listed)} documents; it "
                "must return one row per document."
            )
        if not np.isfinite(rows).all():
            raise InvalidFeaturesError(f"The embedder {self.name!r} returned NaN or infinity.")
        return rows


def name_of(given: Any) -> str:
    """Return the name by which an object that embeds is remembered."""
    name = getattr(given, "name", None) or getattr(given, "__qualname__", None)
    if hasattr(given, "get_params"):  # scikit-learn: with the parameters, which decide what comes out
        return re.sub(r"\s+", " ", repr(given))
    if hasattr(given, "model_card_data"):  # sentence-transformers
        base = getattr(given.model_card_data, "base_model", None)
        name = f"sentence-transformers:{base}" if base else None
    if not isinstance(name, str):
        name = type(given).__qualname__
    if "<lambda>" in name:
        raise InvalidInputError(
            "embed is a lambda, which has no name to remember; pass Embedder('my-model-1', lambda ...), or a function."
        )
    return name.rpartition("<locals>.")[2]


def is_document(value: Any) -> bool:
    """Return whether a value is a document, not numbers: text, bytes, a path or an image."""
    return isinstance(value, (str, bytes, os.PathLike)) or hasattr(value, "convert")
