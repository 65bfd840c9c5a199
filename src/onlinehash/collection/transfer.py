"""Transfer: items of a file into a collection, and items and codes out of it, in chunks."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from onlinehash import tables
from onlinehash._internal.files import whole_file, write_bytes
from onlinehash._internal.validation import check_positive_int
from onlinehash.collection.collection import Collection
from onlinehash.collection.maintenance import readable_items
from onlinehash.collection.types import Id, Item
from onlinehash.encoders import Encoder
from onlinehash.exceptions import FileFormatError, InvalidInputError, NotLearnedError, OnlineHashError, needs_extra
from onlinehash.tables.columns import Chunk, Columns, integers_as_text, runs
from onlinehash.types import Codes, Progress

_log = logging.getLogger(__name__)


def import_items(
    collection: Collection,
    path: str | os.PathLike[str],
    *,
    id: str | None = None,
    vectors: str | None = None,
    documents: str | None = None,
    labels: str | None = None,
    payload: str | Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    header: bool | None = None,
    first_id: int | None = None,
    batch: int = 1000,
    progress: Progress = lambda done, total: None,
) -> int:
    r"""Store the items of a file in a collection, as :meth:`Collection.upsert` does, and return their number.

    Each batch is applied whole or not at all. An error names the line or row, and how many items were stored before.

    Parameters
    ----------
    collection : Collection
    path : path
        ``.npy``, ``.npz``, ``.parquet``, ``.csv``, ``.jsonl`` or ``.arrow``; see :func:`onlinehash.tables.read`.
    id, vectors, documents, labels, payload, ignore, header
        What the file does not say by its names; see :class:`onlinehash.tables.Columns`. With ``documents``, a column
        of text or paths is embedded, if the collection has an embedder.
    first_id : int, optional
        Number the rows from here, where the file has no ids; needed if the collection has items already.
    batch : int, default=1000
        Items stored at a time.
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
    columns = Columns(id, vectors, labels, payload, tuple(ignore), header, documents)
    done = 0
    for chunk in import_chunks(collection, path, columns, first_id=first_id, batch=batch):
        done += len(chunk)
        progress(chunk.done, chunk.total)
    return done


def import_chunks(
    collection: Collection,
    path: str | os.PathLike[str],
    columns: Columns,
    *,
    first_id: int | None = None,
    batch: int = 1000,
) -> Iterator[Chunk]:
    """Store the items of a file as :func:`import_items` does, and yield each batch once it is stored."""
    chunks = tables.read(path, columns, batch_size=check_positive_int("batch", batch))
    done, next_id = 0, first_id
    try:
        for chunk in chunks:
            ids = chunk.ids
            if ids is None:
                if next_id is None and len(collection):
                    raise InvalidInputError(
                        f"{path} has no ids, and this collection has items already; name the column with id=, or "
                        "number the rows from first_id= on."
                    )
                start = next_id or 0
                next_id = start + len(chunk)
                ids = list(range(start, next_id))
            elif first_id is not None:
                raise InvalidInputError(f"first_id={first_id}, but {path} has ids of its own; leave it out.")
            numbered = replace(chunk, ids=ids)
            for rows in runs(ids):  # a later row replaces an earlier one with its id
                _upsert(collection, path, numbered[rows])
                done += len(ids[rows])
            yield numbered
    except OnlineHashError as error:
        said = f"The {done} items before were added and stay." if done > 1 else "The item before was added and stays."
        raise type(error)(f"{error} {said if done else 'Nothing was added.'}") from error


def _upsert(collection: Collection, path: str | os.PathLike[str], rows: Chunk) -> None:
    """Store some rows; if they are refused, name the faulty one."""
    chunk = rows.typed(collection.id_type, collection.label_type)
    if chunk.documents is not None and collection.id_type == "str":
        chunk = replace(chunk, ids=integers_as_text(chunk.ids or ()))
    if chunk.documents is not None and collection.label_type == "str" and chunk.labels is not None:
        chunk = replace(chunk, labels=integers_as_text(chunk.labels))
    try:
        vectors = chunk.vectors if chunk.documents is None else None
        collection.upsert(chunk.ids, vectors, chunk.labels, chunk.payloads, documents=chunk.documents)
    except InvalidInputError as error:
        for i, place in enumerate(chunk.places if chunk.documents is None else ()):
            row = chunk[i : i + 1]
            try:
                collection.check_input(row.ids, row.vectors, row.labels, row.payloads)
            except InvalidInputError as own:
                raise type(own)(f"{path}, {chunk.unit} {place}: {own}") from own
        raise type(error)(f"{path}, {chunk.unit}s {chunk.places[0]} to {chunk.places[-1]}: {error}") from error


