"""Features as bytes, little-endian, a row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_blobs(rows: NDArray[Any]) -> list[bytes]:
    """Return the bytes of each row.

    Examples
    --------
    >>> [blob.hex() for blob in to_blobs(np.array([[1.0], [-2.0]], np.float16))]
    ['003c', '00c0']
    """
    rows = np.ascontiguousarray(rows, rows.dtype.newbyteorder("<"))
    blobs: list[bytes] = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0].tolist()
    return blobs


def from_blobs(blobs: Sequence[bytes], dtype: str) -> NDArray[Any]:
    """Return the rows of which these are the bytes.

    Examples
    --------
    >>> from_blobs([bytes.fromhex("003c"), bytes.fromhex("00c0")], "float16")
    array([[ 1.],
           [-2.]], dtype=float16)
    """
    content = np.frombuffer(b"".join(blobs), np.dtype(dtype).newbyteorder("<"))
    return content.reshape(len(blobs), -1 if blobs else 0)
