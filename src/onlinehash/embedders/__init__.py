"""Embedders: from documents (text, images, anything) to vectors.

A collection that is opened with ``embed=`` takes documents. An embedder is a name of this registry, a callable, an
object with ``transform`` (scikit-learn) or ``encode`` (sentence-transformers), or an :class:`Embedder`. Register your
own with :func:`register_embedder`.

Examples
--------
>>> embed = make_embedder("char_ngrams")
>>> embed(["Where is my card?", "where is my card"]).shape
(2, 1024)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onlinehash.embedders import models
from onlinehash.embedders.embedder import Embedder, Function, is_document, name_of
from onlinehash.exceptions import InvalidInputError, MissingExtraError, UnknownNameError

# By kind: what takes the part of a name behind the colon, and an example of that part where it is needed.
_KINDS: dict[str, tuple[Callable[[str], Function], str]] = {
    "char_ngrams": (models.char_ngrams, ""),
    "fastembed": (models.fastembed, "BAAI/bge-small-en-v1.5"),
    "onnx": (models.onnx, "model.onnx"),
    "sentence-transformers": (models.sentence_transformers, "all-MiniLM-L6-v2"),
    "timm": (models.timm, "mobilenetv3_small_100"),
    "torchvision": (models.torchvision, "resnet18"),
    "wordllama": (models.wordllama, ""),
}
_OF_IMAGES = ("onnx", "timm", "torchvision")
_own: dict[str, Callable[[str], Function]] = {}


def make_embedder(name: str) -> Embedder:
    """Make an embedder by its name.

    Parameters
    ----------
    name : str
        ``"char_ngrams"`` and ``"wordllama"`` need no download. Others are a kind and a model:
        ``"sentence-transformers:all-MiniLM-L6-v2"``,
        ``"fastembed:BAAI/bge-small-en-v1.5"``, ``"timm:mobilenetv3_small_100"``, ``"torchvision:resnet18"``,
        ``"onnx:model.onnx"``. Weights are downloaded by these libraries where they are not on this machine yet.

    Examples
    --------
    >>> make_embedder("char_ngrams:256").name
    'char_ngrams:256'
    """
    kind, _, model = str(name).partition(":")
    if kind in _own:
        return Embedder(name, _own[kind](model))
    if kind not in _KINDS:
        raise UnknownNameError.among("embedder", kind, known_embedders())
    make, example = _KINDS[kind]
    if example and not model:
        raise InvalidInputError(f"Name the model: '{kind}:{example}'.")
    try:
        made = make(model)
    except ModuleNotFoundError as error:
        raise MissingExtraError.of(error.name or kind, kind) from error
    return Embedder(name, made, "image" if kind in _OF_IMAGES else "text")


def documents_of(name: str) -> str | None:
    """Return what the embedder of a name takes, "text" or "image"; None if there is none of that name.

    Examples
    --------
    >>> documents_of("torchvision:resnet18"), documents_of("mine")
    ('image', None)
    """
    kind = name.partition(":")[0]
    return "image" if kind in _OF_IMAGES else "text" if kind in known_embedders() else None


def names_model(name: str) -> bool:
    """Return whether the name of an embedder ends in a model, which is loaded from a file or downloaded.

    Examples
    --------
    >>> names_model("torchvision:resnet18"), names_model("char_ngrams:256"), names_model("mine")
    (True, False, False)
    """
    return bool(_KINDS.get(name.partition(":")[0], (None, ""))[1])


def register_embedder(kind: str, make: Callable[[str], Function]) -> None:
    """Register an embedder of your own, so that collections find it by its name, in this process.

    Parameters
    ----------
    kind : str
        The name up to a colon.
    make : callable
        ``make(model)`` gets what follows the colon, "" if nothing does, and returns ``f(documents) -> vectors``.

    Examples
    --------
    >>> register_embedder("lengths", lambda model: lambda texts: [[len(text)] for text in texts])
    >>> make_embedder("lengths")(["cat"])
    array([[3.]], dtype=float32)
    >>> del _own["lengths"]
    """
    if not isinstance(kind, str) or not kind or ":" in kind:
        raise InvalidInputError(f"kind={kind!r} is no name for embedders; use text without a colon.")
    if kind in _KINDS:
        raise InvalidInputError(f"The name {kind!r} is taken; choose another.")
    _own[kind] = make


def known_embedders() -> list[str]:
    """Return the kinds of embedders that have a name.

    Examples
    --------
    >>> "char_ngrams" in known_embedders()
    True
    """
    return sorted(_KINDS.keys() | _own.keys())


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
    "documents_of",
    "is_document",
    "known_embedders",
    "make_embedder",
    "register_embedder",
]
