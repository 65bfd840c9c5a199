"""NumPy files: ``.npy`` with others beside it, and ``.npz`` archives; read and written in parts, never from pickles.

Vectors, ids and labels are arrays. What an array cannot hold is JSON lines: payloads, labels where some rows have
several or none, and text that ends in a NUL, which NumPy drops.
"""

from __future__ import annotations

import io
import json
import math
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from itertools import islice
from pathlib import Path
from tempfile import SpooledTemporaryFile
from tokenize import TokenError
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from onlinehash._files import whole_file
from onlinehash.exceptions import DataNotFoundError, FileFormatError
from onlinehash.tables.columns import Columns, Layout
from onlinehash.tables.rows import Chunk, Sheet

_SPOOLED = 1 << 24  # bytes of payloads in memory; more go to a temporary file
_CUSTOMARY = {"vectors": "X", "labels": "y"}  # in NumPy files; in a table these may be coordinates
_BESIDE = {"id": ("ids.npy", "ids.jsonl"), "labels": ("labels.npy", "labels.jsonl"), "payload": ("payload.jsonl",)}
_BAD_HEADER = (
    ValueError, TypeError, KeyError, IndexError, SyntaxError, TokenError, OverflowError, RecursionError
)  # fmt: skip


class _Part(NamedTuple):
    """One column: its number of rows, None if not known before the end, and its batches."""

    n_rows: int | None
    batches: Iterator[Any]


