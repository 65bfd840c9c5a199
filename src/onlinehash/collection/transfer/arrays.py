"""NumPy files: ``.npy`` with others beside it, and ``.npz`` archives, neither read nor written whole.

Features, ids and labels are arrays. Labels where some items have several or none, and payloads, are JSON lines.
"""

from __future__ import annotations

import io
import json
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import whole_file
from onlinehash.collection.transfer.chunks import Chunk, Columns, Layout, Sheet
from onlinehash.exceptions import DataNotFoundError, FileFormatError

PLACE = "row"
_SPOOLED = 1 << 24  # bytes of payloads in memory; more go to a temporary file
_CUSTOMARY = {"vectors": "X", "labels": "y"}  # in NumPy files; in a table these may be coordinates
_BESIDE = {"id": ("ids.npy",), "labels": ("labels.npy", "labels.jsonl"), "payload": ("payload.jsonl",)}


class _Part(Protocol):
    """One column; ``length`` is None if it is not known before the end."""

    length: int | None

    def take(self, n: int) -> Any:
        """Return the next n rows, or fewer at the end."""


class _Mapped:
    """An array, in memory or on disk."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array, self._at = array, 0
        self.length: int | None = len(array)

    def take(self, n: int) -> NDArray[Any]:
        """Return the next n rows."""
        rows = self._array[self._at : self._at + n]
        self._at += len(rows)
        return rows


class _Streamed:
    """An array inside an archive, read from its beginning to its end."""

    def __init__(self, file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._file, self._shape, self._dtype = file, shape[1:], dtype
        self._row_size = int(np.prod(shape[1:], dtype=int)) * dtype.itemsize
        self.length: int | None = shape[0]

    def take(self, n: int) -> NDArray[Any]:
        """Return the next n rows."""
        content = self._file.read(n * self._row_size)
        if len(content) < n * self._row_size:
            raise EOFError
        return np.frombuffer(content, self._dtype).reshape(n, *self._shape)


class _Lines:
    """JSON lines."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._lines, self._name = enumerate(file, 1), name
        self.length: int | None = None

    def take(self, n: int) -> list[Any]:
        """Return what the next n lines say."""
        values = []
        for place, line in islice(self._lines, n):
            try:
                values.append(json.loads(line))
            except ValueError as error:
                raise FileFormatError(f"{self._name}, line {place}: not JSON: {error}.") from error
        return values


