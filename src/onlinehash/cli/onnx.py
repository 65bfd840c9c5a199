"""``onlinehash onnx``: an encoder as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onlinehash._files import kind_of
from onlinehash.cli._files import check_inputs, check_output
from onlinehash.cli._screen import note
from onlinehash.exceptions import NotLearnedError


def run(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A saved hasher or encoder, or a collection.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write: .onnx.")],
    double: Annotated[bool, typer.Option("--double", help="Compute in double precision.")] = False,
) -> None:
    """Write an encoder as an ONNX file, which makes the same codes without Python.

    Input: 'vectors', float32. Outputs: 'codes', one row of bytes per vector, in which bit k of a code is bit k % 8 of
    byte k // 8; and 'values', float32, whose signs are the bits.
    """
    from onlinehash.cli._arrays import read_encoder

    check_inputs(model)
    check_output(out, ".onnx")
    if kind_of(model) == "collection":
        from onlinehash.collection import Collection

        with Collection.open(model, readonly=True) as collection:
            encoder = collection.encoder
        if encoder is None:
            raise NotLearnedError(f"{model} has no encoder yet; add items with labels first.")
    else:
        encoder = read_encoder(model)
    encoder.to_onnx(out, double=double)
    note(f"Wrote {out}: {encoder.n_features} features to {encoder.n_bits} bits, {out.stat().st_size} bytes.")
