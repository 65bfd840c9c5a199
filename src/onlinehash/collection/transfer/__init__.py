"""Items into a collection and out of it, and its codes into other programs: in chunks, so that memory is bounded.

The ending of the path says what a file is: ``.npy``, ``.npz``, ``.parquet``, ``.csv`` or ``.jsonl``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onlinehash._validation import check_positive_int
from onlinehash.collection import _validation as incoming
from onlinehash.collection.collection import Collection
from onlinehash.collection.stores.protocol import Rows, Store
from onlinehash.collection.transfer import arrays, codes, parquet, text
from onlinehash.collection.transfer.chunks import Chunk, Columns, Layout, Sheet
from onlinehash.exceptions import (
    DataNotFoundError,
    FileFormatError,
    InvalidInputError,
    NotLearnedError,
    OnlineHashError,
)
from onlinehash.types import Progress

_AT_A_TIME = 1 << 22  # bytes of features read at a time
_ROWS_AT_A_TIME = 10_000
_INTEGER = re.compile("-?(0|[1-9][0-9]*)")


class _Format(NamedTuple):
    """How a kind of file is read and written, and what a row of it is called."""

    layout: Callable[[Path, Columns], Layout | None]
    read: Callable[[Path, Columns, int], Iterator[Chunk]]
    write: Callable[[Path, Sheet], None]
    place: str


_FORMATS = {
    ".npy": _Format(arrays.layout, arrays.read, arrays.write, arrays.PLACE),
    ".npz": _Format(arrays.layout, arrays.read, arrays.write, arrays.PLACE),
    ".parquet": _Format(parquet.layout, parquet.read, parquet.write, parquet.PLACE),
    ".csv": _Format(text.csv_layout, text.read_csv, text.write_csv, text.PLACE),
    ".jsonl": _Format(text.jsonl_layout, text.read_jsonl, text.write_jsonl, text.PLACE),
}
ITEM_FILES, CODE_FILES = tuple(_FORMATS), tuple(codes.WRITERS)


def import_items(
    collection: Collection,
    path: str | os.PathLike[str],
    *,
    id: str | None = None,
    vectors: str | None = None,
    labels: str | None = None,
    payload: str | None = None,
    ignore: Sequence[str] = (),
    header: bool | None = None,
    first_id: int | None = None,
    batch: int = 1000,
    progress: Progress = lambda done, total: None,
) -> int:
    r"""Add the items of a file to a collection, as :meth:`Collection.add` does, and return how many there were.

    Each batch is applied whole or not at all. An error names the line or row, and says how many items are in by then.

    Parameters
    ----------
    collection : Collection
    path : path
        ``.npz``: arrays with one row per item. ``.parquet``: the vector is a list, or all columns of numbers that are
        nothing else. ``.csv``: the same, a list written as JSON. ``.jsonl``: one object per line. ``.npy``: the
        vectors, with the rest in files beside it: of ``a.npy``, ``a.ids.npy``, ``a.labels.npy`` and so on.
    id, labels, payload : str, optional
        Names of the columns, or for ``.npy`` paths of the files; a number where no column has it as its name (1 is the
        first column, -1 the last). By default "id", "ids", "_id", "key" or "keys"; "labels" or "label"; "payload";
        in an ``.npz`` file also "y". A payload that is text is read as JSON where it can be.
    vectors : str, optional
        Name of the column, or a pattern (``"f*"``) or range (``"x0:x383"``) of columns of numbers. By default
        "vectors", "features" or "embeddings", or the singular; in an ``.npz`` file also "X".
    ignore : sequence of str
        Columns to leave out: names, numbers, patterns or ranges.
    header : bool, optional
        Whether the first line of a CSV file names the columns. By default it does unless it is all numbers.
    first_id : int, optional
        Number the rows from here instead, where the file has no ids; needed if the collection has items already.
    batch : int, default=1000
        Items added at a time.
    progress : callable, optional
        Called as ``progress(done, total)``, in rows or bytes.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from onlinehash import HCOH
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "pets.csv").write_text("id,label,x,z\nrex,dog,1.0,0.5\ntom,cat,-1.0,0.5\n")
    ...     with Collection.open(Path(folder, "pets.oh"), HCOH(8, random_state=0)) as pets:
    ...         import_items(pets, Path(folder, "pets.csv")), pets.get("tom")[0].labels
    (2, 'cat')
    """
    columns = Columns(id, vectors, labels, payload, tuple(ignore), header)
    done = 0
    for chunk in add_chunks(collection, path, columns, first_id=first_id, batch=batch):
        done += len(chunk)
        progress(chunk.done, chunk.total)
    return done


def add_chunks(
    collection: Collection,
    path: str | os.PathLike[str],
    columns: Columns,
    *,
    first_id: int | None = None,
    batch: int = 1000,
) -> Iterator[Chunk]:
    """Add the items of a file as :func:`import_items` does, and yield each batch once it is stored."""
    check_positive_int("batch", batch)
    source, form = _open(path)
    done, number = 0, first_id
    try:
        for chunk in form.read(source, columns, batch):
            if chunk.ids is None:
                number = _first_id(collection, source) if number is None else number
                keyed = replace(chunk, ids=list(range(number, number + len(chunk))))
                number += len(chunk)
            elif first_id is None:
                keyed = chunk
            else:
                raise InvalidInputError(f"first_id={first_id}, but {source} has ids of its own; leave it out.")
            for part in _without_repeats(keyed):
                _add(collection, _typed(part, collection.id_type, collection.label_kind), source, form.place)
                done += len(part)
            yield keyed
    except OnlineHashError as error:
        said = f"The {done} items before were added and stay." if done else "Nothing was added."
        raise type(error)(f"{error} {said}") from error


def layout_of(path: str | os.PathLike[str], columns: Columns) -> Layout | None:
    r"""Return which columns of a file are what; None for an ``.npy`` file, which has none.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "pets.csv").write_text("id,label,x,z\nrex,dog,1.0,0.5\n")
    ...     print(layout_of(Path(folder, "pets.csv"), Columns()))
    id: id; labels: label; vectors: x, z; payload: none
    """
    source, form = _open(path)
    return form.layout(source, columns)


def read_items(
    path: str | os.PathLike[str], columns: Columns, *, progress: Progress = lambda done, total: None
) -> Chunk:
    """Read all rows of a file at once, as :func:`import_items` reads them in parts."""
    source, form = _open(path)
    chunks = []
    for chunk in form.read(source, columns, _ROWS_AT_A_TIME):
        chunks.append(chunk)
        progress(chunk.done, chunk.total)
    if not chunks:
        raise FileFormatError(f"{source} has no rows.")
    ids, labels, payload = (
        None
        if all(getattr(chunk, role) is None for chunk in chunks)
        else [value for chunk in chunks for value in getattr(chunk, role) or [None] * len(chunk)]
        for role in ("ids", "labels", "payload")
    )
    features = np.concatenate([chunk.vectors for chunk in chunks])
    places = [place for chunk in chunks for place in chunk.places]
    return _typed(replace(chunks[-1], vectors=features, ids=ids, labels=labels, payload=payload, places=places))


def _open(path: str | os.PathLike[str]) -> tuple[Path, _Format]:
    source = Path(path)
    if not source.is_file():
        what = f"{source} is a folder; name a file." if source.is_dir() else f"There is no file {source}."
        raise DataNotFoundError(what)
    return source, _FORMATS[_ending(source, ITEM_FILES)]


def export_items(
    collection: Collection, path: str | os.PathLike[str], *, progress: Progress = lambda done, total: None
) -> int:
    """Write all items of a collection to a file that :func:`import_items` reads, and return how many there are.

    The file shows the collection at one moment, in order of id, and takes its place when it is complete. CSV has no
    types: ids and labels that are text but look like integers come back as integers.

    Parameters
    ----------
    collection : Collection
    path : path
        Ending in ``.npy``, ``.npz``, ``.parquet``, ``.csv`` or ``.jsonl``.
    progress : callable, optional
        Called as ``progress(done, total)``.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Collection.open(Path(folder, "pets.oh"), "hcoh") as pets:
    ...     pets.upsert(["rex", "tom"], [[1.0, 0.5], [-1.0, 0.5]], ["dog", "cat"])
    ...     export_items(pets, Path(folder, "pets.csv"))
    ...     print(Path(folder, "pets.csv").read_text().splitlines()[1])
    2
    rex,dog,,1.0,0.5
    """
    target = Path(path)
    form = _FORMATS[_ending(target, ITEM_FILES)]
    store = collection._store
    with store.reading():
        n_items, kind, n_features = len(collection), collection.id_type, collection.n_features
        if not n_items or kind is None or n_features is None:
            raise InvalidInputError("This collection is empty; there is nothing to write.")
        dtype = np.dtype(store.setting("vector_dtype"))
        chunks = _chunks(store, max(1, _AT_A_TIME // (dtype.itemsize * n_features)))
        form.write(target, Sheet(n_items, n_features, dtype, kind, collection.label_kind, chunks, progress))
    return n_items


def export_codes(collection: Collection, path: str | os.PathLike[str]) -> int:
    """Write the codes of a collection for another program, and return how many there are.

    The encoder that made them goes beside them: of ``a.faiss``, to ``a.encoder.oh``.

    Parameters
    ----------
    collection : Collection
    path : path
        ``.faiss``: an ``IndexBinaryIDMap``. ``.usearch``: a graph. ``.npz``: arrays ``ids``, ``codes``, ``n_bits``,
        ``version``. Integer ids are the ids of the first two. Strings (for usearch, also negative integers) are
        written to a file beside, ``a.ids.jsonl``, an id a line; ids are their positions from 0.

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
    write = codes.WRITERS[_ending(target, CODE_FILES)]
    ids, packed, encoder = collection.codes_and_encoder()
    if encoder is None or not ids:
        raise NotLearnedError("This collection has no codes yet; add items with labels first.")
    write(target, ids, packed, encoder)
    codes.write_encoder(target, encoder)
    return len(ids)


