"""The jobs: learning in parts, whose sums are added up pair by pair; encoding row group by row group."""

from __future__ import annotations

import copy
import json
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from glob import escape
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onlinehash._internal.files import whole_file
from onlinehash._internal.validation import check_positive_int
from onlinehash.encoders import Encoder
from onlinehash.exceptions import DataNotFoundError, InvalidInputError, InvalidLabelsError
from onlinehash.hashers import OnlineHasher
from onlinehash.scale.cluster import Cluster, cluster
from onlinehash.scale.partitions import (
    File,
    Partition,
    Paths,
    Survey,
    check_widths,
    find_files,
    named,
    read,
    read_labelled,
    survey,
)
from onlinehash.tables.arrow import import_pyarrow, open_file
from onlinehash.types import Codes, Progress

_ENCODER = "encoder.oh"

# ---------------------------------------------------------------------- learning


class _Table(NamedTuple):
    """Labelled rows of a data set: those of some partitions, numbered across them."""

    partitions: Sequence[Partition]
    vectors: str
    labels: str
    width: int

    @property
    def ends(self) -> list[int]:
        """The number of labelled rows up to the end of each partition."""
        return list(accumulate(partition.n_labelled for partition in self.partitions))

    def learn(self, hasher: OnlineHasher, start: int, stop: int) -> None:
        """Have a hasher learn some of the rows."""
        for place, X, y in read_labelled(self.partitions, self.vectors, self.labels, self.width, start, stop):
            with named(place):
                hasher.partial_fit(X, y)


def learn(
    paths: Paths,
    hasher: OnlineHasher,
    *,
    vectors: str = "vectors",
    labels: str = "label",
    address: str | None = None,
    n_workers: int | None = None,
    rows_per_task: int = 1 << 16,
    progress: Progress = lambda done, total: None,
) -> OnlineHasher:
    """Learn from Parquet files with many processes, and return the hasher that one process would have learned.

    Each process sums rows, and sums are added up pair by pair. The hasher returned equals one that learned all rows, in
    the order of the files, by ``partial_fit``, except for rounding in the last digits of its sums: its codes are the
    same, unless a projection is almost zero. The number of workers, and workers that die, do not change the result. See
    :meth:`onlinehash.HROH.split_points`; :mod:`onlinehash.scale` has an example.

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
    rows_per_task : int, default=65536
        Maximum number of rows per task; they are summed again if a worker dies.
    progress : callable, optional
        Called as ``progress(done, total)`` with numbers of rows.

    Returns
    -------
    hasher : OnlineHasher
    """
    check_positive_int("rows_per_task", rows_per_task)
    if not hasher.merges:
        raise InvalidInputError(
            f"{type(hasher).__name__} learns row after row; only methods with merge() can be learned in parts. "
            "Use HROH, or call partial_fit file after file."
        )
    whole: Any = copy.deepcopy(hasher)
    whole.split_points(0)  # refuses parameters under which nothing is learned in parts
    files = find_files(paths)
    with cluster(address, n_workers) as workers:
        surveys = [workers.call(survey, path, vectors, labels, True) for path, _ in files]
        table = _join([workers.get(each) for each in surveys], vectors, labels)
        n_rows = sum(partition.n_rows for partition in table.partitions)
        n_labelled = table.ends[-1]
        split_points = whole.split_points(n_labelled)
        table.learn(whole, 0, split_points[0])
        done = split_points[0]
        segments = _Segments(workers, table, whole.empty_clone()._as_part(), rows_per_task)
        for n_learned in workers.ended(segments.started(split_points)):
            done += n_learned
            progress(done, n_labelled)
        for state in segments.states:
            whole.merge(type(whole).load(workers.get(state)))
    table.learn(whole, split_points[-1], n_labelled)
    whole.n_unlabelled_ += n_rows - n_labelled
    progress(n_labelled, n_labelled)
    learned: OnlineHasher = whole
    return learned


