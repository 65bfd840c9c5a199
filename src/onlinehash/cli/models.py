"""``onlinehash learn``, ``encode`` and ``onnx``: learn hashers from files, and use them."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from onlinehash._internal.files import whole_file
from onlinehash.cli import _options as options
from onlinehash.cli._files import check_input, check_output
from onlinehash.cli._screen import note, warn
from onlinehash.exceptions import InvalidLabelsError, counted, located

if TYPE_CHECKING:
    from onlinehash.hashers import OnlineHasher
    from onlinehash.tables import Columns

_VECTORS = "Vectors: .npy, .npz (array X), .csv, .jsonl, .parquet; may be larger than memory, but for .npz."


def learn(
    source: Annotated[Path, typer.Argument(metavar="VECTORS", help=_VECTORS)],
    labels: Annotated[str | None, typer.Argument(metavar="LABELS", help=options.LABELS)] = None,
    *,
    out: Annotated[Path, typer.Option(help="File for the hasher.")],
    vectors: options.Vectors = None,
    ignore: options.Ignore = None,
    header: options.Header = None,
    method: options.Method = None,
    bits: options.Bits = None,
    settings: options.Settings = None,
    seed: options.Seed = None,
    resume: Annotated[Path | None, typer.Option(help="Continue with this saved hasher.")] = None,
) -> None:
    """Learn a hasher from labelled vectors, row by row, and save it with its encoder.

    Unsupervised methods need no labels.
    """
    from onlinehash.hashers import load_hasher

    check_output(out)
    given = options.hasher_parameters(bits, settings, seed)
    if resume is None:
        hasher = options.hasher_from_options(method, given)
    elif given or method:
        raise typer.BadParameter("--resume takes the method and its parameters from the file; leave them out.")
    else:
        check_input(resume, "hasher")
        hasher = load_hasher(resume)
    start = perf_counter()
    n_rows = _learn_file(hasher, source, options.columns(vectors, ignore, header, labels=labels))
    seconds = perf_counter() - start
    with whole_file(out) as file:
        file.write(hasher.to_bytes(encoder=True))
    seen = f"({hasher.n_samples_seen_} seen in total)"
    note(f"Learned {counted(n_rows, 'instance')} in {seconds:.2f} s {seen}. Saved {hasher} to {out}.")


def _learn_file(hasher: OnlineHasher, source: Path, columns: Columns) -> int:
    """Learn from the rows of a file, and return their number."""
    from onlinehash.cli._arrays import read_chunks

    unlabelled = InvalidLabelsError(
        f"{source} comes without labels, and {hasher.name} learns from them. Name their column, or for .npy their "
        "file, after VECTORS; or use --method itq."
    )
    n_rows = n_labelled = 0
    label_type: str | None = None
    for chunk in read_chunks(source, columns, "Learning"):
        rows = chunk.typed(label_type=label_type)
        if rows.is_text and label_type is None and rows.n_labelled:  # the first labels decide for all of a text
            label_type = "int" if any(isinstance(label, int) for label in rows.labels or ()) else "str"
        if hasher.supervised and rows.labels is None:
            raise unlabelled
        with located(f"{source}, counted from row {n_rows}" if n_rows else source):
            hasher.partial_fit(rows.vectors, rows.labels)
        n_rows, n_labelled = n_rows + len(rows), n_labelled + rows.n_labelled
    if hasher.supervised and not n_labelled:
        raise unlabelled
    if hasher.supervised and n_labelled < n_rows:
        warn(f"{n_rows - n_labelled} of {n_rows} rows have no label; {hasher.name} does not learn from them.")
    return n_rows


def encode(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help=options.MODEL)],
    source: Annotated[Path, typer.Argument(metavar="VECTORS", help=_VECTORS)],
    *,
    out: Annotated[Path, typer.Option(help="File for the codes: .npy, .npz or .csv.")],
    vectors: options.Vectors = None,
    ignore: options.Ignore = None,
    header: options.Header = None,
) -> None:
    """Write the packed codes of vectors, one row of bytes per vector; an .npz has the array 'codes'.

    Bit k of a code is bit k % 8 of byte k // 8.
    """
    from onlinehash.cli._arrays import read_chunks, read_encoder

    check_output(out, ".npy", ".npz", ".csv")
    chunks = read_chunks(source, options.columns(vectors, ignore, header), "Encoding")
    encoder = read_encoder(model)
    parts: list[Any] = []
    for chunk in chunks:
        n_before = sum(map(len, parts))
        with located(f"{source}, counted from row {n_before}" if n_before else source):
            parts.append(encoder.encode(chunk.vectors))
    codes = np.concatenate(parts)
    with whole_file(out) as file:
        if out.suffix.lower() == ".npy":
            np.save(file, codes)
        elif out.suffix.lower() == ".npz":
            np.savez(file, codes=codes)
        else:
            names = ",".join(f"byte{i}" for i in range(codes.shape[1]))
            np.savetxt(file, codes, fmt="%d", delimiter=",", header=names, comments="")
    note(f"Wrote {counted(len(codes), 'code')} of {encoder.n_bits} bits to {out}.")


def onnx(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help=options.MODEL)],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write: .onnx.")],
    double: Annotated[bool, typer.Option("--double", help="Compute in double precision.")] = False,
) -> None:
    """Write an encoder as an ONNX file, which makes the same codes without Python.

    Input: 'vectors', float32. Outputs: 'codes', one row of bytes per vector, in which bit k of a code is bit k % 8 of
    byte k // 8; and 'values', float32, whose signs are the bits.
    """
    from onlinehash.cli._arrays import read_encoder

    check_output(out, ".onnx")
    encoder = read_encoder(model)
    encoder.to_onnx(out, double=double)
    note(f"Wrote {out}: {encoder.n_features} features to {encoder.n_bits} bits, {out.stat().st_size} bytes.")
