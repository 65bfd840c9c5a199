"""A graph over the bits by Hamming distance, as ``usearch.index.Index.restore`` reads it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onlinehash._files import write_bytes
from onlinehash.collection.exports import Coded
from onlinehash.exceptions import MissingExtraError


def write(path: Path, coded: Coded) -> None:
    """Write the graph."""
    try:
        from usearch.index import Index
    except ImportError as error:
        raise MissingExtraError.of("usearch", "usearch") from error
    index = Index(ndim=coded.encoder.n_bits, metric="hamming", dtype="b1")
    numbers = coded.integers(path, lowest=0).astype(np.uint64)
    index.add(numbers, coded.codes, threads=1)  # with more threads the graph differs from run to run
    write_bytes(path, bytes(index.save() or b""))