def read(path: Path, columns: Columns, batch_size: int) -> Iterator[Chunk]:
    """Yield the rows of a file."""
    with ExitStack() as stack:
        try:
            open_parts = _beside if path.suffix.lower() == ".npy" else _inside
            yield from _chunks(path, open_parts(path, columns, batch_size, stack), batch_size)
        except (EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise _damaged(path) from error


def _chunks(path: Path, parts: dict[str, _Part], batch_size: int) -> Iterator[Chunk]:
    total = parts["vectors"].n_rows or 0
    for role, part in parts.items():
        if part.n_rows not in (None, total):
            raise FileFormatError(f"{path} has {total} vectors, but {part.n_rows} rows of {role}; one per vector.")
    for start in range(0, total, batch_size):
        n_rows = min(batch_size, total - start)
        found: dict[str, Any] = {role: next(part.batches, []) for role, part in parts.items()}
        for role, some in found.items():
            if len(some) != n_rows:
                raise FileFormatError(f"{path} has {total} vectors, but {start + len(some)} rows of {role}.")
        if isinstance(labels := found.get("labels"), np.ndarray):
            found["labels"] = rows_of_labels(labels, path)
        ids, labels, payloads = (
            some.tolist() if isinstance(some := found.get(role), np.ndarray) else some for role in _BESIDE
        )
        done = start + n_rows
        yield Chunk(ids, found["vectors"], labels, payloads, range(start + 1, done + 1), done, total)


def _beside(path: Path, columns: Columns, batch_size: int, stack: ExitStack) -> dict[str, _Part]:
    """Return the parts of an .npy file and of those beside it; names of columns are paths."""
    parts = {"vectors": _batches(read_array(path), batch_size, path)}
    for role, endings in _BESIDE.items():
        given = getattr(columns, role)
        usual = [path.with_name(f"{path.stem}.{ending}") for ending in endings]
        file = Path(given) if given is not None else next((file for file in usual if file.is_file()), None)
        if file is None:
            continue
        if not file.is_file():
            raise DataNotFoundError(f"There is no file {file}.")
        if file.suffix.lower() == ".npy":
            parts[role] = _batches(read_array(file), batch_size, file)
        else:
            parts[role] = _lines(stack.enter_context(file.open("rb")), str(file), batch_size)
    return parts


def _inside(path: Path, columns: Columns, batch_size: int, stack: ExitStack) -> dict[str, _Part]:
    """Return the parts of an .npz archive."""
    archive = stack.enter_context(zipfile.ZipFile(path))
    members = _members(archive)
    found = _layout(path, columns, list(members))
    parts: dict[str, _Part] = {}
    roles = {"vectors": found.vectors[0], "id": found.id, "labels": found.labels, "payload": found.payload}
    for role, name in roles.items():
        if name is None:
            continue
        file = stack.enter_context(archive.open(members[name]))
        if members[name].endswith(".jsonl"):
            parts[role] = _lines(file, f"{path}, {members[name]}", batch_size)
        else:
            parts[role] = _streamed(file, path, batch_size)
    return parts


def _batches(array: NDArray[Any], batch_size: int, path: Path) -> _Part:
    if not array.ndim:
        raise FileFormatError(f"{path} holds a single value, not an array with one row per item.")
    return _Part(len(array), (array[start : start + batch_size] for start in range(0, len(array), batch_size)))


def _streamed(file: IO[bytes], path: Path, batch_size: int) -> _Part:
    """Return an array inside an archive, read from its beginning to its end."""
    try:
        shape, by_column, dtype = _read_header(file)
    except FileFormatError as error:
        raise _damaged(path) from error
    if not shape:
        raise _damaged(path)
    if by_column and len(shape) > 1:  # rows lie apart: they cannot be read one after the other
        return _batches(_take(file, shape[::-1], dtype).T, batch_size, path)
    sizes = (min(batch_size, shape[0] - start) for start in range(0, shape[0], batch_size))
    return _Part(shape[0], (_take(file, (size, *shape[1:]), dtype) for size in sizes))


def _take(file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    n_bytes = math.prod(shape) * dtype.itemsize
    content = file.read(n_bytes)
    if len(content) < n_bytes:
        raise EOFError
    return np.frombuffer(content, dtype).reshape(shape)


def _lines(file: IO[bytes], name: str, batch_size: int) -> _Part:
    def batches() -> Iterator[list[Any]]:
        lines = enumerate(file, 1)
        while some := list(islice(lines, batch_size)):
            values = []
            for place, line in some:
                try:
                    values.append(json.loads(line))
                except ValueError as error:
                    raise FileFormatError(f"{name}, line {place}: not JSON: {error}.") from error
            yield values

    return _Part(None, batches())


def layout(path: Path, columns: Columns) -> Layout | None:
    """Return the role of each array of an archive; None for an .npy file, which has no names."""
    return None if path.suffix.lower() == ".npy" else _layout(path, columns, names_in(path))


def _layout(path: Path, columns: Columns, names: list[str]) -> Layout:
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


def read_array(path: Path, name: str = "") -> NDArray[Any]:
    """Return the array of an .npy file, which stays on disk, or the one of this name in an .npz archive."""
    try:
        if not name:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            with np.load(path, allow_pickle=False) as archive:
                array = archive[name]
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _damaged(path) from error
    if not isinstance(array, np.ndarray):
        raise FileFormatError(f"{path} is an .npz archive; give it that extension.")
    return array


def rows_of_labels(array: NDArray[Any], path: Path) -> NDArray[Any] | list[list[int]]:
    """Return one label per row, or the labels of every row of a 0/1 indicator matrix: 0, 1, 2, ... by column."""
    if array.ndim == 1 or array.shape[1:] == (1,):
        return array.ravel()
    if array.ndim != 2 or array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise FileFormatError(
            f"{path} has labels of shape {array.shape}; use one value per row, or a matrix of 0 and 1 with one column "
            "per label."
        )
    return [np.flatnonzero(row).tolist() for row in array]


def parse_array(content: bytes) -> NDArray[Any]:
    """Return the array in the bytes of an .npy file: numbers, or records of them and of text, never objects."""
    file = io.BytesIO(content)
    shape, by_column, dtype = _read_header(file)
    n_bytes = len(content) - file.tell()
    if min(shape, default=1) < 1 or math.prod(shape) * dtype.itemsize != n_bytes:
        raise FileFormatError(f"shape {shape} of {dtype} does not fit {n_bytes} bytes")
    try:
        return np.frombuffer(content, dtype, offset=file.tell()).reshape(shape, order="F" if by_column else "C")
    except _BAD_HEADER as error:
        raise FileFormatError(str(error)) from error


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether columns come first, and dtype."""
    try:
        major = npy.read_magic(file)[0]
        shape, by_column, dtype = {1: npy.read_array_header_1_0, 2: npy.read_array_header_2_0}[major](file)
    except _BAD_HEADER as error:
        raise FileFormatError(str(error)) from error
    if dtype.hasobject:
        raise FileFormatError("it holds Python objects")
    return shape, by_column, dtype


def _damaged(path: Path) -> FileFormatError:
    return FileFormatError(
        f"{path} is damaged, or holds Python objects (a pickle), which are never read; write it with numpy from arrays "
        "of numbers or of text, with one row per item."
    )


def write(path: Path, sheet: Sheet) -> None:
    """Write vectors to an .npy file and the rest to files beside it, or all to one .npz archive."""
    if path.suffix.lower() == ".npz":
        with whole_file(path) as file, zipfile.ZipFile(file, "w") as archive:
            _write_parts(sheet, lambda name: archive.open(name, "w", force_zip64=True))
        return
    beside = {name: path.with_name(f"{path.stem}.{name}") for names in _BESIDE.values() for name in names}
    written = _write_parts(sheet, lambda name: whole_file(beside.get(name, path)))
    for name in beside.keys() - written:
        beside[name].unlink(missing_ok=True)  # of an earlier export: it would be read with this one


def _write_parts(sheet: Sheet, open_part: Callable[[str], AbstractContextManager[IO[bytes]]]) -> set[str]:
    """Write the vectors, then what else there is, and return the names of these other parts."""
    dtype, n_features = sheet.first.vectors.dtype, sheet.first.vectors.shape[1]
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": (sheet.n_rows, n_features)}
    ids: list[Any] = []
    labels: list[Any] = []
    has_payload = False
    with SpooledTemporaryFile(_SPOOLED) as payloads:
        with open_part("vectors.npy") as file:
            npy.write_array_header_1_0(file, header)
            for chunk in sheet.chunks:
                file.write(np.ascontiguousarray(chunk.vectors, dtype).tobytes())
                ids += chunk.ids or ()
                labels += chunk.labels or ()
                has_payload = has_payload or any(payload is not None for payload in chunk.payloads or ())
                payloads.writelines(f"{json.dumps(payload)}\n".encode() for payload in chunk.payloads or ())
        rest = _as_file("ids", ids)
        if any(label is not None for label in labels):
            rest |= _as_file("labels", labels)
        if has_payload:
            rest["payload.jsonl"] = payloads
        for name, content in rest.items():
            content.seek(0)
            with open_part(name) as file:
                shutil.copyfileobj(content, file)
    return set(rest)


def _as_file(name: str, values: list[Any]) -> dict[str, IO[bytes]]:
    """Return a column as an array if that holds its values, else as JSON lines, by the name of the file."""
    if not all(isinstance(value, int) or (isinstance(value, str) and value[-1:] != "\0") for value in values):
        return {f"{name}.jsonl": io.BytesIO("".join(f"{json.dumps(value)}\n" for value in values).encode())}
    content = io.BytesIO()
    np.save(content, np.array(values))
    return {f"{name}.npy": content}
