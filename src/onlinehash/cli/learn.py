"""``onlinehash learn``: a hasher from a file or a data set, or a collection from a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onlinehash.cli._columns import Header, Ignore, Key, Vector
from onlinehash.cli._place import PLACE, Place
from onlinehash.cli._refreshing import Refresh, finish_refresh

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from onlinehash.collection.sources import Consumer, ConsumerStats
    from onlinehash.collection.transfer.chunks import Columns
    from onlinehash.datasets import Split
    from onlinehash.hashers import OnlineHasher

_FEATURES = (
    "Vectors: .npy (may be larger than memory), .npz (arrays X, y), .csv, .jsonl or .parquet; - for standard input."
)
_LABELS = "Labels: .npy, .csv or .txt; not needed where the vectors come with labels."
_SOURCE = "Messages: redis://host:port/0/stream, nats://host:port/stream, items.jsonl, or a folder of .parquet files."
_TELL = 10.0  # seconds between two lines where there is no terminal


def run(
    features: Annotated[Path | None, typer.Argument(metavar="FEATURES", help=_FEATURES, show_default=False)] = None,
    labels: Annotated[Path | None, typer.Argument(metavar="LABELS", help=_LABELS, show_default=False)] = None,
    *,
    out: Annotated[
        Path | None, typer.Option(help="Where the hasher goes; - for standard output.", show_default=False)
    ] = None,
    source: Annotated[str | None, typer.Option("--from", help=_SOURCE, show_default=False)] = None,
    into: Annotated[
        Place | None,
        typer.Option(
            metavar="COLLECTION",
            help=f"Collection that messages go to, made if it is not there. {PLACE}",
            parser=Place.parse,
            show_default=False,
        ),
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="Learn the stream of this data set instead of a file.")] = None,
    protocol: Annotated[str, typer.Option(metavar="online|published", help="How to split a data set.")] = "online",
    label_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of the labels: its name, or its number; 1 is the first, -1 the last.",
            show_default="labels or label",
        ),
    ] = None,
    key: Key = None,
    vector: Vector = None,
    ignore: Ignore = None,
    header: Header = None,
    method: Annotated[
        str | None, typer.Option(help="Name of the hasher, or module:Class of your own.", show_default="hcoh")
    ] = None,
    bits: Annotated[int | None, typer.Option(help="Length of the codes.", show_default="32")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="By default the method's own.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Instances that share a step.")] = None,
    preprocess: Annotated[
        str | None, typer.Option(metavar="running|none", help="Centre by the running mean, or take rows as they are.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any other parameter; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of a new hasher, and of the split of a data set.")] = 0,
    resume: Annotated[Path | None, typer.Option(help="Go on with this saved hasher.")] = None,
    batch: Annotated[int, typer.Option(help="Messages stored at a time.", min=1)] = 500,
    follow: Annotated[
        bool | None,
        typer.Option(
            "--follow/--once", help="Wait for more messages, or stop when there are none.", show_default="as --from is"
        ),
    ] = None,
    refresh: Refresh = True,
) -> None:
    """Learn a hasher from labelled vectors, row by row, and save it; or a collection from a stream of items.

    A data set gives the head of its database to learn from, and HCOH its published learning rate; the queries that
    'onlinehash evaluate' asks with the same seed stay unseen. Methods without labels need none.

    With --from and --into, every message is applied exactly once, whatever is stopped or killed in between. Ctrl-C or
    SIGTERM finish the batch in hand.
    """
    from onlinehash.cli._chunks import by_chunks
    from onlinehash.cli._screen import note, progress_bar
    from onlinehash.cli._settings import hasher_from_options, parse_setting
    from onlinehash.cli._stdin import name_of
    from onlinehash.cli._writing import check_place, name_of_output, open_output

    if (source is None) != (into is None):
        raise typer.BadParameter("--from and --into go together.")
    if source is not None and (features or dataset or out or resume or label_column):
        raise typer.BadParameter("--from goes without features, --dataset, --label-column, --resume and --out.")
    if source is None and (features is None) == (dataset is None):
        raise typer.BadParameter("give a file of features or --dataset, one of the two; or --from and --into.")
    if dataset is not None and label_column is not None:
        raise typer.BadParameter("--label-column is for a file with columns, not for --dataset.")
    named = {"n_bits": bits, "learning_rate": learning_rate, "batch_size": batch_size, "preprocess": preprocess}
    given = {name: value for name, value in named.items() if value is not None}
    given |= dict(parse_setting(setting) for setting in settings or ())
    if source is not None and into is not None:
        hasher = hasher_from_options(method or "hcoh", given, {"random_state": seed})
        _consume(source, into, hasher if given or method or not into.exists() else None, batch, follow, refresh)
        return
    if out is None:
        raise typer.BadParameter("--out is missing: where does the hasher go?")
    check_place(out)
    if resume is not None and (given or method):
        raise typer.BadParameter("--resume takes the method and its parameters from the file; leave them out.")
    defaults: dict[str, Any] = {"random_state": seed}
    if dataset is not None:
        split = _load(dataset, protocol, seed)
        defaults["preprocess"] = split.preprocess
        if method in (None, "hcoh"):  # whose published rate it is
            defaults["learning_rate"] = split.learning_rate
    hasher = _resume(resume) if resume is not None else hasher_from_options(method or "hcoh", given, defaults)
    if features is None:
        X, y = split.stream
    else:
        from onlinehash.collection.transfer.chunks import Columns

        columns = Columns(key=key, vector=vector, labels=label_column, ignore=ignore or (), header=header)
        X, y = _read(features, labels, columns, hasher)

    start = perf_counter()
    with progress_bar("Learning") as progress:
        by_chunks(
            X,
            lambda rows: hasher.partial_fit(X[rows], None if y is None else y[rows]),
            progress,
            str(dataset) if features is None else name_of(features),
        )
    seconds = perf_counter() - start
    with open_output(out) as file:
        file.write(hasher.to_bytes())
    seen = f"({hasher.n_samples_seen_} seen in all)"
    note(f"Learned {len(X)} instances in {seconds:.2f} s {seen}. Saved {hasher} to {name_of_output(out)}.")


def _read(features: Path, labels: Path | None, columns: Columns, hasher: OnlineHasher) -> tuple[NDArray[Any], Any]:
    import numpy as np

    from onlinehash._validation import check_labels
    from onlinehash.cli._arrays import check_vectors, read_column, read_rows
    from onlinehash.cli._screen import warn
    from onlinehash.cli._stdin import name_of
    from onlinehash.exceptions import InvalidInputError, InvalidLabelsError

    if columns.labels is not None and (labels is not None or features.suffix.lower() in (".npy", ".npz", ".bits")):
        raise InvalidInputError("--label-column is for a .csv, .jsonl or .parquet file that holds its own labels.")
    given = read_rows(features, columns)
    check_vectors(given.X, name_of(features))
    y = given.labels if labels is None else read_column(labels, "labels")
    if isinstance(y, np.ndarray):
        return given.X, check_labels(y, len(given.X))
    n_without = len(given.X) if y is None else sum(label is None for label in y)
    if hasher.supervised and n_without == len(given.X):
        raise InvalidLabelsError(
            f"{name_of(features)} comes without labels, and {hasher.name} learns from them. Give a second file, "
            "--label-column, or array y in a .npz; or use --method itq."
        )
    if hasher.supervised and n_without:
        warn(f"{n_without} of {len(given.X)} rows have no label; {hasher.name} does not learn from them.")
    return given.X, y


def _load(dataset: str, protocol: str, seed: int) -> Split:
    from onlinehash.cli._screen import progress_bar
    from onlinehash.datasets import load_dataset

    with progress_bar(f"Fetching {dataset}") as progress:
        return load_dataset(dataset, progress=progress).split(protocol, seed)


def _resume(path: Path) -> OnlineHasher:
    from onlinehash.cli._kinds import refuse_other_kinds
    from onlinehash.hashers import load_hasher

    refuse_other_kinds(path, "hasher")
    return load_hasher(path)


# ---------------------------------------------------------------------- a collection from a stream


def _consume(
    place: str, into: Place, hasher: OnlineHasher | None, batch: int, follow: bool | None, refresh: bool
) -> None:
    from onlinehash.cli._screen import note
    from onlinehash.collection.sources import Consumer, open_source

    into.check()
    with open_source(place) as source, into.open(hasher) as collection:
        consumer = Consumer(source, collection, batch_size=batch)
        with _stop_on_signals(consumer) as stopped, _shown() as show:
            stats = consumer.run(follow=follow, progress=show)
        note(f"{_said(stats)}. {into} holds {len(collection)}.")
        finish_refresh(collection, wanted=refresh and not stopped)


def _said(stats: ConsumerStats) -> str:
    counts = {
        "deleted": stats.deleted,
        "sent to the dead letters": stats.dead_letters,
        "there already": stats.redelivered,
    }
    some = "".join(f", {count} {what}" for what, count in counts.items() if count)
    left = "unknown" if stats.lag is None else stats.lag
    return f"Stored {stats.stored} items{some}; lag {left}, {stats.rate:.0f} messages/s"


@contextmanager
def _stop_on_signals(consumer: Consumer) -> Iterator[list[int]]:
    """Finish the batch in hand at the first signal, which is given back; end at once at the second."""
    import signal

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    received: list[int] = []

    def stop(number: int, frame: object) -> None:
        received.append(number)
        consumer.stop()
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, stop)
    try:
        yield received
    finally:
        restore()


@contextmanager
def _shown() -> Iterator[Callable[[ConsumerStats], None]]:
    """Give a callback that shows how far a consumer is: a line that changes, or one now and then; and show the log."""
    import logging
    import sys

    from rich.console import Console

    from onlinehash.cli._screen import loudness, note

    console, told = Console(stderr=True), perf_counter()
    logger, handler = logging.getLogger("onlinehash"), logging.StreamHandler(sys.stderr)
    with console.status("Waiting for messages") as status:

        def show(stats: ConsumerStats) -> None:
            nonlocal told
            if console.is_terminal:
                status.update(_said(stats))
            elif perf_counter() >= told + _TELL:
                note(_said(stats))
                told = perf_counter()

        if not loudness.verbose:  # which shows the log already
            logger.addHandler(handler)
        try:
            yield show
        finally:
            logger.removeHandler(handler)
