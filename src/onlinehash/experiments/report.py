"""The report: all plans in one self-contained HTML file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from onlinehash.experiments import tables
from onlinehash.experiments.plan import Plan
from onlinehash.experiments.results import Result, is_stale

if TYPE_CHECKING:
    from onlinehash.experiments.plots import Drawing

QUICK_PLAN = Path(__file__).parent / "quick.toml"
"""Every method on a small data set, in seconds."""

_STYLE = (Path(__file__).parent / "report.css").read_text()


@dataclass(frozen=True)
class Chapter:
    """A plan, its results, and the command that makes them."""

    plan: Plan
    results: Sequence[Result]
    command: str


def render(chapters: Sequence[Chapter]) -> str:
    """Return the HTML page of chapters."""
    titles = [chapter.plan.title for chapter in chapters]
    links = "".join(f'<li><a href="#plan-{i}">{escape(title)}</a></li>' for i, title in enumerate(titles))
    everything = [result for chapter in chapters for result in chapter.results]
    heading = titles[0] if len(titles) == 1 else "Reproduction report"
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(heading)}</title><style>{_STYLE}</style></head>",
            f'<body><header><p class="brand">onlinehash</p><h1>{escape(heading)}</h1>',
            f"<nav><ul>{links}</ul></nav>" if len(chapters) > 1 else "",
            _environments(everything),
            "</header><main>",
            *(_chapter(chapter, i, alone=len(chapters) == 1) for i, chapter in enumerate(chapters)),
            "</main></body></html>",
            "",
        ]
    )


def _environments(results: Sequence[Result]) -> str:
    """Return the versions and machines of the results, the most frequent first."""
    seen: dict[str, Counter[str]] = {}
    for result in results:
        for key, value in result["environment"].items():
            seen.setdefault(key, Counter())[value] += 1
    total = sum(sum(result["seconds"].values()) for result in results)
    facts = {
        "runs": f"{len(results)}, {total / 3600:.2g} hours of CPU time",
        **{key: ", ".join(value for value, _ in values.most_common()) for key, values in seen.items()},
    }
    items = "".join(f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>" for key, value in facts.items())
    return f'<dl class="facts">{items}</dl>'


def _chapter(chapter: Chapter, number: int, *, alone: bool) -> str:
    plan, results = chapter.plan, chapter.results
    parts = tables.groups(results)
    seeds = {result["config"]["seed"] for result in results}
    state = f"{len(results)} of {len(plan.runs)} runs are done. " if len(results) < len(plan.runs) else ""
    n_stale = sum(map(is_stale, results))
    if n_stale:
        state += f"Stale runs, made before measured values changed: {n_stale}. "
    mean = f"Values are means of {len(seeds)} seeds, with their standard deviation." if len(seeds) > 1 else "One seed."
    protocols = ", ".join(sorted({result["config"]["protocol"] for result in results}))
    lines = [
        f'<section id="plan-{number}">',
        "" if alone else f"<h2>{escape(plan.title)}</h2>",
        f'<p class="quiet">{state}{mean} Protocol: {escape(protocols)}. Made by '
        f"<code>{escape(chapter.command)}</code></p>",
        f"<p>{escape(plan.notes)}</p>" if plan.notes else "",
    ]
    if len(parts) == 1:
        lines += map(_part, parts.values())
    else:
        lines.append(_overview(results, parts))
        for name, part in parts.items():
            shut = "" if len(parts) == 2 else "<details><summary>All tables and figures</summary>"
            lines.append(f"<h3>{escape(name)}</h3>{shut}{_part(part)}{shut and '</details>'}")
    return "\n".join([*lines, "</section>"])


def _overview(results: Sequence[Result], parts: dict[str, list[Result]]) -> str:
    """Return a table of mAP at one number of bits, one column per kind of stream."""
    learned, _ = tables.separate_references(results)
    if not learned:
        return ""
    by_part = {
        name: tables.measured(tables.separate_references(part)[0], "mean_average_precision")
        for name, part in parts.items()
    }
    n_bits = tables.common_length({f"{name}/{m}": row for name, cells in by_part.items() for m, row in cells.items()})
    rows = [["method", *by_part]]
    for method in dict.fromkeys(method for cells in by_part.values() for method in cells):
        values = [cells.get(method, {}).get(n_bits) for cells in by_part.values()]
        if any(value is not None for value in values):
            rows.append([method, *("-" if value is None else tables.form_value(value) for value in values)])
    studied = tables.study(learned, "mean_average_precision")
    table = _table(f"mAP at {n_bits} bits, all streams", rows)
    return table + (_figure_grid([_study_drawing("mAP", studied)]) if studied else "")


def _part(results: list[Result]) -> str:
    learned, _ = tables.separate_references(results)
    studied = tables.study(learned, "mean_average_precision")
    shown = [(table.title, table.rows, table.brackets) for table in tables.quality_tables(results)]
    if learned and not studied:
        paper = tables.printed_seconds(results[0]["config"]["dataset"])
        rows = tables.table_rows(tables.learning_seconds(learned), paper.cells, form=_form_seconds)
        shown.append(("CPU seconds to learn the stream", rows, paper.label if paper.cells else ""))
    notes = tables.explanations(results)
    reasons = "".join(f"<dt>{escape(method)}</dt><dd>{escape(text)}</dd>" for method, text in notes.items())
    return "\n".join(
        [
            _figure_grid(drawings(results)),
            *(_table(*table) for table in shown),
            f"<details><summary>Why rows differ from print</summary><dl>{reasons}</dl></details>" if reasons else "",
        ]
    )


def drawings(results: list[Result]) -> list[tuple[str, Drawing]]:
    """Return the figures of one group of results, with their captions."""
    from onlinehash.experiments import plots  # needs the extra "research"

    learned, _ = tables.separate_references(results)
    label, studied = tables.map_label(results), tables.study(learned, "mean_average_precision")
    figures = []
    if studied is not None:
        figures.append(_study_drawing(label, studied))
    elif len(tables.lengths_of(tables.measured(learned, "mean_average_precision"))) > 1:
        figures.append((f"{label} against the number of bits", plots.map_against_bits(results, label=label)))
    drawn = tables.areas(learned)
    if len(tables.lengths_of(drawn)) > 1:
        area = plots.auc_against_bits(learned, label=f"area under the {label} curve")
        figures.append(("Area under the learning curve", area))
    if drawn:
        figures.append((f"{label} along the stream", plots.map_against_instances(learned, label=label)))
    return figures


def _study_drawing(label: str, studied: tables.Study) -> tuple[str, Drawing]:
    from onlinehash.experiments import plots

    caption = f"{label} against {studied.parameter.replace('_', ' ')}"
    return caption, plots.map_against_parameter(studied, label=label)


def _figure_grid(figures: Iterable[tuple[str, Drawing]]) -> str:
    shown = (f"<figure><figcaption>{escape(name)}</figcaption>{drawing.svg()}</figure>" for name, drawing in figures)
    return f'<div class="figures">{"".join(shown)}</div>'


def _table(caption: str, rows: Sequence[Sequence[str]], brackets: str = "") -> str:
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in rows[0])
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows[1:]
    )
    note = f"<small>In brackets: {escape(brackets)}.</small>" if brackets else ""
    return (
        f'<div class="box"><table><caption><div>{escape(caption)}{note}</div></caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _form_seconds(value: float) -> str:
    """Return seconds with about three digits."""
    return f"{value:.4f}" if value < 0.01 else f"{value:.3f}" if value < 1 else f"{value:.3g}"
