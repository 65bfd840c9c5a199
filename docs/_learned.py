"""Tables of what was measured with many classes, several labels per item and classes never learned."""

from __future__ import annotations

import json

from _parts import ROOT, filled

from onlinehash.experiments.tables import form_value

CODE_LENGTHS = (16, 32, 64, 128)
SETS = {
    "packages, 1102 classes": "sources of packages, 1102",
    "packages, 1512 classes": "sources of packages, 1512",
    "symbols, 1102 classes": "symbols, 1102",
    "symbols, 1966 classes": "symbols, 1966",
}
ORDERS = {
    "vectors by cosine": "vectors, by cosine",
    "ITQ, codes": "codes of ITQ",
    "HCOH, codes": "codes of HCOH",
    "HROH, codes": "codes of HROH",
    "HROH, half of the bits general, codes": "codes of HROH, half of the bits general",
    "learned order": "**learned**",
}


def values(name: str) -> dict[str, dict[str, float]]:
    """Return what a benchmark measured, by name and meaning."""
    found: dict[str, dict[str, float]] = {}
    for row in json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())["rows"]:
        found.setdefault(row["what"], {})[row["meaning"]] = row["ratio"]
    return found


def many_classes_table() -> list[str]:
    """Return the table of HROH's page."""
    found = values("many_classes")
    lines = ["| texts, classes | vectors | code | 16 bits | 32 | 64 | 128 |", "|---|---|---|---|---|---|---|"]
    for key, name in SETS.items():
        cosine = form_value(found[f"{key}, vectors by cosine"]["mAP of new texts"])
        for code, first in (("HROH, linear", f"{name} | {cosine} | linear"), ("HROH", " | | **sharpened**")):
            cells = [form_value(found[f"{key}, {code}, {n} bits"]["mAP of new texts"]) for n in CODE_LENGTHS]
            lines.append(f"| {first} | {' | '.join(cells)} |")
    return lines


def ranking_page() -> str:
    """Put the tables of several labels per item and of classes never learned into the page on ranking."""
    found = values("decisions")
    lines = ["| order | P@10 | mAP | P@10, tags | mAP, tags |", "|---|---|---|---|---|"]
    orders = {f"codes, {n} bits": (f"{n} bits, 0 general, codes", f"codes, {n} bits") for n in (16, 32, 64)}
    orders["vectors, by cosine"] = "64 bits, 0 general, cosine", "cosine"
    orders["**learned**"] = "64 bits, 32 general, learned", "learned"
    for name, (key, tagged) in orders.items():
        tags = (each for what, each in found.items() if what.startswith("tags, ") and what.endswith(f"tags, {tagged}"))
        both = found[f"two_labels, clinc150, {key}"], next(tags)
        cells = [form_value(each[meaning]) for each in both for meaning in ("P@10", "mAP")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    page = (ROOT / "docs" / "guides" / "rank-by-what-was-learned.md").read_text()
    page = filled(page, "two labels", "\n".join(["", *lines, "", ""]))
    return filled(page, "open world", "\n".join(["", *_open_world(found), "", ""]))


def _open_world(found: dict[str, dict[str, float]]) -> list[str]:
    """Compare orders by queries of classes that were learned and that were not."""
    groups = ("learned", "never learned", "all")
    lines = [f"| | order | classes {' | '.join(groups)} |", "|---|---|---|---|---|"]
    for dataset, title in {"clinc150": "CLINC150", "mnist": "MNIST", "cifar10": "CIFAR-10"}.items():
        for number, (name, shown) in enumerate(ORDERS.items()):
            cells = [found[f"open_world, {dataset}, {name}, queries of classes: {group}"] for group in groups]
            pairs = (f"{form_value(each['P@10'])} / {form_value(each['mAP'])}" for each in cells)
            lines.append(f"| {'' if number else title} | {shown} | {' | '.join(pairs)} |")
    return lines
