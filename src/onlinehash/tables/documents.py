"""Files of documents: one column of text, or of paths, in place of vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError
from onlinehash.tables.columns import Columns, Layout, select
from onlinehash.tables.csv import records, value_of
from onlinehash.tables.jsonl import entries
from onlinehash.tables.parquet import open_parquet, read_records
from onlinehash.tables.rows import as_type

FORMATS = (".csv", ".jsonl", ".parquet")
_Record = tuple[int, dict[str, Any]]


@dataclass(frozen=True)
class DocumentChunk:
    """Some rows of a file of documents; ids, labels and payloads are None where the file has none.

    Parameters
    ----------
    documents : list
    ids, labels, payloads : list or None
    places : list of int
        Number of the line or row in the file, counted from 1.

    Examples
    --------
    >>> len(DocumentChunk(["a text"], [1], None, None, [2]))
    1
    """

    documents: list[Any]
    ids: list[Any] | None
    labels: list[Any] | None
    payloads: list[Any] | None
    places: list[int]

    def __len__(self) -> int:
        return len(self.documents)


def read_documents(
    path: Path, documents: str, columns: Columns | None = None, *, batch_size: int = 1000
) -> Iterator[DocumentChunk]:
    r"""Yield the rows of a file in chunks.

    Parameters
    ----------
    path : path
        ``.csv`` with a header, ``.jsonl`` or ``.parquet``.
    documents : str
        Name or number of the column of the documents.
    columns : Columns, optional
        Those of ids, labels and payloads; by default they are found by their usual names.
    batch_size : int, default=1000

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "tickets.csv")
    ...     _ = path.write_text("id,text,label\n7,where is my card?,card\n8,money back!,refund\n")
    ...     [(chunk.ids, chunk.documents, chunk.labels) for chunk in read_documents(path, "text")]
    [([7, 8], ['where is my card?', 'money back!'], ['card', 'refund'])]
    """
    if not path.is_file():
        raise DataNotFoundError(f"There is no file {path}.")
    if path.suffix.lower() not in FORMATS:
        raise FileFormatError(f"{path} has the extension {path.suffix!r}; documents come in {', '.join(FORMATS)}.")
    rows = {".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet}[path.suffix.lower()](path)
    layout: Layout | None = None
    while some := list(islice(rows, batch_size)):
        names = list(some[0][1])
        (column,) = select(documents, names, path)
        layout = layout or (columns or Columns()).layout(path, names, numbers=())
        for place, record in some:
            if record.get(column) in (None, ""):
                raise InvalidInputError(f"{path}, line {place}: there is no {column!r}.")
        ids, labels, payloads = (
            None if name in (None, column) else [row.get(name) for _, row in some]
            for name in (layout.id, layout.labels, layout.payload)
        )
        if path.suffix.lower() == ".csv":
            ids = as_type(ids and [text or None for text in ids])
            labels = as_type(labels and [value_of("labels", text) for text in labels])
            payloads = payloads and [value_of("payload", text) for text in payloads]
        texts = [row[column] for _, row in some]
        yield DocumentChunk(texts, ids, labels, payloads, [place for place, _ in some])


def _csv(path: Path) -> Iterator[_Record]:
    lines = records(path, strict=True)
    _, _, names = next(lines, (0, 0, []))
    for place, _, fields in lines:
        if len(fields) != len(names):
            raise FileFormatError(f"{path}, line {place}: not as many fields as the header has.")
        yield place, dict(zip(names, fields, strict=True))


def integers_as_text(values: Iterable[Any]) -> list[Any]:
    """Return integers as text, and anything else as it is.

    Examples
    --------
    >>> integers_as_text([7, "seven", None])
    ['7', 'seven', None]
    """
    return [str(value) if type(value) is int else value for value in values]


def _jsonl(path: Path) -> Iterator[_Record]:
    return ((place, entry) for place, _, entry in entries(path))


def _parquet(path: Path) -> Iterator[_Record]:
    with open_parquet(path) as file:
        names = file.schema_arrow.names
    yield from enumerate(chain.from_iterable(read_records(path, names, 0, 1000)), 1)
