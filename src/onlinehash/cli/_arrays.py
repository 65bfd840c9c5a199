"""Vectors, labels, codes and ids from files of every kind, never from pickles; and the codes that saved models make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from onlinehash import tables
from onlinehash._internal.files import kind_of
from onlinehash.cli._files import check_inputs, is_standard, name_of, open_input, refuse_other_kinds
from onlinehash.cli._screen import note, progress_bar
from onlinehash.codes import code_width, pack_bits
from onlinehash.encoders import Encoder
from onlinehash.exceptions import FileFormatError, InvalidCodesError, InvalidFeaturesError
from onlinehash.tables import Columns
from onlinehash.tables.columns import USUAL
from onlinehash.tables.npy import names_in, read_array, rows_of_labels
from onlinehash.tables.text import read_column as read_column_of_text
from onlinehash.types import Codes, Progress

Result = TypeVar("Result")

_TABLES = (".csv", ".jsonl", ".parquet", ".arrow")
ROWS = (".npy", ".npz", *_TABLES, ".bits")
COLUMNS = (".npy", ".npz", ".csv", ".txt")
_VALUES_PER_CHUNK = 1 << 21
_HEADERS = {"labels": ("label", "labels", "y", "class", "target", "category"), "ids": USUAL["id"]}


class Given(NamedTuple):
    """What a file holds: one row per item, and ids and labels where there are any; and its codes, if asked for."""

    X: Any
    ids: Any = None
    labels: Any = None
    codes: Any = None

    @property
    def n_items(self) -> int:
        """The number of rows."""
        return len(self.X if self.codes is None else self.codes)


def check_files(known: tuple[str, ...], *paths: Path | None) -> None:
    """Raise, before any work is done, if a file is missing or has another extension."""
    for path in paths:
        if path is not None and not is_standard(path):
            _suffix_of(path, *known)


def read_rows(path: Path, columns: Columns | None = None, *names: str) -> Given:
    """Read vectors or codes; those of an .npy file stay on disk, so that it may be larger than memory.

    An .npz file may hold them under one of the ``names``, best first; an only array needs no name.
    """
    columns = columns or Columns()
    with open_input(path) as file:
        suffix = _suffix_of(file, *ROWS)
        if suffix == ".bits":
            return Given(_read_bits(file))
        if suffix == ".npy":
            array = read_array(file)
            return Given(array if file is path else np.array(array))
        if suffix == ".npz":
            columns = replace(columns, vectors=_name_in(file, names or ("X", *USUAL["vectors"])))
        with progress_bar("Reading") as progress:
            rows = tables.read_all(file, columns, progress=progress)
        if suffix in _TABLES:
            note(f"{name_of(path)}: {tables.layout(file, columns)}")
        return Given(rows.vectors, rows.ids, as_labels(rows.labels))


def read_column(path: Path, role: str) -> Any:
    """Read one value per row: .npy, the array of .npz, a column of .csv, or the lines of a .txt file.

    Labels may be an indicator matrix; they are then one list per row.
    """
    with open_input(path) as file:
        suffix = _suffix_of(file, *COLUMNS)
        if suffix in (".npy", ".npz"):
            array = np.array(read_array(file, _name_in(file, _HEADERS[role]) if suffix == ".npz" else ""))
            if role == "labels" and array.ndim:
                return rows_of_labels(array, file)
            if array.ndim != 1 and array.shape[1:] != (1,):
                raise FileFormatError(f"{file} has shape {array.shape}; {role} are one value per row.")
            return array.ravel()
        return np.array(read_column_of_text(file, role, _HEADERS[role]))


def check_vectors(X: NDArray[Any], source: Path | str) -> None:
    """Refuse what is no table of numbers, by the name of its file."""
    if X.ndim != 2:
        raise InvalidFeaturesError(f"{source} has shape {X.shape}; vectors are a 2D array, one row per vector.")
    if 0 in X.shape:
        raise InvalidFeaturesError(f"{source} has no {'columns' if len(X) else 'rows'}: its shape is {X.shape}.")
    if X.dtype.kind not in "fiub":
        raise InvalidFeaturesError(f"{source} holds {X.dtype}; vectors are real numbers.")


def as_codes(array: NDArray[Any], path: Path) -> Codes:
    """Return packed codes as they are, and those of a text file as bytes; anything else is refused."""
    if array.dtype == np.uint8:
        return array
    is_text = path.suffix.lower() not in (".npy", ".npz")
    if is_text and array.dtype.kind in "fiu" and ((array >= 0) & (array <= 255) & (array % 1 == 0)).all():
        return array.astype(np.uint8)
    raise InvalidCodesError(
        f"{path} holds {array.dtype} numbers, but packed codes are bytes (uint8). If these are vectors, give --model."
    )


def as_labels(values: Any) -> Any:
    """Return labels as an array where all are integers or all are text; lists of labels and gaps stay as they are."""
    if isinstance(values, list) and {type(value) for value in values} in ({int}, {str}):
        return np.array(values)
    return values


def read_encoder(path: Path) -> Encoder:
    """Read an encoder, or that of a saved hasher."""
    check_inputs(path)
    refuse_other_kinds(path, "encoder", "hasher")
    if kind_of(path) == "encoder":
        return Encoder.load(path)
    from onlinehash.hashers import load_encoder

    return load_encoder(path)


def encode_rows(encoder: Encoder, X: NDArray[Any], source: Path | str) -> Codes:
    """Return the codes of X, with a progress bar."""
    with progress_bar("Encoding") as progress:
        return np.concatenate(by_chunks(X, lambda rows: encoder.encode(X[rows]), progress, source))


def read_items(path: Path, encoder: Encoder | None, columns: Columns) -> Given:
    """Read packed codes, without X; or vectors that the encoder takes, whose codes :func:`with_codes` adds."""
    names = ("codes",) if encoder is None else ("X", "features", "vectors", "vector", "codes")
    given = read_rows(path, columns, *names)
    X = given.X
    if X.ndim != 2:
        raise FileFormatError(f"{name_of(path)} has shape {X.shape}; it should be 2D, one row per item.")
    if encoder is None or X.shape[1] == code_width(encoder.n_bits) != encoder.n_features:
        return given._replace(X=None, codes=as_codes(X, path))
    return given


def with_codes(given: Given, encoder: Encoder | None, path: Path) -> Given:
    """Return items with their codes; vectors are encoded."""
    if given.codes is not None or encoder is None:
        return given
    return given._replace(codes=encode_rows(encoder, given.X, name_of(path)))


def by_chunks(X: NDArray[Any], work: Callable[[slice], Result], progress: Progress, source: Path | str) -> list[Result]:
    """Return ``work(rows)`` for one run of rows of X after another; an error about X names its source."""
    check_vectors(X, source)
    step = max(1, _VALUES_PER_CHUNK // X.shape[1])
    results = []
    for start in range(0, len(X), step):
        try:
            results.append(work(slice(start, start + step)))
        except InvalidFeaturesError as error:
            where = f"{source}, counted from row {start}" if start else str(source)
            raise InvalidFeaturesError(f"{where}: {error}") from error
        progress(min(start + step, len(X)), len(X))
    return results


def _suffix_of(path: Path, *known: str) -> str:
    check_inputs(path)
    refuse_other_kinds(path)
    suffix = path.suffix.lower()
    if suffix not in known:
        raise FileFormatError(f"{path} has the extension {suffix!r}; use one of {', '.join(known)}.")
    return suffix


def _name_in(path: Path, names: tuple[str, ...]) -> str:
    """Return the first of the names that an .npz file has, or that of its only array."""
    present = names_in(path)
    name = next((name for name in names if name in present), present[0] if len(present) == 1 else None)
    if name is None:
        raise FileFormatError(f"{path} holds no array {' or '.join(names)}, but {', '.join(present) or 'nothing'}.")
    return name


def _read_bits(path: Path) -> Codes:
    lines = path.read_text("ascii", errors="replace").split()
    if not lines or len(set(map(len, lines))) > 1 or set("".join(lines)) - {"0", "1"}:
        raise FileFormatError(f"{path} is not a text of codes: lines of 0 and 1, all of one length.")
    return pack_bits([list(map(int, line)) for line in lines])