def read(path: Path, columns: Columns, batch: int) -> Iterator[Chunk]:
    """Yield the rows of a file."""
    with ExitStack() as stack:
        try:
            parts = (_beside if path.suffix.lower() == ".npy" else _inside)(path, columns, stack)
            yield from _chunks(path, parts, batch)
        except (EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise _damaged(path) from error


def _chunks(path: Path, parts: dict[str, _Part], batch: int) -> Iterator[Chunk]:
    total = parts["vectors"].length or 0
    for role, part in parts.items():
        if part.length not in (None, total):
            raise FileFormatError(f"{path} has {total} vectors, but {part.length} rows of {role}; one a vector.")
    for start in range(0, total, batch):
        n = min(batch, total - start)
        columns = {role: part.take(n) for role, part in parts.items()}
        for role, some in columns.items():
            if len(some) != n:
                raise FileFormatError(f"{path} has {total} vectors, but {start + len(some)} rows of {role}.")
        ids, labels, payload = (
            columns[role].tolist() if isinstance(columns.get(role), np.ndarray) else columns.get(role)
            for role in ("id", "labels", "payload")
        )
        yield Chunk(columns["vectors"], ids, labels, payload, range(start + 1, start + n + 1), start + n, total)


def _beside(path: Path, columns: Columns, stack: ExitStack) -> dict[str, _Part]:
    """Return the parts of an .npy file and of those beside it; names of columns are paths."""
    parts: dict[str, _Part] = {"vectors": _open_array(path)}
    for role, endings in _BESIDE.items():
        given = getattr(columns, role)
        usual = [path.with_name(f"{path.stem}.{ending}") for ending in endings]
        file = Path(given) if given is not None else next((file for file in usual if file.is_file()), None)
        if file is None:
            continue
        if not file.is_file():
            raise DataNotFoundError(f"There is no file {file}.")
        is_array = file.suffix.lower() == ".npy"
        parts[role] = _open_array(file) if is_array else _Lines(stack.enter_context(file.open("rb")), str(file))
    return parts


def _open_array(path: Path) -> _Part:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise _damaged(path) from error
    if not isinstance(array, np.ndarray) or not array.ndim:
        raise FileFormatError(f"{path} holds no array with a row an item.")
    return _Mapped(array)


def _inside(path: Path, columns: Columns, stack: ExitStack) -> dict[str, _Part]:
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
            parts[role] = _Lines(file, f"{path}, {members[name]}")
        else:
            parts[role] = _stream(file, path)
    return parts


def layout(path: Path, columns: Columns) -> Layout | None:
    """Return which arrays of an archive are what; an .npy file has no names."""
    if path.suffix.lower() == ".npy":
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            return _layout(path, columns, list(_members(archive)))
    except zipfile.BadZipFile as error:
        raise _damaged(path) from error


def _members(archive: zipfile.ZipFile) -> dict[str, str]:
    return {name.removesuffix(".npy").removesuffix(".jsonl"): name for name in archive.namelist()}


def _layout(path: Path, columns: Columns, names: list[str]) -> Layout:
    customary: dict[str, Any] = {
        role: name
        for role, name in _CUSTOMARY.items()
        if name in names and getattr(columns, role) is None and not columns.usual(role, names)
    }
    found = replace(columns, **customary).layout(path, names, numbers=())
    if len(found.vectors) != 1:
        raise FileFormatError(f"{path} has no array 'vectors', but {', '.join(names) or 'none'}.")
    return found


def _stream(file: IO[bytes], path: Path) -> _Part:
    try:
        version = np.lib.format.read_magic(file)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, by_column, dtype = read_header(file)
    except (KeyError, ValueError) as error:
        raise _damaged(path) from error
    if dtype.hasobject or not shape:
        raise _damaged(path)
    if by_column and len(shape) > 1:  # rows lie apart: there is no reading one after the other
        whole = _Streamed(file, shape[::-1], dtype).take(shape[-1])
        return _Mapped(whole.T)
    return _Streamed(file, shape, dtype)


def _damaged(path: Path) -> FileFormatError:
    return FileFormatError(
        f"{path} is damaged, or holds Python objects (a pickle), which are never read; write it with numpy from arrays "
        "of numbers or of text, with a row an item."
    )


# ---------------------------------------------------------------------- writing


def write(path: Path, sheet: Sheet) -> None:
    """Write features to an .npy file and the rest to files beside it, or all to one .npz archive."""
    with SpooledTemporaryFile(_SPOOLED) as payloads:
        if path.suffix.lower() == ".npz":
            with whole_file(path) as file, zipfile.ZipFile(file, "w") as archive:
                with archive.open("features.npy", "w", force_zip64=True) as member:
                    rest = _write_features(member, sheet, payloads)
                for name, content in rest.items():
                    with archive.open(name, "w", force_zip64=True) as member:
                        shutil.copyfileobj(content, member)
            return
        with whole_file(path) as file:
            rest = _write_features(file, sheet, payloads)
        for name in (name for names in _BESIDE.values() for name in names):
            beside = path.with_name(f"{path.stem}.{name}")
            if name in rest:
                with whole_file(beside) as file:
                    shutil.copyfileobj(rest[name], file)
            else:
                beside.unlink(missing_ok=True)  # of an earlier export: it would be read with this one


def _write_features(file: IO[bytes], sheet: Sheet, payloads: IO[bytes]) -> dict[str, IO[bytes]]:
    """Write the features, and return what else there is, by name."""
    shape = (sheet.n_items, sheet.n_features)
    header = {"descr": np.lib.format.dtype_to_descr(sheet.dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    ids: list[Any] = []
    labels: list[str | None] = []
    has_payload = False
    for rows in sheet:
        file.write(np.ascontiguousarray(rows.vectors, sheet.dtype).tobytes())
        ids += rows.ids
        labels += rows.labels
        has_payload = has_payload or any(text is not None for text in rows.payloads)
        payloads.writelines(f"{text or 'null'}\n".encode() for text in rows.payloads)
    rest = {"ids.npy": _as_npy(ids)}
    if all(text is not None and not text.startswith("[") for text in labels):
        rest["labels.npy"] = _as_npy([json.loads(text or "null") for text in labels])
    elif any(text is not None for text in labels):
        rest["labels.jsonl"] = io.BytesIO("".join(f"{text or 'null'}\n" for text in labels).encode())
    if has_payload:
        payloads.seek(0)
        rest["payload.jsonl"] = payloads
    return rest


def _as_npy(values: list[Any]) -> IO[bytes]:
    content = io.BytesIO()
    np.save(content, np.array(values))
    content.seek(0)
    return content
