"""``onlinehash search``: the nearest items of every query."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer

from onlinehash._validation import check_ids, check_non_negative_int, check_positive_int
from onlinehash.cli import _options as options
from onlinehash.cli._files import (
    check_inputs,
    check_output,
    is_standard,
    name_of,
    name_of_output,
    open_output,
    refuse_other_kinds,
)
from onlinehash.cli._screen import MOST_SHOWN, note, number, on_terminal, print_json, print_rows
from onlinehash.exceptions import InvalidInputError, counted
from onlinehash.types import SearchResult

if TYPE_CHECKING:
    from onlinehash.cli._arrays import Given
    from onlinehash.encoders import Encoder
    from onlinehash.indexes import FlatIndex
    from onlinehash.tables import Columns

_COLUMNS = ("query", "id", "distance")


class _Items(NamedTuple):
    """An index by row number or integer id, the ids that are text, the vectors, and their row numbers by id."""

    flat: FlatIndex
    names: list[str] | None = None
    X: Any = None
    rows: dict[int, int] | None = None


def run(
    items: Annotated[
        Path,
        typer.Argument(
            metavar="ITEMS",
            help="Codes, vectors with --model, or an .ohi index to search in: .npy, .npz, .csv, .jsonl, .parquet, "
            ".bits; - for standard input.",
        ),
    ],
    queries: Annotated[
        Path | None, typer.Argument(metavar="QUERIES", help="Codes, or vectors with --model, to search for.")
    ] = None,
    *,
    k: options.K = None,
    radius: Annotated[
        int | None, typer.Option(help="Find all items within this Hamming distance; -k limits their number.")
    ] = None,
    rescore: options.Rescore = None,
    asymmetric: Annotated[
        bool | None,
        typer.Option(
            "--asymmetric/--no-asymmetric",
            help=options.ASYMMETRIC,
            show_default="where queries are vectors and items are codes",
        ),
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(help="File with the ids of the items: integers or text.", show_default="of ITEMS, or row numbers"),
    ] = None,
    model: Annotated[Path | None, typer.Option(help="A saved hasher or encoder, to encode vectors.")] = None,
    id: options.Id = None,
    vectors: options.Vectors = None,
    ignore: options.Ignore = None,
    header: options.Header = None,
    save_index: Annotated[Path | None, typer.Option(help="Write the index to this .ohi file.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write query, id, distance to a .csv or .npz file; - for standard output, as csv."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Find the nearest items by the Hamming distance of their codes.

    Items of one class often share one code. The best are therefore ordered by their vectors where both files hold
    vectors, or else by the real values of the query. '--rescore none --no-asymmetric' gives Hamming distances, ties
    by id.

    With --model, a file is read as vectors if it has as many columns as the model learned from, else as codes.
    """
    from onlinehash.cli._arrays import check_column, check_rows, read_encoder, read_items, with_codes
    from onlinehash.tables import Columns

    if queries is None and save_index is None:
        raise typer.BadParameter("give queries, or --save-index to only build an index.")
    if queries is not None and is_standard(items) and is_standard(queries):
        raise typer.BadParameter("standard input can be ITEMS or QUERIES, not both.")
    if radius is not None and (rescore in ("cosine", "l2") or asymmetric):
        raise typer.BadParameter("--radius counts bits; leave out --rescore and --asymmetric.")
    if model is None and (rescore in ("cosine", "l2") or asymmetric):
        raise typer.BadParameter("--rescore and --asymmetric need vectors, and --model.")
    if ids is not None and items.suffix.lower() == ".ohi":
        raise typer.BadParameter("a saved index has its own ids.", param_hint="--ids")
    check_positive_int("k", 10 if k is None else k)
    check_non_negative_int("radius", 0 if radius is None else radius)
    if save_index is not None:
        check_output(save_index, ".ohi")
    if out is not None:
        check_output(out, ".csv", ".npz")
    check_inputs(items, model)
    check_rows(None if items.suffix.lower() == ".ohi" else items, queries)
    check_column(ids)
    encoder = read_encoder(model) if model is not None else None
    columns = Columns(id=id, vectors=vectors, ignore=ignore or (), header=header)
    given, own_ids = _read_items(items, ids, encoder, columns)
    if save_index is not None and _are_text(own_ids):
        raise InvalidInputError(
            "An index holds integer ids, and these are text. Search without --save-index, leave out the ids with "
            "--ignore, or keep the items in a collection: onlinehash collection create"
        )
    asked = None if queries is None else with_codes(read_items(queries, encoder, columns), encoder, queries)
    searched = _build_index(items, given, own_ids, encoder)
    if save_index is not None:
        searched.flat.save(save_index)
        note(f"Wrote {searched.flat!r} to {save_index}.")
    if asked is None:
        return
    if radius is not None:
        matches = searched.flat.range_search(asked.codes, radius)
        found = [SearchResult(some.ids.tolist()[:k], some.distances.tolist()[:k]) for some in matches]
    else:
        found = _search(searched, asked, encoder, 10 if k is None else k, rescore, asymmetric)
    if searched.names is not None:
        found = [SearchResult([searched.names[row] for row in some.ids], some.distances) for some in found]
    rows = [
        (query, id, distance)
        for query, some in enumerate(found)
        for id, distance in zip(some.ids, some.distances, strict=True)
    ]
    if out is not None:
        _write(out, rows)
        written = f"{counted(len(rows), 'match', 'matches')} of {counted(len(found), 'query', 'queries')}"
        note(f"Wrote {written} to {name_of_output(out)}.")
    if as_json:
        for query, some in enumerate(found):
            print_json({"query": query, "ids": some.ids, "distances": some.distances})
    elif out is None and on_terminal():
        _show(found)
    elif out is None:
        print_rows(_COLUMNS, [(query, id, number(distance)) for query, id, distance in rows])