class _Segments:
    """What was learned from one split point to the next, each a tree of tasks that adds up its sums.

    The shape of the trees follows from the data set alone, so that rounding does not depend on the workers.
    """

    def __init__(self, workers: Cluster, table: _Table, clone: OnlineHasher, rows_per_task: int) -> None:
        self._workers, self._table, self._rows_per_task = workers, table, rows_per_task
        self._clone, self._kind = workers.put(clone), type(clone)
        self.states: list[Any] = []

    def started(self, split_points: list[int]) -> Iterator[Any]:
        """Start the tasks that learn, one per step, and yield references to the numbers of rows they learned."""
        ends = self._table.ends
        for cut, next_cut in pairwise(split_points):
            waiting: list[tuple[int, Any]] = []  # sums of 2^level tasks, which wait for as many to add up with
            for start, stop in pairwise(_pieces(ends, cut, next_cut, self._rows_per_task)):
                first, last = bisect_right(ends, start), bisect_right(ends, stop - 1)
                before = ends[first - 1] if first else 0
                part = self._table._replace(partitions=self._table.partitions[first : last + 1])
                n_learned, state = self._workers.call(
                    _learn_part, self._clone, part, start - before, stop - before, n_results=2
                )
                level = 0
                while waiting and waiting[-1][0] == level:
                    state = self._workers.call(_merge, self._kind, waiting.pop()[1], state)
                    level += 1
                waiting.append((level, state))
                yield n_learned
            while len(waiting) > 1:
                (_, left), (level, right) = waiting[-2:]
                waiting[-2:] = [(level, self._workers.call(_merge, self._kind, left, right))]
            self.states.append(waiting[0][1])


def _learn_part(clone: OnlineHasher, table: _Table, start: int, stop: int) -> tuple[int, bytes]:
    """Return the number of rows, and the state of the hasher that has learned them."""
    hasher = copy.deepcopy(clone)  # arguments of a task are read-only
    table.learn(hasher, start, stop)
    return stop - start, hasher.to_bytes()


def _merge(kind: Any, left: bytes, right: bytes) -> bytes:
    """Return the hasher that has learned what two have, the left one first."""
    merged: OnlineHasher = kind.load(left).merge(kind.load(right))
    return merged.to_bytes()


def _pieces(ends: list[int], start: int, stop: int, at_most: int) -> list[int]:
    """Return where to split rows into tasks: at the ends of partitions, where these are not too far apart."""
    split_points = [start]
    while split_points[-1] < stop:
        furthest = min(split_points[-1] + at_most, stop)
        end = ends[bisect_right(ends, furthest) - 1] if furthest < stop and ends[0] <= furthest else furthest
        split_points.append(end if end > split_points[-1] else furthest)
    return split_points


def _join(surveys: list[Survey], vectors: str, labels: str) -> _Table:
    """Return all files as one table, if they fit together."""
    filled = [each for each in surveys if each.partitions]
    if not any(partition.n_labelled for each in filled for partition in each.partitions):
        raise InvalidLabelsError(f"No row has a label in column {labels!r}; there is nothing to learn from.")
    first = filled[0]
    for each in filled:
        if each.label_kind != first.label_kind:
            raise InvalidLabelsError(
                f"The labels of {each.path} are {each.label_kind}, those of {first.path} {first.label_kind}; "
                "use one kind."
            )
    check_widths(filled)
    return _Table([partition for each in filled for partition in each.partitions], vectors, labels, first.width)


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
        can be. For example ``functools.partial(MilvusIndex, ...)``.
    id : str, default="id"
        Column of the ids: integers.

    Returns
    -------
    n_rows : int

    Examples
    --------
    With a server at hand::

        make_index = functools.partial(MilvusIndex, 64, "http://localhost:19530")
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
    arrow = import_pyarrow()
    source = _source(partition, vectors, id)
    if place.exists():
        with open_file(place) as file:
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
        arrow.parquet.write_table(arrow.table(columns).replace_schema_metadata({b"onlinehash": source}), file)
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
