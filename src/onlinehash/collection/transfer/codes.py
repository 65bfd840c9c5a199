"""Codes for other programs: faiss, usearch, plain arrays. The encoder goes beside them, to encode queries with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import whole_file, write_bytes
from onlinehash.collection.types import Id
from onlinehash.encoders import Encoder
from onlinehash.exceptions import MissingExtraError
from onlinehash.types import Codes


def write_faiss(path: Path, ids: Sequence[Id], codes: Codes, encoder: Encoder) -> None:
    """Write an ``IndexBinaryIDMap`` over an ``IndexBinaryFlat``, as ``faiss.read_index_binary`` reads it.

    faiss takes whole bytes: the bits that fill up the last one are zero, and no distance changes.
    """
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError.of("faiss", "faiss") from error
    flat = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index = faiss.IndexBinaryIDMap(flat)
    index.add_with_ids(codes, _ids(path, ids, lowest=-(1 << 63)))
    write_bytes(path, faiss.serialize_index_binary(index).tobytes())


def write_usearch(path: Path, ids: Sequence[Id], codes: Codes, encoder: Encoder) -> None:
    """Write a graph over the bits by Hamming distance, as ``usearch.index.Index.restore`` reads it."""
    try:
        from usearch.index import Index
    except ImportError as error:
        raise MissingExtraError.of("usearch", "usearch") from error
    index = Index(ndim=encoder.n_bits, metric="hamming", dtype="b1")
    index.add(_ids(path, ids, lowest=0).astype(np.uint64), codes, threads=1)  # threads would make it another each time
    write_bytes(path, bytes(index.save() or b""))


def write_npz(path: Path, ids: Sequence[Id], codes: Codes, encoder: Encoder) -> None:
    """Write arrays ``ids``, ``codes`` (packed), ``n_bits`` and ``version``."""
    with whole_file(path) as file:
        np.savez(file, ids=np.array(ids), codes=codes, n_bits=encoder.n_bits, version=encoder.version)


WRITERS = {".faiss": write_faiss, ".usearch": write_usearch, ".npz": write_npz}


def _ids(path: Path, ids: Sequence[Id], *, lowest: int) -> NDArray[np.int64]:
    """Return integer ids as they are; others as positions, with the ids by line in a file beside."""
    beside = path.with_name(f"{path.stem}.ids.jsonl")
    numbers = [id for id in ids if isinstance(id, int)]
    if numbers and min(numbers) >= lowest:
        beside.unlink(missing_ok=True)  # of an earlier export
        return np.array(numbers, np.int64)
    write_bytes(beside, "".join(f"{json.dumps(id)}\n" for id in ids).encode())
    return np.arange(len(ids))


def write_encoder(path: Path, encoder: Encoder) -> None:
    """Write the encoder beside its codes."""
    encoder.save(path.with_name(f"{path.stem}.encoder.oh"))
