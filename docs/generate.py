"""Write the pages that are made of code and results. Run: python docs/generate.py. A test fails when they are stale."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import _case
import _examples
import _hroh
import _open_world
import _paper
import _promises
import _sharpness
import _sorted
from _cli_reference import cli_page
from _gpu import gpu_page
from _learned import ranking_page
from _parts import EXPERIMENTS, ROOT, results_of
from _scaling import scaling_page
from _text import documents_page
from _traits import TRAITS
from benchmarks.measure import page as benchmarks_page

from onlinehash.collection import Collection
from onlinehash.experiments.plots import map_against_bits, map_against_instances
from onlinehash.experiments.results import Result
from onlinehash.experiments.tables import (
    MEASURES,
    areas,
    form_value,
    groups,
    learning_seconds,
    markdown,
    measured,
    printed_beside,
    printed_seconds,
    separate_references,
    spread,
    table_rows,
)
from onlinehash.hashers import HASHERS
from onlinehash.service import create_app

PAPER = (
    "mnist",
    "cifar10",
    "miniplaces",
    "mnist_curves",
    "cifar10_curves",
    "miniplaces_curves",
    "mnist_figures",
    "cifar10_figures",
    "miniplaces_figures",
    "validation",
    "learning_rate",
    "batch_size",
    "training_time",
    "published_evaluations",
)


def hashers_page() -> str:
    """Compare all methods in one table."""
    plan, results = results_of("mnist")
    precision = measured(results, "mean_average_precision")
    by_name = {run.method: run.hasher for run in plan.runs}
    lines = [
        "# All methods",
        "",
        "Generated from the code and the results in `experiments/results` by `python docs/generate.py`.",
        "",
        "d is the number of features, r the number of bits. mAP is that of MNIST at 16 and 32 bits by the paper's",
        "protocol, the mean of three seeds; [reproduction](../reproduction.md) has all lengths.",
        "",
        "| method | labels | takes | cost per instance | memory | mAP 16 / 32 | where it shines |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, hasher in HASHERS.items():
        labels = "no" if not hasher.supervised else "one or several" if hasher.multi_label else "one"
        row = precision.get(next((m for m, h in by_name.items() if h == name), ""), {})
        values = " / ".join(form_value(row[n]) if n in row else "-" for n in (16, 32))
        traits = TRAITS[hasher.name]
        abilities = ", ".join(ability for ability in ("merges", "unlearns") if getattr(hasher, ability))
        weights = "sample weights" if hasher.takes_weights else ""
        takes = "; ".join(filter(None, (traits.takes, weights, abilities)))
        lines.append(
            f"| [{hasher.__name__}]({name}.md) | {labels} | {takes} | {traits.cost} | {traits.memory} "
            f"| {values} | {traits.shines} |"
        )
    return "\n".join(lines) + "\n"


def reproduction_page() -> str:
    """Show every plan's tables."""
    text = (ROOT / "docs" / "_reproduction.txt").read_text()
    lines = text.replace("PAPER\n", f"{_paper.LEGEND}\n{_paper.paper_table()}\n").rstrip().splitlines()
    for path in sorted(EXPERIMENTS.glob("*.toml"), key=_place):
        plan, results = results_of(path.stem)
        if not results:
            continue
        seeds = len({run.seed for run in plan.runs})
        made_by = f"Made by `onlinehash reproduce experiments/{path.name}`; mean of {seeds} seeds."
        lines += [
            "",
            f"## {plan.title}",
            "",
            made_by if seeds > 1 else made_by.replace("; mean of 1 seeds", ", one seed"),
            *(["", plan.notes.strip()] if plan.notes else []),
        ]
        if plan.name in CURVES:
            lines += ["", f"![mAP along the stream](images/{CURVES[plan.name]})"]
        for name, group in groups(results).items():
            lines += _times(group) if plan.name == "training_time" else _tables(name, group)
    return "\n".join(lines) + "\n"


def _place(path: Path) -> tuple[int, str]:
    """Order plans: the paper's own first, as it shows them."""
    return PAPER.index(path.stem) if path.stem in PAPER else len(PAPER), path.stem


def _times(results: list[Result]) -> list[str]:
    """Return the table of learning times, as multiples of HCOH: seconds of another machine say little."""
    ours = {method: next(iter(row.values())) for method, row in learning_seconds(results).items()}
    theirs = {method: next(iter(row.values())) for method, row in printed_seconds("cifar10").cells.items()}
    lines = ["", "| method | CPU seconds | times HCOH | printed seconds | times HCOH |", "|---|---|---|---|---|"]
    for method, seconds in ours.items():
        printed_time = theirs.get(method)
        beside = "- | -" if printed_time is None else f"{printed_time:.2f} | {printed_time / theirs['HCOH']:.2f}"
        lines.append(f"| {method} | {seconds:.2f} | {seconds / ours['HCOH']:.2f} | {beside} |")
    return lines


def _tables(name: str, results: list[Result]) -> list[str]:
    """Return the tables of one kind of stream."""
    hashers, references = separate_references(results)
    lines = ["", f"### {name}"] if "," in name else []
    if any(result["curve"] for result in hashers):
        title = "AUC as the paper defines it: the mean of mAP over the checkpoints"
        return [*lines, "", title, "", markdown(table_rows(areas(hashers), {}))]
    cut = results[0]["metrics"].get("precision_at", 500)  # the oldest results do not say it; it was the paper's
    measures = {**MEASURES, "precision": f"Precision@{cut}"}
    if "open_world" in results[0]["metrics"]:
        measures = {
            f"open_world.{asked}.{measure}": f"{title}, queries of {asked} classes"
            for asked in ("seen", "unseen", "all")
            for measure, title in (("mean_average_precision", "mAP"), ("precision", measures["precision"]))
        }
    elif "unseen_at_all" in results[0]["metrics"]:
        measures = _hroh.UNSEEN
    for measure, title in measures.items():
        theirs = printed_beside(results, measure)
        if cells := measured(hashers, measure):
            heading = title if theirs.comparable else f"{title}; in brackets: {theirs.label}, other features"
            rows = table_rows(cells, theirs.cells, measured(references, measure), spread(results, measure))
            lines += ["", heading, "", markdown(rows)]
    return lines


