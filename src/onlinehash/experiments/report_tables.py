"""HTML tables of a report: measured values, printed values and their differences."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from onlinehash.experiments.tables import Cells, Printed, beside, differences, form_value, lengths_of

NO_PRINT = Printed({})
_STEPS = (0.01, 0.03, 0.1)  # differences at which the colour becomes stronger
_MINUS = "\N{MINUS SIGN}"


def html_table(
    caption: str,
    ours: Cells,
    theirs: Printed,
    *,
    columns: dict[int, str] | None = None,
    references: Cells | None = None,
    seeds: dict[str, dict[int, list[float]]] | None = None,
    form: Callable[[float], str] = form_value,
    rising: bool = False,
) -> str:
    """Return a sortable table; a cell has the measured value, the printed value and their difference."""
    lengths = lengths_of(ours)
    names = columns or {n_bits: f"{n_bits} bits" for n_bits in lengths}
    choose = min if rising else max
    best = {n_bits: choose(row[n_bits] for row in ours.values() if n_bits in row) for n_bits in lengths}
    rows = []
    for method, row in ours.items():
        row_printed = beside(method, ours, theirs.cells)
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
    compared = bool(differences(ours, theirs.cells))
    return (
        '<div class="box"><table class="sortable">'
        f"<caption><div>{escape(caption)}{_key(theirs, compared)}</div></caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody>"
        f"{f'<tfoot>{foot}</tfoot>' if foot else ''}</table></div>"
    )


def _key(theirs: Printed, compared: bool) -> str:
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
    return f'<span class="diff {direction}{strength}">{form_signed(difference)}</span>'


def form_signed(value: float) -> str:
    """Return a difference with its sign."""
    text = form_value(abs(value))
    return text if text == ".000" else ("+" if value > 0 else _MINUS) + text


def form_seconds(value: float) -> str:
    """Return seconds with about three digits."""
    return f"{value:.4f}" if value < 0.01 else f"{value:.3f}" if value < 1 else f"{value:.3g}"
