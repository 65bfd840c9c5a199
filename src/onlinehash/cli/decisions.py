"""``onlinehash classify``, ``suspects`` and ``review``: what rows are, which labels are wrong, what to label next."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onlinehash._internal.files import write_bytes
from onlinehash.cli import _options as options
from onlinehash.cli._files import Target, TargetArgument, check_output, documents_of
from onlinehash.cli._screen import note, number, print_json, print_with_documents, progress_bar
from onlinehash.exceptions import counted

if TYPE_CHECKING:
    from onlinehash.collection import Collection

_IN = "A file, or a database and a name, as in the other commands."
_ROWS = (
    "Vectors, or documents with --documents: .csv, .jsonl, .parquet, .npy or .npz. Or one document, as in "
    '"where is my card?", if the collection has an embedder.'
)
_OUT = "Write id, label, score, known and alternatives to this .csv file."
_MAX_ERROR = "Share of wrong labels among those that are given."
_UNKNOWN = "Expected share of rows whose label was never learned."
_N = Annotated[int, typer.Option("-n", help="Items at most.")]


def classify(
    rows: Annotated[str, typer.Argument(metavar="ROWS", help=_ROWS)],
    *,
    target: Annotated[Target, typer.Option("--in", metavar="COLLECTION", help=_IN, parser=Target.parse)],
    max_error: Annotated[float, typer.Option(help=_MAX_ERROR)] = 0.02,
    unknown_share: Annotated[float, typer.Option(help=_UNKNOWN)] = 0.0,
    id: options.Id = None,
    vectors: options.Vectors = None,
    documents: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of text or paths to embed.")] = None,
    ignore: options.Ignore = None,
    header: options.Header = None,
    out: Annotated[Path | None, typer.Option("--output", "--out", help=_OUT)] = None,
    as_json: options.Json = False,
) -> None:
    """Say what the rows of a file are, and leave those to a person where the error would be too large.

    The label of such a row is empty. A row that is not 'known' resembles nothing that was learned. Rows without ids
    are numbered from 0 on.
    """
    from onlinehash.cli._arrays import is_document, read_rows

    if out is not None:
        check_output(out, ".csv")
    with target.open(readonly=True) as collection:
        ids: Any = None
        if is_document(rows, collection):
            asked: Any = [rows]
        else:
            given = read_rows(Path(rows), options.columns(vectors, ignore, header, id=id, documents=documents))
            ids, asked = given.ids, given.vectors if given.documents is None else given.documents
        shares: Any = {"max_error": max_error, "unknown_share": unknown_share}
        decisions: Any = collection.classify(asked, **shares, n_neighbours=0)
    ids = range(len(decisions)) if ids is None else ids
    table = [
        {"id": id, "label": one.label, "score": one.score, "known": one.known, "alternatives": one.alternatives}
        for id, one in zip(ids, decisions, strict=True)
    ]
    n_open = sum(one.label is None for one in decisions)
    if out is not None:
        cells = [{**row, "alternatives": json.dumps(row["alternatives"], ensure_ascii=False)}.values() for row in table]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([[*table[0]], *cells])
        write_bytes(out, text.getvalue().encode())
        note(f"Wrote {counted(len(table), 'row')} to {out}.")
    if as_json:
        for row in table:
            print_json(row)
    elif out is None:
        shown = [(row["id"], _text(row["label"]), number(row["score"]), row["known"]) for row in table]
        print_with_documents(("id", "label", "score", "known"), shown, asked if isinstance(asked, list) else None)
    note(f"{counted(len(table) - n_open, 'row')} got a label; {n_open} left to a person.")


def suspects(target: TargetArgument, n: _N = 100, label: options.Label = None, as_json: options.Json = False) -> None:
    """List the items whose label the other items contradict, the most certain first."""
    with target.open(readonly=True) as collection, progress_bar("Reading") as progress:
        labels = options.typed(label, collection.label_type) or None
        found = collection.suspects(n, labels=labels, progress=progress)
        _show(collection, ("id", "label", "suggested", "margin"), found, as_json=as_json)


def review(
    target: TargetArgument,
    n: _N = 100,
    by: Annotated[
        str,
        typer.Option(
            metavar="ORDER",
            help="uncertain: least certain first; unknown: least like what was learned; diverse: uncertain, and far "
            "from each other.",
        ),
    ] = "uncertain",
    as_json: options.Json = False,
) -> None:
    """List the items without a label whose labels would teach most."""
    with target.open(readonly=True) as collection, progress_bar("Reading") as progress:
        found = collection.review(n, by=by, progress=progress)
        grouped = ("group",) if by == "unknown" else ()
        _show(collection, ("id", "suggested", "score", "known", *grouped), found, as_json=as_json)


def _show(collection: Collection, columns: tuple[str, ...], found: list[Any], *, as_json: bool) -> None:
    if as_json:
        for one in found:
            print_json(asdict(one))
    else:
        rows = [[_text(getattr(one, column)) for column in columns] for one in found]
        payloads = [collection[one.id].payload if one.id in collection else None for one in found]
        print_with_documents(columns, rows, documents_of(collection, payloads))


def _text(value: Any) -> str:
    """Return a label, several, or a number as text."""
    if isinstance(value, tuple):
        return json.dumps(value, ensure_ascii=False)
    return "-" if value is None else number(value) if isinstance(value, float) else str(value)
