"""``onlinehash compare``: a method of your own beside ours, under the same protocol."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from onlinehash.experiments.results import Result

_LISTS = ("--bits", "--against", "--set")


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
    method: Annotated[
        str, typer.Argument(metavar="MODULE:CLASS", help="Your class, in this folder or installed.", show_default=False)
    ],
    dataset: Annotated[str, typer.Option(help="Data set, see 'onlinehash datasets'.")] = "digits",
    protocol: Annotated[str, typer.Option(metavar="online|published", help="How to split it.")] = "online",
    bits: Annotated[list[int] | None, typer.Option(min=1, help="Lengths of the codes.", show_default="16 32")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs, each with a split of its own.")] = 3,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Parameters of your class.")
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Hashers, bounds (bound:float) or other classes.", show_default="hcoh lsh"),
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Keep one JSON file a run here, and use those that are there.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a method of your own beside ours and show one table.

    Your class has partial_fit(X, y) and snapshot(), whose snapshot has encode(X); or it is a scikit-learn estimator
    with fit or partial_fit, and transform or decision_function. What it returns is packed codes if it is uint8, one
    bit a column if it is bool, else the signs count. It gets n_bits, random_state and preprocess if it takes them.
    """
    from onlinehash.cli._screen import note, print_rows, progress_bar
    from onlinehash.exceptions import UnknownNameError
    from onlinehash.experiments import open_runs, parse_plan, read_results, reproduce

    if ":" not in method:
        raise UnknownNameError(f"{method!r} does not name a class; write module:Class.")
    own = {"hasher": method, **dict(_parse(setting) for setting in settings or ())}
    content = {
        "dataset": dataset,
        "protocol": protocol,
        "bits": bits or [16, 32],
        "seeds": list(range(seeds)),
        "methods": {method: own} | dict(_known(name, dataset) for name in against or ["hcoh", "lsh"]),
    }
    plan = parse_plan("compare", content)
    with TemporaryDirectory() as aside:
        folder = results or Path(aside)
        missing = open_runs(plan.runs, folder)
        note(f"{len(plan.runs)} runs on {dataset}, {len(missing)} to do.")
        with progress_bar(method) as progress:
            reproduce(missing, folder, n_workers=min(workers, max(1, len(missing))), progress=progress)
        rows = list(_summary(read_results(folder, plan.runs)))
    if as_json:
        typer.echo(json.dumps({"dataset": dataset, "protocol": protocol, "seeds": seeds, "rows": rows}))
        return
    columns = ("method", "bits", "mAP", "precision", "learning, s", "encoding, s")
    print_rows(columns, [[_text(value) for value in row.values()] for row in rows])


def _parse(setting: str) -> tuple[str, Any]:
    from onlinehash.cli._settings import parse_setting
    from onlinehash.experiments.plan import SHARED

    name, value = parse_setting(setting)
    if name in (*SHARED, "hasher", "bits", "seeds", "grid"):
        raise typer.BadParameter(f"{name!r} is the same for all methods; it is no parameter.", param_hint="--set")
    return name, value


def _known(name: str, dataset: str) -> tuple[str, dict[str, Any]]:
    """Return the row of a method of ours, and its settings."""
    from onlinehash.datasets import load_dataset
    from onlinehash.hashers import HASHERS

    if name not in HASHERS:  # a bound or another class; whatever else is refused with the plan
        return name, {"hasher": name}
    settings: dict[str, Any] = {"hasher": name}
    if name == "hcoh":  # whose published rate it is
        settings["learning_rate"] = load_dataset(dataset).sizes.learning_rate
    return HASHERS[name].__name__, settings


def _summary(results: Iterable[Result]) -> Iterable[dict[str, Any]]:
    """Give the means over seeds, a row a method and length."""
    groups: dict[tuple[str, int], list[Result]] = {}
    for result in results:
        groups.setdefault((result["config"]["method"], result["config"]["n_bits"]), []).append(result)
    for (method, n_bits), runs in groups.items():
        yield {
            "method": method,
            "n_bits": n_bits,
            "mean_average_precision": mean(run["metrics"]["mean_average_precision"] for run in runs),
            "precision": mean(run["metrics"]["precision"] for run in runs),
            "learning_seconds": mean(run["seconds"]["learning"] for run in runs),
            "encoding_seconds": mean(run["seconds"]["encoding"] for run in runs),
        }


def _text(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
