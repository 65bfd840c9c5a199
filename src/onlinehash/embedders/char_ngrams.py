"""``char_ngrams``: hashed counts of the character n-grams of a text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.exceptions import InvalidInputError

N_FEATURES = 1024


def char_ngrams(model: str) -> CharNgrams:
    """Return the embedder; ``model`` is the number of features, 1024 if empty."""
    if model and not (model.isdecimal() and int(model)):
        raise InvalidInputError(f"'char_ngrams:{model}' has no number of features; use 'char_ngrams:2048'.")
    return CharNgrams(int(model or N_FEATURES))


class CharNgrams:
    """Count the character n-grams of words, 2 to 4 characters long, in buckets chosen by a hash function.

    It needs no download, learns nothing and gives the same vectors on every machine, so text search can be tried at
    once. It knows spelling, not meaning: "card" is near "cards" and far from "Visa". A hasher that learns from labels
    makes up for some of that; a sentence embedding model makes up for most of it.

    Parameters
    ----------
    n_features : int, default=1024
        Number of buckets. Vectors have unit length.

    Examples
    --------
    >>> vectors = CharNgrams()(["card stolen", "my card was stolen", "stolen cards", "weather"])
    >>> (vectors[1:] @ vectors[0]).round(1)
    array([0.8, 0.9, 0. ], dtype=float32)
    """

    def __init__(self, n_features: int = N_FEATURES) -> None:
        from sklearn.feature_extraction.text import HashingVectorizer

        self._counts = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), n_features=n_features)

    def __call__(self, texts: list[Any]) -> NDArray[np.float32]:
        """Return the vectors of texts."""
        for text in texts:
            if not isinstance(text, str):
                raise InvalidInputError(f"char_ngrams embeds text, not {type(text).__name__}; pass str.")
        rows: NDArray[np.float32] = self._counts.transform(texts).toarray().astype(np.float32)
        return rows
