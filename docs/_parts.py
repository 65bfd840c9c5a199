"""What the scripts of generated pages share: results of plans, marked parts of a page, and pieces of a figure."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from onlinehash.experiments import Plan, Run, load_plan, read_results
from onlinehash.experiments.results import Result

ROOT = Path(__file__).parents[1]
EXPERIMENTS = ROOT / "experiments"
INK, SOFT, LINES = "#1f2328", "#59636e", "#d8dee4"


def results_of(name: str, wanted: Callable[[Run], bool] = lambda run: True) -> tuple[Plan, list[Result]]:
    """Return a plan and the results of its runs, or of some of them."""
    plan = load_plan(EXPERIMENTS / f"{name}.toml")
    return plan, read_results(EXPERIMENTS / "results" / f"{name}.jsonl", filter(wanted, plan.runs))


def filled(page: str, name: str, part: str) -> str:
    """Return a page with a part between the marks ``<!-- name -->`` and ``<!-- end -->``."""
    page, found = re.subn(rf"(?s)(<!-- {name} -->\n).*?(<!-- end -->)", rf"\g<1>{part}\g<2>", page)
    if found != 1:
        raise RuntimeError(f"The page has {found} parts marked <!-- {name} -->; it needs one")
    return page


def thousands(number: float) -> str:
    """Return an integer with a space between groups of three digits."""
    return f"{number:,.0f}".replace(",", " ")


def svg_frame(width: int, height: int, title: str) -> list[str]:
    """Return the beginning of a figure: the same bytes with every version of matplotlib, which has no part in it."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13">',
        f"<title>{title}</title>",
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="#ffffff" stroke="{LINES}"/>',
    ]


def svg_text(
    x: float, y: float, text: str, colour: str, *, anchor: str = "start", size: int = 13, weight: str = "400"
) -> str:
    """Return a text of a figure."""
    style = f'fill="{colour}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}"'
    return f'<text x="{round(x, 1)}" y="{round(y, 1)}" {style}>{text}</text>'
