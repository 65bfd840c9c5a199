"""Our files on disk: named arrays and a header, in the safetensors format, never a pickle.

The header says what the file holds and which version of that layout, so that a foreign or newer file is refused by
name. A file is written aside and moved into place whole.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from onlinehash.exceptions import DataNotFoundError, FileFormatError

Arrays = dict[str, NDArray[Any]]
Source = str | os.PathLike[str] | bytes
"""Where to read from: a path, or the bytes of a file."""


def pack_arrays(kind: str, layout: int, header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Return arrays and a JSON header as the bytes of a file."""
    from safetensors.numpy import save

    text = json.dumps({"kind": kind, "layout": layout, **header})
    # A plain copy: safetensors writes the buffer as it lies in memory.
    content: bytes = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, {"onlinehash": text})
    return content


def write_arrays(
    path: str | os.PathLike[str], kind: str, layout: int, header: Mapping[str, Any], arrays: Arrays
) -> None:
    """Write arrays and a JSON header to ``path``, whole or not at all."""
    write_bytes(path, pack_arrays(kind, layout, header, arrays))


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write the bytes of a file to ``path``, whole or not at all."""
    with whole_file(Path(path)) as file:
        file.write(content)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Give a file to write to, which takes its place at the end; if anything fails, what was there stays."""
    aside = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        with aside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def read_header(source: Source, *kinds: str) -> dict[str, Any]:
    """Return the header of a file of one of the given kinds."""
    header = _open(source)[0]
    _check_kind(source, header, *kinds)
    return header


def read_arrays(source: Source, kind: str, layout: int, *, mmap: bool = False) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a file of the given kind; with ``mmap`` the arrays stay on disk."""
    header, tensors, start = _open(source)
    _check_kind(source, header, kind)
    if header["layout"] > layout:
        raise FileFormatError(
            f"{name_of(source)} has layout {header['layout']} of {_article(kind)}; this version reads up to {layout}. "
            "Upgrade onlinehash."
        )
    arrays: Arrays = {}
    for name, entry in tensors.items():
        dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
        if 0 in shape:
            arrays[name] = np.empty(shape, dtype)
            continue
        offset = start + entry["data_offsets"][0]
        if isinstance(source, bytes):
            arrays[name] = np.ndarray(shape, dtype, source, offset).copy()
            continue
        mapped = np.memmap(source, dtype, mode="r", offset=offset, shape=shape)
        arrays[name] = mapped if mmap else np.array(mapped)
    return header, arrays


_DTYPES = {
    "F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip


def name_of(source: Source) -> str:
    """Return what an error calls the source."""
    return "The stored state" if isinstance(source, bytes) else str(source)


def _open(source: Source) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Return our header, the table of tensors and where their bytes start, checked against the size of the file."""
    if not isinstance(source, bytes) and not Path(source).is_file():
        raise DataNotFoundError(f"There is no file {source}.")
    try:
        with io.BytesIO(source) if isinstance(source, bytes) else Path(source).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            length = int.from_bytes(file.read(8), "little")
            if length > size - 8:
                raise ValueError("too short")
            tensors = json.loads(file.read(length))
        header = json.loads(tensors.pop("__metadata__")["onlinehash"])
        ends = [entry["data_offsets"][1] for entry in tensors.values()]
        if 8 + length + max(ends, default=0) != size:
            raise ValueError("too short")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{name_of(source)} is damaged, or not a file that onlinehash wrote.") from error
    return header, tensors, 8 + length


def _check_kind(source: Source, header: dict[str, Any], *kinds: str) -> None:
    if header["kind"] not in kinds:
        raise FileFormatError(
            f"{name_of(source)} holds {_article(header['kind'])}, not {' or '.join(map(_article, kinds))}."
        )


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeio" else f"a {kind}"
