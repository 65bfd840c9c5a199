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
from onlinehash.cli._screen import print_json, print_rows
from onlinehash.exceptions import InvalidLabelsError, located
from onlinehash.types import LabelSets

if TYPE_CHECKING:
    from onlinehash.metrics import Ranking
    from onlinehash.tables import Chunk
    from onlinehash.types import Codes

_SAMPLED_ITEMS, _K = 500, 10  # of self-recall and coverage
_FILE = "Vectors with --model, else packed codes: .npy, .npz, .csv, .jsonl or .parquet."


def evaluate(
    model: Annotated[Path | None, typer.Option(help=options.MODEL)] = None,
    *,
    queries: Annotated[Path, typer.Option(help=_FILE)],
    query_labels: Annotated[str | None, typer.Option(metavar="COLUMN|FILE", help=options.LABELS)] = None,
    database: Annotated[Path, typer.Option(help=_FILE)],
    database_labels: Annotated[str | None, typer.Option(metavar="COLUMN|FILE", help=options.LABELS)] = None,
    vectors: options.Vectors = None,
    ignore: options.Ignore = None,
    header: options.Header = None,
    map_at: Annotated[int, typer.Option(help="Length for mAP@k.", min=1)] = 1000,
    precision_at: Annotated[int, typer.Option(help="Length for Precision@k, Recall@k.", min=1)] = 100,
    radius: Annotated[int, typer.Option(help="Hamming radius of the precision within it.", min=0)] = 2,
    ties: Annotated[
        str, typer.Option(metavar="expected|stable", help="Average over all orders of ties, or keep storage order.")
    ] = "expected",
    as_json: options.Json = False,
) -> None:
    """Measure mAP, mAP@k, Precision@k, Recall@k and precision within a Hamming radius.

    Also, of a sample of at most 500 items of the database, the share that are among the 10 nearest of their own code
    (self-recall), and the share that any of these searches returns (coverage): low where many items share one code.

    mAP@k is given twice: divided by the number of relevant items that k places can hold, and by the number of those
    found, which is often published and is higher.
    """
    from onlinehash.cli._arrays import codes_of, read_encoder, read_rows
    from onlinehash.metrics import Ranking

    check_choice("ties", ties, ("expected", "stable"))
    columns = options.columns(vectors, ignore, header)
    tables = [
        (path, read_rows(path, replace(columns, labels=labels)))
        for path, labels in ((queries, query_labels), (database, database_labels))
    ]
    encoder = None if model is None else read_encoder(model)
    (asked, asked_labels), (stored, stored_labels) = (
        (codes_of(rows, encoder, path), _labels_of(rows, path)) for path, rows in tables
    )
    ranking = Ranking(asked, asked_labels, stored, stored_labels, ties=ties)
    result = _measure(ranking, map_at, precision_at, radius) | _retrievability(stored)
    result = {"n_queries": len(asked), "n_items": len(stored), "ties": ties} | result
    if as_json:
        print_json(json.loads(json.dumps(result), parse_constant=lambda name: None))  # JSON has no NaN
    else:
        shown = [(name, f"{value:.4f}" if isinstance(value, float) else value) for name, value in result.items()]
        print_rows(("measure", "value"), shown)


def _labels_of(rows: Chunk, path: Path) -> Any:
    """Return the labels of a file, one or several for every row."""
    if rows.labels is None:
        raise InvalidLabelsError(f"{path} comes without labels; give --query-labels and --database-labels.")
    with located(path):
        targets, labelled = check_targets(rows.labels, len(rows))
        if labelled is not None and not isinstance(targets, LabelSets):
            raise InvalidLabelsError(f"y has no label in row {labelled.argmin()}; leave out rows that have no label.")
    return targets


def _measure(ranking: Ranking, map_at: int, precision_at: int, radius: int) -> dict[str, Any]:
    map_at, precision_at = min(map_at, ranking.n_items), min(precision_at, ranking.n_items)
    within = ranking.precision_within(radius)
    return {
        "map": ranking.mean_average_precision(),
        "map_k": map_at,
        "map_at_k_of_possible": ranking.mean_average_precision(map_at),
        "map_at_k_of_found": ranking.mean_average_precision(map_at, denominator="found"),
        "precision_k": precision_at,
        "precision_at_k": ranking.precision_at(precision_at),
        "recall_at_k": ranking.recall_at(precision_at),
        "radius": radius,
        "precision_within_radius": within.precision,
        "empty_rate": within.empty_rate,
    }


def _retrievability(codes: Codes) -> dict[str, float]:
    """Return which of a sample of items a search by their own codes finds."""
    from onlinehash.indexes import FlatIndex
    from onlinehash.metrics import coverage, self_recall

    index = FlatIndex(8 * codes.shape[1], ties="hash")
    index.upsert(codes)
    ids = np.sort(np.random.default_rng(0).permutation(len(codes))[:_SAMPLED_ITEMS])
    found = index.search(codes[ids], min(_K, len(codes))).ids.tolist()
    listed = ids.tolist()
    return {"self_recall": self_recall(listed, found), "coverage": coverage(listed, found)}
