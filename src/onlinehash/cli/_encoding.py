"""Saved models, and the codes that they make of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import read_header
from onlinehash.cli._arrays import as_codes, read_rows
from onlinehash.cli._chunks import by_chunks
from onlinehash.cli._files import name_of, refuse_other_kinds
from onlinehash.cli._screen import progress_bar
from onlinehash.codes import code_width
from onlinehash.encoders import Encoder
from onlinehash.tables import Columns
from onlinehash.types import Codes


class Side(NamedTuple):
    """The codes of a file, and the vectors that it held, if it was not codes already."""

    codes: Codes
    X: NDArray[Any] | None = None
    ids: Any = None
    labels: Any = None


def read_encoder(path: Path) -> Encoder:
    """Read an encoder, or that of a saved hasher."""
    refuse_other_kinds(path, "encoder", "hasher")
    if read_header(path, "encoder", "hasher")["kind"] == "encoder":
        return Encoder.load(path)
    from onlinehash.hashers import load_encoder

    return load_encoder(path)


def encode_rows(encoder: Encoder, X: NDArray[Any], source: Path | str) -> Codes:
    """Return the codes of X, with a progress bar."""
    with progress_bar("Encoding") as progress:
        return np.concatenate(by_chunks(X, lambda rows: encoder.encode(X[rows]), progress, source))


def read_side(path: Path, encoder: Encoder | None, columns: Columns | None = None) -> Side:
    """Read packed codes, or vectors that the encoder takes."""
    if encoder is None:
        X, ids, labels = read_rows(path, columns, "codes")
        return Side(as_codes(X, path), None, ids, labels)
    X, ids, labels = read_rows(path, columns, "X", "features", "vectors", "vector", "codes")
    is_code = X.ndim == 2 and X.shape[1] == code_width(encoder.n_bits) != encoder.n_features
    if is_code:
        return Side(as_codes(X, path), None, ids, labels)
    return Side(encode_rows(encoder, X, name_of(path)), X, ids, labels)
