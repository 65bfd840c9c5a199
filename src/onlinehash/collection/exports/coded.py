"""Coded: ids, their codes, and the encoder that made them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import write_bytes
from onlinehash.collection.types import Id
from onlinehash.encoders import Encoder
from onlinehash.types import Codes


class Coded(NamedTuple):
    """Ids, their packed codes, and the encoder that made them."""

    ids: list[Id]
    codes: Codes
    encoder: Encoder

    def integers(self, path: Path, *, lowest: int) -> NDArray[np.int64]:
        """Return integer ids as they are; others as positions, with the ids by line in a file beside ``path``."""
        beside = path.with_name(f"{path.stem}.ids.jsonl")
        numbers = [id for id in self.ids if isinstance(id, int)]
        if numbers and min(numbers) >= lowest:
            beside.unlink(missing_ok=True)  # of an earlier export
            return np.array(numbers, np.int64)
        write_bytes(beside, "".join(f"{json.dumps(id)}\n" for id in self.ids).encode())
        return np.arange(len(self.ids))

    def about(self) -> dict[str, str]:
        """Return what describes the codes, as text."""
        encoder = self.encoder
        return {"n_bits": str(encoder.n_bits), "version": str(encoder.version), "method": encoder.method}
