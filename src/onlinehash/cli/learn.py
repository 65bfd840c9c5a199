"""``onlinehash learn``: a hasher from a file, a data set, or both after another hasher."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from onlinehash.datasets import Split
    from onlinehash.hashers import OnlineHasher
    from onlinehash.types import Labels

_FEATURES = "Features: .npy (may be larger than memory), .npz (arrays X, y) or .csv."
_LABELS = "Labels: .npy, .csv of one column or .txt lines."


def run(
    features: Annotated[Path | None, typer.Argument(metavar="FEATURES", help=_FEATURES, show_default=False)] = None,
    labels: Annotated[Path | None, typer.Argument(metavar="LABELS", help=_LABELS, show_default=False)] = None,
    *,
    out: Annotated[Path, typer.Option(help="Where the hasher goes.", show_default=False)],
    dataset: Annotated[str | None, typer.Option(help="Learn the stream of this data set instead of a file.")] = None,
    protocol: Annotated[str, typer.Option(metavar="online|published", help="How to split a data set.")] = "online",
    label_column: Annotated[
        str | None, typer.Option(help="Column of a .csv file: its name, or its number from 1; -1 is the last.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="Name of the hasher.", show_default="hcoh")] = None,
    bits: Annotated[int | None, typer.Option(help="Length of the codes.", show_default="32")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="By default the method's own.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Instances that share a step.")] = None,
    preprocess: Annotated[
        str | None, typer.Option(metavar="running|none", help="Centre by the running mean, or take rows as they are.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any other parameter; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of a new hasher, and of the split of a data set.")] = 0,
    resume: Annotated[Path | None, typer.Option(help="Go on with this saved hasher.")] = None,
) -> None:
    """Learn a hasher from labelled features, row by row, and save it.

    A data set gives the head of its database to learn from, and HCOH its published learning rate; the queries that
    'onlinehash evaluate' asks with the same seed stay unseen. Methods without labels need none.
    """
    from onlinehash.cli._chunks import by_chunks
    from onlinehash.cli._screen import note, progress_bar
    from onlinehash.cli._settings import make_hasher, parse_setting
    from onlinehash.cli._writing import check_place

    check_place(out)
    if (features is None) == (dataset is None):
        raise typer.BadParameter("give a file of features or --dataset, one of the two.")
    if dataset is not None and label_column is not None:
        raise typer.BadParameter("--label-column is for a .csv file, not for --dataset.")
    named = {"n_bits": bits, "learning_rate": learning_rate, "batch_size": batch_size, "preprocess": preprocess}
    given = {name: value for name, value in named.items() if value is not None}
    given |= dict(parse_setting(setting) for setting in settings or ())
    if resume is not None and (given or method):
        raise typer.BadParameter("--resume takes the method and its parameters from the file; leave them out.")
    defaults: dict[str, Any] = {"random_state": seed}
    if dataset is not None:
        split = _load(dataset, protocol, seed)
        defaults["preprocess"] = split.preprocess
        if method in (None, "hcoh"):  # whose published rate it is
            defaults["learning_rate"] = split.learning_rate
    hasher = _resume(resume) if resume is not None else make_hasher(method or "hcoh", given, defaults)
    X, y = split.stream if features is None else _read(features, labels, label_column, needed=hasher.supervised)

    start = perf_counter()
    with progress_bar("Learning") as progress:
        by_chunks(
            X,
            lambda rows: hasher.partial_fit(X[rows], None if y is None else y[rows]),
            progress,
            features or str(dataset),
        )
    seconds = perf_counter() - start
    hasher.save(out)
    note(f"Learned {len(X)} instances in {seconds:.2f} s ({hasher.n_seen_} seen in all). Saved {hasher} to {out}.")


def _read(
    features: Path, labels: Path | None, label_column: str | None, *, needed: bool
) -> tuple[NDArray[Any], Labels | None]:
    from onlinehash._validation import check_labels
    from onlinehash.cli._arrays import read_labelled
    from onlinehash.exceptions import InvalidLabelsError

    X, y = read_labelled(features, labels, label_column)
    if y is None and not needed:
        return X, None
    if y is None:
        raise InvalidLabelsError(
            f"{features} comes without labels; give a second file, --label-column for a .csv, or array y in a .npz."
        )
    return X, check_labels(y, len(X))


def _load(dataset: str, protocol: str, seed: int) -> Split:
    from onlinehash.cli._screen import progress_bar
    from onlinehash.datasets import load_dataset

    with progress_bar(f"Fetching {dataset}") as progress:
        return load_dataset(dataset, progress=progress).split(protocol, seed)


def _resume(path: Path) -> OnlineHasher:
    from onlinehash.hashers import load_hasher

    return load_hasher(path)
