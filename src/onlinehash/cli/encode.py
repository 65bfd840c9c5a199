"""``onlinehash encode``: the codes of a file of vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from onlinehash.cli import _options as options
from onlinehash.cli._files import check_inputs, check_output, is_standard, name_of, name_of_output, open_output
from onlinehash.cli._screen import note
from onlinehash.exceptions import counted

_FORMATS = {".npy": "npy", ".npz": "npz", ".csv": "csv", ".bits": "bits", ".txt": "bits"}


def run(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A saved hasher or encoder.")],
    source: Annotated[
        Path,
        typer.Argument(
            metavar="VECTORS", help="Vectors: .npy, .npz (array X), .csv, .jsonl or .parquet; - for standard input."
        ),
    ],
    *,
    out: Annotated[Path, typer.Option(help="File for the codes; - for standard output, as csv.")],
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="npy|npz|csv|bits", help="Format of the file.", show_default="the extension of --out"
        ),
    ] = None,
    id: options.Id = None,
    vectors: options.Vectors = None,
    ignore: options.Ignore = None,
    header: options.Header = None,
) -> None:
    """Write the packed codes of vectors, one row of bytes per vector.

    In npy, npz (array 'codes') and csv, bit k of a code is bit k % 8 of byte k // 8. In bits, a code is a line of 0s
    and 1s.
    """
    from onlinehash.cli._arrays import check_rows, encode_rows, read_encoder, read_rows
    from onlinehash.codes import unpack_bits
    from onlinehash.tables import Columns

    if form is None and is_standard(out):
        form = "csv"
    elif form is None:
        check_output(out, *_FORMATS)
        form = _FORMATS[out.suffix.lower()]
    elif form not in _FORMATS.values():
        raise typer.BadParameter(f"{form!r} is not npy, npz, csv or bits.", param_hint="--format")
    check_output(out)
    check_inputs(model)
    check_rows(source)
    encoder = read_encoder(model)
    columns = Columns(id=id, vectors=vectors, ignore=ignore or (), header=header)
    codes = encode_rows(encoder, read_rows(source, columns).X, name_of(source))
    with open_output(out) as file:
        if form == "npy":
            np.save(file, codes)
        elif form == "npz":
            np.savez(file, codes=codes)
        elif form == "csv":
            np.savetxt(file, codes, fmt="%d", delimiter=",")
        else:
            np.savetxt(file, unpack_bits(codes, encoder.n_bits), fmt="%d", delimiter="")
    note(f"Wrote {counted(len(codes), 'code')} of {encoder.n_bits} bits to {name_of_output(out)}.")
