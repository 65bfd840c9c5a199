"""StreamSums: the sums over a stream, and the block of rows that wait to be added to them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from scipy.linalg import lapack

from onlinehash._arrays import is_on_device
from onlinehash._files import Arrays
from onlinehash.exceptions import InvalidLabelsError
from onlinehash.features import WithInputs
from onlinehash.hashers._codeword_assignment import SettlingClasses, next_settling
from onlinehash.hashers._ridge import NOTHING, Matrix, Members, RidgeStatistics
from onlinehash.types import Features

CONSTANT = 0.5
"""Value of the feature that does the centring: the penalty on it is soft."""

BLOCK = 256
"""Rows that wait to be summed together."""

_ROUNDING = 1e-10  # of the sums of squares, after any number of additions
_FEW = 16  # waiting rows are few when the sums hold at least this many times as many
_MEMBERS = ("owner", "number", "share", "weight")


class StreamSums:
    """Add rows to ridge statistics in blocks, and let classes settle on codewords as rows come in.

    ``n_features`` is the width of the preprocessed rows, which ``features`` map; a constant follows as the last
    feature. ``n_summed`` rows have ever been added to the statistics, and ``n_waiting`` more wait for their block.
    """

    most_rows = 1024  # summed at once where they come at once

    def __init__(self, n_features: int, features: WithInputs | None, decay: float) -> None:
        n_mapped = n_features if features is None else features.n_outputs
        self.statistics = RidgeStatistics(n_mapped + 1)
        self.members = Members.of_none()
        self.n_waiting = 0
        self.n_summed = 0
        self._block: Matrix = np.full((BLOCK, n_mapped + 1), CONSTANT)
        self._features = features
        self._decay = decay

    @property
    def rows(self) -> Matrix:
        """Features of the rows that wait."""
        return self._block[: self.n_waiting]

    @property
    def few_waiting(self) -> bool:
        """Whether the rows that wait, if any, only move a solution a little."""
        return not self.n_waiting or (self._decay == 1.0 and _FEW * self.n_waiting <= self.statistics.total)

    def learn(self, rows: Features, members: Members, classes: SettlingClasses) -> None:
        """Add preprocessed rows; an incomplete block waits."""
        start = 0
        while start < len(rows):
            to_settling = next_settling(self.n_summed) - self.n_summed
            if not self.n_waiting and len(rows) - start >= self.most_rows:
                stop = start + min(self.most_rows, to_settling)
                self._sum(self._mapped(rows[start:stop]), members.between(start, stop), classes)
            else:
                block = min(BLOCK, to_settling)
                stop = min(len(rows), start + block - self.n_waiting)
                last = self.n_waiting + stop - start
                self._write(rows[start:stop], self._block[self.n_waiting : last])
                self.members = self.members.followed_by(members.between(start, stop), self.n_waiting)
                self.n_waiting = last % block
                if last == block:
                    self._sum(self._block[:block], self.members, classes)
                    self.members = Members.of_none()
            start = stop

    def flush(self, classes: SettlingClasses) -> None:
        """Add the rows that wait."""
        if self.n_waiting:
            self._sum(self.rows, self.members, classes)
            self.members, self.n_waiting = Members.of_none(), 0

    def merge(self, other: StreamSums, numbers: Any, classes: SettlingClasses) -> None:
        """Add the sums of another stream, of which no row waits; its class ``i`` is class ``numbers[i]`` here."""
        self.statistics.merge(other.statistics.on_host(), numbers)
        self._count(other.n_summed, classes)

    def subtract(self, rows: Features, members: Members) -> None:
        """Take preprocessed rows out; raise if what is left cannot be the sums of any rows."""
        before, n_rows = self.statistics.trace(), rows.shape[0]
        for start in range(0, n_rows, self.most_rows):
            stop = min(start + self.most_rows, n_rows)
            self.statistics.add(self._mapped(rows[start:stop, :]), members.between(start, stop), sign=-1.0)
        # Rows may be computed a little differently than when they were learned: those on a device perhaps on the host.
        eps = np.finfo(np.float32 if is_on_device(rows) else rows.dtype).eps
        taken = before - self.statistics.trace()
        self.statistics.demand_sums_of_rows(float(np.sqrt(eps)) * taken + _ROUNDING * before)

    def demand_enough(self, doomed: Members, labels: list[int | str]) -> None:
        """Raise if a class has fewer rows than are to be unlearned."""
        learned, lost = self.counts(len(labels)), doomed.counts(len(labels))
        worst = int(np.argmin(learned - lost))
        if lost[worst] > learned[worst] + NOTHING:
            raise InvalidLabelsError(
                f"There are {lost[worst]:g} rows of class {labels[worst]!r} to unlearn, but only "
                f"{learned[worst]:g} were learned."
            )

    def counts(self, n_classes: int) -> Matrix:
        """Return the total weight of the rows of each class, those that wait included."""
        counts = self.members.counts(n_classes)
        counts[: len(self.statistics.counts)] += self.statistics.counts
        return counts

    def complete(self, n_inputs: int | None = None) -> RidgeStatistics:
        """Return a copy of the statistics, of the first ``n_inputs`` features, with the rows that wait."""
        statistics = copy.deepcopy(self.statistics) if n_inputs is None else self.statistics.leading(n_inputs)
        if self.n_waiting:
            self._add_to(statistics, self.rows[:, :n_inputs], self.members)
        return statistics

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return a JSON part and arrays."""
        sums = self.statistics
        arrays: Arrays = {
            "gram": lapack.dtrttp(sums.gram, uplo="L")[0],
            "sums": sums.sums,
            "counts": sums.counts,
            "waiting_rows": self.rows,
        }
        arrays |= {f"waiting_{name}": getattr(self.members, name) for name in _MEMBERS}
        return {"total": sums.total, "squares": sums.squares, "n_summed": self.n_summed}, arrays

    def restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Take back what :meth:`state` returned."""
        sums = self.statistics
        sums.gram = lapack.dtpttr(len(sums.gram), arrays["gram"], uplo="L")[0]
        sums.sums, sums.counts = np.array(arrays["sums"]), np.array(arrays["counts"])
        sums.total, sums.squares, self.n_summed = state["total"], state["squares"], state["n_summed"]
        self.members = Members(*(arrays[f"waiting_{name}"] for name in _MEMBERS))
        self.n_waiting = len(arrays["waiting_rows"])
        self._block[: self.n_waiting] = arrays["waiting_rows"]

    def _mapped(self, rows: Features) -> Matrix:
        """Return the features of preprocessed rows, the constant last."""
        mapped = np.full((len(rows), self._block.shape[1]), CONSTANT)
        self._write(rows, mapped)
        return mapped

    def _write(self, rows: Features, out: Matrix) -> None:
        """Write the features of preprocessed rows; they are computed in the precision of the stream."""
        if self._features is None:
            out[:, :-1] = rows
        else:
            mapped = np.empty((len(rows), self._features.n_outputs), rows.dtype)
            self._features.write(rows, mapped)
            out[:, :-1] = mapped

    def _sum(self, rows: Matrix, members: Members, classes: SettlingClasses) -> None:
        self._add_to(self.statistics, rows, members)
        self._count(len(members.weight), classes)

    def _count(self, n_rows: int, classes: SettlingClasses) -> None:
        """Count rows that were added; when enough have been, let classes settle on their codewords."""
        settling = next_settling(self.n_summed)
        self.n_summed += n_rows
        if self.n_summed >= settling and classes.provisional:
            classes.settle(self.statistics)

    def _add_to(self, statistics: RidgeStatistics, rows: Matrix, members: Members) -> None:
        """Add rows to statistics, which fade by the decay of as many rows."""
        n_rows = len(members.weight)
        if self._decay < 1.0:
            members = members.times(self._decay ** np.arange(n_rows - 1.0, -1.0, -1.0))
        statistics.add(rows, members, decay=self._decay**n_rows)
