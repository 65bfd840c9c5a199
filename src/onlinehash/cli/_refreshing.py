"""What the command line shows about codes that are not up to date."""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from onlinehash.collection import Collection
    from onlinehash.collection.types import Stats

Refresh = Annotated[
    bool,
    typer.Option(
        "--refresh/--no-refresh",
        help="Wait until the codes are those of all that was learned, or leave that to the next writer.",
    ),
]


def finish_refresh(collection: Collection, *, wanted: bool = True) -> None:
    """Refresh what is pending, with a bar; or close the collection without, which logs what is left."""
    if not wanted:
        collection.close(refresh=False)
    elif collection.stats().pending:
        collection.refresh(wait=False)
        watch_refresh(collection)


def watch_refresh(collection: Collection) -> None:
    """Move a bar until a refresh is done; raise what ended it too early."""
    from onlinehash.cli._screen import progress_bar

    with progress_bar("Encoding") as progress:
        while True:
            stats = collection.stats()
            if not stats.refreshing or stats.refresh_error is not None:
                break
            progress(round(stats.progress * stats.n_items), stats.n_items)
            sleep(0.05)
        collection.refresh()  # once more if one from before was finished; errors come out here


def warn_unless_searchable(stats: Stats) -> None:
    """Say why some items cannot be found."""
    from onlinehash.cli._screen import warn
    from onlinehash.hashers import HASHERS

    if stats.n_searchable >= stats.n_items:
        return
    hasher = HASHERS.get(stats.method)
    if stats.refresh_error is not None:
        why = f"making their codes failed: {stats.refresh_error}"
    elif stats.refreshing:
        why = "their codes are being made."
    elif not stats.n_learned and hasher is not None and hasher.supervised:
        why = (
            f"{stats.method} learns from labels, and none has one. Ingest them again with --labels COLUMN, or make "
            "a collection with --method itq, which needs none."
        )
    else:
        why = f"{stats.method} has not learned from enough items yet; add more."
    warn(f"{stats.n_searchable} of {stats.n_items} items are searchable: {why}")