def _ending(path: Path, known: tuple[str, ...]) -> str:
    ending = path.suffix.lower()
    if ending not in known:
        raise FileFormatError(f"{path} has the extension {path.suffix!r}; use one of {', '.join(known)}.")
    return ending


def _chunks(store: Store, limit: int) -> Iterator[Rows]:
    last = None
    while len(rows := store.rows_after(last, limit)):
        yield rows
        last = rows.ids[-1]


# ---------------------------------------------------------------------- what comes in


def _first_id(collection: Collection, path: Path) -> int:
    """Return the number of the first row of a file without ids."""
    if len(collection):
        raise InvalidInputError(
            f"{path} has no ids, and this collection has items already; name the column with id=, or number the rows "
            "from first_id= on."
        )
    return 0


def _typed(chunk: Chunk, id_type: str | None = None, label_kind: str | None = None) -> Chunk:
    """Return rows of a text with ids and labels of these kinds; by default integers, if all of them are."""
    if not chunk.is_text:
        return chunk
    ids, labels = (
        None if values is None else _as_kind(values, kind)
        for values, kind in ((chunk.ids, id_type), (chunk.labels, label_kind))
    )
    return replace(chunk, ids=ids, labels=labels)


def _as_kind(values: list[Any], kind: str | None) -> list[Any]:
    """Return texts as integers, if that is the kind or may be."""
    if kind is None:
        kind = "int" if all(_INTEGER.fullmatch(value) for value in values if isinstance(value, str)) else "str"
    if kind == "str":
        return values
    return [int(v) if isinstance(v, str) and _INTEGER.fullmatch(v) else v for v in values]


