"""The jobs: learning in parts, whose sums are added up in order; encoding row group by row group."""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from onlinehash.exceptions import InvalidInputError, InvalidLabelsError, located
from onlinehash.hashers import OnlineHasher
from onlinehash.scale.cluster import cluster
from onlinehash.scale.partitions import Partition, Paths, find_files, partitions_of, read_labelled
from onlinehash.types import Progress


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
        counted = [workers.call(partitions_of, path, vectors, labels) for path in files]
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
