"""Items and documents of a file into a collection, and items out of it, in chunks."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from onlinehash import tables
from onlinehash._validation import check_positive_int
from onlinehash.collection import _validation as check
from onlinehash.collection.check import readable_rows
from onlinehash.collection.collection import Collection
from onlinehash.collection.ids import check_item_ids
from onlinehash.collection.stores.protocol import Place, Rows, rows_at_a_time
from onlinehash.exceptions import InvalidInputError, OnlineHashError
from onlinehash.tables.columns import Columns
from onlinehash.tables.documents import DocumentChunk, integers_as_text, read_documents
from onlinehash.tables.rows import Chunk, runs
from onlinehash.types import Progress

_log = logging.getLogger(__name__)

AnyChunk = TypeVar("AnyChunk", Chunk, DocumentChunk)


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
    r"""Store the items of a file in a collection, as :meth:`Collection.upsert` does, and return their number.

    Each batch is applied whole or not at all. An error names the line or row, and how many items were stored before.

    Parameters
    ----------
    collection : Collection
    path : path
        ``.npy``, ``.npz``, ``.parquet``, ``.csv``, ``.jsonl`` or ``.arrow``; see :func:`onlinehash.tables.read`.
    id, vectors, labels, payload, ignore, header
        What the file does not say by its names; see :class:`onlinehash.tables.Columns`.
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
    columns = Columns(id, vectors, labels, payload, tuple(ignore), header)
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
    check_positive_int("batch", batch)
    return _stored(collection, path, tables.read(path, columns, batch_size=batch), first_id, _upsert)


def _stored(
    collection: Collection,
    path: str | os.PathLike[str],
    chunks: Iterator[AnyChunk],
    first_id: int | None,
    upsert: Callable[[Collection, str | os.PathLike[str], AnyChunk, slice], None],
) -> Iterator[AnyChunk]:
    """Store chunks, numbering the rows of those without ids, and yield each once it is stored."""
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
                upsert(collection, path, numbered, rows)
                done += len(ids[rows])
            yield numbered
    except OnlineHashError as error:
        said = f"The {done} items before were added and stay." if done > 1 else "The item before was added and stays."
        said = said if done else "Nothing was added."
        raise type(error)(f"{error} {said}") from error


def _upsert(collection: Collection, path: str | os.PathLike[str], whole: Chunk, rows: slice) -> None:
    """Store some rows of a chunk; if they are refused, name the faulty one."""
    chunk = whole[rows].typed(collection.id_type, collection.label_kind)
    try:
        collection.upsert(chunk.ids, chunk.vectors, chunk.labels, chunk.payloads)
    except InvalidInputError as error:
        for i, place in enumerate(chunk.places):
            row = chunk[i : i + 1]
            try:
                check_item_ids(row.ids, collection.id_type)
                dtype = collection._store.setting("vector_dtype")
                check.check_rows(row.vectors, 1, False, collection.n_features, dtype)
                check.check_label_column(row.labels, 1, False, collection.label_kind)
                check.payload_texts(row.payloads, 1, False)
            except InvalidInputError as own:
                raise type(own)(f"{path}, {chunk.unit} {place}: {own}") from own
        raise type(error)(f"{path}, {chunk.unit}s {chunk.places[0]} to {chunk.places[-1]}: {error}") from error


def import_documents(
    collection: Collection,
    path: str | os.PathLike[str],
    documents: str,
    *,
    id: str | None = None,
    labels: str | None = None,
    payload: str | None = None,
    first_id: int | None = None,
    batch: int = 1000,
    progress: Progress = lambda done, total: None,
) -> int:
    r"""Store the documents of a file in a collection that has an embedder, and return their number.

    Each batch is applied whole or not at all. An error names the rows, and how many items were stored before.

    Parameters
    ----------
    collection : Collection
    path : path
        ``.csv`` with a header, ``.jsonl`` or ``.parquet``.
    documents : str
        Column of the documents.
    id, labels, payload : str, optional
        Columns; by default those with the usual names.
    first_id : int, optional
        Number the rows from here, where the file has no ids; needed if the collection has items already.
    batch : int, default=1000
        Items stored at a time.
    progress : callable, optional
        Called as ``progress(done, total)``, in items; the total is not known before the end.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from onlinehash import HCOH
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "tickets.csv")
    ...     _ = file.write_text("id,text,label\n7,where is my card?,card\n8,money back!,refund\n")
    ...     with Collection.open(Path(folder, "tickets.oh"), HCOH(8, random_state=0), embed="char_ngrams") as tickets:
    ...         import_documents(tickets, file, "text"), tickets.search("the card", k=1).ids
    (2, [7])
    """
    check_positive_int("batch", batch)
    columns, done = Columns(id=id, labels=labels, payload=payload), 0

    def chunks() -> Iterator[DocumentChunk]:
        for chunk in read_documents(Path(path), documents, columns, batch_size=batch):
            as_text = chunk.ids is not None and collection.id_type == "str"
            yield replace(chunk, ids=integers_as_text(chunk.ids or ())) if as_text else chunk

    for chunk in _stored(collection, path, chunks(), first_id, _upsert_documents):
        done += len(chunk)
        progress(done, done)
    return done


def _upsert_documents(collection: Collection, path: str | os.PathLike[str], chunk: DocumentChunk, rows: slice) -> None:
    ids, labels, payloads = (None if some is None else some[rows] for some in (chunk.ids, chunk.labels, chunk.payloads))
    if collection.label_kind == "str" and labels is not None:
        labels = integers_as_text(labels)
    try:
        collection.upsert(ids, None, labels, payloads, documents=chunk.documents[rows])
    except InvalidInputError as error:
        places = chunk.places[rows]
        raise type(error)(f"{path}, rows {places[0]} to {places[-1]}: {error}") from error


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
    with collection._store.reading():
        n_items = collection.count(where, labels=labels)
        if not n_items:
            none = "No item passes" if some else "This collection is empty"
            raise InvalidInputError(f"{none}; there is nothing to write.")
        problems: list[str] = []
        if skip_damaged:
            n_items = sum(map(len, readable_rows(collection._store, problems)))
            for problem in problems:
                _log.warning("Left out of %s: %s", path, problem)
        among = collection._among(labels, where=where)
        size = rows_at_a_time(collection.n_features)
        rows = readable_rows(collection._store, []) if problems else collection._listed(Place(), among, size)
        tables.write(path, _chunks(rows, n_items, progress), n_rows=n_items, label_type=collection.label_kind)
    return n_items


def _chunks(parts: Iterable[Rows], total: int, progress: Progress) -> Iterator[Chunk]:
    """Yield stored items as rows of a table."""
    done = 0
    for rows in parts:
        payloads = [None if text is None else json.loads(text) for text in rows.payloads]
        yield Chunk(rows.ids, rows.vectors, list(map(check.labels_of, rows.labels)), payloads)
        done += len(rows)
        progress(done, total)
