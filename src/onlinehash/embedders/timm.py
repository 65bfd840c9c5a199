"""``timm:MODEL``: images through a pretrained network of timm, pooled."""

from __future__ import annotations

from typing import Any

from onlinehash.embedders.embedder import Function
from onlinehash.embedders.images import open_image, pooled
from onlinehash.exceptions import InvalidInputError, MissingExtraError


def make(model: str) -> Function:
    """Return a network without its classifier, with the transform it was trained with."""
    if not model:
        raise InvalidInputError("Name the model: 'timm:mobilenetv3_small_100'.")
    try:
        import timm
        import torch
    except ImportError as error:
        raise MissingExtraError.of("timm", "timm") from error
    network = timm.create_model(model, pretrained=True, num_classes=0).eval()
    transform = timm.data.create_transform(**timm.data.resolve_data_config({}, model=network))

    def embed(images: list[Any]) -> Any:
        with torch.inference_mode():
            return pooled(network(torch.stack([transform(open_image(image)) for image in images])).numpy())

    return embed
