"""``onlinehash search``: the nearest items of every query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from onlinehash.cli._columns import Header, Id, Ignore, Vectors

if TYPE_CHECKING:
    from onlinehash.cli._encoding import Side
    from onlinehash.encoders import Encoder
    from onlinehash.indexes import FlatIndex
    from onlinehash.tables import Columns

_SHOWN = 20
_RESCORED = 1000  # items by code, at least, that are ordered by their vectors: many share one code


class _Found(NamedTuple):
    """The items found for one query, nearest first."""

    ids: list[Any]
    distances: list[Any]


class _Items(NamedTuple):
    """What is searched: an index of row numbers or integer ids, the ids that are text, and vectors by row or id."""

    flat: FlatIndex
    names: list[str] | None = None
    X: Any = None
    rows: dict[int, int] | None = None


def run(
    items: Annotated[
        Path,
        typer.Argument(
            metavar="ITEMS",
            help="What is searched: codes, vectors with --model, or an .ohi index. .npy, .npz, .csv, .jsonl, .parquet, "
            ".bits; - for standard input.",
        ),
    ],
    queries: Annotated[
        Path | None, typer.Argument(metavar="QUERIES", help="What is asked: codes, or vectors with --model.")
    ] = None,
    *,
    k: Annotated[int | None, typer.Option("-k", help="Nearest items to find.", show_default="10")] = None,
    radius: Annotated[
        int | None, typer.Option(help="Find all items at most so many bits away; -k then limits their number.")
    ] = None,
    rescore: Annotated[
        str | None,
        typer.Option(
            metavar="cosine|l2|none",
            help="Order the best by the distance of their vectors, where both files hold vectors.",
            show_default="cosine",
        ),
    ] = None,
    asymmetric: Annotated[
        bool | None,
        typer.Option(
            "--asymmetric/--no-asymmetric",
            help="Compare the real values of the query with the bits of the codes.",
            show_default="where queries are vectors and items are codes",
        ),
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(help="Ids of the items, in a file: integers or text.", show_default="of ITEMS, or row numbers"),
    ] = None,
    model: Annotated[Path | None, typer.Option(help="A saved hasher or encoder, to encode vectors with.")] = None,
    id: Id = None,
    vectors: Vectors = None,
    ignore: Ignore = None,
    header: Header = None,
    save_index: Annotated[Path | None, typer.Option(help="Write the index to this .ohi file.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write query, id, distance to a .csv or .npz file; - for standard output, as csv."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per query.")] = False,
) -> None:
    """Find the nearest items by the Hamming distance of their codes.

    Items of one class often share one code. So the best are ordered more finely where that is possible: by their
    vectors, or else by the real values of the query. '--rescore none --no-asymmetric' gives Hamming distances, ties
    by id.

    With --model a file is taken as vectors when it has their width, else as codes.
    """
    from onlinehash.cli._encoding import load_encoder, read_side
    from onlinehash.cli._screen import note, print_json
    from onlinehash.cli._writing import check_place
    from onlinehash.tables import Columns

    if queries is None and save_index is None:
        raise typer.BadParameter("give queries, or --save-index to only build an index.")
    if str(items) == str(queries) == "-":
        raise typer.BadParameter("standard input is only one of ITEMS and QUERIES.")
    if rescore not in (None, "cosine", "l2", "none"):
        raise typer.BadParameter(f"{rescore!r} is not cosine, l2 or none.", param_hint="--rescore")
    if radius is not None and (rescore in ("cosine", "l2") or asymmetric):
        raise typer.BadParameter("--radius counts bits; it goes without --rescore and --asymmetric.")
    if save_index is not None:
        check_place(save_index, ".ohi")
    if out is not None:
        check_place(out, ".csv", ".npz")
    encoder = load_encoder(model) if model is not None else None
    columns = Columns(id=id, vectors=vectors, ignore=ignore or (), header=header)
    searched = _read_items(items, ids, encoder, columns)
    if save_index is not None:
        _save(searched, save_index)
        note(f"Wrote {searched.flat!r} to {save_index}.")
    if queries is None:
        return
    asked = read_side(queries, encoder, columns)
    if radius is not None:
        found = [_Found(ids.tolist()[:k], away.tolist()[:k]) for ids, away in _within(searched.flat, asked, radius)]
    else:
        found = _search(searched, asked, encoder, 10 if k is None else k, rescore, asymmetric)
    if searched.names is not None:
        names = searched.names
        found = [_Found([names[row] for row in ids], distances) for ids, distances in found]
    if out is not None:
        _write(out, found)
    if as_json:
        for query, (ids_of, distances) in enumerate(found):
            print_json({"query": query, "ids": ids_of, "distances": distances})
    elif out is None:
        _show(found)


def _read_items(items: Path, ids: Path | None, encoder: Encoder | None, columns: Columns) -> _Items:
    from onlinehash.cli._arrays import read_column
    from onlinehash.cli._encoding import read_side
    from onlinehash.cli._kinds import refuse_other_kinds
    from onlinehash.exceptions import InvalidInputError
    from onlinehash.indexes import FlatIndex

    if items.suffix.lower() == ".ohi":
        if ids is not None:
            raise typer.BadParameter("a saved index has its own ids.", param_hint="--ids")
        refuse_other_kinds(items, "index")
        return _Items(FlatIndex.load(items, mmap=True))
    side = read_side(items, encoder, columns)
    given = side.ids if ids is None else read_column(ids, "ids")
    index = FlatIndex(8 * side.codes.shape[1] if encoder is None else encoder.n_bits)
    listed = None if given is None else list(given)
    if not listed or not isinstance(listed[0], str):
        index.upsert(side.codes, given)
        return _Items(index, None, side.X, None if listed is None else {id: row for row, id in enumerate(listed)})
    if len(listed) != len(side.codes) or len(set(listed)) != len(listed):
        raise InvalidInputError(
            f"There are {len(set(listed))} different ids for {len(side.codes)} items of {items}; give one per item."
        )
    index.upsert(side.codes)
    return _Items(index, [str(name) for name in listed], side.X)


def _save(items: _Items, path: Path) -> None:
    from onlinehash.exceptions import InvalidInputError

    if items.names is not None:
        raise InvalidInputError(
            "An index holds integer ids, and these are text. Search without --save-index, leave out the ids with "
            "--ignore, or keep the items in a collection: onlinehash collection create"
        )
    items.flat.save(path)


def _within(index: FlatIndex, asked: Side, radius: int) -> list[tuple[Any, Any]]:
    return [(matches.ids, matches.distances) for matches in index.range_search(asked.codes, radius)]


def _search(
    items: _Items, asked: Side, encoder: Encoder | None, k: int, rescore: str | None, asymmetric: bool | None
) -> list[_Found]:
    """Find k items per query, ordered as finely as what is given allows."""
    from onlinehash._validation import check_positive_int

    check_positive_int("k", k)
    has_both = items.X is not None and asked.X is not None
    if rescore in ("cosine", "l2") and not has_both:
        raise typer.BadParameter("it needs vectors in both files, and --model.", param_hint="--rescore")
    if asymmetric and asked.X is None:
        raise typer.BadParameter("it needs queries that are vectors, and --model.", param_hint="--asymmetric")
    measure = None if rescore == "none" else rescore or ("cosine" if has_both else None)
    is_soft = asked.X is not None and measure is None if asymmetric is None else asymmetric
    wanted = k if measure is None else max(10 * k, _RESCORED)
    if is_soft:
        assert encoder is not None
        assert asked.X is not None
        matches = items.flat.search(encoder.encode_asymmetric(asked.X), wanted, asymmetric=True)
    else:
        matches = items.flat.search(asked.codes, wanted)
    if measure is None:
        return [_Found(some.ids.tolist(), some.distances.tolist()) for some in matches]
    assert asked.X is not None
    return [
        _rescored(items, query, some.ids.tolist(), measure, k) for query, some in zip(asked.X, matches, strict=True)
    ]


def _rescored(items: _Items, query: Any, ids: list[int], measure: str, k: int) -> _Found:
    from onlinehash.collection.rescoring import rescored
    from onlinehash.collection.stores.protocol import Rows

    rows = ids if items.rows is None else [items.rows[id] for id in ids]
    return _Found(*rescored(query, Rows(ids, [], items.X[rows], [], []), measure, k))


def _write(out: Path, found: list[_Found]) -> None:
    import csv
    import io

    import numpy as np

    from onlinehash.cli._screen import note
    from onlinehash.cli._writing import name_of_output, open_output

    rows = [
        (query, id, distance)
        for query, (ids, distances) in enumerate(found)
        for id, distance in zip(ids, distances, strict=True)
    ]
    names = ("query", "id", "distance")
    with open_output(out) as file:
        if out.suffix.lower() == ".npz":
            columns: dict[str, Any] = {name: np.array([row[i] for row in rows]) for i, name in enumerate(names)}
            np.savez(file, **columns)
        else:
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([names, *rows])
            file.write(text.getvalue().encode())
    note(f"Wrote {len(rows)} matches of {len(found)} queries to {name_of_output(out)}.")


def _show(found: list[_Found]) -> None:
    from onlinehash.cli._screen import note, number, on_terminal, print_rows

    if not on_terminal():
        lines = (
            (query, id, number(distance))
            for query, (ids, distances) in enumerate(found)
            for id, distance in zip(ids, distances, strict=True)
        )
        print_rows(("query", "id", "distance"), lines)
        return
    rows = [
        (query, "  ".join(f"{id} ({number(distance)})" for id, distance in zip(ids, distances, strict=True)))
        for query, (ids, distances) in enumerate(found[:_SHOWN])
    ]
    print_rows(("query", "ids (distance), nearest first"), rows)
    if len(found) > _SHOWN:
        note(f"... and {len(found) - _SHOWN} more queries; --json or --out give all.")
