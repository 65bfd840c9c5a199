"""``onlinehash learn``: learn a hasher from a file or from a data set."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onlinehash._validation import check_targets
from onlinehash.cli import _options as options
from onlinehash.cli._files import check_inputs, check_output, name_of, name_of_output, open_output, refuse_other_kinds
from onlinehash.cli._screen import note, progress_bar, warn
from onlinehash.cli.datasets import load_split
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError, counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from onlinehash.datasets import Split
    from onlinehash.hashers import OnlineHasher
    from onlinehash.tables import Columns

_VECTORS = (
    "Vectors: .npy (may be larger than memory), .npz (arrays X, y), .csv, .jsonl or .parquet; - for standard input."
)
_LABELS = "Labels: .npy, .csv or .txt; not needed where the vectors come with labels."


def run(
    source: Annotated[Path | None, typer.Argument(metavar="VECTORS", help=_VECTORS)] = None,
    labels: Annotated[Path | None, typer.Argument(metavar="LABELS", help=_LABELS)] = None,
    *,
    out: Annotated[Path, typer.Option(help="File for the hasher; - for standard output.")],
    dataset: Annotated[
        str | None, typer.Option(help="Learn from the stream of this data set instead of a file.")
    ] = None,
    protocol: options.Protocol = "online",
    label_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of the labels: its name or its number; 1 is the first, -1 the last.",
            show_default="labels or label",
        ),
    ] = None,
    id: options.Id = None,
    vectors: options.Vectors = None,
    ignore: options.Ignore = None,
    header: options.Header = None,
    method: options.Method = None,
    bits: options.Bits = None,
    settings: options.Settings = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of a new hasher, and of the split of the data set.")] = 0,
    resume: Annotated[Path | None, typer.Option(help="Continue with this saved hasher.")] = None,
) -> None:
    """Learn a hasher from labelled vectors, row by row, and save it with its encoder.

    With --dataset, the hasher learns from the first part of the database, and '--method hcoh' uses the published
    learning rate; the queries of 'onlinehash evaluate' with the same seed are not learned from. Unsupervised methods
    need no labels.
    """
    from onlinehash.cli._arrays import by_chunks, check_column, check_rows
    from onlinehash.hashers import load_hasher
    from onlinehash.tables import Columns

    if (source is None) == (dataset is None):
        raise typer.BadParameter("give a file of vectors or --dataset, one of the two.")
    if dataset is not None and label_column is not None:
        raise typer.BadParameter("--label-column is for a file with columns, not for --dataset.")
    check_output(out)
    check_inputs(resume)
    check_rows(source)
    check_column(labels)
    given = options.hasher_parameters(bits, settings)
    if resume is not None and (given or method):
        raise typer.BadParameter("--resume takes the method and its parameters from the file; leave them out.")
    method = options.registered(method)
    defaults: dict[str, Any] = {"random_state": seed}
    if dataset is not None:
        split = load_split(dataset, protocol, seed)
        defaults |= _published(method, split)
    if resume is not None:
        refuse_other_kinds(resume, "hasher")
        hasher = load_hasher(resume)
    else:
        hasher = options.hasher_from_options(method, given, **defaults)
    if source is None:
        X, y = split.stream
    else:
        columns = Columns(id=id, vectors=vectors, labels=label_column, ignore=ignore or (), header=header)
        X, y = _read(source, labels, columns, hasher)

    start = perf_counter()
    with progress_bar("Learning") as progress:
        name = str(dataset) if source is None else name_of(source)
        by_chunks(X, lambda rows: hasher.partial_fit(X[rows], None if y is None else y[rows]), progress, name)
    seconds = perf_counter() - start
    with open_output(out) as file:
        file.write(hasher.to_bytes(encoder=True))
    seen = f"({hasher.n_samples_seen_} seen in total)"
    note(f"Learned {counted(len(X), 'instance')} in {seconds:.2f} s {seen}. Saved {hasher} to {name_of_output(out)}.")


def _read(source: Path, labels: Path | None, columns: Columns, hasher: OnlineHasher) -> tuple[NDArray[Any], Any]:
    from onlinehash.cli._arrays import check_vectors, read_column, read_rows

    if columns.labels is not None and (labels is not None or source.suffix.lower() in (".npy", ".npz", ".bits")):
        raise InvalidInputError("--label-column is for a .csv, .jsonl or .parquet file that holds its own labels.")
    given = read_rows(source, columns)
    check_vectors(given.X, name_of(source))
    y = given.labels if labels is None else read_column(labels, "labels")
    n_without = len(given.X)
    if y is not None and (hasher.supervised or labels is not None):
        _, labelled = check_targets(y, len(given.X))
        n_without = 0 if labelled is None else int((~labelled).sum())
    if hasher.supervised and n_without == len(given.X):
        raise InvalidLabelsError(
            f"{name_of(source)} comes without labels, and {hasher.name} learns from them. Give a second file, "
            "--label-column, or array y in a .npz; or use --method itq."
        )
    if hasher.supervised and n_without:
        warn(f"{n_without} of {len(given.X)} rows have no label; {hasher.name} does not learn from them.")
    return given.X, y


def _published(method: str, split: Split) -> dict[str, Any]:
    """Return the published parameters of a method for a data set."""
    from onlinehash.hashers import make_hasher

    hasher = make_hasher(method)
    centred = hasher.get_params(deep=False).get("preprocess") == "running"  # HROH scales to unit length instead
    settings: dict[str, Any] = {"preprocess": split.preprocess} if centred else {}
    if hasher.name == "hcoh":  # whose published rate it is
        settings["learning_rate"] = split.learning_rate
    return settings
