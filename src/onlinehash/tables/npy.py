"""NumPy files: an ``.npy`` file of vectors, with others beside it, and ``.npz`` archives; never pickles.

An ``.npy`` file stays on disk, an archive is read into memory. In an archive, what an array cannot hold is JSON lines:
payloads, labels where some rows have several or none, and text that ends in a NUL, which NumPy drops.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from onlinehash._internal.files import whole_file
from onlinehash._internal.validation import check_targets
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidLabelsError
from onlinehash.tables.columns import Chunk, Columns, Layout

_CUSTOMARY = {"vectors": ("X", "codes"), "labels": ("y",)}  # in archives; in a table these may be coordinates
_BAD_FILE = (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error, TypeError)  # the last: no archive


def read(path: Path, columns: Columns, batch_size: int) -> Iterator[Chunk]:
    """Yield the rows of a file."""
    if columns.documents is not None:
        raise FileFormatError(f"{path} holds arrays; documents come in .csv, .jsonl, .parquet and .arrow files.")
    if path.suffix.lower() == ".npy":
        parts = {role: _array(file) for role, file in files_beside(path, columns).items()}
    else:
        parts = _members(path, columns)
    if parts["vectors"].ndim != 2:
        raise FileFormatError(
            f"{path} has vectors of shape {parts['vectors'].shape}; use a 2D array, one row per vector."
        )
    total = len(parts["vectors"])
    for role, part in parts.items():
        if len(part) != total:
            raise FileFormatError(f"{path} has {total} vectors, but {len(part)} rows of {role}; one per vector.")
    for start in range(0, total, batch_size):
        done = min(start + batch_size, total)
        found: dict[str, Any] = {role: part[start:done] for role, part in parts.items()}
        if isinstance(labels := found.get("labels"), np.ndarray):
            found["labels"] = _rows_of_labels(labels, path)
        if isinstance(ids := found.get("id"), np.ndarray):
            found["id"] = ids.tolist()
        ids, labels, payloads = (found.get(role) for role in ("id", "labels", "payload"))
        yield Chunk(ids, np.array(found["vectors"]), labels, payloads, range(start + 1, done + 1), done, total)


def files_beside(path: Path, columns: Columns) -> dict[str, Path]:
    """Return the files of an .npy file, by role; names of columns are paths."""
    files = {"vectors": path}
    for role, name in (("id", "ids"), ("labels", "labels")):
        given, usual = getattr(columns, role), path.with_name(f"{path.stem}.{name}.npy")
        if given is not None or usual.is_file():
            files[role] = usual if given is None else Path(given)
    for file in files.values():
        if not file.is_file():
            raise DataNotFoundError(f"There is no file {file}.")
    return files


def _array(path: Path) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except _BAD_FILE as error:
        raise _damaged(path) from error
    if not isinstance(array, np.ndarray) or not array.ndim:
        raise FileFormatError(f"{path} is not an array with one row per item; an .npz archive needs that extension.")
    return array


def _members(path: Path, columns: Columns) -> dict[str, Any]:
    """Return the arrays and lists of an .npz archive, by role."""
    found = layout(path, columns)
    assert found is not None
    roles = {found.id: "id", found.labels: "labels", found.payload: "payload", found.vectors[0]: "vectors"}
    parts: dict[str, Any] = {}
    try:
        with np.load(path) as archive:
            for member in archive.files:
                if role := roles.get(member.removesuffix(".jsonl")):
                    part = archive[member]
                    parts[role] = [json.loads(line) for line in part.splitlines()] if type(part) is bytes else part
    except _BAD_FILE as error:
        raise _damaged(path) from error
    for role, part in parts.items():
        if isinstance(part, np.ndarray) and not part.ndim:
            raise FileFormatError(f"{path} has a single value as {role}, not one per item.")
    return parts


def layout(path: Path, columns: Columns) -> Layout | None:
    """Return the role of each array of an archive; None for an .npy file, which has no names."""
    if path.suffix.lower() == ".npy":
        return None
    try:
        with np.load(path) as archive:
            names = [name.removesuffix(".jsonl") for name in archive.files]
    except _BAD_FILE as error:
        raise _damaged(path) from error
    customary = {
        role: name
        for role, usual in _CUSTOMARY.items()
        for name in reversed(usual)
        if name in names and name not in columns.ignore
    }
    found = columns.layout(path, names, numbers=(), customary=customary)
    if len(found.vectors) != 1:
        raise FileFormatError(f"{path} has no array 'vectors', but {', '.join(names) or 'none'}.")
    return found


def _rows_of_labels(array: NDArray[Any], path: Path) -> list[Any]:
    """Return one label per row, or the labels of every row of a 0/1 indicator matrix: 0, 1, 2, ... by column."""
    if array.ndim == 1 or array.shape[1:] == (1,):
        return list(array.ravel().tolist())
    try:
        targets, _ = check_targets(array, len(array))
    except InvalidLabelsError as error:
        raise FileFormatError(
            f"{path} has labels of shape {array.shape}; use one value per row, or a matrix of 0 and 1 with one column "
            "per label."
        ) from error
    return [list(labels) for labels in targets]


def _damaged(path: Path) -> FileFormatError:
    return FileFormatError(
        f"{path} is damaged, or holds Python objects (a pickle), which are never read; write it with numpy from arrays "
        "of numbers or of text, with one row per item."
    )


def write(path: Path, first: Chunk, chunks: Iterable[Chunk], n_rows: int, label_type: str) -> None:
    """Write an .npz archive; all but the vectors is kept in memory until it is written."""
    if path.suffix.lower() == ".npy":
        raise FileFormatError(f"{path} can hold vectors only; write an .npz archive, which holds ids and labels too.")
    dtype, n_features = first.vectors.dtype, first.vectors.shape[1]
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": (n_rows, n_features)}
    rest: dict[str, list[Any]] = {"ids": [], "labels": [], "payload": []}
    with whole_file(path) as file, zipfile.ZipFile(file, "w") as archive:
        with archive.open("vectors.npy", "w", force_zip64=True) as member:
            npy.write_array_header_1_0(member, header)
            for chunk in chunks:
                member.write(np.ascontiguousarray(chunk.vectors, dtype).tobytes())
                for name, some in (("ids", chunk.ids), ("labels", chunk.labels), ("payload", chunk.payloads)):
                    rest[name] += some or ()
        for name, values in rest.items():
            if name != "payload" and all(isinstance(one, int | str) and str(one)[-1:] != "\0" for one in values):
                content = io.BytesIO()
                np.save(content, np.array(values))
                archive.writestr(f"{name}.npy", content.getvalue())
            elif any(value is not None for value in values):
                archive.writestr(f"{name}.jsonl", "".join(f"{json.dumps(value)}\n" for value in values))
