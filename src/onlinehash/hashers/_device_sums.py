"""DeviceSums: the sums over a stream, kept and solved on a device."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._arrays import DeviceArray, Place, cholesky, cholesky_solve, device_memory, is_on_device, to_host
from onlinehash.exceptions import InvalidInputError
from onlinehash.features import place_features
from onlinehash.hashers._codeword_assignment import SettlingClasses, next_settling
from onlinehash.hashers._ridge import Matrix, Members, RidgeFactor, RidgeStatistics
from onlinehash.hashers._stream_sums import CONSTANT, StreamSums

_ELEMENTS = 1 << 27  # features computed at a time
_MANY_ROWS = 1 << 15
_MOST_PARTS, _LEAST_PART = 8, 1024  # in which the features are multiplied: smaller products would not fill a GPU


class DeviceFactor(RidgeFactor):
    """A Cholesky factor on a device; the columns it solves for come from the host and go back to it."""

    def __init__(self, lower: DeviceArray, penalty: float) -> None:
        self.penalty = penalty
        self._lower = lower

    def solve(self, towards: Matrix) -> Matrix:
        """Return (A + penalty I)^-1 times the columns given."""
        return to_host(cholesky_solve(self._lower, Place.of(self._lower).put(towards)))


class DeviceStatistics(RidgeStatistics):
    """Ridge statistics of which all that grows with the square of the features is on a device.

    ``gram`` and ``sums`` are copies on the host, made when they are asked for.
    """

    def __init__(self, statistics: RidgeStatistics, place: Place) -> None:
        self._place, xp = place, place.xp
        n_inputs = statistics.n_inputs
        self._n_parts = min(_MOST_PARTS, max(1, n_inputs // _LEAST_PART))
        self._gram: DeviceArray = xp.zeros((n_inputs, n_inputs), dtype=xp.float64, device=place.device)
        self._sums: DeviceArray = xp.zeros((0, n_inputs), dtype=xp.float64, device=place.device)
        self.counts = np.zeros(0)
        self.total = self.squares = 0.0
        if len(statistics.counts):
            self.merge(statistics, np.arange(len(statistics.counts)))

    def __deepcopy__(self, memo: Any) -> DeviceStatistics:
        twin, xp = object.__new__(type(self)), self._place.xp
        twin.__dict__.update(self.__dict__)
        twin._gram, twin._sums = (xp.asarray(each, copy=True) for each in (self._gram, self._sums))
        twin.counts = self.counts.copy()
        return twin

    @property
    def n_inputs(self) -> int:
        """Number of features."""
        return int(self._gram.shape[0])

    @property
    def gram(self) -> Matrix:  # type: ignore[override]
        """A copy of the Gram matrix on the host; the lower triangle."""
        return np.asfortranarray(to_host(self._gram))

    @property
    def sums(self) -> Matrix:  # type: ignore[override]
        """A copy of the sums of the classes on the host."""
        return to_host(self._sums)

    def trace(self) -> float:
        """Return the trace of the Gram matrix."""
        return float(self._place.xp.linalg.trace(self._gram))

    def add(self, rows: DeviceArray, members: Members, *, sign: float = 1.0, decay: float = 1.0) -> None:
        """Add rows, or with ``sign=-1`` subtract them, after multiplying the sums by ``decay``."""
        place, xp, weights = self._place, self._place.xp, members.weight
        self.grow(int(members.number.max(initial=-1)) + 1)
        scaled = rows if (weights == 1.0).all() else rows * place.put(np.sqrt(weights))[:, None]
        # Of a symmetric matrix, only the blocks on the diagonal and below it.
        bounds = [part * self.n_inputs // self._n_parts for part in range(self._n_parts + 1)]
        blocks = [(start, stop, scaled[:, start:stop].T @ scaled[:, :stop]) for start, stop in pairwise(bounds)]
        shares = sign * members.share * weights[members.owner]
        if len(members.owner) != len(weights):  # rows of several classes come once for each
            rows = xp.take(rows, place.put(members.owner), axis=0)
        is_of = place.put(members.number)[:, None] == place.put(np.arange(len(self.counts)))[None, :]
        sums = (xp.astype(is_of, xp.float64) * place.put(shares)[:, None]).T @ rows
        # All that needs memory is done: from here on nothing fails.
        if decay != 1.0:
            self._gram *= decay
            self._sums *= decay
            self.counts *= decay
        for start, stop, block in blocks:
            if sign > 0.0:
                self._gram[start:stop, :stop] += block
            else:
                self._gram[start:stop, :stop] -= block
        self._sums += sums
        self.counts += np.bincount(members.number, shares, len(self.counts))
        self.total = decay * self.total + sign * float(weights.sum())
        self.squares = decay * self.squares + float(shares @ members.share)

    def merge(self, other: RidgeStatistics, numbers: NDArray[np.intp]) -> None:
        """Add the sums of another stream, on the host; its class ``i`` is class ``numbers[i]`` here."""
        self.grow(int(numbers.max(initial=-1)) + 1)
        lower = np.tril(other.gram)
        sums = np.zeros((len(self.counts), self.n_inputs))
        sums[numbers[: len(other.sums)]] = other.sums
        self._gram += self._place.put(lower + np.tril(lower, -1).T)
        self._sums += self._place.put(sums)
        self.counts[numbers[: len(other.counts)]] += other.counts
        self.total += other.total
        self.squares += other.squares

    def grow(self, n_classes: int) -> None:
        """Make room for more classes."""
        more, xp = n_classes - len(self.counts), self._place.xp
        if more > 0:
            zeros = xp.zeros((more, self.n_inputs), dtype=xp.float64, device=self._place.device)
            self._sums = xp.concat([self._sums, zeros], axis=0)
            self.counts = np.concatenate([self.counts, np.zeros(more)])

    def leading(self, n_inputs: int) -> RidgeStatistics:
        """Return a copy of the statistics of the first ``n_inputs`` features, on the host."""
        part = RidgeStatistics(n_inputs)
        part.gram = np.asfortranarray(to_host(self._gram[:n_inputs, :n_inputs]))
        part.sums, part.counts = to_host(self._sums[:, :n_inputs]), self.counts.copy()
        part.total, part.squares = self.total, self.squares
        return part

    def on_host(self) -> RidgeStatistics:
        """Return a copy on the host."""
        return self.leading(self.n_inputs)

    def _is_scatter(self, tolerance: float) -> bool:
        """Return whether the scatter around the class means, plus a tolerance, has a Cholesky factor."""
        seen = self.seen
        means = self._place.put(self.sums[seen] / np.sqrt(self.counts[seen])[:, None])
        return cholesky(self._gram - means.T @ means + self._diagonal(tolerance)) is not None

    def _diagonal(self, value: float) -> DeviceArray:
        xp = self._place.xp
        return float(value) * xp.eye(self.n_inputs, dtype=xp.float64, device=self._place.device)

    def factor(self, penalty: float) -> RidgeFactor:
        """Return the Cholesky factor of the Gram matrix plus ``penalty`` times the identity."""
        with device_memory(f"A Cholesky factor of {self.n_inputs} features"):
            lower = cholesky(self._gram + self._diagonal(penalty))
        if lower is None:
            raise InvalidInputError(
                "The statistics are not those of any rows. Were rows unlearned that had not been learned?"
            )
        return DeviceFactor(lower, penalty)


class DeviceSums(StreamSums):
    """Add rows to statistics on a device as they come: no row waits, because even one row fills a GPU.

    Features are computed in double precision, in which a GPU is as fast at the products as in single precision. Sums on
    the host, of which no row waits, are taken over.
    """

    def __init__(self, sums: StreamSums, place: Place) -> None:
        self._features, self._decay, self.n_summed = sums._features, sums._decay, sums.n_summed
        self.members, self.n_waiting = Members.of_none(), 0
        self._block = np.empty((0, sums.statistics.n_inputs))
        self._place = place
        self.most_rows = min(_MANY_ROWS, max(1, _ELEMENTS // sums.statistics.n_inputs))
        with device_memory(f"A matrix of {sums.statistics.n_inputs} x {sums.statistics.n_inputs} sums"):
            self.statistics: DeviceStatistics = DeviceStatistics(sums.statistics, place)
        self._map = None if self._features is None else place_features(self._features, place, "float64")

    def learn(self, rows: Any, members: Members, classes: SettlingClasses) -> None:
        """Add preprocessed rows."""
        n_rows, start = rows.shape[0], 0
        with device_memory(f"The features of {min(self.most_rows, n_rows)} rows"):
            while start < n_rows:
                stop = min(n_rows, start + self.most_rows, start + next_settling(self.n_summed) - self.n_summed)
                self._sum(self._mapped(rows[start:stop, :]), members.between(start, stop), classes)
                start = stop

    def _mapped(self, rows: Any) -> Any:
        """Return the features of preprocessed rows, the constant last."""
        rows = rows if is_on_device(rows) else self._place.put(rows)
        mapped = rows if self._map is None else self._map(rows)
        xp = self._place.xp
        constant = xp.full((rows.shape[0], 1), CONSTANT, dtype=xp.float64, device=self._place.device)
        return xp.concat([mapped, constant], axis=1)
