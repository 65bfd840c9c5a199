"""``torchvision:MODEL``: images through a pretrained network of torchvision, without its last layer."""

from __future__ import annotations

from onlinehash.embedders.embedder import Function
from onlinehash.embedders.images import embed_with
from onlinehash.exceptions import InvalidInputError, needs_extra


def make(model: str) -> Function:
    """Return a network without its classifier, with the transform of its weights."""
    if not model:
        raise InvalidInputError("Name the model: 'torchvision:resnet18'.")
    with needs_extra("torchvision", "torchvision"):
        import torch
        from torchvision import models
    weights = models.get_model_weights(model).DEFAULT
    network = models.get_model(model, weights=weights).eval()
    last = next(name for name in ("fc", "classifier", "head", "heads") if hasattr(network, name))
    setattr(network, last, torch.nn.Identity())
    return embed_with(network, weights.transforms())
