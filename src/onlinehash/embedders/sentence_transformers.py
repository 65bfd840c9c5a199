"""``sentence-transformers:MODEL``: text through a model of sentence-transformers."""

from __future__ import annotations

from onlinehash.embedders.embedder import Function
from onlinehash.exceptions import InvalidInputError, needs_extra


def make(model: str) -> Function:
    """Return the ``encode`` of a model, with vectors of unit length."""
    if not model:
        raise InvalidInputError("Name the model: 'sentence-transformers:all-MiniLM-L6-v2'.")
    with needs_extra("sentence-transformers", "sentence-transformers"):
        from sentence_transformers import SentenceTransformer
    loaded = SentenceTransformer(model)
    return lambda texts: loaded.encode(texts, normalize_embeddings=True, show_progress_bar=False)
