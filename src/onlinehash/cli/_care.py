"""The commands ``onlinehash collection check``, ``backup``, ``restore``, ``compact`` and ``migrate``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from onlinehash.cli._files import check_inputs, refuse_other_kinds
from onlinehash.cli._options import Json
from onlinehash.cli._screen import note, print_json, printable, progress_bar
from onlinehash.cli._target import TargetArgument
from onlinehash.exceptions import counted

app = typer.Typer()


@app.command("check")
def check(
    target: TargetArgument,
    sample: Annotated[int, typer.Option(min=0, help="Items whose codes are computed again, about.")] = 1000,
    as_json: Json = False,
) -> None:
    """Verify everything that is stored; list what is damaged, and end with 1 if anything is."""
    from onlinehash.collection import check_collection

    target.refuse_other_files()
    with progress_bar("Checking") as progress:
        report = check_collection(target.name, store=target.store, sample=sample, progress=progress)
    if as_json:
        print_json({"ok": report.ok, **asdict(report)})
    else:
        for line in str(report).splitlines():
            typer.echo(printable(line))
    if not report.ok:
        raise typer.Exit(1)


@app.command("backup")
def backup(
    target: TargetArgument, out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")]
) -> None:
    """Copy a collection to a file while it is in use, and check the copy, which is itself a collection."""
    with target.open(readonly=True) as collection, progress_bar("Copying") as progress:
        collection.backup(out, progress=progress)
    note(f"Wrote {out}, and checked it.")


@app.command("restore")
def restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="A file that 'onlinehash collection backup' wrote.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file of the collection.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a collection that is there.")] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Accept a damaged write-ahead log, and lose the last changes.")
    ] = False,
) -> None:
    """Check a backup, and put a copy of it where a collection is to be."""
    from onlinehash.collection import Collection

    check_inputs(backup)
    refuse_other_kinds(backup, "collection")
    with progress_bar("Copying") as progress:
        Collection.restore(backup, out, overwrite=overwrite, partial=partial, progress=progress)
    note(f"Restored {out} from {backup}.")


@app.command("compact")
def compact(target: TargetArgument) -> None:
    """Give the space of deleted and replaced items back to the disk."""
    with target.open() as collection, progress_bar("Compacting") as progress:
        freed = collection.compact(progress=progress)
        left = collection.stats().n_bytes
    note(f"{target} has {left} bytes, {max(0, freed)} fewer than before.")


@app.command("migrate")
def migrate(
    target: TargetArgument,
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
    with target.open() as collection:
        if abandon:
            collection.abandon_migration()
            note(f"{target} stays with {collection.embedder or 'vectors as they are'}.")
            return
        with progress_bar("Embedding") as progress:
            collection.migrate(embed=embed, progress=progress)
        width = counted(collection.n_features or 0, "feature")
        note(f"{target} embeds with {collection.embedder}: {counted(len(collection), 'item')}, {width}.")
