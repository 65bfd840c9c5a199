"""``onlinehash collection``: create, search, change, export, check, back up and migrate a collection."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from onlinehash.cli import _options as options
from onlinehash.cli._files import (
    Target,
    TargetArgument,
    check_input,
    check_output,
    documents_of,
    finish_refresh,
    warn_unless_searchable,
)
from onlinehash.cli._screen import note, number, print_json, print_rows, print_with_documents, printable, progress_bar
from onlinehash.exceptions import counted
from onlinehash.types import SearchResult

if TYPE_CHECKING:
    from onlinehash.collection import Collection

_QUERIES = (
    "Vectors: .csv, .jsonl, .parquet, .npy or .npz (array X). Or one document, as in "
    '"where is my card?", if the collection has an embedder.'
)
_IDS = "Ids of the items."
_OUT = "Items: .npz, .parquet, .csv, .jsonl. Codes: .faiss; with --codes, also .npz, .parquet."


def create(
    target: TargetArgument,
    method: options.Method = None,
    bits: options.NewBits = None,
    settings: options.Settings = None,
    seed: options.Seed = None,
    refresh: options.Refresh = None,
    dtype: options.Dtype = None,
    embed: options.Embed = None,
) -> None:
    """Create an empty collection."""
    target.check(new=True)
    if target.exists():
        raise typer.BadParameter(f"{target} exists already; fill it with 'onlinehash ingest SOURCE --into {target}'.")
    hasher = options.collection_hasher(method, options.hasher_parameters(bits, settings, seed))
    with target.open(hasher, refresh=refresh, vector_dtype=dtype, embed=embed):
        note(f"Created {target}, which learns with {hasher}.")


def search(
    target: TargetArgument,
    queries: Annotated[str | None, typer.Argument(metavar="QUERIES", help=_QUERIES)] = None,
    *,
    by_id: Annotated[list[str] | None, typer.Option(metavar="ID", help="A stored item as query; repeatable.")] = None,
    k: options.K = None,
    radius: Annotated[int | None, typer.Option(help="Find all items within this Hamming distance instead.")] = None,
    label: options.Label = None,
    where: options.Where = None,
    rescore: options.RescoreOption = None,
    asymmetric: options.Asymmetric = False,
    vectors: options.Vectors = None,
    ignore: options.Ignore = None,
    header: options.Header = None,
    as_json: options.Json = False,
) -> None:
    """Find the nearest items by their codes, and order the best of them as Collection.search does.

    Items of one class often share one code: with '--rescore none' they come in a fixed order (a hash), with
    Hamming distances. Another process may write to the collection at the same time.
    """
    from onlinehash.cli._arrays import is_document, read_rows

    if (queries is None) == (not by_id):
        raise typer.BadParameter("give a file of queries or --by-id, one of the two.")
    if radius is not None and (k is not None or rescore not in (None, "none") or asymmetric):
        raise typer.BadParameter("--radius finds all items within it; leave out -k, --rescore and --asymmetric.")
    with target.open(readonly=True) as collection:
        warn_unless_searchable(collection.stats())
        X: Any
        if queries is None:
            X = np.array([item.vectors for item in collection.get(options.typed(by_id, collection.id_type))])
        elif is_document(queries, collection):
            X = [queries]
        else:
            X = read_rows(Path(queries), options.columns(vectors, ignore, header)).vectors
        labels = options.typed(label, collection.label_type) or None
        given: dict[str, Any] = {"labels": labels, "where": where, "include": ["labels", "payload"]}
        if radius is not None:
            found = list(collection.range_search(X, radius, **given))
        else:
            ranking: Any = {"rescore": options.rescore_of(rescore), "asymmetric": asymmetric}
            found = list(collection.search(X, 10 if k is None else k, **given, **ranking))
        _show(collection, found, as_json=as_json)


def delete(
    target: TargetArgument,
    ids: Annotated[list[str] | None, typer.Argument(metavar="IDS", help=_IDS)] = None,
    where: options.Where = None,
    ignore_missing: Annotated[bool, typer.Option("--ignore-missing", help="Ignore unknown ids.")] = False,
    unlearn: Annotated[bool, typer.Option("--unlearn", help="Unlearn the items too; needs HROH.")] = False,
) -> None:
    """Delete items, all or none of them. What was learned from them stays learned, unless --unlearn is given."""
    if bool(ids) == (where is not None):
        raise typer.BadParameter("give ids or --where, one of the two.")
    with target.open() as collection:
        n_deleted = collection.delete(
            None if where is not None else dict.fromkeys(options.typed(ids, collection.id_type)).keys(),
            where=where,
            missing="ignore" if ignore_missing else "raise",
            unlearn=unlearn,
        )
        note(f"Deleted {counted(n_deleted, 'item')}; {target} holds {len(collection)}.")
        finish_refresh(collection)


def link(target: TargetArgument, ids: Annotated[list[str], typer.Argument(metavar="IDS", help=_IDS)]) -> None:
    """Say that items belong together: those without a label get that of the others, or a new one."""
    with target.open() as collection:
        label = collection.link(options.typed(ids, collection.id_type))
        note(f"{counted(len(ids), 'item')} and all that they were linked with have the label {label!r}.")
        finish_refresh(collection)


def unlink(target: TargetArgument, ids: Annotated[list[str], typer.Argument(metavar="IDS", help=_IDS)]) -> None:
    """Take items out of what they were linked with: they have no label then, and it is unlearned."""
    with target.open() as collection:
        collection.unlink(options.typed(ids, collection.id_type))
        note(f"{counted(len(ids), 'item')} of {target}: no label.")
        finish_refresh(collection)


def merge_labels(
    target: TargetArgument,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="The label that goes.")],
    into: Annotated[str, typer.Argument(metavar="INTO", help="The label of other items that its items get.")],
) -> None:
    """Give all items of a label another that other items have; needs HROH."""
    _relabel(target, "merge_labels", label, into)


def rename_label(
    target: TargetArgument,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="The label that goes.")],
    to: Annotated[str, typer.Argument(metavar="TO", help="A label that no item has.")],
) -> None:
    """Give all items of a label another, which no item has; needs HROH."""
    _relabel(target, "rename_label", label, to)


def _relabel(target: Target, method: str, *labels: str) -> None:
    with target.open() as collection:
        old, new = options.typed(list(labels), collection.label_type)
        n_items = getattr(collection, method)(old, new)
        note(f"{counted(n_items, 'item')} of {target}: label {new!r} instead of {old!r}.")
        finish_refresh(collection)


def items(
    target: TargetArgument,
    where: options.Where = None,
    after: Annotated[str | None, typer.Option(metavar="ID", help="List only ids above this one.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="List at most this many items.")] = None,
    count: Annotated[bool, typer.Option("--count", help="Print only their number.")] = False,
    vectors: Annotated[bool, typer.Option("--vectors", help="Print vectors, too.")] = False,
) -> None:
    """List items in order of id, one JSON object per line."""
    if count and (after is not None or limit is not None):
        raise typer.BadParameter("--count counts all items, or those of --where; leave out --after and --limit.")
    with target.open(readonly=True) as collection:
        if count:
            print_json(collection.count(where))
            return
        start = None if after is None else options.typed([after], collection.id_type)[0]
        for item in collection.items(where=where, after=start, limit=limit):
            shown = {"id": item.id, "labels": item.labels, "payload": item.payload}
            print_json(shown | ({"vectors": item.vectors.tolist()} if vectors else {}))


def index(
    target: TargetArgument,
    path: Annotated[str | None, typer.Argument(metavar="PATH", help="Keys of the payload, joined by dots.")] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Drop the index instead.")] = False,
) -> None:
    """Index a path in the payload, so that --where with it is fast; without a path, list those that have an index."""
    if path is None and drop:
        raise typer.BadParameter("name the path whose index to drop.")
    with target.open(readonly=path is None) as collection:
        if path is not None and drop:
            collection.drop_index(path)
        elif path is not None:
            collection.create_index(path)
        print_rows(("index",), [(name,) for name in collection.indexes()])


def refresh(
    target: TargetArgument, bits: Annotated[int | None, typer.Option(help="Change the length of the codes.")] = None
) -> None:
    """Encode all items again with what was learned since, or with another code length."""
    with target.open() as collection:
        if bits is None:
            collection.refresh()
        else:
            collection.change_hasher(bits)
        stats = collection.stats()
        note(f"Codes of {counted(stats.n_searchable, 'item')} have {stats.n_bits} bits and version {stats.version}.")


def stats(target: TargetArgument, as_json: options.Json = False) -> None:
    """Show collection statistics: number of items, number of searchable items, codes."""
    with target.open(readonly=True) as collection:
        now = collection.stats()
    values = asdict(now)
    if as_json:
        print_json(values)
    else:
        print_rows(("what", "value"), [(name, "-" if value is None else value) for name, value in values.items()])
    warn_unless_searchable(now)


def export(
    target: TargetArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help=_OUT)],
    codes: Annotated[bool, typer.Option("--codes", help="Write codes, and the encoder beside them.")] = False,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Leave out items that are damaged, and name them.")
    ] = False,
    label: options.Label = None,
    where: options.Where = None,
) -> None:
    """Write items to a file that 'onlinehash ingest' reads, or their codes for other programs."""
    from onlinehash.collection import export_codes, export_items
    from onlinehash.collection.transfer import FORMATS as CODE_FORMATS
    from onlinehash.tables import FORMATS

    as_codes = codes or out.suffix.lower() in CODE_FORMATS.keys() - FORMATS.keys()
    check_output(out, *(CODE_FORMATS if as_codes else FORMATS.keys() - {".npy"} | CODE_FORMATS.keys()))
    if as_codes and (label or where is not None):
        raise typer.BadParameter("--label and --where are for items; leave them out.")
    with target.open(readonly=True) as collection, progress_bar("Writing") as progress:
        if as_codes:
            n_items = export_codes(collection, out)
        else:
            some: dict[str, Any] = {"where": where, "skip_damaged": skip_damaged, "progress": progress}
            labels = options.typed(label, collection.label_type) or None
            n_items = export_items(collection, out, labels=labels, **some)
    note(f"Wrote {counted(n_items, 'code' if as_codes else 'item')} to {out}.")


def _show(collection: Collection, found: list[SearchResult[list[Any]]], *, as_json: bool) -> None:
    rows, payloads = list[tuple[object, ...]](), list[Any]()
    for query, some in enumerate(found):
        labels, payload = some.labels or [], some.payload or []
        if as_json:
            about = {"labels": labels, "payload": payload}
            print_json({"query": query, "ids": some.ids, "distances": some.distances, **about})
        for id, distance, label in zip(some.ids, some.distances, labels, strict=True):
            rows.append((query, id, number(distance), "-" if label is None else json.dumps(label, ensure_ascii=False)))
        payloads += payload
    if not as_json:
        print_with_documents(("query", "id", "distance", "labels"), rows, documents_of(collection, payloads))


def check(
    target: TargetArgument,
    sample: Annotated[int, typer.Option(min=0, help="Items whose codes are computed again, about.")] = 1000,
    as_json: options.Json = False,
) -> None:
    """Verify everything that is stored; list what is damaged, and end with 1 if anything is."""
    from onlinehash.collection import check_collection

    target.check()
    with progress_bar("Checking") as progress:
        report = check_collection(target.name, store=target.store, sample=sample, progress=progress)
    if as_json:
        print_json({"ok": report.ok, **asdict(report)})
    else:
        for line in str(report).splitlines():
            typer.echo(printable(line))
    if not report.ok:
        raise typer.Exit(1)


def backup(
    target: TargetArgument, out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")]
) -> None:
    """Copy a collection to a file while it is in use, and check the copy, which is itself a collection."""
    with target.open(readonly=True) as collection, progress_bar("Copying") as progress:
        collection.backup(out, progress=progress)
    note(f"Wrote {out}, and checked it.")


def restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="A file that 'onlinehash collection backup' wrote.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file of the collection.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a collection that is there.")] = False,
) -> None:
    """Check a backup, and put a copy of it where a collection is to be."""
    from onlinehash.collection import Collection

    check_input(backup, "collection")
    with progress_bar("Copying") as progress:
        Collection.restore(backup, out, overwrite=overwrite, progress=progress)
    note(f"Restored {out} from {backup}.")


def compact(target: TargetArgument) -> None:
    """Give the space of deleted and replaced items back to the disk."""
    with target.open() as collection, progress_bar("Compacting"):
        freed = collection.compact()
        left = collection.stats().n_bytes
    note(f"{target} has {left} bytes, {max(0, freed)} fewer than before.")


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


_CHANGES = (create, search, delete, link, unlink, merge_labels, rename_label)
_OTHERS = (items, index, refresh, stats, export, check, backup, restore, compact, migrate)
COMMANDS: dict[str, Any] = {command.__name__.replace("_", "-"): command for command in _CHANGES + _OTHERS}
"""The commands by name, in the order of the help."""
