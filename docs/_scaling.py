"""What was measured of all engines, for the page on scaling."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def scaling_page() -> str:
    """Put what was measured of all engines into the page on scaling."""
    path = ROOT / "docs" / "scaling.md"
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
            f"{_thousands(n_items)} items, {_thousands(int(distinct[1]))} distinct codes:" if distinct else "",
        ]
        lines += ["", "| index | items added a second | top 10, median ms | recall |", "|---|---|---|---|"]
        for name, seconds in added.items():
            rate = _thousands(round(n_items * shares.get(name, 1.0) / seconds, -2))
            stopped = f", stopped at {shares[name]:.0%}" if name in shares else ""
            latency = f"{1000 * searched[name]:.3g}" if name in searched else "not finished"
            share = f"{found.get(name, 1.0):.3g}" if name in searched else "-"
            lines.append(f"| {name} | {rate}{stopped} | {latency} | {share} |")
    lines += ["", "Bytes an item, its code of 64 bits included:", "", "| index | where | bytes |", "|---|---|---|"]
    for row in rows:
        if row["meaning"].endswith("bytes per item"):
            what, name = row["what"].split()[0], row["meaning"].split(": ")[0]
            where = what if what == "memory" else f"disk, {_thousands(int(row['what'].split()[2]))} items"
            lines.append(f"| {name} | {where} | {row['ratio']:.0f} |")
    table = "\n".join([*lines, ""])
    return re.sub(r"(?s)(<!-- engines -->\n).*?(<!-- end -->)", rf"\g<1>{table}\n\g<2>", path.read_text())


def _thousands(number: float) -> str:
    return f"{number:,.0f}".replace(",", " ")
