"""Embedders of other libraries, each of which is imported when its embedder is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onlinehash.embedders.embedder import Function
from onlinehash.embedders.images import open_image, pooled
from onlinehash.exceptions import InvalidInputError

_WIDTHS = (64, 128, 256)


def fastembed(model: str) -> Function:
    """Return the function that embeds text with a model of fastembed, on ONNX Runtime."""
    from fastembed import TextEmbedding

    loaded = TextEmbedding(model)
    return lambda texts: list(loaded.embed(texts))


def sentence_transformers(model: str) -> Function:
    """Return the function that embeds text with a model of sentence-transformers, as vectors of unit length."""
    from sentence_transformers import SentenceTransformer

    loaded = SentenceTransformer(model)
    return lambda texts: loaded.encode(texts, normalize_embeddings=True, show_progress_bar=False)


def wordllama(model: str) -> Function:
    """Return the mean of WordLlama's token embeddings, of unit length; ``model`` is its width, 256 if empty."""
    if model and model not in map(str, _WIDTHS):
        raise InvalidInputError(f"'wordllama:{model}' has no width of {_WIDTHS}; use 'wordllama:128'.")
    import wordllama

    weights = Path(wordllama.__file__).parent  # with the tokenizer: nothing is downloaded
    loaded = wordllama.WordLlama.load(cache_dir=weights, trunc_dim=int(model) if model else None, disable_download=True)
    return lambda texts: loaded.embed(texts, norm=True)


def timm(model: str) -> Function:
    """Return a pretrained network of timm without its classifier, with the transform it was trained with."""
    import timm

    network = timm.create_model(model, pretrained=True, num_classes=0).eval()
    return _embed_with(network, timm.data.create_transform(**timm.data.resolve_data_config({}, model=network)))


def torchvision(model: str) -> Function:
    """Return a pretrained network of torchvision without its classifier, with the transform of its weights."""
    import torch
    from torchvision import models

    weights = models.get_model_weights(model).DEFAULT
    network = models.get_model(model, weights=weights).eval()
    last = next(name for name in ("fc", "classifier", "head", "heads") if hasattr(network, name))
    setattr(network, last, torch.nn.Identity())
    return _embed_with(network, weights.transforms())


def _embed_with(network: Any, transform: Any) -> Function:
    """Return the function that embeds images with a network of torch, after a transform."""
    import torch

    def embed(images: list[Any]) -> Any:
        with torch.inference_mode():
            return pooled(network(torch.stack([transform(open_image(image)) for image in images])).numpy())

    return embed
