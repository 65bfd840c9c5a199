"""Reports as files: HTML, PDF, LaTeX and CSV, all of the same tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

from onlinehash._internal.files import write_bytes
from onlinehash.exceptions import needs_extra
from onlinehash.experiments import tables
from onlinehash.experiments.report import Chapter, drawings, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = ("plan", "data", "measure", "method", "bits", "mean", "deviation", "seeds", "printed")
_LATEX = str.maketrans(
    {**{letter: f"\\{letter}" for letter in "&%$#_{}"}, "\\": r"\textbackslash{}", "±": r"$\pm$", "~": r"\~{}"}
)


def check_report(path: Path) -> None:
    """Raise an error if what draws the figures of a report is not installed, before anything is run for it."""
    if path.suffix.lower() not in {".csv", ".tex"}:
        with needs_extra("matplotlib", "research"):
            import_module("matplotlib")


def write_report(path: Path, chapters: Sequence[Chapter]) -> None:
    """Write chapters to a file, by its extension one of :data:`FORMATS`."""
    write_bytes(path, FORMATS[path.suffix.lower()](chapters))


def chapter_tables(chapter: Chapter) -> Iterator[tuple[str, tables.Table]]:
    """Yield the tables of a chapter, each with its title."""
    for name, part in tables.groups(chapter.results).items():
        for table in tables.quality_tables(part):
            yield f"{table.title}, {name}{f' (in brackets: {table.brackets})' if table.brackets else ''}", table


def _html(chapters: Sequence[Chapter]) -> bytes:
    return render(chapters).encode()


def _csv(chapters: Sequence[Chapter]) -> bytes:
    """Return one line per cell, with all digits."""
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(_COLUMNS)
    for chapter in chapters:
        for name, part in tables.groups(chapter.results).items():
            for measure in tables.MEASURES | tables.UNSEEN:
                cells, theirs = tables.spread(part, measure), tables.printed_beside(part, measure).cells
                for method, row in cells.items():
                    printed = tables.beside(method, cells, theirs)
                    for n_bits, values in row.items():
                        deviation = stdev(values) if len(values) > 1 else ""
                        numbers = (n_bits, mean(values), deviation, len(values), printed.get(n_bits, ""))
                        lines.writerow((chapter.plan.name, name, measure, method, *numbers))
    return file.getvalue().encode()


def _latex(chapters: Sequence[Chapter]) -> bytes:
    """Return one table environment per table; no package is needed."""
    lines = []
    for chapter in chapters:
        lines.append(f"% {chapter.plan.title}; made by: {chapter.command}")
        for title, table in chapter_tables(chapter):
            head, *body = (" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in table.rows)
            columns = "l" + "r" * (len(table.rows[0]) - 1)
            lines += [r"\begin{table}", rf"\caption{{{title.translate(_LATEX)}}}", rf"\begin{{tabular}}{{{columns}}}"]
            lines += [r"\hline", head, r"\hline", *body, r"\hline", r"\end{tabular}", r"\end{table}", ""]
    return "\n".join(lines).encode()


def _pdf(chapters: Sequence[Chapter]) -> bytes:
    """Return one page per table and per figure."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_pdf import PdfPages

    file = io.BytesIO()
    with rc_context({"pdf.fonttype": 42}), PdfPages(file, metadata={"CreationDate": None}) as pages:
        for chapter in chapters:
            for title, table in chapter_tables(chapter):
                pages.savefig(_table_page(f"{chapter.plan.title}\n{title}", table.rows))
            for part in tables.groups(chapter.results).values():
                for _, drawing in drawings(part):
                    pages.savefig(drawing.figure)
    return file.getvalue()


def _table_page(title: str, rows: Sequence[Sequence[str]]) -> Figure:
    """Return a page of the size of its table."""
    from matplotlib.figure import Figure

    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
    text = "\n".join([*title.splitlines(), "", lines[0], "-" * len(lines[0]), *lines[1:]])
    length, n_lines = max(map(len, text.splitlines())), text.count("\n") + 1
    figure = Figure(figsize=(1 + 0.085 * length, 1 + 0.17 * n_lines))
    figure.text(0.5, 0.5, text, fontsize=9, family="monospace", ha="center", va="center")
    return figure


FORMATS: dict[str, Callable[[Sequence[Chapter]], bytes]] = {
    ".html": _html,
    ".pdf": _pdf,
    ".tex": _latex,
    ".csv": _csv,
}
"""What reports are written as, by the extension of the file."""
