"""``timm:MODEL``: images through a pretrained network of timm, pooled."""

from __future__ import annotations

from onlinehash.embedders.embedder import Function
from onlinehash.embedders.images import embed_with
from onlinehash.exceptions import InvalidInputError, needs_extra


def make(model: str) -> Function:
    """Return a network without its classifier, with the transform it was trained with."""
    if not model:
        raise InvalidInputError("Name the model: 'timm:mobilenetv3_small_100'.")
    with needs_extra("timm", "timm"):
        import timm
    network = timm.create_model(model, pretrained=True, num_classes=0).eval()
    return embed_with(network, timm.data.create_transform(**timm.data.resolve_data_config({}, model=network)))
