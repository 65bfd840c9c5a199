"""``fastembed:MODEL``: text through a model of fastembed, on ONNX Runtime."""

from __future__ import annotations

from onlinehash.embedders.embedder import Function
from onlinehash.exceptions import InvalidInputError, MissingExtraError


def make(model: str) -> Function:
    """Return the ``embed`` of a model."""
    if not model:
        raise InvalidInputError("Name the model: 'fastembed:BAAI/bge-small-en-v1.5'.")
    try:
        from fastembed import TextEmbedding
    except ImportError as error:
        raise MissingExtraError.of("fastembed", "fastembed") from error
    loaded = TextEmbedding(model)
    return lambda texts: list(loaded.embed(texts))
