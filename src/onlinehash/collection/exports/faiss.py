"""An ``IndexBinaryIDMap`` over an ``IndexBinaryFlat``, as ``faiss.read_index_binary`` reads it."""

from __future__ import annotations

from pathlib import Path

from onlinehash._files import write_bytes
from onlinehash.collection.exports import Coded
from onlinehash.exceptions import MissingExtraError


def write(path: Path, coded: Coded) -> None:
    """Write the index."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError.of("faiss", "faiss") from error
    flat = faiss.IndexBinaryFlat(8 * coded.codes.shape[1])
    index = faiss.IndexBinaryIDMap(flat)
    index.add_with_ids(coded.codes, coded.integers(path, lowest=-(1 << 63)))
    write_bytes(path, faiss.serialize_index_binary(index).tobytes())
