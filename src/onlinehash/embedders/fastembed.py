"""``fastembed:MODEL``: text through a model of fastembed, on ONNX Runtime."""

from __future__ import annotations

from onlinehash.embedders.embedder import Function
from onlinehash.exceptions import InvalidInputError, needs_extra


def make(model: str) -> Function:
    """Return the ``embed`` of a model."""
    if not model:
        raise InvalidInputError("Name the model: 'fastembed:BAAI/bge-small-en-v1.5'.")
    with needs_extra("fastembed", "fastembed"):
        from fastembed import TextEmbedding
    loaded = TextEmbedding(model)
    return lambda texts: list(loaded.embed(texts))
