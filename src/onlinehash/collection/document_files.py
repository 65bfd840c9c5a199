"""Documents of a file into a collection, in batches."""

from __future__ import annotations

import os
from pathlib import Path

from onlinehash._validation import check_positive_int
from onlinehash.collection.collection import Collection
from onlinehash.exceptions import InvalidInputError, OnlineHashError
from onlinehash.tables.columns import Columns
from onlinehash.tables.documents import DocumentChunk, read_documents
from onlinehash.tables.rows import runs
from onlinehash.types import Progress


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
    try:
        for chunk in read_documents(Path(path), documents, columns, batch_size=batch):
            ids = _ids(collection, path, chunk, first_id, done)
            for rows in runs(ids):  # a later row replaces an earlier one with its id
                _upsert(collection, path, chunk, ids, rows)
                done += len(ids[rows])
            progress(done, done)
    except OnlineHashError as error:
        said = f"The {done} items before were added and stay." if done else "Nothing was added."
        raise type(error)(f"{error} {said}") from error
    return done


def _ids(
    collection: Collection, path: str | os.PathLike[str], chunk: DocumentChunk, first_id: int | None, done: int
) -> list[int | str]:
    if chunk.ids is not None:
        if first_id is not None:
            raise InvalidInputError(f"first_id={first_id}, but {path} has ids of its own; leave it out.")
        return [str(one) for one in chunk.ids] if collection.id_type == "str" else chunk.ids
    if first_id is None and len(collection) > done:
        raise InvalidInputError(
            f"{path} has no ids, and this collection has items already; name the column with id=, or number the rows "
            "from first_id= on."
        )
    start = (first_id or 0) + done
    return list(range(start, start + len(chunk)))


def _upsert(
    collection: Collection, path: str | os.PathLike[str], chunk: DocumentChunk, ids: list[int | str], rows: slice
) -> None:
    labels = None if chunk.labels is None else chunk.labels[rows]
    if collection.label_kind == "str" and labels is not None:
        labels = [str(label) if isinstance(label, int) else label for label in labels]
    payload = None if chunk.payloads is None else chunk.payloads[rows]
    try:
        collection.upsert(ids[rows], None, labels, payload, documents=chunk.documents[rows])
    except InvalidInputError as error:
        places = chunk.places[rows]
        raise type(error)(f"{path}, rows {places[0]} to {places[-1]}: {error}") from error
