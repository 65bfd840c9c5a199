"""The jobs: learning in parts, whose sums are added up in order; encoding row group by row group."""

from __future__ import annotations

import copy
import json
import os
from bisect import bisect_right
from collections.abc import Sequence
from glob import escape
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from onlinehash._internal.files import whole_file
from onlinehash.encoders import Encoder
from onlinehash.exceptions import DataNotFoundError, InvalidInputError, InvalidLabelsError, located
from onlinehash.hashers import OnlineHasher
from onlinehash.scale.cluster import cluster
from onlinehash.scale.partitions import Partition, Paths, find_files, partitions_of, read, read_labelled
from onlinehash.tables.arrow import import_pyarrow, open_file
from onlinehash.types import Progress

_ENCODER = "encoder.oh"

# ---------------------------------------------------------------------- learning


def learn(
    paths: Paths,
    hasher: OnlineHasher,
    *,
    vectors: str = "vectors",
    labels: str = "label",
    address: str | None = None,
    n_workers: int | None = None,
    progress: Progress = lambda done, total: None,
) -> OnlineHasher:
    """Learn from Parquet files with many processes, and return the hasher that one process would have learned.

    Each task sums the rows of a row group, and this process adds the sums up. The hasher returned equals one that
    learned all rows, in the order of the files, by ``partial_fit``, except for rounding in the last digits of its sums:
    its codes are the same, unless a projection is almost zero. The number of workers, and workers that die, do not
    change the result. See :meth:`onlinehash.HROH.split_points`; :mod:`onlinehash.scale` has an example.

    Parameters
    ----------
    paths : path, or list of paths
        Parquet files, or folders of them, under the same path here and on every worker.
    hasher : OnlineHasher that merges, such as HROH
        Not changed; the hasher returned has learned what it has, too.
    vectors : str, default="vectors"
        Column of the vectors: lists of numbers.
    labels : str, default="label"
        Column of the labels: integers or strings, or lists of them. Rows without a label are not learned from.
    address : str, optional
        Of a Ray cluster, as ``ray.init`` takes it.
    n_workers : int, optional
        Number of tasks at a time, by default one per CPU.
    progress : callable, optional
        Called as ``progress(done, total)`` with numbers of rows.

    Returns
    -------
    hasher : OnlineHasher
    """
    if not hasher.merges:
        raise InvalidInputError(
            f"{type(hasher).__name__} learns row after row; only methods with merge() can be learned in parts. "
            "Use HROH, or call partial_fit file after file."
        )
    whole: Any = copy.deepcopy(hasher)
    whole.split_points(0)  # refuses parameters under which nothing is learned in parts
    files = find_files(paths)
    with cluster(address, n_workers) as workers:
        counted = [workers.call(partitions_of, path, vectors, labels, True) for path in files]
        partitions = [partition for some in counted for partition in workers.get(some)]
        ends = list(accumulate(partition.n_labelled for partition in partitions))  # labelled rows up to each end
        if not any(ends):
            raise InvalidLabelsError(f"No row has a label in column {labels!r}; there is nothing to learn from.")
        split_points = whole.split_points(ends[-1])
        _learn(whole, partitions, vectors, labels, 0, split_points[0])
        points = sorted({*split_points, *(end for end in ends if split_points[0] < end < split_points[-1])})
        parts = list(pairwise(points))
        clone = workers.put(whole.empty_clone()._as_part())
        tasks = (
            workers.call(_learn_part, clone, *_place(partitions, ends, start, stop), vectors, labels)
            for start, stop in parts
        )
        segment: Any = None
        for (_, stop), state in zip(parts, workers.results(tasks), strict=True):
            part = type(whole).load(state)
            segment = part if segment is None else segment.merge(part)
            if stop in split_points:
                whole.merge(segment)
                segment = None
            progress(stop, ends[-1])
    _learn(whole, partitions, vectors, labels, split_points[-1], ends[-1])
    whole.n_unlabelled_ += sum(partition.n_rows for partition in partitions) - ends[-1]
    progress(ends[-1], ends[-1])
    learned: OnlineHasher = whole
    return learned


def _learn(
    hasher: OnlineHasher, partitions: Sequence[Partition], vectors: str, labels: str, start: int, stop: int
) -> None:
    """Have a hasher learn some of the labelled rows of partitions, numbered across them."""
    for place, X, y in read_labelled(partitions, vectors, labels, start, stop):
        with located(place):
            hasher.partial_fit(X, y)


