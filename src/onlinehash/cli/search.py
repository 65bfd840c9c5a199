"""``onlinehash search`` and ``evaluate``: the nearest items of queries in files, and how good they are."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer

from onlinehash._internal.validation import (
    check_choice,
    check_ids,
    check_non_negative_int,
    check_positive_int,
    check_targets,
)
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
from onlinehash.cli._screen import note, number, print_by_query, print_json, print_rows
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError, counted
from onlinehash.types import LabelSets, SearchResult

if TYPE_CHECKING:
    from onlinehash.cli._arrays import Given
    from onlinehash.encoders import Encoder
    from onlinehash.indexes import FlatIndex
    from onlinehash.metrics import Ranking
    from onlinehash.tables import Columns

_COLUMNS = ("query", "id", "distance")
_ITEMS = (
    "Codes, vectors with --model, or an .ohi index: .npy, .npz, .csv, .jsonl, .parquet, .bits; - for standard input."
)
_QUERIES = "Codes, or vectors with --model, to search for."
_RADIUS = "Find all items within this Hamming distance; -k limits their number."
_OUT = "Write query, id, distance to a .csv or .npz file; - for standard output, as csv."
_FILE = "Vectors with --model, else packed codes: .npy, .npz, .csv, .jsonl or .parquet; - for standard input."
_LABELS = "Labels: .npy, .csv or .txt; or a column of the file itself, by default labels or label, y in a .npz."


class _Items(NamedTuple):
    """An index by row number or integer id, the ids that are text, the vectors, and their row numbers by id."""

    flat: FlatIndex
    names: list[str] | None = None
    X: Any = None
    rows: dict[int, int] | None = None


def search(
    items: Annotated[Path, typer.Argument(metavar="ITEMS", help=_ITEMS)],
    queries: Annotated[Path | None, typer.Argument(metavar="QUERIES", help=_QUERIES)] = None,
    *,
    k: options.K = None,
    radius: Annotated[int | None, typer.Option(help=_RADIUS)] = None,
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
        Path | None, typer.Option(help="File of the ids: integers or text.", show_default="of ITEMS, or row numbers")
    ] = None,
    model: Annotated[Path | None, typer.Option(help="A saved hasher or encoder, to encode vectors.")] = None,
    id: options.Id = None,
    vectors: options.Vectors = None,
    ignore: options.Ignore = None,
    header: options.Header = None,
    save_index: Annotated[Path | None, typer.Option(help="Write the index to this .ohi file.")] = None,
    out: Annotated[Path | None, typer.Option(help=_OUT)] = None,
    as_json: options.Json = False,
) -> None:
    """Find the nearest items by the Hamming distance of their codes.

    Items of one class often share one code. The best are therefore ordered by their vectors where both files hold
    vectors, or else by the real values of the query. '--rescore none --no-asymmetric' gives Hamming distances, ties
    by id.

    With --model, a file is read as vectors if it has as many columns as the model learned from, else as codes.
    """
    from onlinehash.cli._arrays import COLUMNS, ROWS, check_files, read_encoder, read_items, with_codes

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
    check_files(ROWS, None if items.suffix.lower() == ".ohi" else items, queries)
    check_files(COLUMNS, ids)
    encoder = read_encoder(model) if model is not None else None
    columns = options.columns(id, vectors, ignore, header)
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
    if out is not None:
        n_rows = _write(out, found)
        written = f"{counted(n_rows, 'match', 'matches')} of {counted(len(found), 'query', 'queries')}"
        note(f"Wrote {written} to {name_of_output(out)}.")
    if as_json:
        for query, some in enumerate(found):
            print_json({"query": query, "ids": some.ids, "distances": some.distances})
    elif out is None:
        pairs = lambda some: zip(some.ids, map(number, some.distances), strict=True)  # noqa: E731
        print_by_query(_COLUMNS[1:], found, pairs)


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
    listed, n_items = np.asarray(check_ids(own_ids)).tolist(), given.n_items
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
    from onlinehash.collection.finder import vector_distances

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


def _write(out: Path, found: list[SearchResult]) -> int:
    """Write what was found, one row per match, and return the number of rows."""
    rows = [(query, *pair) for query, some in enumerate(found) for pair in zip(some.ids, some.distances, strict=True)]
    with open_output(out) as file:
        if out.suffix.lower() == ".npz":
            columns: dict[str, Any] = {name: np.array([row[i] for row in rows]) for i, name in enumerate(_COLUMNS)}
            np.savez(file, **columns)
        else:
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([_COLUMNS, *rows])
            file.write(text.getvalue().encode())
    return len(rows)


def evaluate(
    model: Annotated[Path | None, typer.Option(help="A saved hasher or encoder.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Evaluate on this data set; needs --model.")] = None,
    protocol: options.Protocol = "online",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split of the data set; use that of 'learn'.")] = 0,
    queries: Annotated[Path | None, typer.Option(help=_FILE)] = None,
    query_labels: Annotated[str | None, typer.Option(metavar="FILE|COLUMN", help=_LABELS)] = None,
    database: Annotated[Path | None, typer.Option(help=_FILE)] = None,
    database_labels: Annotated[str | None, typer.Option(metavar="FILE|COLUMN", help=_LABELS)] = None,
    id: options.Id = None,
    vectors: options.Vectors = None,
    ignore: options.Ignore = None,
    header: options.Header = None,
    map_at: Annotated[int | None, typer.Option(help="Length for mAP@k.", min=1, show_default="1000")] = None,
    precision_at: Annotated[
        int | None, typer.Option(help="Length for Precision@k, Recall@k.", min=1, show_default="the data set's, or 100")
    ] = None,
    radius: Annotated[int, typer.Option(help="Hamming radius of the precision within it.", min=0)] = 2,
    ties: Annotated[
        str, typer.Option(metavar="expected|stable", help="Average over all orders of ties, or keep storage order.")
    ] = "expected",
    as_json: options.Json = False,
) -> None:
    """Measure mAP, mAP@k, Precision@k, Recall@k and precision within a Hamming radius.

    mAP@k is given twice: divided by the number of relevant items that k places can hold ('possible'), and by the
    number of those found ('found'), which is often published and is higher.
    """
    from onlinehash.cli._arrays import COLUMNS, ROWS, check_files, encode_rows, read_encoder, with_codes
    from onlinehash.metrics import Ranking

    of_files = (queries, query_labels, database, database_labels)
    if dataset is not None and (model is None or any(given is not None for given in of_files)):
        raise typer.BadParameter("--dataset needs --model, and no --queries or --database, nor labels of them.")
    if dataset is None and (queries is None or database is None):
        raise typer.BadParameter("give --model and --dataset, or --queries and --database.")
    check_choice("ties", ties, ("expected", "stable"))
    check_inputs(model)
    if dataset is not None:
        options.check_split(dataset, protocol)
    check_files(ROWS, queries, database)
    both = ((queries, query_labels), (database, database_labels))
    files = [(path, labels) for path, labels in both if path is not None]
    check_files(COLUMNS, *(Path(labels) for path, labels in files if labels and not _is_column(labels, path)))
    encoder = read_encoder(model) if model is not None else None
    if dataset is not None:
        assert encoder is not None
        split = options.load_split(dataset, protocol, seed)
        sides = [(encode_rows(encoder, side.X, dataset), side.y) for side in (split.queries, split.database)]
        map_at, precision_at = map_at or split.map_at, precision_at or split.precision_at
    else:
        columns = options.columns(id, vectors, ignore, header)
        read = [(path, *_read_labelled(path, labels, encoder, columns)) for path, labels in files]
        sides = [(with_codes(given, encoder, path).codes, y) for path, given, y in read]
    result = _measure(Ranking(*sides[0], *sides[1], ties=ties), map_at or 1000, precision_at or 100, radius)
    sizes = {"n_queries": len(sides[0][0]), "n_items": len(sides[1][0]), "ties": ties}
    if as_json:
        print_json({**sizes, **json.loads(json.dumps(result), parse_constant=lambda name: None)})  # JSON has no NaN
    else:
        print_rows(("measure", "value"), [*sizes.items(), *_measure_rows(result)])


def _read_labelled(path: Path, labels: str | None, encoder: Encoder | None, columns: Columns) -> tuple[Given, Any]:
    """Return the rows of a file, before they are encoded, and their labels."""
    from onlinehash.cli._arrays import read_column, read_items

    is_column = labels is not None and _is_column(labels, path)
    given = read_items(path, encoder, replace(columns, labels=labels) if is_column else columns)
    y = given.labels if labels is None or is_column else read_column(Path(labels), "labels")
    if y is None:
        raise InvalidLabelsError(f"{path} comes without labels; give --query-labels and --database-labels.")
    try:
        targets, labelled = check_targets(y, given.n_items)
    except InvalidLabelsError as error:
        raise InvalidLabelsError(f"{path}: {error}") from error
    if labelled is not None and not isinstance(targets, LabelSets):
        raise InvalidLabelsError(
            f"{path}: y has no label in row {labelled.argmin()}; leave out rows that have no label."
        )
    return given, y


def _is_column(labels: str, path: Path) -> bool:
    """Return whether labels name a column of a file, rather than a file of their own."""
    has_columns = path.suffix.lower() in ("", ".csv", ".jsonl", ".parquet")
    return has_columns and labels != "-" and not Path(labels).is_file()


def _measure(ranking: Ranking, map_at: int, precision_at: int, radius: int) -> dict[str, Any]:
    map_at, precision_at = min(map_at, ranking.n_items), min(precision_at, ranking.n_items)
    within = ranking.precision_within(radius)
    return {
        "map": ranking.mean_average_precision(),
        "map_at": {
            "k": map_at,
            "possible": ranking.mean_average_precision(map_at),
            "found": ranking.mean_average_precision(map_at, denominator="found"),
        },
        "precision_at": {"k": precision_at, "precision": ranking.precision_at(precision_at)},
        "recall_at": {"k": precision_at, "recall": ranking.recall_at(precision_at)},
        "within_radius": {"radius": radius, "precision": within.precision, "empty_rate": within.empty_rate},
    }


def _measure_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    at, precision, within = result["map_at"], result["precision_at"], result["within_radius"]
    values = {
        "mAP": result["map"],
        f"mAP@{at['k']} (of possible)": at["possible"],
        f"mAP@{at['k']} (of found)": at["found"],
        f"Precision@{precision['k']}": precision["precision"],
        f"Recall@{precision['k']}": result["recall_at"]["recall"],
        f"Precision within radius {within['radius']}": within["precision"],
        "Queries without any item in it": within["empty_rate"],
    }
    return [(name, f"{value:.4f}") for name, value in values.items()]
