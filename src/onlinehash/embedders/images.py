"""Images from paths, bytes, arrays or Pillow, and as the arrays that networks take."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError, needs_extra

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, to which most networks are used
_MARGIN = 0.875  # share of the shorter side that is kept


def open_image(document: Any) -> Any:
    """Return a Pillow image in RGB: from one, from a path, from the bytes of a file, or from an array.

    Examples
    --------
    >>> open_image(np.zeros((4, 6), np.uint8)).size
    (6, 4)
    """
    with needs_extra("pillow", "onnx"):
        from PIL import Image, UnidentifiedImageError
    try:
        if isinstance(document, np.ndarray):
            return Image.fromarray(document).convert("RGB")
        if isinstance(document, bytes):
            return Image.open(io.BytesIO(document)).convert("RGB")
        if isinstance(document, (str, os.PathLike)):
            with Image.open(document) as image:
                return image.convert("RGB")
    except FileNotFoundError as error:
        raise DataNotFoundError(f"There is no image {os.fspath(document)!r}.") from error
    except (UnidentifiedImageError, OSError, TypeError) as error:
        raise FileFormatError(f"{str(document)[:80]!r} cannot be read as an image: {error}.") from error
    if hasattr(document, "convert"):
        return document.convert("RGB")
    raise InvalidInputError(f"{type(document).__name__} is no image; pass a path, bytes, an array or a Pillow image.")


def image_type(content: bytes) -> str | None:
    """Return the media type of an image by its first 12 bytes; None if it is none that browsers show.

    Examples
    --------
    >>> image_type(b"GIF89a..."), image_type(b"<svg/>")
    ('image/gif', None)
    """
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return "image/avif" if content[4:8] == b"ftyp" and content[8:12] in (b"avif", b"avis") else None


def image_array(document: Any, size: int) -> NDArray[np.float32]:
    """Return the middle of an image as an array of shape (3, size, size), normalised.

    Examples
    --------
    >>> image_array(np.full((40, 60, 3), 128, np.uint8), 8).mean(axis=(1, 2)).round(2)
    array([0.07, 0.21, 0.43], dtype=float32)
    """
    image = open_image(document)
    side = round(size / _MARGIN)
    scale = side / min(image.size)
    width, height = (max(side, round(length * scale)) for length in image.size)
    image = image.resize((width, height), resample=2)  # bilinear
    left, top = (width - size) // 2, (height - size) // 2
    pixels = np.asarray(image.crop((left, top, left + size, top + size)), np.float32) / 255
    return np.asarray(((pixels - np.array(_MEAN)) / np.array(_STD)).transpose(2, 0, 1), np.float32)


def pooled(outputs: Any) -> NDArray[np.float32]:
    """Return the outputs of a network as one row per image: the mean over places, where there are any.

    Examples
    --------
    >>> pooled(np.ones((2, 5, 7, 7))).shape
    (2, 5)
    """
    rows = np.asarray(outputs, np.float32)
    return rows.mean(axis=tuple(range(2, rows.ndim))) if rows.ndim > 2 else rows