def export_items(
    collection: Collection,
    path: str | os.PathLike[str],
    *,
    labels: Any = None,
    where: Any = None,
    skip_damaged: bool = False,
    progress: Progress = lambda done, total: None,
) -> int:
    """Write the items of a collection to a file that :func:`import_items` reads, and return their number.

    The file shows the collection at one moment, in order of id, and takes its place when it is complete. CSV has no
    types: ids and labels that are text but look like integers come back as integers.

    Parameters
    ----------
    collection : Collection
    path : path
        Ending in ``.npy``, ``.npz``, ``.parquet``, ``.csv``, ``.jsonl`` or ``.arrow``.
    labels, where : optional
        Only items that have any of these labels, and whose payload passes, as for :meth:`Collection.items`.
    skip_damaged : bool, default=False
        Leave out items that are damaged, and log which; otherwise the first one is an error that names it. A damaged
        collection can be opened with ``readonly=True`` as long as its codes are whole.
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
    tables.format_of(Path(path))
    some = labels is not None or where is not None
    if some and skip_damaged:
        raise InvalidInputError("skip_damaged writes all items that can be read; leave out labels and where.")
    with collection.snapshot(labels=labels, where=where) as found:
        problems, n_items = list[str](), len(found.rows)
        if not n_items:
            none = "No item passes" if some else "This collection is empty"
            raise InvalidInputError(f"{none}; there is nothing to write.")
        if skip_damaged:
            n_items = sum(map(len, readable_items(found.rows, found.read, problems)))
            for problem in problems:
                _log.warning("Left out of %s: %s", path, problem)
        items = readable_items(found.rows, found.read, [] if skip_damaged else None)
        tables.write(path, _chunks(items, n_items, progress), n_rows=n_items, label_type=collection.label_type)
    return n_items


def _chunks(items: Iterator[list[Item]], total: int, progress: Progress) -> Iterator[Chunk]:
    """Yield items as rows of a table, some at a time."""
    done = 0
    for some in filter(None, items):
        ids, labels, vectors = [one.id for one in some], [one.labels for one in some], [one.vectors for one in some]
        yield Chunk(ids, np.array(vectors), labels, [one.payload for one in some])
        done += len(some)
        progress(done, total)


def export_codes(collection: Collection, path: str | os.PathLike[str]) -> int:
    """Write the codes of a collection for another program, and return their number.

    The encoder that made them is written beside them: of ``a.faiss``, to ``a.encoder.oh``.

    Parameters
    ----------
    collection : Collection
    path : path
        Its ending names the format.

        - ``.faiss``: an ``IndexBinaryIDMap``.
        - ``.npz``: arrays ``ids``, ``codes``, ``n_bits``, ``version``.
        - ``.parquet``: columns ``id`` and ``code``, of bytes.

        In faiss ids are integers. Strings are written to a file beside, ``a.ids.jsonl``, one id per line; ids are then
        positions from 0. Codes have whole bytes; the bits that fill up the last one are zero, and change no distance.

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
    ending = target.suffix.lower()
    if ending not in FORMATS:
        raise FileFormatError(f"{path} has the extension {target.suffix!r}; use one of {', '.join(FORMATS)}.")
    ids, codes, encoder = collection.codes_and_encoder()
    if encoder is None or not ids:
        raise NotLearnedError("This collection has no codes yet; add items with labels first.")
    write, package, extra = FORMATS[ending]
    with needs_extra(package, extra):
        write(target, ids, codes, encoder)
    encoder.save(target.with_name(f"{target.stem}.encoder.oh"))
    return len(ids)


def _write_faiss(path: Path, ids: list[Id], codes: Codes, encoder: Encoder) -> None:
    import faiss

    beside = path.with_name(f"{path.stem}.ids.jsonl")
    beside.unlink(missing_ok=True)  # of an earlier export
    numbers = np.arange(len(ids))
    if isinstance(ids[0], int):
        numbers = np.array(ids, np.int64)
    else:
        write_bytes(beside, "".join(f"{json.dumps(id)}\n" for id in ids).encode())
    index = faiss.IndexBinaryIDMap(faiss.IndexBinaryFlat(8 * codes.shape[1]))
    index.add_with_ids(codes, numbers)
    write_bytes(path, faiss.serialize_index_binary(index).tobytes())


def _write_npz(path: Path, ids: list[Id], codes: Codes, encoder: Encoder) -> None:
    column = np.array(ids)
    if column.tolist() != ids:
        raise InvalidInputError("Some ids end in a NUL, which NumPy drops; write the codes to a .parquet file.")
    with whole_file(path) as file:
        np.savez(file, ids=column, codes=codes, n_bits=encoder.n_bits, version=encoder.version)


def _write_parquet(path: Path, ids: list[Id], codes: Codes, encoder: Encoder) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    about = {"n_bits": encoder.n_bits, "version": encoder.version, "method": encoder.method}
    table = pa.table({"id": ids, "code": pa.array(map(bytes, codes), pa.binary(codes.shape[1]))})
    with whole_file(path) as file:
        pq.write_table(table.replace_schema_metadata({f"onlinehash.{k}": str(v) for k, v in about.items()}), file)


FORMATS = {
    ".faiss": (_write_faiss, "faiss", "faiss"),
    ".npz": (_write_npz, "numpy", ""),
    ".parquet": (_write_parquet, "pyarrow", ""),
}
"""By the ending of the path: what writes a file, whole or not at all; the package it needs, and the extra with that."""
