"""Encoding in parts: each row group on its own, into files or straight into an index."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from glob import escape
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from onlinehash._files import whole_file
from onlinehash.encoders import Encoder
from onlinehash.exceptions import DataNotFoundError, InvalidInputError
from onlinehash.scale.cluster import Cluster, cluster, on_one_thread
from onlinehash.scale.partitions import (
    File,
    Partition,
    Paths,
    check_widths,
    find_files,
    named,
    read,
    survey,
)
from onlinehash.tables.parquet import open_parquet
from onlinehash.types import Codes, Progress

_ENCODER = "encoder.oh"


class TakesCodes(Protocol):
    """An index that takes codes."""

    def upsert(self, codes: ArrayLike, ids: ArrayLike) -> None:
        """Insert items, or replace the codes of existing ids."""


@runtime_checkable
class _Closes(Protocol):
    def close(self) -> None: ...


def encode(
    paths: Paths,
    encoder: Encoder,
    folder: str | os.PathLike[str],
    *,
    vectors: str = "vectors",
    id: str = "id",
    address: str | None = None,
    n_workers: int | None = None,
    progress: Progress = lambda done, total: None,
) -> list[Path]:
    """Write the codes of Parquet files to a folder of Parquet files, one for every row group.

    A part is named after its file and row group, and has the columns ``id``, ``code`` (the packed code, so many bytes)
    and ``version`` (of the encoder). The encoder itself is saved beside the parts, as ``encoder.oh``. Parts are written
    whole or not at all. Run again after an interruption, it goes on: parts that are there are left as they are,
    unless their source has changed since. :mod:`onlinehash.scale` has an example.

    Parameters
    ----------
    paths : path, or list of paths
        Parquet files, or folders of them, that every worker finds in the same place.
    encoder : Encoder
    folder : path
        Where the parts go, on a disk that all workers share; made if it is not there. Codes of another encoder are
        not mixed in: a folder that has some is refused.
    vectors : str, default="vectors"
        Column of the vectors: lists of numbers.
    id : str, default="id"
        Column of the ids: integers or strings.
    address : str, optional
        Of a Ray cluster, as ``ray.init`` takes it.
    n_workers : int, optional
        Number of tasks at a time, by default one a CPU.
    progress : callable, optional
        Called as ``progress(done, total)`` with numbers of rows.

    Returns
    -------
    parts : list of Path
        In the order of the rows; ``pyarrow.parquet.read_table`` takes them.
    """
    target = Path(folder).absolute()
    files = [file for file in find_files(paths) if target not in file.path.parents]
    if not files:
        raise DataNotFoundError(f"There is no .parquet file to encode but in {target}, where the codes go.")
    places = _places(files, target)
    _check_folder(target, _check_encoder(encoder))
    with cluster(address, n_workers) as workers:
        partitions = _survey(workers, files, encoder, vectors, id)
        target.mkdir(parents=True, exist_ok=True)
        encoder.save(target / _ENCODER)
        parts = [places[each.path].with_suffix(f".{each.row_group:05d}.parquet") for each in partitions]
        _run(workers, _write_part, partitions, parts, encoder, vectors, id, progress)
    return parts


def encode_into(
    paths: Paths,
    encoder: Encoder,
    make_index: Callable[[], TakesCodes],
    *,
    vectors: str = "vectors",
    id: str = "id",
    address: str | None = None,
    n_workers: int | None = None,
    progress: Progress = lambda done, total: None,
) -> int:
    """Add the codes of Parquet files to an index that many processes can write to, such as one in PostgreSQL.

    Every process makes the index for itself. Adding is repeated where a process dies, which changes nothing: an id
    that is there already gets its code again. An id that comes twice in the files keeps one of its codes, no telling
    which.

    Parameters
    ----------
    paths : path, or list of paths
        Parquet files, or folders of them, that every worker finds in the same place.
    encoder : Encoder
    make_index : callable
        Called without arguments, in each process, to get the index; closed afterwards if it can be. For example
        ``functools.partial(PostgresIndex, ...)``.
    vectors : str, default="vectors"
        Column of the vectors: lists of numbers.
    id : str, default="id"
        Column of the ids: integers.
    address, n_workers, progress
        As in :func:`encode`.

    Returns
    -------
    n_rows : int

    Examples
    --------
    With a server at hand::

        make_index = functools.partial(PostgresIndex, 64, "postgresql://me@localhost/items")
        encode_into("items/", hasher.snapshot(), make_index)
    """
    files = find_files(paths)
    _check_encoder(encoder)
    with cluster(address, n_workers) as workers:
        partitions = _survey(workers, files, encoder, vectors, id)
        _run(workers, _add_part, partitions, [make_index] * len(partitions), encoder, vectors, id, progress)
    return sum(each.n_rows for each in partitions)


# ---------------------------------------------------------------------- tasks


@on_one_thread
def _write_part(partition: Partition, place: Path, encoder: bytes, vectors: str, id: str) -> int:
    """Write the codes of a row group, unless they are there, and return how many there are."""
    import pyarrow as arrow
    from pyarrow import parquet

    source = _source(partition, vectors, id)
    if place.exists():
        with open_parquet(place) as file:
            if (file.schema_arrow.metadata or {}).get(b"onlinehash") == source:
                return partition.n_rows
    hash_functions = Encoder.load(encoder)
    _, ids, codes = zip(*_encoded(partition, hash_functions, vectors, id), strict=True)
    all_codes = np.concatenate(codes)
    columns = {
        "id": arrow.chunked_array(ids),
        "code": arrow.FixedSizeBinaryArray.from_buffers(
            arrow.binary(all_codes.shape[1]), len(all_codes), [None, arrow.py_buffer(all_codes)]
        ),
        "version": np.full(len(all_codes), hash_functions.version),
    }
    place.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(place) as file:
        parquet.write_table(arrow.table(columns).replace_schema_metadata({b"onlinehash": source}), file)
    for left in place.parent.glob(f"{escape(place.name)}.*.part"):  # by a process that was killed
        left.unlink(missing_ok=True)
    return partition.n_rows


@on_one_thread
def _add_part(partition: Partition, make_index: Callable[[], TakesCodes], encoder: bytes, vectors: str, id: str) -> int:
    """Add the codes of a row group to an index, and return how many there are."""
    index = make_index()
    with closing(index) if isinstance(index, _Closes) else nullcontext():
        for place, ids, codes in _encoded(partition, Encoder.load(encoder), vectors, id):
            with named(place):
                index.upsert(codes, ids.to_numpy(zero_copy_only=False))
    return partition.n_rows


def _encoded(partition: Partition, encoder: Encoder, vectors: str, id: str) -> Iterator[tuple[str, Any, Codes]]:
    """Yield ids and codes, a few at a time, with the name of their place."""
    for place, rows, ids in read(partition, vectors, id, encoder.n_features):
        if ids.null_count:
            raise InvalidInputError(f"{place}: {ids.null_count} rows have no id in column {id!r}.")
        with named(place):
            codes = encoder.encode(rows)
        yield place, ids, codes


def _source(partition: Partition, vectors: str, id: str) -> bytes:
    """Return what a part remembers of its source, to tell whether it has changed."""
    path, file = partition.path, partition.path.stat()
    return json.dumps([path.name, file.st_size, file.st_mtime_ns, partition.row_group, vectors, id]).encode()


# ---------------------------------------------------------------------- parts


def _survey(workers: Cluster, files: list[File], encoder: Encoder, vectors: str, id: str) -> list[Partition]:
    """Return all row groups, if they can be encoded."""
    started = [workers.call(survey, path, vectors, id, False) for path, _ in files]
    surveys = [each for each in map(workers.get, started) if each.partitions]
    check_widths(surveys, encoder.n_features)
    return [partition for each in surveys for partition in each.partitions]


def _run(
    workers: Cluster,
    task: Callable[..., int],
    partitions: Sequence[Partition],
    targets: Sequence[Any],
    encoder: Encoder,
    vectors: str,
    id: str,
    progress: Progress,
) -> None:
    """Run a task for every partition and where its codes go."""
    state, done = workers.put(encoder.to_bytes()), 0
    total = sum(partition.n_rows for partition in partitions)
    started = (
        workers.call(task, partition, target, state, vectors, id)
        for partition, target in zip(partitions, targets, strict=True)
    )
    for n_rows in workers.ended(started):
        done += n_rows
        progress(done, total)


def _check_encoder(encoder: Any) -> Encoder:
    if not isinstance(encoder, Encoder):
        raise InvalidInputError(f"encoder is a {type(encoder).__name__}; pass an Encoder, such as hasher.snapshot().")
    return encoder


def _check_folder(target: Path, encoder: Encoder) -> None:
    """Raise if a folder holds codes of another encoder."""
    if target.exists() and not target.is_dir():
        raise InvalidInputError(f"{target} is not a folder; give one for the codes.")
    before = target / _ENCODER
    if before.exists() and before.read_bytes() != encoder.to_bytes():
        raise InvalidInputError(f"{target} holds codes of another encoder, {Encoder.load(before)}; use another folder.")


def _places(files: list[File], target: Path) -> dict[Path, Path]:
    """Return where the parts of each file go, without the numbers of their row groups."""
    owners: dict[Path, Path] = {}
    for path, name in files:
        owner = owners.setdefault(name.with_suffix(""), path)
        if owner is not path:
            raise InvalidInputError(
                f"Parts of {owner} and of {path} would have the same names; give the folder that both are in, or "
                "encode them into two folders."
            )
    return {path: target / name for path, name in files}
