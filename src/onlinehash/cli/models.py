"""``onlinehash learn``, ``encode``, ``onnx`` and ``scale``: learn hashers from files, and use them."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from onlinehash._internal.files import kind_of
from onlinehash._internal.validation import check_targets
from onlinehash.cli import _options as options
from onlinehash.cli._files import (
    check_inputs,
    check_output,
    is_standard,
    name_of,
    name_of_output,
    open_output,
    refuse_other_kinds,
)
from onlinehash.cli._screen import note, progress_bar, warn
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError, NotLearnedError, counted

if TYPE_CHECKING:
    from onlinehash.datasets import Split
    from onlinehash.hashers import OnlineHasher
    from onlinehash.tables import Columns

_CODES = (".npy", ".npz", ".csv", ".bits", ".txt")
_VECTORS = "Vectors: .npy (may be larger than memory), .npz (array X), .csv, .jsonl, .parquet; - for standard input."
_LABELS = "Labels: .npy, .csv or .txt; not needed where the vectors come with labels, as in array y of an .npz."
_Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A saved hasher or encoder.")]
_Resume = Annotated[Path | None, typer.Option(help="Continue with this saved hasher.")]


def learn(
    source: Annotated[Path | None, typer.Argument(metavar="VECTORS", help=_VECTORS)] = None,
    labels: Annotated[Path | None, typer.Argument(metavar="LABELS", help=_LABELS)] = None,
    *,
    out: Annotated[Path, typer.Option(help="File for the hasher; - for standard output.")],
    dataset: Annotated[str | None, typer.Option(help="Learn from the stream of this data set instead.")] = None,
    protocol: options.Protocol = "online",
    label_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of the labels.", show_default="labels or label")
    ] = None,
    id: options.Id = None,
    vectors: options.Vectors = None,
    ignore: options.Ignore = None,
    header: options.Header = None,
    method: options.Method = None,
    bits: options.Bits = None,
    settings: options.Settings = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of a new hasher, and of the split of the data set.")] = 0,
    resume: _Resume = None,
) -> None:
    """Learn a hasher from labelled vectors, row by row, and save it with its encoder.

    With --dataset, the hasher learns from the first part of the database, and '--method hcoh' uses the published
    learning rate; the queries of 'onlinehash evaluate' with the same seed are not learned from. Unsupervised methods
    need no labels.
    """
    from onlinehash.cli._arrays import COLUMNS, ROWS, by_chunks, check_files
    from onlinehash.hashers import load_hasher

    if (source is None) == (dataset is None):
        raise typer.BadParameter("give a file of vectors or --dataset, one of the two.")
    if dataset is not None and label_column is not None:
        raise typer.BadParameter("--label-column is for a file with columns, not for --dataset.")
    check_output(out)
    check_inputs(resume)
    check_files(ROWS, source)
    check_files(COLUMNS, labels)
    given = options.hasher_parameters(bits, settings)
    if resume is not None and (given or method):
        raise typer.BadParameter("--resume takes the method and its parameters from the file; leave them out.")
    method = options.registered(method)
    split = None if dataset is None else options.load_split(dataset, protocol, seed)
    if resume is not None:
        refuse_other_kinds(resume, "hasher")
        hasher = load_hasher(resume)
    else:
        hasher = options.hasher_from_options(method, given, random_state=seed, **_published(method, split))
    if source is not None:
        columns = options.columns(id, vectors, ignore, header, labels=label_column)
        X, y = _read(source, labels, columns, hasher)
    else:
        assert split is not None
        X, y = split.stream
    start = perf_counter()
    with progress_bar("Learning") as progress:
        name = str(dataset) if source is None else name_of(source)
        by_chunks(X, lambda rows: hasher.partial_fit(X[rows], None if y is None else y[rows]), progress, name)
    seconds = perf_counter() - start
    with open_output(out) as file:
        file.write(hasher.to_bytes(encoder=True))
    seen = f"({hasher.n_samples_seen_} seen in total)"
    note(f"Learned {counted(len(X), 'instance')} in {seconds:.2f} s {seen}. Saved {hasher} to {name_of_output(out)}.")


def _read(source: Path, labels: Path | None, columns: Columns, hasher: OnlineHasher) -> tuple[Any, Any]:
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


def _published(method: str, split: Split | None) -> dict[str, Any]:
    """Return the published parameters of a method for a data set."""
    from onlinehash.hashers import make_hasher

    if split is None:
        return {}
    hasher = make_hasher(method)
    centred = hasher.get_params(deep=False).get("preprocess") == "running"  # HROH scales to unit length instead
    settings: dict[str, Any] = {"preprocess": split.preprocess} if centred else {}
    return settings | ({"learning_rate": split.learning_rate} if hasher.name == "hcoh" else {})


def encode(
    model: _Model,
    source: Annotated[Path, typer.Argument(metavar="VECTORS", help=_VECTORS)],
    *,
    out: Annotated[Path, typer.Option(help="File for the codes: .npy, .npz, .csv or .bits; - for standard output.")],
    id: options.Id = None,
    vectors: options.Vectors = None,
    ignore: options.Ignore = None,
    header: options.Header = None,
) -> None:
    """Write the packed codes of vectors, one row of bytes per vector.

    In .npy, .npz (array 'codes') and .csv, which goes to standard output, bit k of a code is bit k % 8 of byte k // 8.
    In .bits, a code is a line of 0s and 1s.
    """
    from onlinehash.cli._arrays import ROWS, check_files, encode_rows, read_encoder, read_rows
    from onlinehash.codes import unpack_bits

    check_output(out, *_CODES)
    check_inputs(model)
    check_files(ROWS, source)
    encoder = read_encoder(model)
    rows = read_rows(source, options.columns(id, vectors, ignore, header))
    codes = encode_rows(encoder, rows.X, name_of(source))
    form = out.suffix.lower()
    with open_output(out) as file:
        if form == ".npy":
            np.save(file, codes)
        elif form == ".npz":
            np.savez(file, codes=codes)
        elif form == ".csv" or is_standard(out):
            names = ",".join(f"byte{i}" for i in range(codes.shape[1]))
            np.savetxt(file, codes, fmt="%d", delimiter=",", header=names, comments="")
        else:
            np.savetxt(file, unpack_bits(codes, encoder.n_bits), fmt="%d", delimiter="")
    note(f"Wrote {counted(len(codes), 'code')} of {encoder.n_bits} bits to {name_of_output(out)}.")


def onnx(
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


scale_app = typer.Typer(help="Learn and encode Parquet files with many processes (Ray).", no_args_is_help=True)
_Paths = Annotated[list[Path], typer.Argument(metavar="PATHS", help="Parquet files, or folders of them.")]
_Vector = Annotated[str, typer.Option(help="Column of the vectors: lists of numbers.")]
_Address = Annotated[str | None, typer.Option(help="Address of a Ray cluster.", show_default="Ray on this machine")]
_Workers = Annotated[int | None, typer.Option(help="Tasks at a time.", show_default="one per CPU")]


@scale_app.command("learn")
def scale_learn(
    paths: _Paths,
    *,
    out: Annotated[Path, typer.Option(help="File for the hasher.")],
    bits: options.Bits = None,
    settings: options.Settings = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of a new hasher.")] = 0,
    resume: _Resume = None,
    vectors: _Vector = "vectors",
    labels: Annotated[str, typer.Option(help="Column of the labels: integers, strings, or lists of them.")] = "label",
    address: _Address = None,
    workers: _Workers = None,
) -> None:
    """Learn HROH from labelled vectors and save it; the result equals that of one process."""
    from onlinehash import scale
    from onlinehash.hashers import load_hasher

    check_output(out)
    given = options.hasher_parameters(bits, settings)
    if resume is not None and given:
        raise typer.BadParameter("--resume takes the parameters from the file; leave them out.")
    hasher = load_hasher(resume) if resume else options.hasher_from_options("hroh", given, random_state=seed)
    start = perf_counter()
    with progress_bar("Learning") as progress:
        columns: dict[str, Any] = {"vectors": vectors, "labels": labels}
        learned = scale.learn(paths, hasher, **columns, address=address, n_workers=workers, progress=progress)
    learned.save(out)
    seconds, n_seen = perf_counter() - start, learned.n_samples_seen_
    note(f"Learned in {seconds:.2f} s ({n_seen} seen in total). Saved {learned} to {out}.")


@scale_app.command("encode")
def scale_encode(
    model: _Model,
    paths: _Paths,
    *,
    out: Annotated[Path, typer.Option(help="Folder for the codes.")],
    vectors: _Vector = "vectors",
    id: Annotated[str, typer.Option(help="Column of the ids: integers or strings.")] = "id",
    address: _Address = None,
    workers: _Workers = None,
) -> None:
    """Write the codes of vectors to a folder, one Parquet file per row group; a second run continues the first."""
    from onlinehash import scale
    from onlinehash.cli._arrays import read_encoder

    encoder = read_encoder(model)
    with progress_bar("Encoding") as progress:
        cluster: dict[str, Any] = {"address": address, "n_workers": workers}
        parts = scale.encode(paths, encoder, out, vectors=vectors, id=id, **cluster, progress=progress)
    note(f"{out} holds the codes, in {counted(len(parts), 'part')}.")
