"""What embedders of text are worth, for the page on documents."""

from __future__ import annotations

import json
from collections import defaultdict

from _parts import ROOT, filled, thousands

from onlinehash.experiments.tables import form_value

COLUMNS = {
    "mAP of new texts, cosine": "mAP, cosine",
    "mAP of new texts, HROH, 64 bits": "mAP, HROH",
    "accuracy, logistic regression": "accuracy, linear",
    "accuracy, HROH": "accuracy, HROH",
    "texts per second": "texts per second",
}


def documents_page() -> str:
    """Put the table into the page."""
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for row in json.loads((ROOT / "benchmarks" / "results" / "text.json").read_text())["rows"]:
        found[row["what"]][row["meaning"]] = row["ratio"]
    lines = [f"| texts | `embed=` | {' | '.join(COLUMNS.values())} |", "|---|---|" + "---|" * len(COLUMNS)]
    for what, cells in found.items():
        texts, _, embedder = what.rpartition(", ")
        if cells["accuracy, HROH"] <= cells["accuracy, logistic regression"]:
            raise RuntimeError(f"HROH no longer classifies better than the linear classifier: {what}; change the page")
        *shares, speed = (cells[meaning] for meaning in COLUMNS)
        values = [*map(form_value, shares), thousands(float(f"{speed:.2g}"))]
        lines.append(f"| {texts} | `{embedder}` | {' | '.join(values)} |")
    page = (ROOT / "docs" / "guides" / "documents.md").read_text()
    return filled(page, "text", "\n".join(["", *lines, "", ""]))
