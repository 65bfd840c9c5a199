"""Small grey images drawn with block characters; each character is two pixels, one above the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

_LARGEST = 16
_BLOCKS = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}


def draw(image: NDArray[Any], *, grey: bool) -> list[Text]:
    """Return the lines of an image: in shades of grey if the terminal has colours, else in black and white.

    Examples
    --------
    >>> [line.plain for line in draw(np.array([[1.0, 0.0], [1.0, 1.0]]), grey=False)]
    ['█▄']
    """
    image = _shrink(image / max(float(image.max()), 1e-9))
    if len(image) % 2:
        image = np.vstack([image, np.zeros_like(image[:1])])
    lines = []
    for upper, lower in zip(image[::2], image[1::2], strict=True):
        line = Text()
        for top, bottom in zip(upper.tolist(), lower.tolist(), strict=True):
            if grey:
                line.append("▀", style=f"{_shade(top)} on {_shade(bottom)}")
            else:
                line.append(_BLOCKS[top > 0.4, bottom > 0.4])
        lines.append(line)
    return lines


def _shrink(image: NDArray[Any]) -> NDArray[Any]:
    """Average square blocks of pixels so that the image is small enough."""
    factor = -(-len(image) // _LARGEST)
    height, width = (side // factor for side in image.shape)
    blocks = image[: height * factor, : width * factor].reshape(height, factor, width, factor)
    return np.asarray(blocks.mean(axis=(1, 3)))


def _shade(value: float) -> str:
    level = round(255 * min(max(value, 0.0), 1.0))
    return f"#{level:02x}{level:02x}{level:02x}"
