"""Options about the columns of a CSV, JSON lines or Parquet file."""

from __future__ import annotations

from typing import Annotated

import typer

Key = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of the ids.", show_default="key, keys, id, ids or _id")
]
Vector = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMNS",
        help="One column of lists; or columns of numbers: a pattern like 'f*' or a range like x0:x383.",
        show_default="vector, or all numbers that are nothing else",
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMNS", help="Leave out a column, a pattern or a range; repeatable.", show_default=False),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a .csv names the columns.",
        show_default="unless it is all numbers",
    ),
]
