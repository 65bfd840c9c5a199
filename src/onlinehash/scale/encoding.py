"""Encoding in parts: one task per row group, into files or into an index."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, nullcontext
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np

from onlinehash._files import whole_file
from onlinehash.encoders import Encoder
from onlinehash.exceptions import DataNotFoundError, InvalidInputError
from onlinehash.scale.cluster import Cluster, cluster
from onlinehash.scale.partitions import File, Partition, Paths, check_widths, find_files, named, read, survey
from onlinehash.tables.parquet import open_parquet
from onlinehash.types import Codes, Progress

_ENCODER = "encoder.oh"


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
    """Write the codes of Parquet files to a folder of Parquet files, one per row group.

    A part is named after its file and row group, and has the columns ``id``, ``code`` (packed, of fixed size) and
    ``version`` (of the encoder). The encoder is saved beside the parts, as ``encoder.oh``. Parts are written whole or
    not at all. After an interruption, a second call continues: parts that exist are kept, unless their source has
    changed. :mod:`onlinehash.scale` has an example.

    Parameters
    ----------
    paths : path, or list of paths
        Parquet files, or folders of them, under the same path on every worker.
    encoder : Encoder
    folder : path
        Where the parts go, on a disk that all workers share; created if missing. A folder with codes of another
        encoder is refused.
    vectors : str, default="vectors"
        Column of the vectors: lists of numbers.
    id : str, default="id"
        Column of the ids: integers or strings.
    address : str, optional
        Of a Ray cluster, as ``ray.init`` takes it.
    n_workers : int, optional
        Number of tasks at a time, by default one per CPU.
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
    _check_encoder(encoder)
    _check_folder(target, encoder)
    with cluster(address, n_workers) as workers:
        partitions = _survey(workers, files, encoder, vectors, id)
        target.mkdir(parents=True, exist_ok=True)
        encoder.save(target / _ENCODER)
        parts = [places[each.path].with_suffix(f".{each.row_group:05d}.parquet") for each in partitions]
        state, pairs = workers.put(encoder.to_bytes()), zip(partitions, parts, strict=True)
        tasks = ((_write_part, partition, part, state, vectors, id) for partition, part in pairs)
        _run(workers, tasks, sum(each.n_rows for each in partitions), progress)
    return parts


def encode_into(
    paths: Paths,
    encoder: Encoder,
    make_index: Callable[[], Any],
    *,
    vectors: str = "vectors",
    id: str = "id",
    address: str | None = None,
    n_workers: int | None = None,
    progress: Progress = lambda done, total: None,
) -> int:
    """Add the codes of Parquet files to an index that many processes can write to, such as one in PostgreSQL.

    Each process opens the index for itself. If a process dies, its part is added again, which replaces codes by the
    same codes. An id that comes twice in the files keeps an arbitrary one of its codes.

    Parameters
    ----------
    paths, encoder, vectors, address, n_workers, progress
        As in :func:`encode`.
    make_index : callable
        Called without arguments, in each process, to get an index with ``upsert(codes, ids)``; closed afterwards if it
        can be. For example ``functools.partial(PostgresIndex, ...)``.
    id : str, default="id"
        Column of the ids: integers.

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
        state, n_rows = workers.put(encoder.to_bytes()), sum(each.n_rows for each in partitions)
        tasks = ((_add_part, partition, make_index, state, vectors, id) for partition in partitions)
        _run(workers, tasks, n_rows, progress)
    return n_rows


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


def _add_part(partition: Partition, make_index: Callable[[], Any], encoder: bytes, vectors: str, id: str) -> int:
    """Add the codes of a row group to an index, and return how many there are."""
    index = make_index()
    with closing(index) if hasattr(index, "close") else nullcontext():
        for place, ids, codes in _encoded(partition, Encoder.load(encoder), vectors, id):
            with named(place):
                index.upsert(codes, ids.to_numpy(zero_copy_only=False))
    return partition.n_rows


def _encoded(partition: Partition, encoder: Encoder, vectors: str, id: str) -> Iterator[tuple[str, Any, Codes]]:
    """Yield batches of ids and codes, with the name of their place."""
    for place, rows, ids in read(partition, vectors, id, encoder.n_features):
        if ids.null_count:
            raise InvalidInputError(f"{place}: {ids.null_count} rows have no id in column {id!r}.")
        with named(place):
            codes = encoder.encode(rows)
        yield place, ids, codes


def _source(partition: Partition, vectors: str, id: str) -> bytes:
    """Return what a part stores of its source, to detect whether it has changed."""
    path, file = partition.path, partition.path.stat()
    return json.dumps([path.name, file.st_size, file.st_mtime_ns, partition.row_group, vectors, id]).encode()


def _survey(workers: Cluster, files: list[File], encoder: Encoder, vectors: str, id: str) -> list[Partition]:
    """Return all row groups, if they can be encoded."""
    started = [workers.call(survey, path, vectors, id, False) for path, _ in files]
    surveys = [each for each in map(workers.get, started) if each.partitions]
    check_widths(surveys, encoder.n_features)
    return [partition for each in surveys for partition in each.partitions]


def _run(workers: Cluster, tasks: Iterable[tuple[Any, ...]], total: int, progress: Progress) -> None:
    """Run tasks, each given with its arguments, that return numbers of rows."""
    done = 0
    for n_rows in workers.ended(workers.call(*task) for task in tasks):
        done += n_rows
        progress(done, total)


def _check_encoder(encoder: Any) -> None:
    if not isinstance(encoder, Encoder):
        raise InvalidInputError(f"encoder is a {type(encoder).__name__}; pass an Encoder, such as hasher.snapshot().")


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
