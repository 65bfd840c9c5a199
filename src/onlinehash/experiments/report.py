"""The report: all plans in one self-contained HTML file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import median

from onlinehash.exceptions import DataNotFoundError
from onlinehash.experiments import plots, tables
from onlinehash.experiments.plan import Plan
from onlinehash.experiments.results import Result, is_stale, read_results
from onlinehash.experiments.tables import Cells, form_value

_NO_PRINT = tables.Printed({})
_STEPS = (0.01, 0.03, 0.1)  # differences at which the colour becomes stronger
_MINUS = "\N{MINUS SIGN}"
_CLOSE, _LARGE = 0.02, 0.05

QUICK_PLAN = Path(__file__).parent / "quick.toml"
"""Every method on a small data set, in seconds."""

_STYLE = (Path(__file__).parent / "report.css").read_text()
_SCRIPT = (Path(__file__).parent / "report.js").read_text()


@dataclass(frozen=True)
class Chapter:
    """A plan, its results, and the command that makes them."""

    plan: Plan
    results: Sequence[Result]
    command: str


def read_chapter(plan: Plan, results_folder: Path, command: str | None = None) -> Chapter:
    """Read the results of a plan, which must have some, from the folder of its ``.jsonl`` file."""
    path = results_folder / f"{plan.name}.jsonl"
    results = read_results(path, plan.runs)
    command = command or f"onlinehash reproduce {plan.name}.toml"
    if not results:
        raise DataNotFoundError(f"There are no results of the plan {plan.name!r} in {path}. Run: {command}")
    return Chapter(plan, results, command)


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
            f"</main><script>{_SCRIPT}</script></body></html>",
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
    seeds = sorted({result["config"]["seed"] for result in results})
    state = f"{len(results)} of {len(plan.runs)} runs are done. " if len(results) < len(plan.runs) else ""
    n_stale = sum(map(is_stale, results))
    if n_stale:
        state += f"Stale runs, made before measured values changed: {n_stale}. "
    mean = f"Values are means of {len(seeds)} seeds." if len(seeds) > 1 else "One seed."
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
    by_part = {
        name: tables.measured(tables.separate_references(part)[0], "mean_average_precision")
        for name, part in parts.items()
    }
    n_bits = plots.common_length({f"{name}/{m}": row for name, cells in by_part.items() for m, row in cells.items()})
    methods = dict.fromkeys(method for cells in by_part.values() for method in cells)
    rows = {
        method: {
            i: cells[method][n_bits] for i, cells in enumerate(by_part.values()) if n_bits in cells.get(method, {})
        }
        for method in methods
    }
    caption = f"mAP at {n_bits} bits, all streams"
    table = _html_table(
        caption, {m: row for m, row in rows.items() if row}, _NO_PRINT, columns=dict(enumerate(by_part))
    )
    studied = tables.study(learned, "mean_average_precision")
    return table + (_figure_grid([_study_figure(learned, "mAP", studied)]) if studied else "")


def _part(results: list[Result]) -> str:
    learned, references = tables.separate_references(results)
    dataset, metrics = results[0]["config"]["dataset"], results[0]["metrics"]
    label, precision_label = _at("mAP", metrics.get("map_at")), _at("Precision", metrics.get("precision_at"))
    ours = tables.measured(learned, "mean_average_precision")
    theirs, theirs_precision = (
        tables.printed_for(dataset, measure) if tables.as_in_the_paper(results) else _NO_PRINT
        for measure in ("mean_average_precision", "precision")
    )
    seconds = tables.learning_seconds(learned)
    found = tables.differences(ours, theirs.cells) if theirs.comparable else []
    studied = tables.study(learned, "mean_average_precision")

    def table(caption: str, measure: str, printed: tables.Printed = _NO_PRINT) -> str:
        cells, of_references = (tables.measured(some, measure) for some in (learned, references))
        return _html_table(caption, cells, printed, references=of_references, seeds=tables.spread(learned, measure))

    parts = [
        _compared(found, label),
        _figures(results, label, studied),
        table(label, "mean_average_precision", theirs),
        table(precision_label, "precision", theirs_precision),
    ]
    if tables.measured(learned, "new_items.mean_average_precision"):
        parts.append(table(f"{label} among items never learned from", "new_items.mean_average_precision"))
    of_unseen = all(tables.UNSEEN.keys() <= result["metrics"].keys() for result in results)
    parts += [table(caption, name) for name, caption in tables.UNSEEN.items() if of_unseen]
    parts.append(_notes(ours, theirs))
    caption, printed = "CPU seconds to learn the stream", tables.printed_seconds(dataset)
    times = "" if studied else _html_table(caption, seconds, printed, form=_form_seconds, rising=True)
    return "\n".join([*parts, times])


def _at(measure: str, length: int | None) -> str:
    return measure if length is None else f"{measure}@{length}"


def _compared(found: list[tables.Difference], label: str) -> str:
    """Return a paragraph on the differences from printed values, with explanations of the largest."""
    if not found:
        return ""
    sizes = [abs(difference.size) for difference in found]
    close = sum(size <= _CLOSE for size in sizes)
    text = (
        f"{len(found)} cells have a printed {label}: {close} of them are within {form_value(_CLOSE)} of it, "
        f"half of them within {form_value(median(sizes))}."
    )
    farthest: dict[str, list[tables.Difference]] = {}
    for difference in found:
        if abs(difference.size) >= _LARGE:
            farthest.setdefault(difference.method, []).append(difference)
    items = [
        f"<li><b>{escape(method)}</b>: "
        + ", ".join(f"{_form_signed(d.size)} at {d.n_bits}" for d in sorted(cells, key=lambda d: d.n_bits))
        + f" bits. {escape(tables.explanation(method))}</li>"
        for method, cells in farthest.items()
    ]
    return f"<p>{text} Off by {form_value(_LARGE)} or more:</p><ul>{''.join(items) or '<li>none</li>'}</ul>"


def _notes(ours: Cells, theirs: tables.Printed) -> str:
    """Return explanations of released variants."""
    bases = dict.fromkeys(tables.base_name(method) for method in ours if method.endswith("(as released)"))
    if not theirs.cells or not bases:
        return ""
    items = "".join(f"<dt>{escape(base)}</dt><dd>{escape(tables.explanation(base))}</dd>" for base in bases)
    return f"<details><summary>What \u201cas released\u201d means, and why</summary><dl>{items}</dl></details>"


def _figures(results: list[Result], label: str, studied: tables.Study | None) -> str:
    learned, _ = tables.separate_references(results)
    figures = []
    if studied is not None:
        figures.append(_study_figure(learned, label, studied))
    elif len(tables.lengths_of(tables.measured(learned, "mean_average_precision"))) > 1:
        figures.append(_figure(f"{label} against the number of bits", plots.map_against_bits(results, label=label)))
    drawn = tables.areas(learned)
    if len(tables.lengths_of(drawn)) > 1:
        area = plots.auc_against_bits(learned, label=f"area under the {label} curve")
        figures.append(_figure("Area under the learning curve", area))
    if drawn:
        figures.append(_figure(f"{label} along the stream", plots.map_against_instances(learned, label=label)))
    return _figure_grid(figures)


def _study_figure(results: list[Result], label: str, studied: tables.Study) -> str:
    caption = f"{label} against {studied.parameter.replace('_', ' ')}"
    return _figure(caption, plots.map_against_parameter(results, label=label))


def _figure(caption: str, svg: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{svg}</figure>"


def _figure_grid(figures: Iterable[str]) -> str:
    return f'<div class="figures">{"".join(figures)}</div>'


def _html_table(
    caption: str,
    ours: Cells,
    theirs: tables.Printed,
    *,
    columns: dict[int, str] | None = None,
    references: Cells | None = None,
    seeds: dict[str, dict[int, list[float]]] | None = None,
    form: Callable[[float], str] = form_value,
    rising: bool = False,
) -> str:
    """Return a sortable table; a cell has the measured value, the printed value and their difference."""
    lengths = tables.lengths_of(ours)
    names = columns or {n_bits: f"{n_bits} bits" for n_bits in lengths}
    choose = min if rising else max
    best = {n_bits: choose(row[n_bits] for row in ours.values() if n_bits in row) for n_bits in lengths}
    rows = []
    for method, row in ours.items():
        row_printed = tables.beside(method, ours, theirs.cells)
        cells = []
        for n_bits in lengths:
            value, other = row.get(n_bits), row_printed.get(n_bits)
            if value is None:
                inner = "" if other is None else f'<span class="theirs">{form(other)}</span>'
                cells.append(f'<td data-value="">&ndash;{inner}</td>')
                continue
            inner = f'<span class="{"ours best" if value == best[n_bits] else "ours"}">{form(value)}</span>'
            if other is not None:
                inner += f'<span class="theirs">{form(other)}</span>'
                inner += _chip(value - other) if theirs.comparable else ""
            all_seeds = (seeds or {}).get(method, {}).get(n_bits, [])
            hint = f' title="seeds: {", ".join(map(form, all_seeds))}"' if len(all_seeds) > 1 else ""
            cells.append(f'<td data-value="{value!r}"{hint}>{inner}</td>')
        rows.append(f'<tr><th scope="row">{escape(method)}</th>{"".join(cells)}</tr>')
    heads = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{escape(name)}</button></th>'
        for name in ("method", *(names[n_bits] for n_bits in lengths))
    )
    foot = "".join(
        f'<tr><th scope="row">{escape(name)} <small class="theirs">{stored:,} bits per item</small></th>'
        + f'<td><span class="ours">{form(value)}</span></td>' * len(lengths)
        + "</tr>"
        for name, row in (references or {}).items()
        for stored, value in row.items()
    )
    compared = bool(tables.differences(ours, theirs.cells))
    return (
        '<div class="box"><table class="sortable">'
        f"<caption><div>{escape(caption)}{_key(theirs, compared)}</div></caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody>"
        f"{f'<tfoot>{foot}</tfoot>' if foot else ''}</table></div>"
    )


def _key(theirs: tables.Printed, compared: bool) -> str:
    """Return the legend of the cells."""
    if not compared:
        return ""
    if not theirs.comparable:
        return (
            f"<small>The small values are {escape(theirs.label)}. They are for orientation only: what is measured here "
            "is something else, so no difference is shown.</small>"
        )
    shades = " ".join(map(_chip, (*(-size for size in reversed(_STEPS)), *_STEPS)))
    return f"<small>Below ours: {escape(theirs.label)}, and the difference, coloured from {shades} on.</small>"


def _chip(difference: float) -> str:
    strength = sum(abs(difference) >= step - 1e-12 for step in _STEPS)
    direction = "up" if difference >= 0 else "down"
    return f'<span class="diff {direction}{strength}">{_form_signed(difference)}</span>'


def _form_signed(value: float) -> str:
    """Return a difference with its sign."""
    text = form_value(abs(value))
    return text if text == ".000" else ("+" if value > 0 else _MINUS) + text


def _form_seconds(value: float) -> str:
    """Return seconds with about three digits."""
    return f"{value:.4f}" if value < 0.01 else f"{value:.3f}" if value < 1 else f"{value:.3g}"
