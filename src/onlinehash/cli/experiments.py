"""``onlinehash demo``, ``datasets``, ``reproduce`` and ``compare``: data sets and experiments."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from onlinehash.cli._files import check_output
from onlinehash.cli._options import Json, Protocol, parse_setting
from onlinehash.cli._screen import note, print_json, print_rows, progress_bar
from onlinehash.exceptions import DataNotFoundError, OnlineHashError, UnknownNameError, counted

if TYPE_CHECKING:
    from onlinehash.datasets import Dataset
    from onlinehash.experiments.plan import Plan
    from onlinehash.experiments.report import Chapter
    from onlinehash.experiments.results import Result

_PLANS = "Plans: .toml files, see experiments/."
_RESULTS = "Folder of results, one .jsonl file per plan."
_DATA = (
    "Data set, see 'onlinehash datasets'; or a file: .npz (arrays X, y), .csv, .jsonl, .parquet, .npy with --labels."
)
_LABELS = "Column of the labels in your file; for .npy, the file of the labels."
_QUERIES = "Number of queries, drawn from all rows, whatever their class."
_KEEP = "Keep results in this file, and reuse those that are not stale."
_REPORT = (
    "Write the tables to this .html, .pdf, .tex or .csv file; .html and .pdf have figures, and need the extra research."
)
_MEASURES = {"mean_average_precision": "mAP", "precision": "precision", "recall": "recall"}
_PHASES = ("learning", "encoding")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.", file_okay=False)] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the hashers.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Measure fewer code lengths and points.")] = False,
) -> None:
    """Learn handwritten digits one by one with HROH and HCOH, show mAP along the stream, search, and draw a figure."""
    console = Console(highlight=False)
    with console.status("Loading ..."):
        from onlinehash.demo import terminal
    terminal.show(console, out, seed=seed, quick=quick)


def datasets(as_json: Json = False) -> None:
    """List the data sets: their sizes, whether they are on this machine, and their sources.

    Files are searched in the folder that ONLINEHASH_DATA names, else in the user's cache folder.
    """
    from onlinehash.datasets import describe

    if as_json:
        print_json([asdict(info) for info in describe()])
        return
    rows = [
        (d.name, d.n_samples, d.n_features, d.n_classes, "yes" if d.available else "no", d.where, d.licence)
        for d in describe()
    ]
    print_rows(("name", "rows", "features", "classes", "here", "where", "licence"), rows)


def reproduce(
    plans: Annotated[list[Path] | None, typer.Argument(metavar="PLAN...", help=_PLANS)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run every method on a small data set, in a minute.")] = False,
    results: Annotated[
        Path | None, typer.Option(help=_RESULTS, show_default="'results' beside the plan; 'quick-results' with --quick")
    ] = None,
    stale: Annotated[bool, typer.Option("--stale", help="Repeat stale runs too.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes.", show_default="one per core")] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help=_REPORT, show_default="only with --quick")] = None,
) -> None:
    """Run what is missing of plans and show their tables.

    Every run is one line of the plan's .jsonl file. Ctrl-C stops at any time: finished runs are kept.

    A run is missing if its settings, or the files that they name, changed. It is stale if it was made by a version of
    onlinehash that measured other values. Stale runs stay in the tables until they are repeated with --stale.
    """
    from onlinehash.experiments import load_plan
    from onlinehash.experiments.export import FORMATS, chapter_tables, check_report
    from onlinehash.experiments.report import QUICK_PLAN, Chapter
    from onlinehash.experiments.tables import markdown

    if quick == bool(plans):
        raise typer.BadParameter("give plans, or --quick alone.")
    sources = [(path, results or path.parent / "results", f"onlinehash reproduce {path}") for path in plans or ()]
    if quick:
        folder = results or Path("quick-results")
        report = report or folder / "report.html"
        folder.mkdir(parents=True, exist_ok=True)
        sources = [(QUICK_PLAN, folder, "onlinehash reproduce --quick")]
    if report is not None:
        check_output(report, *FORMATS)
        check_report(report)
    chapters = []
    for path, folder, command in sources:
        if not path.is_file():
            raise DataNotFoundError(f"There is no plan {path}.")
        plan, n_workers = load_plan(path), workers or os.cpu_count() or 1
        try:
            found = _reproduce(plan, folder / f"{plan.name}.jsonl", stale=stale, n_workers=n_workers)
        except OnlineHashError as error:
            raise type(error)(f"{path}: {error}") from error
        chapters.append(Chapter(plan, found, command))
        for title, table in chapter_tables(chapters[-1]):
            typer.echo(f"\n{title}\n\n{markdown(table.rows)}")
    if report is not None:
        _write(report, chapters)


def _reproduce(plan: Plan, path: Path, *, stale: bool, n_workers: int | None) -> list[Result]:
    """Do what is missing of a plan, say so, and return all of its results."""
    from onlinehash.experiments import read_results, reproduce
    from onlinehash.experiments.results import is_stale

    done = read_results(path, plan.runs)
    n_missing, n_stale = len(plan.runs) - len(done), sum(map(is_stale, done))
    way_out = " (in the tables until they are repeated with --stale)" if n_stale and not stale else ""
    note(f"{plan.title}: {counted(len(plan.runs), 'run')}, {n_missing} missing, {n_stale} stale{way_out}.")
    n_to_do = n_missing + stale * n_stale
    if not n_to_do:
        note("Shown from stored results; nothing was run.")
    with progress_bar(plan.name) as progress:
        try:
            n_workers = n_workers and min(n_workers, max(1, n_to_do))
            reproduce(plan.runs, path, stale=stale, n_workers=n_workers, progress=progress)
        except KeyboardInterrupt:
            typer.echo("Stopped. Finished runs are kept; run the same command again to do the others.", err=True)
            raise typer.Exit(130) from None
    return read_results(path, plan.runs)


def _write(out: Path, chapters: list[Chapter]) -> None:
    from onlinehash.experiments.export import write_report

    write_report(out, chapters)
    note(f"Wrote {out}.")


def compare(
    method: Annotated[str, typer.Argument(metavar="MODULE:CLASS", help="Your class, in this folder or installed.")],
    dataset: Annotated[str, typer.Option(help=_DATA)] = "digits",
    labels: Annotated[
        str | None, typer.Option(metavar="COLUMN|FILE", help=_LABELS, show_default="labels, label or y")
    ] = None,
    protocol: Protocol = "online",
    bits: Annotated[list[int] | None, typer.Option(min=1, help="Lengths of the codes.", show_default="16 32")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs, each with a split of its own.")] = 3,
    k: Annotated[
        int | None, typer.Option(min=1, help="Length for precision and recall.", show_default="the data set's")
    ] = None,
    queries: Annotated[int | None, typer.Option(min=1, help=_QUERIES, show_default="as many per class")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Parameters of your class.")
    ] = None,
    against: Annotated[
        list[str] | None, typer.Option(help="Hashers, references or other classes.", show_default="hcoh lsh")
    ] = None,
    results: Annotated[Path | None, typer.Option(metavar="FILE.jsonl", help=_KEEP)] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help=_REPORT)] = None,
    as_json: Json = False,
) -> None:
    """Compare a method of your own with others, in one table.

    Your class has partial_fit(X, y) and snapshot(), which returns an object with encode(X). Its output is read as
    packed codes if it is uint8, as one bit per column if it is bool, else the signs are used. The parameters n_bits,
    random_state and preprocess are passed if the class has them.

    The table shows means over seeds and standard deviations. A file of your own is split for every seed: the queries
    are a fifth of the smallest class, at most 100 rows, from each class; the rest is learned and searched. With
    --queries they are drawn from all rows: for files in which some classes are rare.
    """
    from onlinehash.experiments import parse_plan
    from onlinehash.experiments.export import FORMATS, check_report
    from onlinehash.experiments.own_data import find_dataset, is_file_name
    from onlinehash.experiments.plan import SHARED
    from onlinehash.experiments.report import Chapter

    if ":" not in method:
        raise UnknownNameError(f"{method!r} does not name a class; write module:Class.")
    own = dict(map(parse_setting, settings or ()))
    if taken := own.keys() & {*SHARED, "hasher", "bits", "seeds", "grid"}:
        raise typer.BadParameter(f"{min(taken)!r} is the same for all methods, not set for one.", param_hint="--set")
    content: dict[str, Any] = {
        "title": f"{method} on {dataset}",
        "dataset": dataset,
        "protocol": protocol,
        "bits": bits or [16, 32],
        "seeds": list(range(seeds)),
        "methods": {method: {"hasher": method, **own}}
        | dict(_known(name, dataset) for name in against or ["hcoh", "lsh"]),
    }
    optional = {"labels": labels, "precision_at": k, "n_queries": queries}
    content |= {name: value for name, value in optional.items() if value is not None}
    if results is not None:
        check_output(results, ".jsonl")
    if report is not None:
        check_output(report, *FORMATS)
        check_report(report)
    plan = parse_plan("compare", content)
    if is_file_name(dataset):
        note(_split_in_words(find_dataset(dataset, labels, queries)))
    with TemporaryDirectory() as folder:
        path = results or Path(folder) / "results.jsonl"
        found = _reproduce(plan, path, stale=True, n_workers=None if workers == 1 else workers)
    if report is not None:
        _write(report, [Chapter(plan, found, f"onlinehash compare {method}")])
    rows, cut = list(_summary(found)), found[0]["metrics"]["precision_at"]
    if as_json:
        print_json({"dataset": dataset, "protocol": protocol, "seeds": seeds, "k": cut, "rows": rows})
        return
    titles = [name if name == "mAP" else f"{name}@{cut}" for name in _MEASURES.values()]
    print_rows(["method", "bits", *titles, *(f"{phase}, s" for phase in _PHASES)], map(_cells, rows))


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


def _split_in_words(data: Dataset) -> str:
    sizes, n_classes = data.sizes, len(data.class_names)
    n_queries = sizes.n_queries or sizes.queries_per_class * n_classes
    drawn = "drawn from all" if sizes.n_queries else f"{sizes.queries_per_class} per class"
    return (
        f"{data.name}: {len(data.X)} rows of {data.X.shape[1]} features, {n_classes} classes. For every seed, "
        f"{n_queries} rows ({drawn}) are queries; the other {len(data.X) - n_queries} are learned and searched."
    )


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
        yield row | {f"{phase}_seconds": mean(run["seconds"][phase] for run in runs) for phase in _PHASES}


def _cells(row: dict[str, Any]) -> list[str]:
    spreads = {measure: row[f"{measure}_std"] for measure in _MEASURES}
    measured = [f"{row[m]:.3f}" + ("" if spread is None else f" ± {spread:.3f}") for m, spread in spreads.items()]
    return [row["method"], str(row["n_bits"]), *measured, *(f"{row[f'{phase}_seconds']:.3f}" for phase in _PHASES)]
