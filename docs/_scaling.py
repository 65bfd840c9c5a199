"""What was measured of all engines, for the page on scaling."""

from __future__ import annotations

import json
import re

from _gpu import with_tables
from _parts import ROOT, filled, thousands


def scaling_page() -> str:
    """Put what was measured of all engines, and on a GPU, into the page on scaling."""
    rows = json.loads((ROOT / "benchmarks" / "results" / "engines.json").read_text())["rows"]
    sizes = sorted({int(row["what"].split()[1]) for row in rows if row["what"].startswith("adding ")})
    lines: list[str] = []
    for n_items in sizes:
        adding = [row for row in rows if row["what"].startswith(f"adding {n_items} ")]
        top = [row for row in rows if row["what"].startswith(f"top 10 of {n_items} ")]
        added, searched = (next(row["seconds"] for row in some if row["seconds"]) for some in (adding, top))
        shares = {row["meaning"].split(": ")[0]: row["ratio"] for row in (*adding, *top) if " / all" in row["meaning"]}
        found = {row["meaning"].split(": ")[0]: row["ratio"] for row in top if row["meaning"].endswith("nearest")}
        distinct = next(re.search(r"(\d+) distinct", row["what"]) for row in top)
        lines += [
            "",
            f"{thousands(n_items)} items, {thousands(int(distinct[1]))} distinct codes:" if distinct else "",
        ]
        lines += ["", "| index | items added per second | top 10, median ms | recall |", "|---|---|---|---|"]
        for name, seconds in added.items():
            rate = thousands(round(n_items * shares.get(name, 1.0) / seconds, -2))
            stopped = f", stopped at {shares[name]:.0%}" if name in shares else ""
            latency = f"{1000 * searched[name]:.3g}" if name in searched else "not finished"
            share = f"{found.get(name, 1.0):.3g}" if name in searched else "-"
            lines.append(f"| {name} | {rate}{stopped} | {latency} | {share} |")
    lines += ["", "Bytes per item, its code of 64 bits included:", "", "| index | where | bytes |", "|---|---|---|"]
    for row in rows:
        if row["meaning"].endswith("bytes per item"):
            what, name = row["what"].split()[0], row["meaning"].split(": ")[0]
            where = what if what == "memory" else f"disk, {thousands(int(row['what'].split()[2]))} items"
            lines.append(f"| {name} | {where} | {row['ratio']:.0f} |")
    page = with_tables((ROOT / "docs" / "scaling.md").read_text())
    return filled(page, "engines", "\n".join([*lines, "", ""]))
