"""``onlinehash ingest``: store the items of a file, a folder or a stream in a collection."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onlinehash._internal.validation import check_positive_int
from onlinehash.cli import _options as options
from onlinehash.cli._files import Target, finish_refresh, warn_unless_searchable
from onlinehash.cli._screen import note, progress_bar
from onlinehash.exceptions import counted

if TYPE_CHECKING:
    from onlinehash.collection import Collection
    from onlinehash.streams import Consumer, ConsumerStats

_SOURCE = (
    "A file: .csv, .jsonl, .parquet, .npy or .npz; a folder of .parquet files; or a stream: "
    "redis://host:port/0/stream, nats://host:port/stream."
)
_DOCUMENTS = (
    "Column of text or paths to embed, instead of vectors; for .csv, .jsonl and .parquet files. Without --embed, a new "
    "collection embeds with use, or with char_ngrams where the extra text is not installed."
)
_FOLLOW = "Wait for more messages, or stop at the end; both read a .jsonl file as a stream."
_REPORT_EVERY = 10.0  # seconds between two lines


def ingest(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=_SOURCE)],
    *,
    into: Annotated[Target, typer.Option(metavar="COLLECTION", help="Created if missing.", parser=Target.parse)],
    id: options.Id = None,
    vectors: options.Vectors = None,
    labels: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of the labels.", show_default="labels or label")
    ] = None,
    payload: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS",
            help="Column of the payloads; or several, for payloads by name: a pattern, a range, or repeated.",
            show_default="payload",
        ),
    ] = None,
    documents: Annotated[str | None, typer.Option(metavar="COLUMN", help=_DOCUMENTS)] = None,
    embed: options.Embed = None,
    ignore: options.Ignore = None,
    header: options.Header = None,
    first_id: Annotated[int | None, typer.Option(help="Number the rows from here on; for files without ids.")] = None,
    batch: Annotated[int, typer.Option(help="Items per transaction.")] = 1000,
    follow: Annotated[
        bool | None,
        typer.Option("--follow/--once", help=_FOLLOW, show_default="--follow for redis:// and nats://"),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until all items are encoded with what was learned.")
    ] = True,
    method: options.Method = None,
    bits: options.NewBits = None,
    settings: options.Settings = None,
    seed: options.Seed = None,
    refresh: options.Refresh = None,
    dtype: options.Dtype = None,
) -> None:
    """Store the items of a file, a folder or a stream in a collection, which learns from them.

    COLLECTION is a file, as in items.oh; or a database and a name, as in postgresql://user@host/database#items. An item
    with a known id is replaced.

    A .csv file has a header; with --no-header, its columns are called 1, 2, 3 and so on. For an .npy file of vectors
    the other columns are files: by default X.ids.npy and X.labels.npy beside X.npy.

    Messages of a stream, and lines of a .jsonl file with --follow or --once, are applied exactly once, even if the
    command is killed and run again. Ctrl-C or SIGTERM finish the current batch.
    """
    from onlinehash.collection.transfer import import_chunks
    from onlinehash.embedders import default_embedder
    from onlinehash.streams import Consumer, open_source
    from onlinehash.tables import Columns, layout, read

    is_stream = "://" in source or (follow is not None and source.lower().endswith(".jsonl"))
    if is_stream:
        for_files = {"--id": id, "--vectors": vectors, "--labels": labels, "--payload": payload, "--ignore": ignore}
        others = {"--documents": documents, "--header/--no-header": header, "--first-id": first_id}
        _refuse(for_files | others, "a file; the fields of messages have fixed names.")
    else:
        _refuse({"--follow" if follow else "--once": follow}, "a stream or a .jsonl file.")
    files = sorted(Path(source).glob("*.parquet")) if Path(source).is_dir() else [Path(source)]
    if not files:
        raise typer.BadParameter(f"{source} holds no .parquet files; other files are ingested one by one.")
    check_positive_int("batch", batch)
    payloads = payload[0] if payload and len(payload) == 1 else payload or None
    columns = Columns(id, vectors, labels, payloads, ignore or (), header, documents)
    if documents is not None:
        _refuse({"--vectors": vectors}, "a file of vectors.")
        if embed is None and not into.exists():
            embed = default_embedder()
    given = options.hasher_parameters(bits, settings, seed)
    stopped: list[int] = []
    with ExitStack() as stack:
        if is_stream:  # an error before a collection is created
            stream = stack.enter_context(open_source(source))
        else:
            for file in files:
                next(read(file, columns, batch_size=1), None)
        opened = _open(into, method, given, refresh=refresh, vector_dtype=dtype, embed=embed)
        collection = stack.enter_context(opened)
        collection.measure_quality()  # the console shows it
        if is_stream:
            consumer = Consumer(stream, collection, batch_size=batch)
            with _stop_on_signals(consumer) as stopped:
                done = f"{_summary(consumer.run(follow=follow, progress=_reports()))}."
        else:
            n_items = n_labelled = 0
            for file in files:
                if (found := layout(file, columns)) is not None:
                    note(f"{file}: {found}")
                with progress_bar("Adding" if documents is None else "Embedding") as progress:
                    for chunk in import_chunks(collection, file, columns, first_id=first_id, batch=batch):
                        n_items += len(chunk)
                        n_labelled += chunk.n_labelled
                        progress(chunk.done, chunk.total)
            what, how = ("item", "") if documents is None else ("document", f", embedded with {collection.embedder}")
            done = f"Added {counted(n_items, what)}{how}, {n_labelled} with labels;"
        note(f"{done} {into} holds {len(collection)}.")
        warn_unless_searchable(collection.stats())
        finish_refresh(collection, wanted=wait and not stopped)


def _refuse(given: dict[str, Any], use: str) -> None:
    """Raise if an option was given that does not apply to the source."""
    for name, value in given.items():
        if value not in (None, []):
            raise typer.BadParameter(f"{name} is for {use}")


def _open(into: Target, method: str | None, given: dict[str, Any], **settings: Any) -> Collection:
    """Create the collection; or open it, if the hasher that options name is the one that it has."""
    is_new = not into.exists()
    if is_new:
        into.check(new=True)
    named = is_new or method is not None or given
    hasher = options.collection_hasher(method, given) if named else None
    collection = into.open(hasher, **settings)
    if is_new:
        note(f"Created {into}, which learns with {hasher}.")
    return collection


def _summary(stats: ConsumerStats) -> str:
    counts = {
        "deleted": stats.deleted,
        "sent to the dead-letter file": stats.dead_letters,
        "already applied": stats.redelivered,
    }
    some = "".join(f", {count} {what}" for what, count in counts.items() if count)
    left = "unknown" if stats.lag is None else stats.lag
    return f"Stored {counted(stats.stored, 'item')}{some}; lag {left}"


@contextmanager
def _stop_on_signals(consumer: Consumer) -> Iterator[list[int]]:
    """Finish the current batch at the first signal; end at once at the second. Yields the signals received."""
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


def _reports() -> Callable[[ConsumerStats], None]:
    """Return a progress callback that prints a line every few seconds."""
    reported = perf_counter()

    def report(stats: ConsumerStats) -> None:
        nonlocal reported
        if perf_counter() >= reported + _REPORT_EVERY:
            note(_summary(stats))
            reported = perf_counter()

    return report
