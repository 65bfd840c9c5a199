"""Arrays of NumPy: ``ids``, ``codes``, ``n_bits``, ``version``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onlinehash._files import whole_file
from onlinehash.collection.exports import Coded


def write(path: Path, coded: Coded) -> None:
    """Write the arrays."""
    encoder = coded.encoder
    with whole_file(path) as file:
        np.savez(file, ids=np.array(coded.ids), codes=coded.codes, n_bits=encoder.n_bits, version=encoder.version)
