"""``onlinehash compare``: a method of your own and others, under the same protocol."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from onlinehash.cli import _screen
from onlinehash.cli._files import check_output
from onlinehash.cli._options import Json, Protocol, parse_setting
from onlinehash.cli._screen import note, print_json, print_rows, progress_bar
from onlinehash.exceptions import UnknownNameError, counted

if TYPE_CHECKING:
    from onlinehash.datasets import Dataset
    from onlinehash.experiments.results import Result

_LISTS = ("--bits", "--against", "--set")
_MEASURES = {"mean_average_precision": "mAP", "precision": "precision", "recall": "recall"}
_SECONDS = {"learning": "learning, s", "encoding": "encoding, s"}


class ListOptions(TyperCommand):
    """Let an option take several values: ``--bits 16 32`` is ``--bits 16 --bits 32``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the name of a list option before each of its values."""
        spelled: list[str] = []
        option = ""
        for word in args:
            if word.startswith("-"):
                option = word if word in _LISTS else ""
            elif option and spelled[-1] != option:
                spelled.append(option)
            spelled.append(word)
        return super().parse_args(ctx, spelled)


def run(
    method: Annotated[str, typer.Argument(metavar="MODULE:CLASS", help="Your class, in this folder or installed.")],
    dataset: Annotated[
        str,
        typer.Option(
            help="Data set, see 'onlinehash datasets'; or a file of your own: .npz (arrays X, y), .csv, .jsonl, "
            ".parquet, or .npy with --labels."
        ),
    ] = "digits",
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN|FILE",
            help="Column of the labels in your file; for .npy, the file of the labels.",
            show_default="labels, label or y",
        ),
    ] = None,
    protocol: Protocol = "online",
    bits: Annotated[list[int] | None, typer.Option(min=1, help="Lengths of the codes.", show_default="16 32")] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Number of runs, each with a split of its own; the spread needs at least 2.")
    ] = 3,
    k: Annotated[
        int | None,
        typer.Option(min=1, help="Length of the ranking for precision and recall.", show_default="the data set's"),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Parameters of your class.")
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Hashers, references (reference:float) or other classes.", show_default="hcoh lsh"),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="Keep results in this file, and reuse those that are not stale."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    as_json: Json = False,
) -> None:
    """Compare a method of your own with others, in one table.

    Your class has partial_fit(X, y) and snapshot(), which returns an object with encode(X); or it is a scikit-learn
    estimator with fit or partial_fit, and transform or decision_function. Its output is read as packed codes if it is
    uint8, as one bit per column if it is bool, else the signs are used. The parameters n_bits, random_state and
    preprocess are passed if the class has them.

    The table shows means over seeds and standard deviations. A file of your own is split for every seed: the queries
    are a fifth of the smallest class, at most 100 rows, from each class; the rest is learned and searched.
    """
    from onlinehash.experiments import parse_plan, pending_runs, read_results, reproduce
    from onlinehash.experiments.own_data import find_dataset, is_file_name

    if ":" not in method:
        raise UnknownNameError(f"{method!r} does not name a class; write module:Class.")
    own = {"hasher": method, **dict(_parse(setting) for setting in settings or ())}
    content: dict[str, Any] = {
        "dataset": dataset,
        "protocol": protocol,
        "bits": bits or [16, 32],
        "seeds": list(range(seeds)),
        "methods": {method: own} | dict(_known(name, dataset) for name in against or ["hcoh", "lsh"]),
    }
    content |= {} if labels is None else {"labels": labels}
    content |= {} if k is None else {"precision_at": k}
    if results is not None:
        check_output(results, ".jsonl")
    plan = parse_plan("compare", content)
    if is_file_name(dataset):
        note(_split_in_words(find_dataset(dataset, labels)))
    with TemporaryDirectory() as folder:
        path = results or Path(folder) / "results.jsonl"
        n_pending = len(pending_runs(plan.runs, path, stale=True))
        note(f"{counted(len(plan.runs), 'run')} on {dataset}, {n_pending} to do.")
        with progress_bar(method) as progress:
            n_workers = None if workers == 1 else min(workers, max(1, n_pending))
            reproduce(plan.runs, path, stale=True, n_workers=n_workers, progress=progress)
        found = read_results(path, plan.runs)
    rows = list(_summary(found))
    cut = found[0]["metrics"]["precision_at"]
    if as_json:
        about = {"dataset": dataset, "protocol": protocol, "seeds": seeds, "k": cut}
        print_json({**about, "rows": rows})
    else:
        _print(rows, cut)


def _split_in_words(data: Dataset) -> str:
    per_class, n_classes = data.sizes.queries_per_class, len(data.class_names)
    n_queries = per_class * n_classes
    return (
        f"{data.name}: {len(data.X)} rows of {data.X.shape[1]} features, {n_classes} classes. For every seed, "
        f"{n_queries} rows ({per_class} per class) are queries; the other {len(data.X) - n_queries} are learned and "
        "searched."
    )


def _print(rows: list[dict[str, Any]], cut: int) -> None:
    """Print means and standard deviations: in one column on a terminal, in two elsewhere."""
    apart = not _screen.on_terminal()
    columns = ["method", "bits"]
    for name in _MEASURES.values():
        title = name if name == "mAP" else f"{name}@{cut}"
        columns += [title, f"{title} std"] if apart else [title]
    print_rows([*columns, *_SECONDS.values()], [_cells(row, apart) for row in rows])


def _cells(row: dict[str, Any], apart: bool) -> list[str]:
    cells = [row["method"], str(row["n_bits"])]
    for measure in _MEASURES:
        value, spread = _text(row[measure]), _text(row[f"{measure}_std"])
        cells += [value, spread] if apart else [value if spread == "-" else f"{value} ± {spread}"]
    return [*cells, *(_text(row[f"{phase}_seconds"]) for phase in _SECONDS)]


def _parse(setting: str) -> tuple[str, Any]:
    from onlinehash.experiments.plan import SHARED

    name, value = parse_setting(setting)
    if name in (*SHARED, "hasher", "bits", "seeds", "grid"):
        raise typer.BadParameter(f"{name!r} is the same for all methods; it cannot be set for one.", param_hint="--set")
    return name, value


def _known(name: str, dataset: str) -> tuple[str, dict[str, Any]]:
    """Return the name of a method in the table, and its settings."""
    from onlinehash.datasets import dataset_names, load_dataset
    from onlinehash.hashers import HASHERS

    if name not in HASHERS:  # a reference or another class; unknown names are refused with the plan
        return name, {"hasher": name}
    settings: dict[str, Any] = {"hasher": name}
    if name == "hcoh" and dataset in dataset_names():  # whose published rate it is
        settings["learning_rate"] = load_dataset(dataset).sizes.learning_rate
    return HASHERS[name].__name__, settings


def _summary(results: Iterable[Result]) -> Iterable[dict[str, Any]]:
    """Yield means over seeds and sample standard deviations, one row per method and number of bits."""
    groups: dict[tuple[str, int], list[Result]] = {}
    for result in results:
        groups.setdefault((result["config"]["method"], result["config"]["n_bits"]), []).append(result)
    for (method, n_bits), runs in groups.items():
        row: dict[str, Any] = {"method": method, "n_bits": n_bits}
        for measure in _MEASURES:
            values = [run["metrics"][measure] for run in runs]
            row[measure] = mean(values)
            row[f"{measure}_std"] = stdev(values) if len(values) > 1 else None
        for phase in _SECONDS:
            row[f"{phase}_seconds"] = mean(run["seconds"][phase] for run in runs)
        yield row


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