def http_page() -> str:
    """List the routes of the service, from its OpenAPI document."""
    with TemporaryDirectory() as folder, Collection.open(Path(folder) / "empty.oh", "hcoh") as collection:
        document = create_app(collection).openapi()
    lines = [
        "# HTTP routes",
        "",
        "Look up what every route takes and with what it refuses; [the service](service.md) tells how to use them.",
        "Generated by `make docs` from the OpenAPI document (`/openapi.json` of a running service).",
        "Every refusal is a problem document (RFC 9457).",
        "",
        "| route | what it does | takes | refuses with |",
        "|---|---|---|---|",
    ]
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            takes = ", ".join(f"`{kind}`" for kind in route.get("requestBody", {}).get("content", {})) or "-"
            refusals = ", ".join(sorted(status for status in route["responses"] if status != "200")) or "-"
            text = " ".join(route["description"].split())
            lines.append(f"| `{method.upper()} {path}` | {text} | {takes} | {refusals} |")
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            schema = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            if schema is not None:
                lines += ["", f"## {method.upper()} {path}", "", "| field | type | default | |", "|---|---|---|---|"]
                lines += [_field(name, field, schema) for name, field in schema["properties"].items()]
    return "\n".join(lines) + "\n"


def _field(name: str, field: dict[str, Any], schema: dict[str, Any]) -> str:
    default = "required" if name in schema.get("required", ()) else f"`{json.dumps(field.get('default'))}`"
    return f"| `{name}` | {_type(field)} | {default} | {field.get('description', '')} |"


def _type(schema: dict[str, Any]) -> str:
    """Say a JSON schema in words."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if schema.get("type") == "array":
        inner = schema.get("items", {})
        return f"list of ({_type(inner)})" if "anyOf" in inner else f"list of {_type(inner)}"
    return str(schema.get("type", "anything"))


def bits_figure() -> str:
    """Draw mAP of MNIST against the number of bits."""
    results = _plain("mnist", {"HROH", "HROH (asymmetric)", "HCOH", "HMOH", "MIHash", "BSODH", "OSH (hinge)", "ITQ"})
    return map_against_bits(results).svg()


def curves_figure(name: str) -> str:
    """Draw mAP along the stream."""
    return map_against_instances(_plain(name)).svg()


def sorted_figure() -> str:
    """Draw what a stream sorted by class costs each method."""
    return _sorted.figure(_plain("mnist"), _plain("class_sorted"))


def _plain(name: str, methods: set[str] | None = None) -> list[Result]:
    """Return the results of a plan, of some methods only, rows named without the stream."""
    _, results = results_of(name, lambda run: methods is None or run.method in methods)
    return [result for group in groups(results).values() for result in group]


PAGES = {
    ROOT / "README.md": _case.readme_page,
    ROOT / "docs" / "comparison.md": _case.comparison_page,
    ROOT / "benchmarks" / "README.md": benchmarks_page,
    ROOT / "docs" / "cli.md": cli_page,
    ROOT / "docs" / "guides" / "documents.md": documents_page,
    ROOT / "docs" / "guides" / "on-a-gpu.md": gpu_page,
    ROOT / "docs" / "hashers" / "index.md": hashers_page,
    ROOT / "docs" / "guides" / "rank-by-what-was-learned.md": ranking_page,
    ROOT / "docs" / "hashers" / "hcoh.md": _paper.hcoh_page,
    ROOT / "docs" / "hashers" / "hroh.md": _hroh.page,
    ROOT / "docs" / "http.md": http_page,
    ROOT / "docs" / "reproduction.md": reproduction_page,
    ROOT / "docs" / "scaling.md": scaling_page,
    # Drawn without matplotlib: the same bytes everywhere.
    ROOT / "docs" / "images" / "case.svg": _case.figure,
    ROOT / "docs" / "images" / "open_world.svg": _open_world.figure,
    ROOT / "docs" / "images" / "hroh_sorted.svg": sorted_figure,
    ROOT / "docs" / "images" / "hroh_sharpness.svg": _sharpness.figure,
    ROOT / "docs" / "images" / "promises.svg": _promises.figure,
}
CURVES = {
    name: f"{name}.svg"
    for name in (
        "mnist_curves",
        "cifar10_curves",
        "miniplaces_curves",
        "mnist_figures",
        "cifar10_figures",
        "miniplaces_figures",
    )
}


def demo_figure() -> str:
    """Draw the picture of the demo."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "onlinehash.cli", "demo", "--out", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return (Path(folder) / "demo.svg").read_text()


FIGURES: dict[Path, Callable[[], str]] = {
    **{ROOT / "docs" / "images" / file: partial(curves_figure, name) for name, file in CURVES.items()},
    ROOT / "docs" / "images" / "hroh_bits.svg": bits_figure,
    ROOT / "docs" / "images" / "demo.svg": demo_figure,
}
GREY = "#767d86"  # readable on white and on black


def main() -> None:
    """Write all pages and figures."""
    for path, make in PAGES.items():
        path.write_text(make())
    for path, make in FIGURES.items():
        path.write_text(make().replace("currentColor", GREY))
    for name in _examples.EXAMPLES:  # machines round differently: the tests compare with a tolerance
        _examples.write(name)


if __name__ == "__main__":
    main()
