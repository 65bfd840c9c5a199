"""Codes of a collection, with their ids, in the files of other programs: one format per module."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import write_bytes
from onlinehash.collection.collection import Collection
from onlinehash.collection.types import Id
from onlinehash.encoders import Encoder
from onlinehash.exceptions import FileFormatError, NotLearnedError
from onlinehash.types import Codes

FORMATS = {
    ".faiss": "faiss",
    ".usearch": "usearch",
    ".npz": "npz",
    ".parquet": "parquet",
    ".lance": "lance",
    ".sqlite": "sqlite_vec",
}
"""Names of the modules, by the ending of the path; the function ``write`` of each writes a file whole or not at all."""


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


def export_codes(collection: Collection, path: str | os.PathLike[str]) -> int:
    """Write the codes of a collection for another program, and return their number.

    The encoder that made them is written beside them: of ``a.faiss``, to ``a.encoder.oh``.

    Parameters
    ----------
    collection : Collection
    path : path
        Its ending names the format.

        - ``.faiss``: an ``IndexBinaryIDMap``.
        - ``.usearch``: a graph, by Hamming distance.
        - ``.npz``: arrays ``ids``, ``codes``, ``n_bits``, ``version``.
        - ``.parquet``: columns ``id`` and ``code``, of bytes.
        - ``.lance``: a table of LanceDB, whose database is the folder, with columns ``id`` and ``code``.
        - ``.sqlite``: a table ``codes`` of sqlite-vec, with columns ``id`` and ``code``.

        In faiss and usearch ids are integers. Strings (for usearch, also negative integers) are written to a file
        beside, ``a.ids.jsonl``, one id per line; ids are then positions from 0. Codes have whole bytes; the bits that
        fill up the last one are zero, and change no distance.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Collection.open(Path(folder, "pets.oh"), "hcoh") as pets:
    ...     pets.upsert([7, 9], [[1.0, 0.5], [-1.0, 0.5]], ["dog", "cat"])
    ...     export_codes(pets, Path(folder, "codes.npz"))
    ...     sorted(path.name for path in Path(folder).glob("codes*"))
    2
    ['codes.encoder.oh', 'codes.npz']
    """
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in FORMATS:
        raise FileFormatError(f"{path} has the extension {target.suffix!r}; use one of {', '.join(FORMATS)}.")
    ids, codes, encoder = collection.codes_and_encoder()
    if encoder is None or not ids:
        raise NotLearnedError("This collection has no codes yet; add items with labels first.")
    import_module(f"{__name__}.{FORMATS[ending]}").write(target, Coded(ids, codes, encoder))
    encoder.save(target.with_name(f"{target.stem}.encoder.oh"))
    return len(ids)
