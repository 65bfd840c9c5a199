"""NumPy files: ``.npy`` with others beside it, and ``.npz`` archives of the same files; never pickles.

Vectors, ids and labels are arrays, which stay on disk. What an array cannot hold is JSON lines: payloads, labels where
some rows have several or none, and text that ends in a NUL, which NumPy drops.
"""

from __future__ import annotations

import io
import json
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile, mkdtemp
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from onlinehash._internal.files import whole_file
from onlinehash._internal.validation import check_targets
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidLabelsError
from onlinehash.tables.columns import Chunk, Columns, Layout

_CUSTOMARY = {"vectors": "X", "labels": "y"}  # in NumPy files; in a table these may be coordinates
_BESIDE = {"id": ("ids.npy", "ids.jsonl"), "labels": ("labels.npy", "labels.jsonl"), "payload": ("payload.jsonl",)}
_BAD_FILE = (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error)


def read(path: Path, columns: Columns, batch_size: int) -> Iterator[Chunk]:
    """Yield the rows of a file; an archive is unpacked to a temporary folder."""
    if columns.documents is not None:
        raise FileFormatError(f"{path} holds arrays; documents come in .csv, .jsonl, .parquet and .arrow files.")
    folder = mkdtemp()
    try:
        files = _unpacked(path, columns, Path(folder)) if path.suffix.lower() == ".npz" else files_beside(path, columns)
        parts: dict[str, Any] = {role: _part(file, path) for role, file in files.items()}
        total = len(parts["vectors"])
        for role, part in parts.items():
            if isinstance(part, np.ndarray) and len(part) != total:
                raise FileFormatError(f"{path} has {total} vectors, but {len(part)} rows of {role}; one per vector.")
        for start in range(0, total, batch_size):
            done = min(start + batch_size, total)
            found: dict[str, Any] = {
                role: part[start:done] if isinstance(part, np.ndarray) else list(islice(part, done - start))
                for role, part in parts.items()
            }
            for role, some in found.items():
                if len(some) != done - start:
                    raise FileFormatError(f"{path} has {total} vectors, but {start + len(some)} rows of {role}.")
            if isinstance(labels := found.get("labels"), np.ndarray):
                found["labels"] = rows_of_labels(labels, path)
            ids, labels, payloads = (
                some.tolist() if isinstance(some := found.get(role), np.ndarray) else some for role in _BESIDE
            )
            yield Chunk(ids, np.array(found["vectors"]), labels, payloads, range(start + 1, done + 1), done, total)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def files_beside(path: Path, columns: Columns) -> dict[str, Path]:
    """Return the files of an .npy file, by role; names of columns are paths."""
    files = {"vectors": path}
    for role, endings in _BESIDE.items():
        given = getattr(columns, role)
        usual = [path.with_name(f"{path.stem}.{ending}") for ending in endings]
        file = Path(given) if isinstance(given, str) else next((file for file in usual if file.is_file()), None)
        if file is not None:
            if not file.is_file():
                raise DataNotFoundError(f"There is no file {file}.")
            files[role] = file
    return files


def _unpacked(path: Path, columns: Columns, folder: Path) -> dict[str, Path]:
    """Return the files of an .npz archive, by role."""
    found = layout(path, columns)
    assert found is not None
    roles = {"vectors": found.vectors[0], "id": found.id, "labels": found.labels, "payload": found.payload}
    with zipfile.ZipFile(path) as archive:
        members = _members(archive)
        try:
            return {
                role: Path(archive.extract(members[name], folder))
                for role, name in roles.items()
                if isinstance(name, str)
            }
        except _BAD_FILE as error:
            raise _damaged(path) from error


def _part(file: Path, path: Path) -> NDArray[Any] | Iterator[Any]:
    """Return an array, or an iterator over JSON lines."""
    if file.suffix.lower() == ".npy":
        array = read_array(file, named=path)
        if not array.ndim:
            raise FileFormatError(f"{path} holds a single value, not an array with one row per item.")
        return array
    return _lines(file, path)


def _lines(file: Path, path: Path) -> Iterator[Any]:
    with file.open("rb") as lines:
        for place, line in enumerate(lines, 1):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise FileFormatError(f"{path}, {file.name}, line {place}: not JSON: {error}.") from error


def layout(path: Path, columns: Columns) -> Layout | None:
    """Return the role of each array of an archive; None for an .npy file, which has no names."""
    if path.suffix.lower() == ".npy":
        return None
    names = names_in(path)
    found = columns.layout(path, names, numbers=(), customary=_CUSTOMARY)
    if len(found.vectors) != 1:
        raise FileFormatError(f"{path} has no array 'vectors', but {', '.join(names) or 'none'}.")
    return found