def _learn_part(clone: OnlineHasher, partition: Partition, start: int, stop: int, vectors: str, labels: str) -> bytes:
    """Return the state of a hasher that has learned some rows."""
    hasher = copy.deepcopy(clone)  # arguments of a task are read-only
    _learn(hasher, [partition], vectors, labels, start, stop)
    return hasher.to_bytes()


def _place(partitions: list[Partition], ends: list[int], start: int, stop: int) -> tuple[Partition, int, int]:
    """Return the partition that holds some rows, and the rows numbered within it."""
    number = bisect_right(ends, start)
    before = ends[number - 1] if number else 0
    return partitions[number], start - before, stop - before


# ---------------------------------------------------------------------- encoding


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

    Parts are numbered in the order of the row groups. A part has the columns ``id``, ``code`` (packed, of fixed size)
    and ``version`` (of the encoder). The encoder is saved beside the parts, as ``encoder.oh``. Parts are written whole
    or not at all. After an interruption, a second call continues: parts that exist are kept, unless their source has
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
    files = [path for path in find_files(paths) if target not in path.parents]
    if not files:
        raise DataNotFoundError(f"There is no .parquet file to encode but in {target}, where the codes go.")
    if not isinstance(encoder, Encoder):
        raise InvalidInputError(f"encoder is a {type(encoder).__name__}; pass an Encoder, such as hasher.snapshot().")
    _check_folder(target, encoder)
    with cluster(address, n_workers) as workers:
        found = [workers.call(partitions_of, path, vectors, id, False) for path in files]
        partitions = [partition for some in found for partition in workers.get(some)]
        target.mkdir(parents=True, exist_ok=True)
        encoder.save(target / _ENCODER)
        parts = [target / f"{number:05d}.parquet" for number in range(len(partitions))]
        state, pairs = workers.put(encoder.to_bytes()), zip(partitions, parts, strict=True)
        done, total = 0, sum(each.n_rows for each in partitions)
        for n_rows in workers.results(workers.call(_write_part, *pair, state, vectors, id) for pair in pairs):
            done += n_rows
            progress(done, total)
    return parts


def _write_part(partition: Partition, place: Path, encoder: bytes, vectors: str, id: str) -> int:
    """Write the codes of a row group, unless they are there, and return how many there are."""
    arrow = import_pyarrow()
    source = _source(partition, vectors, id)
    if place.exists():
        with open_file(place) as file:
            if (file.schema_arrow.metadata or {}).get(b"onlinehash") == source:
                return partition.n_rows
    hash_functions = Encoder.load(encoder)
    ids, codes = [], []
    for where, rows, some in read(partition, vectors, id):
        with located(where):
            codes.append(hash_functions.encode(rows))
            if some.null_count:
                raise InvalidInputError(f"{some.null_count} rows have no id in column {id!r}.")
        ids.append(some)
    all_codes = np.concatenate(codes)
    columns = {
        "id": arrow.chunked_array(ids),
        "code": arrow.FixedSizeBinaryArray.from_buffers(
            arrow.binary(all_codes.shape[1]), len(all_codes), [None, arrow.py_buffer(all_codes)]
        ),
        "version": np.full(len(all_codes), hash_functions.version),
    }
    with whole_file(place) as file:
        arrow.parquet.write_table(arrow.table(columns).replace_schema_metadata({b"onlinehash": source}), file)
    for left in place.parent.glob(f"{escape(place.name)}.*.part"):  # by a process that was killed
        left.unlink(missing_ok=True)
    return partition.n_rows


def _source(partition: Partition, vectors: str, id: str) -> bytes:
    """Return what a part stores of its source, to detect whether it has changed."""
    path, file = partition.path, partition.path.stat()
    return json.dumps([path.name, file.st_size, file.st_mtime_ns, partition.row_group, vectors, id]).encode()


def _check_folder(target: Path, encoder: Encoder) -> None:
    """Raise if a folder holds codes of another encoder."""
    if target.exists() and not target.is_dir():
        raise InvalidInputError(f"{target} is not a folder; give one for the codes.")
    before = target / _ENCODER
    if before.exists() and before.read_bytes() != encoder.to_bytes():
        raise InvalidInputError(f"{target} holds codes of another encoder, {Encoder.load(before)}; use another folder.")
