"""``onlinehash datasets``: what there is to learn from."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer


def run(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False) -> None:
    """List the data sets: their sizes, whether they are on this machine, and where from.

    Files are looked for in the folder that ONLINEHASH_DATA names, else in the user's cache folder.
    """
    from onlinehash.cli._screen import print_rows
    from onlinehash.datasets import describe

    if as_json:
        typer.echo(json.dumps([asdict(info) for info in describe()], indent=2))
        return
    columns = ("name", "rows", "features", "classes", "here", "where", "licence")
    print_rows(
        columns,
        [
            (
                info.name,
                info.n_samples,
                info.n_features,
                info.n_classes,
                "yes" if info.available else "no",
                info.where,
                info.licence,
            )
            for info in describe()
        ],
    )