def names_in(path: Path) -> list[str]:
    """Return the names of the arrays in an .npz archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            return list(_members(archive))
    except zipfile.BadZipFile as error:
        raise _damaged(path) from error


def _members(archive: zipfile.ZipFile) -> dict[str, str]:
    return {name.removesuffix(".npy").removesuffix(".jsonl"): name for name in archive.namelist()}


def read_array(path: Path, name: str = "", *, named: Path | None = None) -> NDArray[Any]:
    """Return the array of an .npy file, which stays on disk, or the one of this name in an .npz archive."""
    try:
        if not name:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            with np.load(path, allow_pickle=False) as archive:
                array = archive[name]
    except _BAD_FILE as error:
        raise _damaged(named or path) from error
    if not isinstance(array, np.ndarray):
        raise FileFormatError(f"{path} is an .npz archive; give it that extension.")
    return array


def rows_of_labels(array: NDArray[Any], path: Path) -> NDArray[Any] | list[list[int]]:
    """Return one label per row, or the labels of every row of a 0/1 indicator matrix: 0, 1, 2, ... by column."""
    if array.ndim == 1 or array.shape[1:] == (1,):
        return array.ravel()
    try:
        targets, _ = check_targets(array, len(array))
    except InvalidLabelsError as error:
        raise FileFormatError(
            f"{path} has labels of shape {array.shape}; use one value per row, or a matrix of 0 and 1 with one column "
            "per label."
        ) from error
    return [list(labels) for labels in targets]  # type: ignore[arg-type]


def _damaged(path: Path) -> FileFormatError:
    return FileFormatError(
        f"{path} is damaged, or holds Python objects (a pickle), which are never read; write it with numpy from arrays "
        "of numbers or of text, with one row per item."
    )


def write(path: Path, first: Chunk, chunks: Iterable[Chunk], n_rows: int, label_type: str) -> None:
    """Write vectors to an .npy file and the rest to files beside it, or all to one .npz archive."""
    if path.suffix.lower() == ".npz":
        with TemporaryDirectory() as folder, whole_file(path) as file, zipfile.ZipFile(file, "w") as archive:
            for name in _write_files(lambda name: Path(folder, name), first, chunks, n_rows):
                archive.write(Path(folder, name), name)
        return
    beside = {name: path.with_name(f"{path.stem}.{name}") for names in _BESIDE.values() for name in names}
    written = _write_files(lambda name: beside.get(name, path), first, chunks, n_rows)
    for name in beside.keys() - written:
        beside[name].unlink(missing_ok=True)  # of an earlier export: it would be read with this one


def _write_files(place: Callable[[str], Path], first: Chunk, chunks: Iterable[Chunk], n_rows: int) -> list[str]:
    """Write the vectors, then what else there is, and return the names of all."""
    dtype, n_features = first.vectors.dtype, first.vectors.shape[1]
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": (n_rows, n_features)}
    ids: list[Any] = []
    labels: list[Any] = []
    has_payload = False
    with TemporaryFile() as payloads:
        with whole_file(place("vectors.npy")) as file:
            npy.write_array_header_1_0(file, header)
            for chunk in chunks:
                file.write(np.ascontiguousarray(chunk.vectors, dtype).tobytes())
                ids += chunk.ids or ()
                labels += chunk.labels or ()
                has_payload = has_payload or any(payload is not None for payload in chunk.payloads or ())
                payloads.writelines(f"{json.dumps(payload)}\n".encode() for payload in chunk.payloads or ())
        rest: dict[str, Any] = _as_file("ids", ids)
        if any(label is not None for label in labels):
            rest |= _as_file("labels", labels)
        if has_payload:
            rest["payload.jsonl"] = payloads
        for name, content in rest.items():
            content.seek(0)
            with whole_file(place(name)) as file:
                shutil.copyfileobj(content, file)
    return ["vectors.npy", *rest]


def _as_file(name: str, values: list[Any]) -> dict[str, Any]:
    """Return a column as an array if that holds its values, else as JSON lines, by the name of the file."""
    if not all(isinstance(value, int) or (isinstance(value, str) and value[-1:] != "\0") for value in values):
        return {f"{name}.jsonl": io.BytesIO("".join(f"{json.dumps(value)}\n" for value in values).encode())}
    content = io.BytesIO()
    np.save(content, np.array(values))
    return {f"{name}.npy": content}
