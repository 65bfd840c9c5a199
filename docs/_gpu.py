"""What was measured on a GPU, for the pages that show it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from _parts import ROOT, filled, thousands

Results = dict[str, Any]


def gpu_page() -> str:
    """Put what was measured into the page on GPUs."""
    return with_tables((ROOT / "docs" / "guides" / "on-a-gpu.md").read_text())


def with_tables(text: str) -> str:
    """Fill the marked places of a page."""
    results = json.loads((ROOT / "benchmarks" / "results" / "gpu.json").read_text())
    for name, make in TABLES.items():
        if f"<!-- gpu {name} -->" in text:
            text = filled(text, f"gpu {name}", "\n".join(["", *make(results), "", ""]))
    return text


def machine(results: Results) -> list[str]:
    """Name the card and the versions."""
    found = dict(results["machine"])
    copy = _value(results, "copy of 4 GiB", "TB/s read and written")
    versions = ", ".join(f"{name} {version}" for name, version in found.items() if name != "card")
    return [f"{found['card']}; {versions}. A copy within its memory reads and writes {copy:.2f} TB/s."]


def learning(results: Results) -> list[str]:
    """Show rows per second by the number of components."""
    lines = [
        "| components | rows learned per second | on the CPU | seconds for a snapshot | rows encoded per second "
        "| on the CPU |",
        "|---|---|---|---|---|---|",
    ]
    for n in (2048, 8192, 16384):
        what, cells = f"HROH, 784 features, {n} components", []
        for meaning in ("rows learned per second", "rows encoded per second"):
            cells += [_rounded(_value(results, what, f"{meaning}, {where}")) for where in ("GPU", "CPU")]
        snapshot = _value(results, what, "seconds for a snapshot, GPU")
        lines.append(f"| {n} | {cells[0]} | {cells[1]} | {snapshot:.2g} | {cells[2]} | {cells[3]} |")
    return lines


def precision(results: Results) -> list[str]:
    """Show the mAP of MNIST."""
    found = {row["what"].split(", ")[2].split()[0]: row["ratio"] for row in results["rows"] if row["meaning"] == "mAP"}
    rows = (f"| {n_components} | {value:.4f} |".replace("0.", ".") for n_components, value in found.items())
    return ["| components | mAP |", "|---|---|", *rows]


def search(results: Results) -> list[str]:
    """Show milliseconds per query by the numbers of codes and queries."""
    lines = ["| codes | queries at once | k = 10 | k = 100 | k = 10, by counting bits |", "|---|---|---|---|---|"]
    for n_codes in (10**7, 10**8, 10**9):
        for n_queries in (1, 16, 256):
            names = (f"k={k}" for k in ("10", "100", "10 by counting bits"))
            found = (_value(results, f"{n_codes} codes, {n_queries} queries, {k}", "ms per query") for k in names)
            cells = " | ".join("the same" if value is None else f"{value:.2g}" for value in found)
            lines.append(f"| {_rounded(n_codes)} | {n_queries} | {cells} |")
    return lines


def _value(results: Results, what: str, meaning: str) -> Any:
    return next((row["ratio"] for row in results["rows"] if (row["what"], row["meaning"]) == (what, meaning)), None)


def _rounded(number: float) -> str:
    return thousands(round(number, 3 - len(str(int(number)))) if number >= 1000 else number)


TABLES: dict[str, Callable[[Results], list[str]]] = {
    "machine": machine,
    "learning": learning,
    "precision": precision,
    "search": search,
}
