"""Pages of the examples that are written as notebooks: their text, code, output and figures.

An example is a plain script whose cells begin with ``# %%``, as editors and Jupyter (by jupytext) read it. A cell that
begins with ``# %% [markdown]`` is text. ``plt.show()`` is where a figure appears.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import matplotlib.pyplot as plt
from matplotlib import rc_context

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "examples"
EXAMPLES = ("intent_routing", "near_duplicates", "noisy_labels", "new_classes")

EXTRAS = {"intent_routing": "research,text"}


@dataclass
class Cell:
    """A cell of an example, and what it printed and drew."""

    is_text: bool
    content: str
    output: str = ""
    figures: list[str] = field(default_factory=list)


def script_of(name: str) -> Path:
    """Return the path of an example."""
    return ROOT / "examples" / f"{name}.py"


def cells_of(name: str) -> list[Cell]:
    """Read the cells of an example."""
    _, *parts = re.split(r"(?m)^# %%(.*)\n", script_of(name).read_text())
    cells = []
    for kind, content in zip(parts[::2], parts[1::2], strict=True):
        is_text = "[markdown]" in kind
        cells.append(Cell(is_text, re.sub(r"(?m)^# ?", "", content).strip() if is_text else content.strip()))
    return cells


def run(name: str) -> list[Cell]:
    """Run an example, and return its cells with what they print and draw."""
    cells = cells_of(name)
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(script_of(name))}
    look: dict[Any, Any] = {
        "backend": "agg",
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "image.interpolation": "none",
    }
    with rc_context(look):
        for cell in cells:
            if cell.is_text:
                continue
            with redirect_stdout(io.StringIO()) as out, patch.object(plt, "show", lambda cell=cell: _keep(cell)):
                exec(compile(cell.content, str(script_of(name)), "exec"), names)
            cell.output = out.getvalue()
    return cells


def _keep(cell: Cell) -> None:
    """Write the figure at hand as SVG, without a date; matplotlib writes text as text, in any sans-serif font."""
    file = io.StringIO()
    plt.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    plt.close()
    cell.figures.append(re.sub(r"(?m) +$", "", file.getvalue()))


def page(name: str, cells: list[Cell]) -> str:
    """Return the page of an example that was run."""
    return "\n".join(_lines(name, cells))


def _lines(name: str, cells: list[Cell]) -> Iterator[str]:
    for number, cell in enumerate(cells):
        yield from [cell.content, ""] if cell.is_text else ["```python", cell.content, "```", ""]
        if cell.output:
            yield from ["```text", cell.output.rstrip(), "```", ""]
        for figure, _ in enumerate(cell.figures):
            yield from [f"![What the cell above draws]({name}-{number}-{figure}.svg)", ""]
    yield f"Made by `make docs` from [the script](../../examples/{name}.py), a notebook in plain Python."
    yield f"Run it in an editor cell by cell, by `python examples/{name}.py`, or in Jupyter with jupytext."
    yield f"It needs `pip install '.[{EXTRAS.get(name, 'research')}]'` in the clone."
    yield ""


def write(name: str) -> None:
    """Run an example and write its page and its figures."""
    FOLDER.mkdir(exist_ok=True)
    cells = run(name)
    for path in FOLDER.glob(f"{name}-*.svg"):
        path.unlink()
    for number, cell in enumerate(cells):
        for figure, drawn in enumerate(cell.figures):
            (FOLDER / f"{name}-{number}-{figure}.svg").write_text(drawn)
    (FOLDER / f"{name}.md").write_text(page(name, cells))
