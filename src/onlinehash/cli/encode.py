"""``onlinehash encode``: the codes of a file of features."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onlinehash.cli._columns import Header, Id, Ignore, Vectors

_FORMATS = {".npy": "npy", ".npz": "npz", ".csv": "csv", ".bits": "bits", ".txt": "bits"}


def run(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A saved hasher or encoder.")],
    features: Annotated[
        Path,
        typer.Argument(
            metavar="FEATURES", help="Vectors: .npy, .npz (array X), .csv, .jsonl or .parquet; - for standard input."
        ),
    ],
    *,
    out: Annotated[Path, typer.Option(help="Where the codes go; - for standard output, as csv.", show_default=False)],
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="npy|npz|csv|bits", help="By default what the extension of --out says."),
    ] = None,
    id: Id = None,
    vectors: Vectors = None,
    ignore: Ignore = None,
    header: Header = None,
) -> None:
    """Write the packed codes of vectors: one row of bytes per vector.

    As npy, npz (array 'codes') and csv, codes are bytes, bit k in bit k % 8 of byte k // 8; as bits, lines of 0 and 1.
    """
    import numpy as np

    from onlinehash.cli._arrays import read_rows
    from onlinehash.cli._encoding import encode_rows, load_encoder
    from onlinehash.cli._screen import note
    from onlinehash.cli._stdin import name_of
    from onlinehash.cli._writing import check_place, is_stdout, name_of_output, open_output
    from onlinehash.codes import unpack_bits
    from onlinehash.tables import Columns

    if form is None and is_stdout(out):
        form = "csv"
    elif form is None:
        check_place(out, *_FORMATS)
        form = _FORMATS[out.suffix.lower()]
    elif form not in _FORMATS.values():
        raise typer.BadParameter(f"{form!r} is not npy, npz, csv or bits.", param_hint="--format")
    check_place(out)
    encoder = load_encoder(model)
    columns = Columns(id=id, vectors=vectors, ignore=ignore or (), header=header)
    codes = encode_rows(encoder, read_rows(features, columns).X, name_of(features))
    with open_output(out) as file:
        if form == "npy":
            np.save(file, codes)
        elif form == "npz":
            np.savez(file, codes=codes)
        elif form == "csv":
            np.savetxt(file, codes, fmt="%d", delimiter=",")
        else:
            np.savetxt(file, unpack_bits(codes, encoder.n_bits), fmt="%d", delimiter="")
    note(f"Wrote {len(codes)} codes of {encoder.n_bits} bits to {name_of_output(out)}.")
