"""Run a runbook on an engine, and measure every search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np
from numpy.typing import NDArray

from onlinehash.exceptions import InvalidInputError
from onlinehash.experiments.own_data import find_dataset
from onlinehash.experiments.runbook.engines import Engine
from onlinehash.experiments.runbook.steps import Runbook, Step
from onlinehash.experiments.streams import rotated
from onlinehash.types import Features, Labels

_Change = Callable[[Engine], None]


@dataclass(frozen=True)
class Measured:
    """One search step: what was found, how fast, and what the changes since the last one cost.

    Parameters
    ----------
    step : int
        Number of the step, from 1.
    after : str
        The steps since the last search, in words.
    n_items : int
        Items stored.
    precision : float
        Mean share of items with the label of the query among the k nearest.
    median_ms, slow_ms : float
        Median and 99th percentile of the time of one query, in milliseconds of wall-clock time.
    change_seconds : float
        CPU seconds of all changes since the last search, with what was learned, trained and refreshed.
    bytes_per_item : float
        Memory of an item while searching.

    Examples
    --------
    >>> Measured(2, "insert 10", 10, 0.9, 0.1, 0.2, 0.01, 4.0).precision
    0.9
    """

    step: int
    after: str
    n_items: int
    precision: float
    median_ms: float
    slow_ms: float
    change_seconds: float
    bytes_per_item: float


def run_runbook(runbook: Runbook, engine: Engine) -> Iterator[Measured]:
    """Do the steps of a runbook on an engine; yield what every search step measured.

    Which rows are inserted, deleted and searched for follows from the runbook alone, so that engines can be compared.

    Examples
    --------
    >>> from onlinehash import HROH
    >>> from onlinehash.experiments.runbook import CollectionEngine, parse_runbook
    >>> content = {"dataset": "digits", "steps": [{"do": "insert", "n": 500}, {"do": "search", "n": 50}]}
    >>> (found,) = run_runbook(parse_runbook("tiny", content), CollectionEngine(HROH(32, random_state=0)))
    >>> found.n_items, found.precision > 0.8
    (500, True)
    """
    world, cost, since = _World(runbook), 0.0, []
    try:
        for number, step in enumerate(runbook.steps, start=1):
            if step.do != "search":
                change = world.change(step)
                start = process_time()
                change(engine)
                cost += process_time() - start
                since.append(step.text)
                continue
            precision, times = world.search(step, engine)
            median, slow = np.percentile(times, [50, 99]).tolist()
            size = engine.bytes_per_item()
            yield Measured(number, "; ".join(since), len(world.stored), precision, median, slow, cost, size)
            cost, since = 0.0, []
    finally:
        engine.close()


class _World:
    """What is stored, under which labels, and what comes next: the same for all engines."""

    def __init__(self, runbook: Runbook) -> None:
        split = find_dataset(runbook.dataset, runbook.labels).split("online", runbook.seed)
        self.X, self.y = split.database.X, split.database.y.copy()
        self.queries, self.query_labels = split.queries.X, split.queries.y.copy()
        self.k, self.seed, self.degrees = runbook.k, runbook.seed, 0.0
        self.rng = np.random.default_rng([runbook.seed, 10])
        self.waiting = np.ones(len(self.y), bool)  # rows that were not inserted yet
        self.stored: dict[int, int] = {}  # label by id

    def change(self, step: Step) -> _Change:
        """Return the change that a step makes to an engine; what is stored here changes at once."""
        return getattr(self, f"_{step.do}")(step)  # type: ignore[no-any-return]

    def _insert(self, step: Step) -> _Change:
        assert step.n is not None
        rows = np.flatnonzero(self.waiting & self._of(step, self.y))[: step.n]
        if len(rows) < step.n:
            raise InvalidInputError(f"{step.text}: only {len(rows)} rows of the data set are left; insert fewer.")
        self.waiting[rows] = False
        labels = self.y[rows]
        self.stored.update(zip(rows.tolist(), labels.tolist(), strict=True))
        X = self._turned(self.X[rows])
        return lambda engine: engine.insert(rows, X, labels)

    def _delete(self, step: Step) -> _Change:
        ids, labels = np.array(list(self.stored)), np.array(list(self.stored.values()))
        ids = ids[self._of(step, labels)] if len(ids) else ids
        if step.n is not None:
            if len(ids) < step.n:
                raise InvalidInputError(f"{step.text}: only {len(ids)} such items are stored; delete fewer.")
            ids = np.sort(self.rng.choice(ids, step.n, replace=False))
        for id in ids.tolist():
            del self.stored[id]
        return lambda engine: engine.delete(ids) if len(ids) else None

    def _relabel(self, step: Step) -> _Change:
        assert step.old is not None and step.new is not None
        ids = np.array([id for id, label in self.stored.items() if label == step.old], np.int64)
        labels = np.full(len(ids), step.new)
        self.stored.update(dict.fromkeys(ids.tolist(), step.new))
        for y in (self.y, self.query_labels):  # what comes later has the new label too
            y[y == step.old] = step.new
        return lambda engine: engine.relabel(ids, labels) if len(ids) else None

    def _drift(self, step: Step) -> _Change:
        self.degrees += step.degrees
        return lambda engine: None

    def _train(self, step: Step) -> _Change:
        return lambda engine: engine.train()

    def search(self, step: Step, engine: Engine) -> tuple[float, NDArray[np.float64]]:
        """Return the precision of some queries of the classes stored, and the milliseconds that each took."""
        assert step.n is not None
        known = np.flatnonzero(np.isin(self.query_labels, list(set(self.stored.values()))))
        if not len(known):
            raise InvalidInputError("There is nothing to search for: no item is stored. Insert some first.")
        chosen = np.resize(self.rng.permutation(known), step.n)
        X, precisions, times = self._turned(self.queries[chosen]), [], []
        for x, label in zip(X, self.query_labels[chosen].tolist(), strict=True):
            start = perf_counter()
            found = engine.search(x, self.k)
            times.append(1000 * (perf_counter() - start))
            hits = sum(self.stored.get(id) == label for id in found)
            precisions.append(hits / min(self.k, len(self.stored)))
        return float(np.mean(precisions)), np.array(times)

    def _of(self, step: Step, labels: Labels) -> NDArray[np.bool_]:
        return np.isin(labels, step.classes) if step.classes else np.ones(len(labels), bool)

    def _turned(self, X: Features) -> Features:
        return rotated(X, self.degrees, self.seed) if self.degrees else X
