"""The tables of HROH's page: what sharpening gives, what general bits cost, and classes never seen."""

from __future__ import annotations

import json
from typing import Any

from _learned import many_classes_table, values
from _parts import ROOT, filled, results_of

from onlinehash.experiments.own_data import data_size
from onlinehash.experiments.tables import form_value, measured
from onlinehash.hashers._class_bits import choose_sharpness

UNSEEN = {
    "seen_at_seen": "seen among seen",
    "unseen_at_unseen": "unseen among unseen",
    "unseen_at_all": "unseen among all",
}
DATASETS = {
    "clinc150": "CLINC150 (150 classes)",
    "tinyimagenet": "Tiny-ImageNet (200)",
    "miniplaces": "MiniPlaces (100)",
    "mnist": "MNIST (10)",
    "cifar10": "CIFAR-10 (10)",
}
BALANCED = {
    "Zipf, 300 classes": "300 synthetic classes",
    "Tiny-ImageNet, Zipf counts": "Tiny-ImageNet (200 classes, 10 to 530 rows)",
}
METHODS = {"HROH, balance=1": "HROH, `balance=1`", "HROH": "**HROH**", "HCOH": "HCOH"}
STORED = {
    "HROH": "",
    "HROH (asymmetric)": "",
    "HROH (2 confidence bits)": "",
    "HROH (4 confidence bits)": "",
    "Probabilities, residual quantisation": "",
    "Class lists, 20 bytes": "160",
    "Probabilities of all classes, floats": "32 per class",
    "Learned order, vectors and class lists": "32 per feature, and 160",
    "Float features, cosine": "32 per feature",
}
SHARPENING = {"HROH", "HROH (linear)", "Class predicted by HROH"}
LENGTHS = (8, 16, 32, 64, 128)


def page() -> str:
    """Put the tables into the page."""
    text = (ROOT / "docs" / "hashers" / "hroh.md").read_text()
    parts = {
        "many classes": many_classes_table(),
        "sharpness": _sharpness(),
        "first labels": _first_labels(),
        "same bytes": _same_bytes(),
        "balance": _balance(),
        "encoding": _encoding(),
        "general": _general_bits(),
        "unseen": _unseen(),
    }
    for name, lines in parts.items():
        text = filled(text, name, "\n".join(["", *lines, "", ""]))
    return text


def _sharpness() -> list[str]:
    """Compare linear codes, sharpened ones and the predicted class, on the first split."""
    lines = [
        f"| | code | {LENGTHS[0]} bits | {' | '.join(map(str, LENGTHS[1:]))} |",
        "|---|---|" + "---|" * len(LENGTHS),
    ]
    for name, title in DATASETS.items():
        _, results = results_of(name, lambda run: run.seed == 0 and run.method in SHARPENING)
        cells = measured(results, "new_items.mean_average_precision")
        ((guess,),) = (row.values() for method, row in cells.items() if method.startswith("Class"))
        if any(value <= guess for value in cells["HROH"].values()):
            raise RuntimeError(f"Sharpened codes are not above the predicted class: {name}; change the page")
        n_classes = data_size(name)[1]
        unchanged = {n: value for n, value in cells["HROH"].items() if not choose_sharpness(n_classes, n)}
        for head, code, row in (
            (title, "linear, sign(s T)", unchanged | cells.get("HROH (linear)", {})),
            ("", "**sharpened**", cells["HROH"]),
            ("", "predicted class", dict.fromkeys(LENGTHS, guess)),
        ):
            values = (form_value(row[n]) if n in row else "-" for n in LENGTHS)
            lines.append(f"| {head} | {code} | {' | '.join(values)} |")
    return lines


def _first_labels() -> list[str]:
    """Compare scores and codes with those of regression alone and of class means alone, by labels per class."""
    found = values("first_labels")
    counts = list(dict.fromkeys(int(what.split(", ")[1].split(" ")[0]) for what in found))
    lines = [
        f"| | | {counts[0]} label per class | {' | '.join(map(str, counts[1:]))} |",
        "|---|---|" + "---|" * len(counts),
    ]
    rows = [("accuracy", name) for name in ("class means", "regression", "HROH")]
    rows += [("mAP", name) for name in ("regression", "HROH")]
    for dataset in ("clinc150", "tinyimagenet", "cifar10", "mnist"):
        for head, (meaning, name) in zip([DATASETS[dataset], *[""] * 4], rows, strict=True):
            cells = (form_value(found[f"{dataset}, {n} per class, {name}"][meaning]) for n in counts)
            shown = f"**{name}**" if name == "HROH" else name
            lines.append(f"| {head} | {meaning}, {shown} | {' | '.join(cells)} |")
    return lines


