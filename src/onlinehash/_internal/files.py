"""Files on disk: named arrays and a header, in the safetensors format, never a pickle.

The header names the kind of the content and the version of its layout, so that other or newer files are refused. It
also holds a checksum of the whole file, which is verified before anything else is read, even if the file is
memory-mapped. A file is written under a temporary name and moved into place.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from onlinehash.exceptions import DataNotFoundError, FileFormatError, StorageError

Arrays = dict[str, NDArray[Any]]
Source = str | os.PathLike[str] | bytes
"""Where to read from: a path, or the bytes of a file."""

_COLLECTION = b"ohas"  # the application id, at byte 68, of an SQLite file that is a collection
_ENTRY = "onlinehash.2"  # under which the header is
_NO_CHECKSUM = "0" * 64  # placeholder of the checksum while it is computed
_LOADED_WITH = {
    "hasher": "load it with onlinehash.load_hasher",
    "encoder": "load it with onlinehash.Encoder.load",
    "collection": "open it with onlinehash.Collection.open",
    "index": "load it with the index's own load, such as onlinehash.FlatIndex.load",
}


def pack_arrays(kind: str, layout: int, header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Return arrays and a JSON header as the bytes of a file."""
    from safetensors.numpy import save

    text = json.dumps({"checksum": "", **header, "kind": kind, "layout": layout} | {"checksum": _NO_CHECKSUM})
    # A plain copy: safetensors writes the buffer as it lies in memory.
    content: bytes = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, {_ENTRY: text})
    place = content.index(_NO_CHECKSUM.encode())  # the first: metadata comes first, and the checksum first in it
    checksum, parts = hashlib.sha256(content).hexdigest(), memoryview(content)
    return b"".join([parts[:place], checksum.encode(), parts[place + len(checksum) :]])


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write the bytes of a file to ``path``, whole or not at all."""
    with whole_file(Path(path)) as file:
        file.write(content)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file that replaces ``path`` at the end; if anything fails, ``path`` is unchanged."""
    if not path.parent.is_dir():
        raise DataNotFoundError(f"There is no folder {path.parent} to write {path.name} to; make it first.")
    if path.is_dir():
        raise StorageError(f"{path} is a folder; name a file in it.")
    aside = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        opened = aside.open("wb")
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from error
    try:
        with opened as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """Return the kind of a file ("hasher", "encoder", "index" or "collection"); None for any other file.

    Only the head of the file is read; damage further on is not detected.
    """
    try:
        kind = _read_tables(path)[0]["kind"]
    except FileFormatError:
        return None
    return kind if kind in _LOADED_WITH else None


def wrong_kind(path: Source, kind: str, *wanted: str) -> str:
    """Return the error message about a file of the wrong kind."""
    way_out = f"; {_LOADED_WITH[kind]}" if kind in _LOADED_WITH else ""
    return f"{name_of(path)} holds {_article(kind)}, not {' or '.join(map(_article, wanted))}{way_out}."


def read_arrays(source: Source, kind: str, layout: int, *, mmap: bool = False) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a file of the given kind; with ``mmap`` the arrays stay on disk."""
    header, tensors, content, start = _read_tables(source)
    if header["kind"] == "collection":
        raise FileFormatError(wrong_kind(source, "collection", kind))
    stored = str(header["checksum"])
    digest = hashlib.sha256(content[:start].tobytes().replace(stored.encode(), _NO_CHECKSUM.encode(), 1))
    digest.update(content[start:].data)
    if digest.hexdigest() != stored:
        raise FileFormatError(
            f"{name_of(source)} is damaged: its checksum is wrong. Restore it from a copy, or learn again."
        )
    if header["kind"] != kind:
        raise FileFormatError(wrong_kind(source, header["kind"], kind))
    if header["layout"] > layout:
        raise FileFormatError(
            f"{name_of(source)} has layout {header['layout']} of {_article(kind)}; this version reads up to {layout}. "
            "Upgrade onlinehash."
        )
    arrays: Arrays = {}
    for name, entry in tensors.items():
        first, end = (start + offset for offset in entry["data_offsets"])
        array = content[first:end].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
        arrays[name] = array if mmap and not isinstance(source, bytes) else np.array(array)
    return header, arrays


@contextmanager
def complete(source: Source, kind: str) -> Iterator[None]:
    """Turn errors while a file is unpacked into a FileFormatError."""
    try:
        yield
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(
            f"{name_of(source)} does not hold a complete {kind} "
            f"({type(error).__name__}: {error}). Save it again, or learn again."
        ) from error


_DTYPES = {
    "F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip


def name_of(source: Source) -> str:
    """Return the name of a source for errors."""
    return "The stored state" if isinstance(source, bytes) else str(source)


def _read_tables(source: Source) -> tuple[dict[str, Any], dict[str, Any], NDArray[np.uint8], int]:
    """Return our header, the table of tensors, the file and where their bytes start in it, checked against its size.

    Of a collection, only its kind.
    """
    if not isinstance(source, bytes) and not Path(source).is_file():
        raise DataNotFoundError(f"There is no file {source}.")
    try:
        content: NDArray[np.uint8] = (
            np.frombuffer(source, np.uint8) if isinstance(source, bytes) else np.memmap(source, np.uint8, mode="r")
        )
        if content[:16].tobytes() == b"SQLite format 3\0" and content[68:72].tobytes() == _COLLECTION:
            return {"kind": "collection"}, {}, content, 0
        start = 8 + int.from_bytes(content[:8].tobytes(), "little")
        if start > len(content):
            raise ValueError("too short")
        tensors = json.loads(content[8:start].tobytes())
        header = json.loads(tensors.pop("__metadata__")[_ENTRY])
        ends = [entry["data_offsets"][1] for entry in tensors.values()]
        if start + max(ends, default=0) != len(content) or not {"checksum", "kind", "layout"} <= header.keys():
            raise ValueError("too short")
        return header, tensors, content, start
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise FileFormatError(f"{name_of(source)} is damaged, or not a file that onlinehash wrote.") from error


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeio" else f"a {kind}"