def _without_repeats(chunk: Chunk) -> Iterator[Chunk]:
    """Yield the rows in runs in which no id comes twice: a later row replaces an earlier one."""
    assert chunk.ids is not None
    start = 0
    seen: set[Any] = set()
    for i, id in enumerate(chunk.ids):
        try:
            if id in seen:
                yield chunk.between(start, i)
                start, seen = i, set()
            seen.add(id)
        except TypeError:  # no id at all: refused later, by name
            pass
    yield chunk.between(start, len(chunk))


def _add(collection: Collection, chunk: Chunk, path: Path, place: str) -> None:
    try:
        collection.upsert(chunk.ids, chunk.vectors, chunk.labels, chunk.payload)
    except InvalidInputError as error:
        for i in range(len(chunk)):
            try:
                _check_alone(collection, chunk.between(i, i + 1))
            except InvalidInputError as own:
                raise type(own)(f"{path}, {place} {chunk.places[i]}: {own}") from own
        raise type(error)(f"{path}, {place}s {chunk.places[0]} to {chunk.places[-1]}: {error}") from error


def _check_alone(collection: Collection, row: Chunk) -> None:
    """Check one row as an add would."""
    store = collection._store
    incoming.check_item_ids(row.ids, collection.id_type)
    incoming.check_rows(row.vectors, 1, False, collection.n_features, store.setting("vector_dtype"))
    incoming.check_label_column(row.labels, 1, False, collection.label_kind)
    incoming.payload_texts(row.payload, 1, False)


__all__ = ["export_codes", "export_items", "import_items"]
