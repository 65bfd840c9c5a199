"""``sentence-transformers:MODEL``: text through a model of sentence-transformers."""

from __future__ import annotations

from onlinehash.embedders.embedder import Function
from onlinehash.exceptions import InvalidInputError, MissingExtraError


def make(model: str) -> Function:
    """Return the ``encode`` of a model, with vectors of unit length."""
    if not model:
        raise InvalidInputError("Name the model: 'sentence-transformers:all-MiniLM-L6-v2'.")
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingExtraError.of("sentence-transformers", "sentence-transformers") from error
    loaded = SentenceTransformer(model)
    return lambda texts: loaded.encode(texts, normalize_embeddings=True, show_progress_bar=False)
