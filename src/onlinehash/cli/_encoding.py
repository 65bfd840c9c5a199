"""Saved models, and the codes that they make of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import read_header
from onlinehash.cli._arrays import as_codes, read_array
from onlinehash.cli._chunks import by_chunks
from onlinehash.cli._screen import progress_bar
from onlinehash.codes import code_width
from onlinehash.encoders import Encoder
from onlinehash.types import Codes


def load_encoder(path: Path) -> Encoder:
    """Read an encoder, or freeze a saved hasher."""
    if read_header(path, "encoder", "hasher")["kind"] == "encoder":
        return Encoder.load(path)
    from onlinehash.hashers import load_hasher

    return load_hasher(path).snapshot()


def encode_rows(encoder: Encoder, X: NDArray[Any], source: Path | str) -> Codes:
    """Return the codes of X, with a progress bar."""
    with progress_bar("Encoding") as progress:
        return np.concatenate(by_chunks(X, lambda rows: encoder.encode(X[rows]), progress, source))


def read_codes(path: Path, encoder: Encoder | None = None) -> Codes:
    """Read packed codes, or features that the encoder takes."""
    if encoder is None:
        return as_codes(read_array(path, "codes"), path)
    array = read_array(path, "X", "codes")
    is_code = array.ndim == 2 and array.shape[1] == code_width(encoder.n_bits) != encoder.n_features
    return as_codes(array, path) if is_code else encode_rows(encoder, array, path)
