"""The command ``onlinehash collection migrate``."""

from __future__ import annotations

from typing import Annotated

import typer

from onlinehash.cli._screen import note, progress_bar
from onlinehash.cli._target import TARGET, Target, open_existing

app = typer.Typer()


@app.command("migrate")
def migrate(
    target: Annotated[Target, typer.Argument(metavar="COLLECTION", help=TARGET, parser=Target.parse)],
    embed: Annotated[
        str | None, typer.Option(metavar="NAME", help="The new embedder.", show_default="that of a migration under way")
    ] = None,
    abandon: Annotated[bool, typer.Option("--abandon", help="Drop the new vectors of a migration under way.")] = False,
) -> None:
    """Embed all documents again with another embedder, learn from the new vectors, and replace the old ones at once.

    Searches of other processes go on meanwhile. Run it again to go on after an interruption.
    """
    if abandon and embed is not None:
        raise typer.BadParameter("--abandon goes without --embed.")
    with open_existing(target) as collection:
        if abandon:
            collection.abandon_migration()
            note(f"{target} stays with {collection.embedder or 'vectors as they are'}.")
            return
        with progress_bar("Embedding") as progress:
            collection.migrate(embed=embed, progress=progress)
        note(f"{target} embeds with {collection.embedder}: {len(collection)} items, {collection.n_features} features.")
