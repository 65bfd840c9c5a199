"""Options about the columns of a CSV, JSON lines or Parquet file."""

from __future__ import annotations

from typing import Annotated

import typer

Id = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of the ids.", show_default="id, ids, _id, key or keys")
]
Vectors = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMNS",
        help="One column of lists; or columns of numbers: a pattern like 'f*' or a range like x0:x383.",
        show_default="vectors, or all numbers that are nothing else",
    ),
]
Ignore = Annotated[
    list[str] | None, typer.Option(metavar="COLUMNS", help="Leave out a column, a pattern or a range; repeatable.")
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a .csv names the columns.",
        show_default="unless it is all numbers",
    ),
]
