"""Small grey pictures as PNG, written without an imaging library."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode

import numpy as np
from numpy.typing import NDArray

_GREY = (8, 0, 0, 0, 0)  # bits per pixel, grey, and the only compression, filter and order that there are


def data_url(pixels: NDArray[np.floating]) -> str:
    """Return pixels between 0 and 1 as a PNG in a data URL.

    Examples
    --------
    >>> data_url(np.zeros((8, 8)))[:30]
    'data:image/png;base64,iVBORw0K'
    """
    grey = np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    height, width = grey.shape
    rows = b"".join(b"\0" + row.tobytes() for row in grey)  # each behind the number of its filter: none
    content = (
        _chunk(b"IHDR", struct.pack(">II5B", width, height, *_GREY)),
        _chunk(b"IDAT", zlib.compress(rows)),
        _chunk(b"IEND", b""),
    )
    return "data:image/png;base64," + b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(content)).decode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
