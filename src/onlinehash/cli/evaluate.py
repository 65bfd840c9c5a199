"""``onlinehash evaluate``: retrieval metrics of codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onlinehash._validation import check_choice, check_targets
from onlinehash.cli import _options as options
from onlinehash.cli._files import check_inputs
from onlinehash.cli._screen import print_json, print_rows
from onlinehash.cli.datasets import check_split, load_split
from onlinehash.exceptions import InvalidLabelsError
from onlinehash.types import LabelSets

if TYPE_CHECKING:
    from onlinehash.cli._arrays import Given
    from onlinehash.encoders import Encoder
    from onlinehash.metrics import Ranking
    from onlinehash.tables import Columns

_FILE = "Vectors with --model, else packed codes: .npy, .npz, .csv, .jsonl or .parquet; - for standard input."
_LABELS = "Labels: .npy, .csv or .txt; or a column of the file itself, by default labels or label, y in a .npz."


def run(
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
    map_at: Annotated[
        int | None, typer.Option(help="Length of the ranking for mAP@k.", min=1, show_default="1000")
    ] = None,
    precision_at: Annotated[
        int | None,
        typer.Option(help="Length for Precision@k and Recall@k.", min=1, show_default="the data set's, else 100"),
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
    from onlinehash.cli._arrays import check_column, check_rows, encode_rows, read_encoder, with_codes
    from onlinehash.metrics import Ranking
    from onlinehash.tables import Columns

    of_files = (queries, query_labels, database, database_labels)
    if dataset is not None and (model is None or any(given is not None for given in of_files)):
        raise typer.BadParameter("--dataset needs --model, and no --queries or --database, nor labels of them.")
    if dataset is None and (queries is None or database is None):
        raise typer.BadParameter("give --model and --dataset, or --queries and --database.")
    check_choice("ties", ties, ("expected", "stable"))
    check_inputs(model)
    if dataset is not None:
        check_split(dataset, protocol)
    check_rows(queries, database)
    for path, labels in ((queries, query_labels), (database, database_labels)):
        if path is not None and labels is not None and not _is_column(labels, path):
            check_column(Path(labels))
    encoder = read_encoder(model) if model is not None else None
    if dataset is not None:
        assert encoder is not None
        split = load_split(dataset, protocol, seed)
        sides = [(encode_rows(encoder, side.X, dataset), side.y) for side in (split.queries, split.database)]
        map_at, precision_at = map_at or split.map_at, precision_at or split.precision_at
    else:
        assert queries is not None
        assert database is not None
        columns = Columns(id=id, vectors=vectors, ignore=ignore or (), header=header)
        files = ((queries, query_labels), (database, database_labels))
        read = [(path, *_read(path, labels, encoder, columns)) for path, labels in files]
        sides = [(with_codes(given, encoder, path).codes, y) for path, given, y in read]
    result = _measure(Ranking(*sides[0], *sides[1], ties=ties), map_at or 1000, precision_at or 100, radius)
    sizes = {"n_queries": len(sides[0][0]), "n_items": len(sides[1][0]), "ties": ties}
    if as_json:
        without_nan = json.loads(json.dumps(result), parse_constant=lambda name: None)  # JSON has no NaN
        print_json({**sizes, **without_nan})
    else:
        print_rows(("measure", "value"), [*sizes.items(), *_rows(result)])


def _read(path: Path, labels: str | None, encoder: Encoder | None, columns: Columns) -> tuple[Given, Any]:
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


def _rows(result: dict[str, Any]) -> list[tuple[str, str]]:
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
