"""``onlinehash search``: the nearest items of every query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from onlinehash.encoders import Encoder
    from onlinehash.indexes import FlatIndex
    from onlinehash.types import Matches

_SHOWN = 20


def run(
    items: Annotated[
        Path,
        typer.Argument(metavar="ITEMS", help="What is searched: codes, features with --model, or an .ohi index."),
    ],
    queries: Annotated[
        Path | None, typer.Argument(metavar="QUERIES", help="What is asked: codes, or features with --model.")
    ] = None,
    k: Annotated[int | None, typer.Option("-k", help="Nearest items to find.", show_default="10")] = None,
    radius: Annotated[
        int | None, typer.Option(help="Find all items at most so many bits away; -k then limits their number.")
    ] = None,
    keys: Annotated[Path | None, typer.Option(help="Integer keys of the items; row numbers by default.")] = None,
    model: Annotated[Path | None, typer.Option(help="A saved hasher or encoder, to encode features with.")] = None,
    save_index: Annotated[Path | None, typer.Option(help="Write the index to this .ohi file.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write query, key, distance to a .csv or .npz file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a query.")] = False,
) -> None:
    """Find the nearest items by Hamming distance, exactly; ties by key.

    Codes are .npy, .npz (array 'codes'), .csv or .bits. With --model a file is taken as features when it has
    their width.
    """
    from onlinehash.cli._encoding import load_encoder, read_codes
    from onlinehash.cli._screen import note
    from onlinehash.cli._writing import check_place

    if queries is None and save_index is None:
        raise typer.BadParameter("give queries, or --save-index to only build an index.")
    if save_index is not None:
        check_place(save_index, ".ohi")
    if out is not None:
        check_place(out, ".csv", ".npz")
    encoder = load_encoder(model) if model is not None else None
    index = _index(items, keys, encoder)
    if save_index is not None:
        index.save(save_index)
        note(f"Wrote {index!r} to {save_index}.")
    if queries is None:
        return
    codes = read_codes(queries, encoder)
    found: list[Matches]
    if radius is None:
        found = list(index.search(codes, 10 if k is None else k))
    else:
        found = [_head(matches, k) for matches in index.search_radius(codes, radius)]
    if out is not None:
        _write(out, found)
    if as_json:
        for query, matches in enumerate(found):
            typer.echo(
                json.dumps({"query": query, "keys": matches.keys.tolist(), "distances": matches.distances.tolist()})
            )
    elif out is None:
        _show(found)


def _index(items: Path, keys: Path | None, encoder: Encoder | None) -> FlatIndex:
    from onlinehash.cli._arrays import read_column
    from onlinehash.cli._encoding import read_codes
    from onlinehash.indexes import FlatIndex

    if items.suffix.lower() == ".ohi":
        if keys is not None:
            raise typer.BadParameter("a saved index has its own keys.", param_hint="--keys")
        return FlatIndex.load(items, mmap=True)
    codes = read_codes(items, encoder)
    index = FlatIndex(8 * codes.shape[1] if encoder is None else encoder.n_bits)
    index.add(codes, None if keys is None else read_column(keys, "keys"))
    return index


def _head(matches: Matches, k: int | None) -> Matches:
    from onlinehash.types import Matches

    return Matches(matches.keys[:k], matches.distances[:k])


def _write(out: Path, found: list[Matches]) -> None:
    import numpy as np

    from onlinehash._files import whole_file
    from onlinehash.cli._screen import note

    nothing = np.empty(0, np.int64)
    columns: dict[str, Any] = {
        "query": np.repeat(np.arange(len(found)), np.array([len(matches) for matches in found], int)),
        "key": np.concatenate([nothing, *(matches.keys for matches in found)]),
        "distance": np.concatenate([nothing, *(matches.distances for matches in found)]),
    }
    with whole_file(out) as file:
        if out.suffix.lower() == ".npz":
            np.savez(file, **columns)
        else:
            rows = np.column_stack(list(columns.values()))
            np.savetxt(file, rows, fmt="%d", delimiter=",", header=",".join(columns), comments="")
    note(f"Wrote {len(columns['key'])} matches of {len(found)} queries to {out}.")


def _show(found: list[Matches]) -> None:
    from onlinehash.cli._screen import note, on_terminal, print_rows

    if not on_terminal():
        lines = (
            (query, key, distance)
            for query, matches in enumerate(found)
            for key, distance in zip(matches.keys.tolist(), matches.distances.tolist(), strict=True)
        )
        print_rows(("query", "key", "distance"), lines)
        return
    rows = [
        (query, "  ".join(f"{key} ({distance})" for key, distance in zip(matches.keys, matches.distances, strict=True)))
        for query, matches in enumerate(found[:_SHOWN])
    ]
    print_rows(("query", "keys (distance), nearest first"), rows)
    if len(found) > _SHOWN:
        note(f"... and {len(found) - _SHOWN} more queries; --json or --out give all.")
