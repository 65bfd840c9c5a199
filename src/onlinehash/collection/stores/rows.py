"""What a store reads and writes: columns of items, the checksum of every row, and vectors as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from onlinehash.types import Codes

Seqs = NDArray[np.int64]
"""Sequence numbers of items: their places in the stream that the hasher learns from."""


class Head(NamedTuple):
    """Counters of a store, written by every transaction."""

    seq: int = 0  # of the last change
    n_items: int = 0
    n_unsaved: int = 0  # rows of the stream after the state of the hasher
    generation: int = 0  # of the codes in use; 0 before the first
    n_changes: int = 0  # transactions
    n_settings: int = 0
    n_learned: int = 0  # version of the hasher


class ItemColumns(NamedTuple):
    """Which items there are: one entry per item and column, labels as JSON."""

    seqs: Seqs = np.empty(0, np.int64)
    ids: Sequence[Any] = ()
    labels: Sequence[str | None] = ()


@dataclass(frozen=True, eq=False)
class StreamRows:
    """Rows of the stream, in order: what a hasher learns from and an encoder encodes."""

    seqs: Seqs
    vectors: NDArray[Any]
    labels: Sequence[str | None]

    def __len__(self) -> int:
        return len(self.seqs)


class CodeColumns(NamedTuple):
    """Codes of a generation; those of items that are gone may be among them."""

    seqs: Seqs = np.empty(0, np.int64)
    codes: Codes = np.empty((0, 0), np.uint8)


class Changes(NamedTuple):
    """What happened after a sequence number: items that came and are still there, and those that went."""

    items: ItemColumns = ItemColumns()
    codes: CodeColumns = CodeColumns()
    gone: Seqs = np.empty(0, np.int64)


def checksum(*fields: object, content: Any = b"") -> int:
    """Return the CRC-32 of the fields of a row, the large one as bytes; -1 if that is something else.

    Examples
    --------
    >>> checksum(7, "cat") == checksum(7, "cat"), checksum(7, "cat") == checksum(77, "at")
    (True, False)
    """
    if not isinstance(content, (bytes, memoryview)):
        return -1
    return crc32(content, crc32("\x1f".join(map(str, fields)).encode()))


def to_blobs(vectors: NDArray[Any]) -> list[bytes]:
    """Return the bytes of each row, little-endian.

    Examples
    --------
    >>> [blob.hex() for blob in to_blobs(np.array([[1.0], [-2.0]], np.float16))]
    ['003c', '00c0']
    """
    rows = np.ascontiguousarray(vectors, vectors.dtype.newbyteorder("<"))
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


def columns(rows: Sequence[tuple[Any, ...]], n_columns: int) -> list[list[Any]]:
    """Return rows column by column, also if there are none."""
    return [[row[i] for row in rows] for i in range(n_columns)]
