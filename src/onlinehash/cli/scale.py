"""``onlinehash scale``: learn and encode Parquet files with many processes."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from onlinehash.cli._files import check_output
from onlinehash.cli._options import Bits, Settings, hasher_from_options, hasher_parameters
from onlinehash.cli._screen import note, progress_bar
from onlinehash.exceptions import counted

app = typer.Typer(help="Learn and encode Parquet files with many processes (Ray).", no_args_is_help=True)

_Paths = Annotated[list[Path], typer.Argument(metavar="PATHS", help="Parquet files, or folders of them.")]
_Vector = Annotated[str, typer.Option(help="Column of the vectors: lists of numbers.")]
_Address = Annotated[
    str | None, typer.Option(help="Address of a Ray cluster.", show_default="start Ray on this machine")
]
_Workers = Annotated[int | None, typer.Option(help="Tasks at a time.", show_default="one per CPU")]


@app.command("learn")
def learn(
    paths: _Paths,
    *,
    out: Annotated[Path, typer.Option(help="File for the hasher.")],
    bits: Bits = None,
    settings: Settings = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of a new hasher.")] = 0,
    resume: Annotated[Path | None, typer.Option(help="Continue with this saved HROH.")] = None,
    vectors: _Vector = "vectors",
    labels: Annotated[str, typer.Option(help="Column of the labels: integers, strings, or lists of them.")] = "label",
    address: _Address = None,
    workers: _Workers = None,
) -> None:
    """Learn HROH from labelled vectors and save it; the result equals that of one process."""
    from onlinehash import scale
    from onlinehash.hashers import load_hasher

    check_output(out)
    given = hasher_parameters(bits, settings)
    if resume is not None and given:
        raise typer.BadParameter("--resume takes the parameters from the file; leave them out.")
    hasher = hasher_from_options("hroh", given, random_state=seed) if resume is None else load_hasher(resume)
    start = perf_counter()
    with progress_bar("Learning") as progress:
        learned = scale.learn(
            paths, hasher, vectors=vectors, labels=labels, address=address, n_workers=workers, progress=progress
        )
    learned.save(out)
    seconds, n_seen = perf_counter() - start, learned.n_samples_seen_
    note(f"Learned in {seconds:.2f} s ({n_seen} seen in total). Saved {learned} to {out}.")


@app.command("encode")
def encode(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A saved hasher or encoder.")],
    paths: _Paths,
    *,
    out: Annotated[Path, typer.Option(help="Folder for the codes.")],
    vectors: _Vector = "vectors",
    id: Annotated[str, typer.Option(help="Column of the ids: integers or strings.")] = "id",
    address: _Address = None,
    workers: _Workers = None,
) -> None:
    """Write the codes of vectors to a folder, one Parquet file per row group; a second run continues the first."""
    from onlinehash import scale
    from onlinehash.cli._arrays import read_encoder

    with progress_bar("Encoding") as progress:
        parts = scale.encode(
            paths, read_encoder(model), out, vectors=vectors, id=id, address=address, n_workers=workers,
            progress=progress,
        )  # fmt: skip
    note(f"{out} holds the codes, in {counted(len(parts), 'part')}.")
