"""``onlinehash search`` and ``evaluate``: the nearest items of queries in files, and how good they are."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from onlinehash._internal.files import write_bytes
from onlinehash._internal.validation import check_choice, check_non_negative_int, check_positive_int, check_targets
from onlinehash.cli import _options as options
from onlinehash.cli._files import check_inputs, check_output
from onlinehash.cli._screen import note, number, print_by_query, print_json, print_rows
from onlinehash.exceptions import InvalidLabelsError, counted
from onlinehash.types import LabelSets, SearchResult

if TYPE_CHECKING:
    from onlinehash.cli._arrays import Items
    from onlinehash.encoders import Encoder
    from onlinehash.metrics import Ranking
    from onlinehash.tables import Columns

_FILE = "Vectors with --model, else packed codes: .npy, .npz, .csv, .jsonl or .parquet."
_SELF_K, _SAMPLED_ITEMS = 10, 500  # of the searches for stored items
_RADIUS = "Find all items within this Hamming distance instead."


def search(
    items: Annotated[Path, typer.Argument(metavar="ITEMS", help=_FILE)],
    queries: Annotated[Path, typer.Argument(metavar="QUERIES", help=_FILE)],
    *,
    k: options.K = None,
    radius: Annotated[int | None, typer.Option(help=_RADIUS)] = None,
    rescore: options.RescoreOption = None,
    asymmetric: options.Asymmetric = False,
    model: Annotated[Path | None, typer.Option(help="A saved hasher or encoder, to encode vectors.")] = None,
    id: options.Id = None,
    vectors: options.Vectors = None,
    ignore: options.Ignore = None,
    header: options.Header = None,
    out: Annotated[Path | None, typer.Option(help="Write query, id, distance to this .csv file.")] = None,
    as_json: options.Json = False,
) -> None:
    """Find the nearest items by the Hamming distance of their codes, and order the best as Collection.search does.

    That needs --model and vectors in both files; where one holds codes, items are ordered by codes alone.

    With --model, a file is read as vectors if it has as many columns as the model learned from, else as codes.
    """
    from onlinehash.cli._arrays import check_rows, read_encoder, read_items

    if radius is not None and (k is not None or rescore not in (None, "none") or asymmetric):
        raise typer.BadParameter("--radius finds all items within it; leave out -k, --rescore and --asymmetric.")
    check_positive_int("k", 10 if k is None else k)
    check_non_negative_int("radius", radius or 0)
    if out is not None:
        check_output(out, ".csv")
    check_inputs(model)
    check_rows(items, queries)
    encoder = read_encoder(model) if model is not None else None
    columns = options.columns(vectors, ignore, header, id=id)
    stored, asked = read_items(items, encoder, columns), read_items(queries, encoder, columns)
    ranking: Any = {"rescore": options.rescore_of(rescore), "asymmetric": asymmetric}
    found = _search(stored, asked, encoder, 10 if k is None else k, radius, **ranking)
    if stored.ids is not None:
        found = [SearchResult([stored.ids[row] for row in some.ids], some.distances) for some in found]
    if out is not None:
        rows = [(query, *row) for query, some in enumerate(found) for row in zip(some.ids, some.distances, strict=True)]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([("query", "id", "distance"), *rows])
        write_bytes(out, text.getvalue().encode())
        written = f"{counted(len(rows), 'match', 'matches')} of {counted(len(found), 'query', 'queries')}"
        note(f"Wrote {written} to {out}.")
    if as_json:
        for query, some in enumerate(found):
            print_json({"query": query, "ids": some.ids, "distances": some.distances})
    elif out is None:
        print_by_query(("id", "distance"), found, lambda some: zip(some.ids, map(number, some.distances), strict=True))


def _search(
    items: Items,
    asked: Items,
    encoder: Encoder | None,
    k: int,
    radius: int | None = None,
    *,
    rescore: str | None = "auto",
    asymmetric: bool = False,
) -> list[SearchResult]:
    """Return the nearest rows of each query, by the one ranking rule; by codes alone where vectors are missing."""
    from onlinehash.collection.finder import measure_of, n_candidates, ranked
    from onlinehash.indexes import FlatIndex

    index = FlatIndex(8 * items.codes.shape[1] if encoder is None else encoder.n_bits, ties="hash")
    index.upsert(items.codes)
    if radius is not None:
        return _listed(index.range_search(asked.codes, radius))
    if asymmetric and (encoder is None or asked.X is None):
        raise typer.BadParameter("--asymmetric compares vectors with codes; give --model, and vectors as queries.")
    if encoder is None or asked.X is None or items.X is None:
        if rescore not in ("auto", None):
            raise typer.BadParameter(f"--rescore {rescore} needs --model, and the vectors of items and queries.")
        rescore = None
    measure = None if encoder is None else measure_of(rescore, encoder)
    queries: Any = asked.codes
    if asymmetric and encoder is not None and asked.X is not None:
        queries = encoder.encode_asymmetric(asked.X)
    found = index.search(queries, k if measure is None else n_candidates(k), asymmetric=asymmetric)
    if measure is None:
        return _listed(found)
    assert encoder is not None and asked.X is not None and items.X is not None
    learned = measure == "learned"
    scores, rows = encoder.class_scores(asked.X) if learned else None, []
    for query, some in enumerate(found):
        vectors = items.X[some.ids]
        lists = encoder.calibration.class_lists(encoder.class_scores(vectors)) if learned else None
        own = None if scores is None else scores[query]
        order, distances = ranked(encoder, measure, asked.X[query], own, vectors, lists, k)
        rows.append(SearchResult(some.ids[order].tolist(), distances.tolist()))
    return rows


def _listed(found: Any) -> list[SearchResult]:
    return [SearchResult(some.ids.tolist(), some.distances.tolist()) for some in found]


def evaluate(
    model: Annotated[Path | None, typer.Option(help="A saved hasher or encoder.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Evaluate on this data set; needs --model.")] = None,
    protocol: options.Protocol = "online",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split of the data set; use that of 'learn'.")] = 0,
    queries: Annotated[Path | None, typer.Option(help=_FILE)] = None,
    query_labels: Annotated[str | None, typer.Option(metavar="COLUMN|FILE", help=options.LABELS)] = None,
    database: Annotated[Path | None, typer.Option(help=_FILE)] = None,
    database_labels: Annotated[str | None, typer.Option(metavar="COLUMN|FILE", help=options.LABELS)] = None,
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

    With --model and vectors, also what a search of the database finds of a sample of at most 500 of its items by their
    own vectors: the share of items that are among their 10 nearest (self-recall), and the share that any of these
    searches returns (coverage).

    mAP@k is given twice: divided by the number of relevant items that k places can hold ('possible'), and by the
    number of those found ('found'), which is often published and is higher.
    """
    from onlinehash.cli._arrays import Items, check_rows, named, read_encoder
    from onlinehash.metrics import Ranking

    if dataset is not None and (model is None or any((queries, query_labels, database, database_labels))):
        raise typer.BadParameter("--dataset needs --model, and no --queries or --database, nor labels of them.")
    if dataset is None and (queries is None or database is None):
        raise typer.BadParameter("give --model and --dataset, or --queries and --database.")
    check_choice("ties", ties, ("expected", "stable"))
    check_inputs(model)
    check_rows(queries, database)
    split = None if dataset is None else options.load_split(dataset, protocol, seed)
    encoder = read_encoder(model) if model is not None else None
    sides: list[Items]
    if split is not None:
        assert encoder is not None
        with named(str(dataset)):
            sides = [Items(encoder.encode(side.X), side.X, None, side.y) for side in (split.queries, split.database)]
        map_at, precision_at = map_at or split.map_at, precision_at or split.precision_at
    else:
        columns = options.columns(vectors, ignore, header)
        both = ((queries, query_labels), (database, database_labels))
        sides = [_read_labelled(path, replace(columns, labels=labels), encoder) for path, labels in both if path]
    asked, stored = sides
    ranking = Ranking(asked.codes, asked.labels, stored.codes, stored.labels, ties=ties)
    result = _measure(ranking, map_at or 1000, precision_at or 100, radius) | _retrievability(stored, encoder)
    sizes = {"n_queries": len(asked.codes), "n_items": len(stored.codes), "ties": ties}
    if as_json:
        print_json({**sizes, **json.loads(json.dumps(result), parse_constant=lambda name: None)})  # JSON has no NaN
    else:
        print_rows(("measure", "value"), [*sizes.items(), *_measure_rows(result)])


