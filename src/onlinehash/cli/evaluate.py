"""``onlinehash evaluate``: how good codes are, by the labels of queries and items."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from onlinehash._internal.validation import check_choice, check_targets
from onlinehash.cli import _options as options
from onlinehash.cli._files import check_inputs
from onlinehash.cli._screen import print_json, print_rows
from onlinehash.exceptions import InvalidLabelsError, located
from onlinehash.types import LabelSets

if TYPE_CHECKING:
    from onlinehash.encoders import Encoder
    from onlinehash.metrics import Ranking
    from onlinehash.tables import Columns
    from onlinehash.types import Codes

_SAMPLED_ITEMS = 500
_FILE = "Vectors with --model, else packed codes: .npy, .npz, .csv, .jsonl or .parquet."


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

    Also, of a sample of at most 500 items of the database, the share that are among the 10 nearest of their own code
    (self-recall), and the share that any of these searches returns (coverage): low where many items share one code.

    mAP@k is given twice: divided by the number of relevant items that k places can hold ('possible'), and by the
    number of those found ('found'), which is often published and is higher.
    """
    from onlinehash.cli._arrays import check_rows, read_encoder
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
    if split is not None:
        assert encoder is not None
        with located(dataset):
            sides = [(encoder.encode(side.X), side.y) for side in (split.queries, split.database)]
        map_at, precision_at = map_at or split.map_at, precision_at or split.precision_at
    else:
        columns = options.columns(vectors, ignore, header)
        both = ((queries, query_labels), (database, database_labels))
        sides = [_read_labelled(path, replace(columns, labels=labels), encoder) for path, labels in both if path]
    (asked, asked_labels), (stored, stored_labels) = sides
    ranking = Ranking(asked, asked_labels, stored, stored_labels, ties=ties)
    result = _measure(ranking, map_at or 1000, precision_at or 100, radius) | _retrievability(stored)
    sizes = {"n_queries": len(asked), "n_items": len(stored), "ties": ties}
    if as_json:
        print_json({**sizes, **json.loads(json.dumps(result), parse_constant=lambda name: None)})  # JSON has no NaN
    else:
        print_rows(("measure", "value"), [*sizes.items(), *_measure_rows(result)])


def _read_labelled(path: Path, columns: Columns, encoder: Encoder | None) -> tuple[Codes, Any]:
    """Return the codes of a file, and their labels."""
    from onlinehash.cli._arrays import read_codes

    codes, labels = read_codes(path, encoder, columns)
    if labels is None:
        raise InvalidLabelsError(f"{path} comes without labels; give --query-labels and --database-labels.")
    with located(path):
        targets, labelled = check_targets(labels, len(codes))
        if labelled is not None and not isinstance(targets, LabelSets):
            raise InvalidLabelsError(f"y has no label in row {labelled.argmin()}; leave out rows that have no label.")
    return codes, targets


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


def _retrievability(codes: Codes) -> dict[str, Any]:
    """Return which of a sample of items a search by their own codes finds."""
    from onlinehash.indexes import FlatIndex
    from onlinehash.metrics import coverage, self_recall

    index, k = FlatIndex(8 * codes.shape[1], ties="hash"), 10
    index.upsert(codes)
    ids = np.sort(np.random.default_rng(0).permutation(len(codes))[:_SAMPLED_ITEMS])
    found = index.search(codes[ids], min(k, len(codes))).ids.tolist()
    listed = ids.tolist()
    return {"own_code": {"k": k, "self_recall": self_recall(listed, found), "coverage": coverage(listed, found)}}


def _measure_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    at, precision, within, own = (result[name] for name in ("map_at", "precision_at", "within_radius", "own_code"))
    values = {
        "mAP": result["map"],
        f"mAP@{at['k']} (of possible)": at["possible"],
        f"mAP@{at['k']} (of found)": at["found"],
        f"Precision@{precision['k']}": precision["precision"],
        f"Recall@{precision['k']}": result["recall_at"]["recall"],
        f"Precision within radius {within['radius']}": within["precision"],
        "Queries without any item in it": within["empty_rate"],
        f"Self-recall@{own['k']}": own["self_recall"],
        f"Coverage@{own['k']}": own["coverage"],
    }
    return [(name, f"{value:.4f}") for name, value in values.items()]
