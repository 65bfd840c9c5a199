"""``wordllama``: text through the token embeddings of WordLlama, whose weights come with the package."""

from __future__ import annotations

from pathlib import Path

from onlinehash.embedders.embedder import Function
from onlinehash.exceptions import InvalidInputError, needs_extra

_WIDTHS = (64, 128, 256)


def make(model: str = "") -> Function:
    """Return the mean of token embeddings, of unit length; ``model`` is its width, 256 if empty."""
    if model and model not in map(str, _WIDTHS):
        raise InvalidInputError(f"'wordllama:{model}' has no width of {_WIDTHS}; use 'wordllama:128'.")
    with needs_extra("wordllama", "wordllama"):
        import wordllama
    weights = Path(wordllama.__file__).parent  # with the tokenizer: nothing is downloaded
    loaded = wordllama.WordLlama.load(cache_dir=weights, trunc_dim=int(model) if model else None, disable_download=True)
    return lambda texts: loaded.embed(texts, norm=True)