def _read_items(
    items: Path, ids: Path | None, encoder: Encoder | None, columns: Columns
) -> tuple[Given | None, list[Any] | None]:
    """Return the rows of a file and their ids, before they are encoded; None and None for a saved index."""
    from onlinehash.cli._arrays import read_column, read_items

    if items.suffix.lower() == ".ohi":
        refuse_other_kinds(items, "index")
        return None, None
    given = read_items(items, encoder, columns)
    own_ids = given.ids if ids is None else read_column(ids, "ids")
    if own_ids is None:
        return given, None
    listed, n_items = np.asarray(check_ids(own_ids, "ids")).tolist(), given.n_items
    if len(listed) != n_items or len(set(listed)) != n_items:
        raise InvalidInputError(
            f"There are {len(set(listed))} different ids for {n_items} items of {name_of(items)}; give one per item."
        )
    return given, listed


def _build_index(items: Path, given: Given | None, ids: list[Any] | None, encoder: Encoder | None) -> _Items:
    """Return the index of a file, or that of the rows of one."""
    from onlinehash.cli._arrays import with_codes
    from onlinehash.indexes import FlatIndex

    if given is None:
        return _Items(FlatIndex.load(items, mmap=True))
    given = with_codes(given, encoder, items)
    index = FlatIndex(8 * given.codes.shape[1] if encoder is None else encoder.n_bits)
    if _are_text(ids):
        index.upsert(given.codes)
        return _Items(index, ids, given.X)
    index.upsert(given.codes, ids)
    return _Items(index, None, given.X, None if ids is None else {id: row for row, id in enumerate(ids)})


def _are_text(ids: list[Any] | None) -> bool:
    return ids is not None and isinstance(next(iter(ids), None), str)


def _search(
    items: _Items, asked: Given, encoder: Encoder | None, k: int, rescore: str | None, asymmetric: bool | None
) -> list[SearchResult]:
    """Return k items per query: rescored by their vectors, or by asymmetric distance, where that is possible."""
    from onlinehash.collection.results import vector_distances

    has_both = items.X is not None and asked.X is not None
    if rescore in ("cosine", "l2") and not has_both:
        raise typer.BadParameter("it needs vectors in both files, and --model.", param_hint="--rescore")
    if asymmetric and asked.X is None:
        raise typer.BadParameter("it needs queries that are vectors, and --model.", param_hint="--asymmetric")
    measure = None if rescore == "none" else rescore or ("cosine" if has_both else None)
    n_wanted = k if measure is None else max(10 * k, options.MIN_RESCORED)
    if asymmetric is None:
        asymmetric = asked.X is not None and measure is None
    if asymmetric:
        assert encoder is not None
        matches = items.flat.search(encoder.encode_asymmetric(asked.X), n_wanted, asymmetric=True)
    else:
        matches = items.flat.search(asked.codes, n_wanted)
    found = [SearchResult(some.ids.tolist(), some.distances.tolist()) for some in matches]
    if measure is None:
        return found
    rescored = []
    for query, some in zip(asked.X, found, strict=True):
        rows = some.ids if items.rows is None else [items.rows[id] for id in some.ids]
        ranked = sorted(zip(vector_distances(query, items.X[rows], measure).tolist(), some.ids, strict=True))[:k]
        rescored.append(SearchResult([id for _, id in ranked], [distance for distance, _ in ranked]))
    return rescored


def _write(out: Path, rows: list[tuple[int, Any, Any]]) -> None:
    with open_output(out) as file:
        if out.suffix.lower() == ".npz":
            columns: dict[str, Any] = {name: np.array([row[i] for row in rows]) for i, name in enumerate(_COLUMNS)}
            np.savez(file, **columns)
        else:
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([_COLUMNS, *rows])
            file.write(text.getvalue().encode())


def _show(found: list[SearchResult]) -> None:
    lines = [
        (query, "  ".join(f"{id} ({number(at)})" for id, at in zip(some.ids, some.distances, strict=True)))
        for query, some in enumerate(found[:MOST_SHOWN])
    ]
    print_rows(("query", "ids (distance), nearest first"), lines)
    if len(found) > MOST_SHOWN:
        note(f"... and {counted(len(found) - MOST_SHOWN, 'more query', 'more queries')}; --json or --out give all.")