def _read_labelled(path: Path, columns: Columns, encoder: Encoder | None) -> Items:
    """Return the codes of a file, their labels, and their vectors if it has them."""
    from onlinehash.cli._arrays import read_items

    items = read_items(path, encoder, columns)
    if items.labels is None:
        raise InvalidLabelsError(f"{path} comes without labels; give --query-labels and --database-labels.")
    try:
        targets, labelled = check_targets(items.labels, len(items.codes))
    except InvalidLabelsError as error:
        raise InvalidLabelsError(f"{path}: {error}") from error
    if labelled is not None and not isinstance(targets, LabelSets):
        raise InvalidLabelsError(
            f"{path}: y has no label in row {labelled.argmin()}; leave out rows that have no label."
        )
    return items


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


def _retrievability(items: Items, encoder: Encoder | None) -> dict[str, Any]:
    """Return which of a sample of items a search by their own vectors finds; nothing without vectors."""
    from onlinehash.metrics import coverage, self_recall

    if encoder is None or items.X is None:
        return {}
    n_rows = len(items.codes)
    rows = np.sort(np.random.default_rng(0).permutation(n_rows)[:_SAMPLED_ITEMS])
    asked = items._replace(codes=items.codes[rows], X=items.X[rows])
    found = [some.ids for some in _search(items, asked, encoder, _SELF_K)]
    ids = rows.tolist()
    return {"retrievability": {"k": _SELF_K, "self_recall": self_recall(ids, found), "coverage": coverage(ids, found)}}


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
    if "retrievability" in result:
        found = result["retrievability"]
        values |= {f"Self-recall@{found['k']}": found["self_recall"], f"Coverage@{found['k']}": found["coverage"]}
    return [(name, f"{value:.4f}") for name, value in values.items()]