def _same_bytes() -> list[str]:
    """Compare codes with the other ways to store what is known of an item, among items never learned from."""
    _, results = results_of("same_bytes", lambda run: run.seed == 0)
    cells: dict[tuple[str, int], dict[str, str]] = {}
    for result in results:
        config, new = result["config"], result["metrics"]["new_items"]
        method = config["method"].removesuffix(f", dataset={config['dataset']}")
        size = config["n_bits"] if config["n_bits"] in (16, 32) else 0
        values = f"{form_value(new['mean_average_precision'])} / {form_value(new['precision'])}"
        cells.setdefault((method, size), {})[config["dataset"]] = values
    lines = [f"| | bits | {' | '.join(DATASETS.values())} |", "|---|---|" + "---|" * len(DATASETS)]
    for size in (16, 32, 0):
        for method, stored in STORED.items():
            if row := cells.get((method, size)):
                shown = f"**{method}**" if "confidence" in method else method
                values = " | ".join(row.get(name, "-") for name in DATASETS)
                lines.append(f"| {shown} | {size or stored} | {values} |")
    return lines


def _balance() -> list[str]:
    """Show what balance gives where classes differ in size."""
    found: dict[str, list[str]] = {}
    for row in _measured("balance"):
        found.setdefault(row["what"], []).append(form_value(row["ratio"]))
    heads = ("mAP over queries", "precision@10", "mAP over classes", "over classes below average size")
    lines = [f"| | method | {' | '.join(heads)} |", "|---|---|---|---|---|---|"]
    for what, title in BALANCED.items():
        for number, (method, shown) in enumerate(METHODS.items()):
            values = found[f"{what}, {method}"]
            lines.append(f"| {'' if number else title} | {shown} | {' | '.join(values)} |")
    return lines


def _encoding() -> list[str]:
    """Say what scores cost, compared with one projection per bit."""
    rows = [row for row in _measured("hroh_encoding") if "64 bits" in row["what"]]
    *classes, most = (row["what"].split(", ")[2].removesuffix(" classes") for row in rows)
    *times, longest = (f"{row['ratio']:.2g}" for row in rows)
    return [
        f"Encoding many rows at once in 64 bits takes {', '.join(times)} and {longest} times as long as one projection "
        f"per bit would, for {', '.join(classes)} and {most} classes ([benchmark](../../benchmarks/README.md) "
        "`hroh_encoding`)."
    ]


def _measured(benchmark: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((ROOT / "benchmarks" / "results" / f"{benchmark}.json").read_text())["rows"]
    return rows


def _general_bits() -> list[str]:
    """Show mAP with class bits only and with general bits, on the first split."""
    lines = [
        "| | 32 class bits | 16 of them general | 32 class bits, asymmetric | 16 of them general |",
        "|---|---|---|---|---|",
    ]
    for name, title in DATASETS.items():
        _, results = results_of(name, lambda run: run.hasher == "hroh" and (run.n_bits, run.seed) == (32, 0))
        cells = measured(results, "mean_average_precision")
        methods = ("HROH", "HROH (16 general bits)", "HROH (asymmetric)", "HROH (16 general bits, asymmetric)")
        values = (form_value(cells[method][32]) if method in cells else "-" for method in methods)
        lines.append(f"| {title} | {' | '.join(values)} |")
    return lines


def _unseen() -> list[str]:
    """Show the results on classes never seen."""
    lines: list[str] = []
    for name in ("unseen", "unseen_cifar10", "unseen_clinc150"):
        plan, shown = results_of(
            name,
            lambda run: "(own mean" in run.method and (run.n_bits == 32 or run.hasher == "reference:float"),
        )
        cells = {measure: measured(shown, measure) for measure in UNSEEN}
        lines += [f"{plan.title}; 32 bits, mean of {len({run.seed for run in plan.runs})} splits:", ""]
        lines += [f"| method | {' | '.join(UNSEEN.values())} |", "|---|---|---|---|"]
        for method in cells["seen_at_seen"]:
            found = [next(iter(cells[measure][method].values())) for measure in UNSEEN]
            lines.append(f"| {method} | {' | '.join(map(form_value, found))} |")
        lines.append("")
    return lines[:-1]
