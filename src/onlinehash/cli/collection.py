"""``onlinehash collection``: items in one file that learns and is searched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onlinehash.cli._columns import Header, Id, Ignore, Vectors
from onlinehash.cli._place import PLACE, Place
from onlinehash.cli._refreshing import finish_refresh, warn_unless_searchable, watch_refresh
from onlinehash.cli._settings import Bits, Dtype, Method, RefreshPolicy, Settings

if TYPE_CHECKING:
    from onlinehash.collection import Collection, Item
    from onlinehash.types import SearchResult

app = typer.Typer(help="Keep items in one file, learn from them as they come, and search them.", no_args_is_help=True)

_Place = Annotated[Place, typer.Argument(metavar="COLLECTION", help=PLACE, parser=Place.parse)]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_SHOWN = 20
_RESCORED = 1000  # items by code, at least, that are ordered by their vectors


@app.command("create")
def create(
    place: _Place,
    method: Method = None,
    bits: Bits = None,
    settings: Settings = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the hasher.")] = 0,
    refresh_policy: RefreshPolicy = None,
    dtype: Dtype = None,
) -> None:
    """Make an empty collection."""
    from onlinehash.cli._screen import note
    from onlinehash.cli._settings import DEFAULT_METHOD, hasher_from_options, hasher_parameters, parse_policy

    place.check()
    if place.exists():
        raise typer.BadParameter(f"{place} exists already; fill it with 'onlinehash ingest SOURCE --into {place}'.")
    hasher = hasher_from_options(method or DEFAULT_METHOD, hasher_parameters(bits, settings), {"random_state": seed})
    with place.open(hasher, parse_policy(refresh_policy), vector_dtype=dtype):
        note(f"Made {place}, which learns with {hasher}.")


@app.command("search")
def search(
    place: _Place,
    queries: Annotated[
        Path | None,
        typer.Argument(
            metavar="QUERIES",
            help="Vectors: .csv, .jsonl, .parquet, .npy or .npz (array X); - for standard input.",
            show_default=False,
        ),
    ] = None,
    *,
    by_id: Annotated[list[str] | None, typer.Option(metavar="ID", help="Ask by a stored item; repeatable.")] = None,
    k: Annotated[int | None, typer.Option("-k", help="Nearest items to find.", show_default="10")] = None,
    radius: Annotated[int | None, typer.Option(help="Find all items at most so many bits away instead.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="LABEL", help="Search items with this label only; repeatable.")
    ] = None,
    rescore: Annotated[
        str | None,
        typer.Option(
            metavar="cosine|l2|none",
            help="Order the best by the distance of their vectors.",
            show_default="cosine",
        ),
    ] = None,
    asymmetric: Annotated[
        bool,
        typer.Option(
            "--asymmetric/--no-asymmetric", help="Compare the real values of the query with the bits of the codes."
        ),
    ] = False,
    id: Id = None,
    vectors: Vectors = None,
    ignore: Ignore = None,
    header: Header = None,
    as_json: _Json = False,
) -> None:
    """Find the nearest items by their codes, the best of them ordered by their vectors.

    Items of one class often share one code, and would come in order of their ids: '--rescore none' shows that, with
    the distances in bits. Another process may write meanwhile.
    """
    import numpy as np

    from onlinehash.cli._arrays import check_vectors, read_rows
    from onlinehash.cli._stdin import name_of
    from onlinehash.tables import Columns

    if (queries is None) == (not by_id):
        raise typer.BadParameter("give a file of queries or --by-id, one of the two.")
    if rescore not in (None, "cosine", "l2", "none"):
        raise typer.BadParameter(f"{rescore!r} is not cosine, l2 or none.", param_hint="--rescore")
    if radius is not None and (k is not None or rescore in ("cosine", "l2") or asymmetric):
        raise typer.BadParameter("--radius finds all items within; it goes without -k, --rescore and --asymmetric.")
    with _open(place, readonly=True) as collection:
        warn_unless_searchable(collection.stats())
        if queries is not None:
            X = read_rows(queries, Columns(id=id, vectors=vectors, ignore=ignore or (), header=header)).X
            check_vectors(X, name_of(queries))
        else:
            X = np.array([item.vectors for item in collection.get(_typed(by_id or [], collection.id_type))])
        labels = None if not label else _typed(label, collection.label_kind)
        if radius is not None:
            hits = collection.range_search(X, radius, labels=labels)
        else:
            hits = _search(collection, X, 10 if k is None else k, labels, rescore or "cosine", asymmetric=asymmetric)
        _show(collection, hits, as_json=as_json)


@app.command("delete")
def delete(
    place: _Place,
    ids: Annotated[list[str] | None, typer.Argument(metavar="IDS", help="What to delete.", show_default=False)] = None,
    file: Annotated[Path | None, typer.Option("--from", help="Ids in a file: .npy, .csv or .txt, one a line.")] = None,
    ignore_missing: Annotated[bool, typer.Option("--ignore-missing", help="Pass over unknown ids.")] = False,
    unlearn: Annotated[bool, typer.Option("--unlearn", help="Unlearn them too; HROH can.")] = False,
) -> None:
    """Delete items, all or none of them; what was learned from them stays learned, unless it is unlearned too."""
    from onlinehash.cli._arrays import read_column
    from onlinehash.cli._screen import note

    if (file is None) == (not ids):
        raise typer.BadParameter("give ids or --from, one of the two.")
    with _open(place) as collection:
        named = [str(id) for id in read_column(file, "ids").tolist()] if file is not None else ids or []
        before = len(collection)
        collection.delete(
            dict.fromkeys(_typed(named, collection.id_type)).keys(),
            missing="ignore" if ignore_missing else "raise",
            unlearn=unlearn,
        )
        note(f"Deleted {before - len(collection)} items; {place} holds {len(collection)}.")
        finish_refresh(collection)


@app.command("refresh")
def refresh(
    place: _Place,
    bits: Annotated[int | None, typer.Option(help="Change the length of the codes.")] = None,
) -> None:
    """Encode all items again with what was learned since, or with another length."""
    from onlinehash.cli._screen import note

    with _open(place) as collection:
        if bits is None:
            collection.refresh(wait=False)
        else:
            collection.change_hasher(bits, wait=False)
        watch_refresh(collection)
        stats = collection.stats()
        note(f"Codes of {stats.n_searchable} items have {stats.n_bits} bits and version {stats.version}.")


@app.command("stats")
def stats(place: _Place, as_json: _Json = False) -> None:
    """Show how many items there are, how many can be searched, and with which codes."""
    from dataclasses import asdict

    from onlinehash.cli._screen import print_json, print_rows

    with _open(place, readonly=True) as collection:
        now = collection.stats()
    values = asdict(now)
    if as_json:
        print_json(values)
    else:
        print_rows(("what", "value"), [(name, "-" if value is None else value) for name, value in values.items()])
    warn_unless_searchable(now)


@app.command("export")
def export(
    place: _Place,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="Items: .npy, .npz, .parquet, .csv, .jsonl; - for standard output, as .jsonl. Codes: .faiss, "
            ".usearch, .npz with --codes.",
        ),
    ],
    codes: Annotated[bool, typer.Option("--codes", help="Write codes, and the encoder beside them.")] = False,
) -> None:
    """Write all items to a file that 'onlinehash ingest' reads, or their codes for other programs."""
    import shutil
    import sys
    from tempfile import TemporaryDirectory

    from onlinehash.cli._screen import note, progress_bar
    from onlinehash.cli._writing import check_place, is_stdout, name_of_output
    from onlinehash.collection import export_codes, export_items
    from onlinehash.collection.transfer import WRITERS
    from onlinehash.tables import FORMATS

    as_codes = codes or out.suffix.lower() in WRITERS.keys() - FORMATS.keys()
    if as_codes and is_stdout(out):
        raise typer.BadParameter("codes go to a file; only items go to standard output.")
    check_place(out, *(WRITERS if as_codes else {**FORMATS, **WRITERS}))
    with _open(place, readonly=True) as collection:
        if as_codes:
            n_items = export_codes(collection, out)
        elif is_stdout(out):
            with TemporaryDirectory() as folder:
                n_items = export_items(collection, Path(folder) / "items.jsonl")
                with (Path(folder) / "items.jsonl").open("rb") as file:
                    shutil.copyfileobj(file, sys.stdout.buffer)
        else:
            with progress_bar("Writing") as progress:
                n_items = export_items(collection, out, progress=progress)
    note(f"Wrote {n_items} {'codes' if as_codes else 'items'} to {name_of_output(out)}.")


# ---------------------------------------------------------------------- parts


def _open(place: Place, *, readonly: bool = False) -> Collection:
    from onlinehash.exceptions import DataNotFoundError

    try:
        return place.open(readonly=readonly)
    except DataNotFoundError as error:
        raise DataNotFoundError(
            f"There is no collection {place}; make it with 'onlinehash collection create'."
        ) from error


def _typed(texts: list[str], kind: str | None) -> list[Any]:
    """Return ids or labels from the command line as the collection has them."""
    if kind != "int":
        return list(texts)
    try:
        return [int(text) for text in texts]
    except ValueError:
        wrong = next(text for text in texts if not text.removeprefix("-").isdecimal())
        raise typer.BadParameter(f"{wrong!r} is not an integer; those of this collection are.") from None


def _show(collection: Collection, hits: SearchResult, *, as_json: bool) -> None:
    from onlinehash.cli._screen import note, number, on_terminal, print_json, print_rows

    if as_json:
        for query, some in enumerate(hits):
            items = collection.get(some.ids)
            found = {"query": query, "ids": some.ids, "distances": some.distances}
            labels = [_labels(item) for item in items]
            print_json(found | {"labels": labels, "payload": [item.payload for item in items]})
        return
    shown = list(hits)[:_SHOWN] if on_terminal() else list(hits)
    rows = [
        (query, item.id, number(distance), "-" if item.labels is None else _labels_text(item))
        for query, some in enumerate(shown)
        for item, distance in zip(collection.get(some.ids), some.distances, strict=True)
    ]
    print_rows(("query", "id", "distance", "labels"), rows)
    if len(shown) < len(hits):
        note(f"... and {len(hits) - len(shown)} more queries; --json gives all.")


def _search(
    collection: Collection, X: Any, k: int, labels: list[Any] | None, rescore: str, *, asymmetric: bool
) -> SearchResult:
    """Find k items per query, rescored among ten times as many and more: many items may share one code."""
    from onlinehash.types import SearchResult

    if rescore == "none" or k < 1:
        return collection.search(X, k, labels=labels, asymmetric=asymmetric)
    hits = collection.search(X, max(k, _RESCORED // 10), labels=labels, rescore=rescore, asymmetric=asymmetric)
    return SearchResult([ids[:k] for ids in hits.ids], [distances[:k] for distances in hits.distances])


def _labels_text(item: Item) -> str:
    return json.dumps(_labels(item), ensure_ascii=False)


def _labels(item: Item) -> Any:
    return list(item.labels) if isinstance(item.labels, tuple) else item.labels
