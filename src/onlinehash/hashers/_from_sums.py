"""Hashers whose state is sums: they merge, unlearn, learn in parts, and change bits and codebook without the data."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from onlinehash._arrays import Place
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError
from onlinehash.features import Centring, RunningCentring, WithInputs, centre_running, place_features
from onlinehash.hashers._classes import WithCodewords
from onlinehash.hashers._codeword_assignment import SettlingClasses, next_settling
from onlinehash.hashers._device_sums import DeviceSums
from onlinehash.hashers._parameters import check_code_length
from onlinehash.hashers._ridge import Members
from onlinehash.hashers._rows import Weights
from onlinehash.hashers._stream_sums import BLOCK, StreamSums
from onlinehash.hashers._weighted import WeightedHasher
from onlinehash.types import LabelSets, Targets


class FromSums(WeightedHasher, WithCodewords):
    """Base class of a method whose state is sums over the stream, kept in ``_sums``."""

    bandwidth: float | None
    decay: float
    features: str
    general_bits: int
    n_components: int
    n_unlearned_: int
    _bandwidth: float
    _classes: SettlingClasses
    _map: WithInputs | None
    _place: Place | None
    _solved: Any
    _sums: StreamSums

    def empty_clone(self) -> Self:
        """Return a hasher that has seen nothing but has the same feature map, so that the two can :meth:`merge`.

        It takes rows of the same width, and computes in the same precision. Without a ``bandwidth``, the map is fixed
        after 256 rows; a clone made before has that of the rows so far, so merge before this hasher learns more.

        Examples
        --------
        >>> from onlinehash import HROH
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> first = HROH(16, random_state=0).partial_fit(X[:500], y[:500])
        >>> second = first.empty_clone().partial_fit(X[500:], y[500:])
        >>> first.merge(second).n_samples_seen_
        1797
        """
        self._demand_learned()
        self._demand_same_parameters()
        twin = type(self)(**self.get_params(deep=False) | {"random_state": self.seed_})
        self._demand_map_of_its_own()
        if self.features != "none":
            twin.bandwidth = self._completed()._bandwidth
        twin.n_features_in_, twin._dtype = self.n_features_in_, self._dtype
        if hasattr(self, "feature_names_in_"):
            twin.feature_names_in_ = self.feature_names_in_
        return twin

    def _as_part(self) -> Self:
        return self.set_params(assignment="arrival")  # type: ignore[no-any-return]  # no part need settle codewords

    def split_points(self, n_rows: int) -> list[int]:
        """Return where the next ``n_rows`` instances of the stream may be cut, to be learned in parts.

        Learn what comes before the first cut, then :meth:`merge` what clones (:meth:`empty_clone`) learned from one cut
        to the next, in order, then learn what comes after the last. This hasher is then the one that had learned all
        rows in order: it knows the same classes, which settled on the same codewords, and only the rounding of
        its sums differs. A part may itself be merged of any number of siblings, in order.

        Parameters
        ----------
        n_rows : int
            Rows without a label do not count.

        Examples
        --------
        >>> from onlinehash import HROH
        >>> HROH().split_points(5000)
        [256, 1024, 2048, 4096, 4864]
        """
        self._demand_same_parameters()
        if self.decay < 1.0:
            raise InvalidInputError(f"With decay={self.decay} the last rows count most; only decay=1 learns in parts.")
        if not self.__sklearn_is_fitted__():
            n_before, first = 0, BLOCK
        elif self._head is not None:
            n_before, first = self.n_samples_seen_, self._head_size() - self.n_samples_seen_
        else:
            sums = self._sums
            n_before = sums.n_summed + sums.n_waiting
            first = -sums.n_waiting % min(BLOCK, next_settling(sums.n_summed) - sums.n_summed)
        cuts = [min(first, n_rows)]
        while (cut := next_settling(n_before + cuts[-1]) - n_before) <= n_rows:
            cuts.append(cut)
        if n_rows - cuts[-1] >= BLOCK:
            cuts.append(n_rows - (n_rows - cuts[-1]) % BLOCK)
        return cuts

    def merge(self, other: FromSums) -> Self:
        """Take in all that another hasher learned, as if this one had seen both streams.

        The two must have the same feature map: the same ``random_state``, ``features``, ``n_components`` and
        ``bandwidth``, or one is the other's :meth:`empty_clone`. Their codebooks need not be the same; this one's
        holds. Classes that only the other knows follow those known here, in its order. The other hasher is left as it
        is. Where to cut a stream so that merging its parts equals learning it in order: :meth:`split_points`.
        """
        if not isinstance(other, type(self)):
            raise InvalidInputError(
                f"merge takes another {type(self).__name__}, not {type(other).__name__}; no other method's state is a "
                "sum."
            )
        for hasher in (self, other):
            hasher._demand_learned()
            hasher._demand_same_parameters()
        whole, other = self._completed(), copy.deepcopy(other)._completed()
        whole._demand_same_map(other)
        labels = np.array(other._classes.labels)
        whole._classes.admit(labels)
        self.__dict__.update(whole.__dict__)
        other._flush()
        self._flush()
        self._sums.merge(other._sums, self._classes.numbers(labels), self._classes)
        self.n_samples_seen_ += other.n_samples_seen_
        self.n_unlabelled_ += other.n_unlabelled_
        self.n_unlearned_ += other.n_unlearned_
        return self

    def unlearn(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Take rows out again that were learned: afterwards it is as if they had never been seen.

        A class of which nothing is left keeps its codeword, if it had settled on one, in case it comes back.

        What cannot have been learned is refused, and nothing has changed then: classes never seen, more rows of a class
        than were learned, and rows without which the sums are those of no rows at all. The last is found by factoring
        the new sums on trial, on a copy: O(m^3 / 3) per call, as much as a snapshot, so unlearn many rows at once.
        It cannot be known whether a row was learned that resembles others of its class: the sums keep no rows. To
        unlearn such a row makes the sums wrong without an error.

        Parameters
        ----------
        X, y, sample_weight : as they were learned
        """
        self._demand_learned()
        self._demand_same_parameters()
        if self.decay < 1.0:
            raise InvalidInputError(f"With decay={self.decay} a row's weight has faded; only decay=1 can unlearn rows.")
        if isinstance(self._features, RunningCentring):
            raise InvalidInputError("The running mean has moved since; use preprocess='unit' to unlearn rows later.")
        rows, labelled = self._check_next(X, y, sample_weight)
        counted = rows.counted(labelled)
        if counted is not None:
            rows = rows.take(counted)
        if not rows.X.shape[0]:
            return self
        self._demand_known(rows.targets)
        members = self._members(rows.targets, rows.weights)
        trial = copy.deepcopy(self, {id(value): value for value in self.get_params(deep=False).values()})
        if trial._head is not None:
            trial._open_head()
        trial._sums.demand_enough(members, self._classes.labels)
        trial._flush()
        trial._sums.subtract(trial._frozen_rows(rows.X), members)
        trial.n_unlearned_ += rows.X.shape[0]
        self.__dict__.update(trial.__dict__)
        return self

    def with_bits(self, n_bits: int, general_bits: int = 0) -> Self:
        """Return a hasher with another code length that has learned what this one has.

        It equals one that had that length from the start, where there are no more classes than bits; otherwise
        the codewords are chosen afresh from all that was learned.
        """
        return self._with(n_bits=check_code_length(n_bits), general_bits=general_bits)

    def _resized(self, n_bits: int) -> Self | None:
        return self.with_bits(n_bits, self.general_bits) if self.__sklearn_is_fitted__() else None

    def with_codebook(self, codebook: str | Mapping[int | str, ArrayLike]) -> Self:
        """Return a hasher with another codebook that has learned what this one has."""
        return self._with(codebook=codebook)

    def _with(self, **params: Any) -> Self:
        self._demand_learned()
        self._demand_same_parameters(*params)
        twin = copy.deepcopy(self)
        for name, value in params.items():
            setattr(twin, name, value)
        twin._fix_parameters()
        twin._classes = twin._make_classes(self._classes.labels, {})
        twin._solved = None
        return twin

    def _completed(self) -> Self:
        """Return this hasher, or a copy whose feature map is fixed by the rows seen so far, if it is not fixed yet."""
        if self._head is None:
            return self
        twin = copy.deepcopy(self)
        twin._open_head()
        return twin

    def _demand_same_map(self, other: FromSums) -> None:
        self._demand_map_of_its_own()
        other._demand_map_of_its_own()
        mine, theirs = self._map_settings(), other._map_settings()
        for name, value in mine.items():
            if value != theirs[name]:
                raise InvalidInputError(
                    f"The two hashers have different feature maps: {name} is {value} here and {theirs[name]} there. "
                    "Make the second from the first by empty_clone(), or give both the same random_state and bandwidth."
                )
        names = [list(each.feature_names_in_) for each in (self, other) if hasattr(each, "feature_names_in_")]
        if len(names) == 2 and names[0] != names[1]:
            raise InvalidInputError(
                "The two hashers have learned from different feature names; use the same, in order."
            )
        if self._mean() != other._mean():
            raise InvalidInputError("The two hashers treat rows differently; give both the same preprocess.")

    def _demand_map_of_its_own(self) -> None:
        """Raise if the map is made of one stream's rows, so that no other hasher can have it."""
        if self.features == "anchors" or isinstance(self._features, RunningCentring):
            raise InvalidInputError(
                "Anchors and a running mean belong to one stream; merge with features='fourier' and preprocess='unit'."
            )

    def _mean(self) -> list[float] | None:
        return self._features.mean.tolist() if isinstance(self._features, Centring) else None

    def _map_settings(self) -> dict[str, Any]:
        settings = {"features": self.features, "number of columns of X": self.n_features_in_}
        if self._map is not None:
            settings |= {"random_state": self.seed_, "bandwidth": self._bandwidth, "n_components": self.n_components}
        return settings

    def _demand_known(self, targets: Targets) -> None:
        assert targets is not None
        labels = [x for row in targets for x in row] if isinstance(targets, LabelSets) else targets.tolist()
        unknown = next((label for label in labels if self._classes.number(label) is None), None)
        if unknown is not None:
            raise InvalidLabelsError(f"No row of class {unknown!r} was ever learned; it cannot be unlearned.")

    def _preprocessed(self, X: Any) -> Any:
        if self._place is None:
            return super()._preprocessed(X)
        if isinstance(self._features, RunningCentring):
            return centre_running(self._features, self._place.to(X, "float64"))
        return self._frozen_rows(X)

    def _frozen_rows(self, X: Any) -> Any:
        """Return rows preprocessed as they are now, where the sums are."""
        features, place = self._features.freeze(), self._place
        if place is None:
            return features.transform(np.ascontiguousarray(X, self._dtype))
        return place_features(features, place, "float64")(place.to(X, "float64"))

    def _move_to(self, place: Place) -> None:
        """Keep the sums on a device from now on."""
        if not isinstance(self._sums, DeviceSums):
            self._flush()
            self._sums = DeviceSums(self._sums, place)

    def _flush(self) -> None:
        """Add the rows that wait to the sums."""
        self._sums.flush(self._classes)
        self._solved = None

    def _members(self, targets: Targets, weights: Weights) -> Members:
        """Return the classes and the weights of rows."""
        assert targets is not None
        if not isinstance(targets, LabelSets):
            numbers = self._classes.numbers(targets)
            owner, share = np.arange(len(numbers)), np.ones(len(numbers))
        else:
            sets = [np.unique([self._classes.number(label) for label in labels]) for labels in targets]
            sizes = np.array([len(numbers) for numbers in sets])
            owner, numbers = np.repeat(np.arange(len(sets)), sizes), np.concatenate(sets).astype(np.intp)
            share = 1.0 / sizes[owner]
        return Members(owner, numbers, share, np.ones(len(targets)) if weights is None else weights)

    @abstractmethod
    def _make_classes(self, labels: list[int | str], settled: dict[int, int]) -> SettlingClasses:
        """Return a table of classes, some of which have settled on codewords."""
