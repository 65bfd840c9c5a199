"""Learning in parts: statistics of partitions, added up pair by pair."""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from onlinehash._validation import check_positive_int
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError
from onlinehash.hashers import OnlineHasher
from onlinehash.scale.cluster import Cluster, cluster
from onlinehash.scale.partitions import Partition, Paths, Survey, check_widths, find_files, named, read_labelled, survey
from onlinehash.types import Progress


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
