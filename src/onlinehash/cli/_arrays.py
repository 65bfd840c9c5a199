"""Rows of files, and the codes that saved models make of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onlinehash import tables
from onlinehash._internal.files import kind_of
from onlinehash.cli._files import check_input
from onlinehash.cli._screen import note, progress_bar
from onlinehash.codes import code_width
from onlinehash.encoders import Encoder
from onlinehash.exceptions import FileFormatError, InvalidCodesError, NotLearnedError, located
from onlinehash.tables import Chunk, Columns
from onlinehash.tables.columns import concatenate
from onlinehash.types import Codes

if TYPE_CHECKING:
    from onlinehash.collection import Collection


def is_document(given: str, collection: Collection) -> bool:
    """Return whether this is a document that a collection embeds, not the name of a file of rows."""
    if collection.embedder is None or Path(given).suffix.lower() in tables.FORMATS:
        return False
    return collection.embeds == "image" or not os.path.exists(given)  # noqa: PTH110 (False if it is too long)


def read_chunks(path: Path, columns: Columns, title: str = "Reading") -> Iterator[Chunk]:
    """Return the rows of a file, to be read with a progress bar; at the end, the role of each column is printed."""
    return _shown(path, columns, tables.read(path, columns), title)


def _shown(path: Path, columns: Columns, chunks: Iterator[Chunk], title: str) -> Iterator[Chunk]:
    chunk = None
    with progress_bar(title) as progress:
        for chunk in chunks:
            yield chunk
            progress(chunk.done, chunk.total)
    if chunk is None:
        raise FileFormatError(f"{path} has no rows.")
    layout = tables.layout(path, columns)
    if layout is not None:
        note(f"{path}: {layout}")


def read_rows(path: Path, columns: Columns) -> Chunk:
    """Return all rows of a file."""
    return concatenate(list(read_chunks(path, columns))).typed()


def read_encoder(path: Path) -> Encoder:
    """Read an encoder, or that of a saved hasher or a collection."""
    check_input(path, "encoder", "hasher", "collection")
    if kind_of(path) == "collection":
        from onlinehash.collection import Collection

        with Collection.open(path, readonly=True) as collection:
            if collection.encoder is None:
                raise NotLearnedError(f"{path} has no encoder yet; add items with labels first.")
            return collection.encoder
    if kind_of(path) == "hasher":
        from onlinehash.hashers import load_encoder

        return load_encoder(path)
    return Encoder.load(path)


def codes_of(rows: Chunk, encoder: Encoder | None, path: Path) -> Codes:
    """Return packed codes, or those of vectors that are as wide as the encoder takes."""
    X = rows.vectors
    if encoder is None or X.shape[1:] == (code_width(encoder.n_bits),) != (encoder.n_features,):
        return _as_codes(X, path)
    with located(path):
        return encoder.encode(X)


def _as_codes(array: NDArray[Any], path: Path) -> Codes:
    """Return packed codes as they are, and those of a text file as bytes; anything else is refused."""
    if array.dtype == np.uint8:
        return array
    is_text = path.suffix.lower() not in (".npy", ".npz")
    if is_text and array.dtype.kind in "fiu" and ((array >= 0) & (array <= 255) & (array % 1 == 0)).all():
        return array.astype(np.uint8)
    raise InvalidCodesError(
        f"{path} holds {array.dtype} numbers, but packed codes are bytes (uint8). If these are vectors, give --model."
    )
