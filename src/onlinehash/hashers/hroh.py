"""HROH: Hadamard ridge online hashing, from sums that do not care about the order of the stream."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack

from onlinehash._files import Arrays
from onlinehash._validation import check_choice, check_positive, check_positive_int
from onlinehash.codebooks import Codebook, JoinedCodebook, make_codebook
from onlinehash.encoders import Encoder
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError
from onlinehash.features import Anchors, Centring, FeatureMap, Fourier, HadamardFourier, RunningCentring, WithInputs
from onlinehash.hashers._anchors import head_rows, median_squared_distance
from onlinehash.hashers._base import OnlineHasher
from onlinehash.hashers._classes import WithCodewords
from onlinehash.hashers._codeword_assignment import SettlingClasses, next_settling
from onlinehash.hashers._parameters import Changeable, check_code_length
from onlinehash.hashers._ridge import NOTHING, Matrix, Members, RidgeStatistics
from onlinehash.hashers._rows import Weights, check_weights
from onlinehash.hashers._solution import RidgeSolution
from onlinehash.hashers._traits import Traits
from onlinehash.hashers._weighted import WeightedHasher
from onlinehash.types import Features, LabelSets, Signs, Targets

_BLOCK = 256  # rows that wait to be summed together
_MANY_ROWS = 1024  # summed at once where they come at once
_FEW = 16  # the rows that wait are few when the sums hold this many times as many
_CONSTANT = 0.5  # value of the feature that does the centring: the penalty on it is soft
_HEAD = 256  # rows from which the bandwidth is taken
_ROUNDING = 1e-10  # of the sums of squares, after any number of additions


def _check_penalty(name: str, value: Any) -> None:
    if value is not None:
        check_positive(name, value)


class _Solved(NamedTuple):
    """A solution, the penalty as it was given, and the codewords it was solved for."""

    alpha: float | None
    solution: RidgeSolution
    codewords: Signs


class HROH(WeightedHasher, WithCodewords):
    """Learn by ridge regression on class codewords, from sums over the stream.

    With z = phi(x) the features of a row and t the codeword of its class, all that is kept is::

        A = sum z z^T,   S_c = sum of z over class c,   W = (A + lambda I)^-1 S^T T,   codes = sign(z W)

    Sums have no order: a stream sorted by class costs nothing, two hashers :meth:`merge` into one, rows can be taken
    out again (:meth:`unlearn`), and the number of bits or the codebook can change later, without the data
    (:meth:`with_bits`, :meth:`with_codebook`). There is no learning rate, and the penalty lambda follows from the sums.

    By default phi(x) is the row, scaled to unit length, a constant, and 2048 random Fourier features of it. With m
    features in all, an instance costs O(m^2), a snapshot O(m^3 / 3); a snapshot soon after another only updates
    it. Memory is O(m^2): 64 MB for m = 2800.

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes.
    codebook : "ladder", "hadamard", "random", or mapping from label to -1/+1 codeword of n_bits, default="ladder"
        A row with several labels is learned towards the mean of their codewords.
    assignment : {"learned", "arrival"}, default="learned"
        Which class gets which of the codewords. "learned": similar classes get similar ones, as far as the sums tell,
        which makes the bits easier to learn where there are more classes than bits. After 1024, 2048, 4096, ...
        instances every class that has 20 of them keeps its codeword for good. "arrival": in order of first sight. A
        mapping is taken as it is.
    structure_bits : int, default=0
        How many of the bits are kept general, for classes that are never learned: they come from a strongly
        penalised regression on the row alone, without constant. Half of the bits is a good number. See the
        method's page.
    features : {"fourier", "dense_fourier", "anchors", "none"}, default="fourier"
        What goes beside the row itself: random Fourier features, by fast Hadamard transforms or by a
        product with a random matrix; Gaussian similarities to the head of the stream; or nothing.
    n_components : int, default=2048
        Number of these features.
    bandwidth : float, optional
        Squared width ("sigma^2") of the Gaussian kernel. By default the median squared distance in the first 256 rows,
        which are kept until then. Give it where hashers must agree before they have seen anything.
    alpha : float, optional
        The penalty ("lambda"). By default chosen from the sums by generalised cross-validation. It is applied last and
        may be changed at any time.
    decay : float, default=1.0
        What came before counts this much less with every instance, for streams that drift. 0.9999 forgets half in
        some 7000 instances.
    preprocess : "unit", "running", "none", or array-like of shape (n_features,), default="unit"
        Unit length, after subtracting the mean given, if any. The constant feature does the centring. "running"
        depends on the order of the stream, and rows cannot be forgotten under it.
    random_state : int, Generator, RandomState or None, default=None
    output : {"codes", "bits", "signs"}, default="codes"
        As in :class:`HCOH`.

    Attributes
    ----------
    n_unlearned_ : int
        Number of rows that were unlearned.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from onlinehash import HROH
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = HROH(n_bits=16, random_state=0).partial_fit(X[:1000], y[:1000])
    >>> bool(hasher.score(X[1000:], y[1000:]) > 0.9)
    True
    >>> hasher.with_bits(8).snapshot()
    <Encoder hroh version 1000: 64 features to 8 bits>
    """

    name: ClassVar[str] = "hroh"
    traits: ClassVar[Traits] = Traits(
        takes="single rows, in any order",
        cost="O(m^2), a snapshot O(m^3); m = d + 2048",
        memory="O(m^2)",
        shines="most labelled streams; sorted ones, new classes, few bits",
    )
    unlearns: ClassVar[bool] = True
    merges: ClassVar[bool] = True
    changeable: ClassVar[Changeable] = {**OnlineHasher.changeable, "alpha": _check_penalty}

    def __init__(
        self,
        n_bits: int = 32,
        *,
        codebook: str | Mapping[int | str, ArrayLike] = "ladder",
        assignment: str = "learned",
        structure_bits: int = 0,
        features: str = "fourier",
        n_components: int = 2048,
        bandwidth: float | None = None,
        alpha: float | None = None,
        decay: float = 1.0,
        preprocess: str | ArrayLike = "unit",
        random_state: Any = None,
        output: str = "codes",
    ) -> None:
        self.n_bits = n_bits
        self.codebook = codebook
        self.assignment = assignment
        self.structure_bits = structure_bits
        self.features = features
        self.n_components = n_components
        self.bandwidth = bandwidth
        self.alpha = alpha
        self.decay = decay
        self.preprocess = preprocess
        self.random_state = random_state
        self.output = output

    # ------------------------------------------------------------------ learning

    def _prepare(self, n_features: int, dtype: np.dtype[Any], seed: int) -> None:
        super()._prepare(n_features, getattr(self, "_dtype", dtype), seed)  # an empty clone has its precision already

    def _start(self, n_features: int) -> None:
        check_choice("assignment", self.assignment, ("learned", "arrival"))
        check_choice("features", self.features, ("fourier", "dense_fourier", "anchors", "none"))
        check_positive_int("n_components", self.n_components)
        if self.bandwidth is not None:
            check_positive("bandwidth", self.bandwidth)
        if not 0.0 < check_positive("decay", self.decay) <= 1.0:
            raise InvalidInputError(f"decay={self.decay!r} is more than 1; what came before cannot gain weight.")
        self._classes: SettlingClasses = self._make_classes([], {})
        self._n_features = n_features
        self.n_unlearned_ = 0
        self._map: WithInputs | None = None
        self._solved: _Solved | None = None
        if self.features == "none":
            self._make_room(n_features)
        elif self.features != "anchors" and self.bandwidth is not None:
            self._set_map(self._draw_map(self.bandwidth))

    def _make_classes(self, labels: list[int | str], settled: dict[int, int]) -> SettlingClasses:
        learned = self.assignment == "learned" and not isinstance(self.codebook, Mapping)
        n_class_bits = self.n_bits - self.structure_bits
        return SettlingClasses(self._make_codebook(), labels, settled, n_compared=n_class_bits if learned else 0)

    def _make_codebook(self) -> Codebook:
        """Return the codewords of the class bits, followed by those of the structure bits."""
        n_structure = self.structure_bits
        if isinstance(n_structure, bool) or not isinstance(n_structure, (int, np.integer)) or n_structure < 0:
            raise InvalidInputError(f"structure_bits={n_structure!r} is not an integer of at least 0.")
        if n_structure > self.n_bits:
            raise InvalidInputError(
                f"structure_bits={n_structure} is more than n_bits={self.n_bits}; they are some of these."
            )
        if isinstance(self.codebook, Mapping) or n_structure in {0, self.n_bits}:
            return make_codebook(self.codebook, self.n_bits, self.seed_)
        lengths = (self.n_bits - n_structure, n_structure)
        return JoinedCodebook(*(make_codebook(self.codebook, n_bits, self.seed_) for n_bits in lengths))

    def _head_size(self) -> int:
        if self.features == "none" or self._map is not None:
            return 0
        return max(_HEAD, self.n_components) if self.features == "anchors" else _HEAD

    def _open(self, head: Features, targets: Targets) -> None:
        rows = head_rows(self._features, head)
        bandwidth = self.bandwidth or median_squared_distance(rows[:_HEAD])
        anchors = rows[: self.n_components] if self.features == "anchors" else None
        self._set_map(self._draw_map(bandwidth, anchors))

    def _draw_map(self, bandwidth: float, anchors: Features | None = None) -> WithInputs:
        self._bandwidth = float(bandwidth)
        if anchors is not None:
            return WithInputs(Anchors(anchors.copy(), 2.0 * self._bandwidth))
        kind = HadamardFourier if self.features == "fourier" else Fourier
        return WithInputs(kind.draw(self._n_features, self.n_components, self._bandwidth, self.seed_))

    def _set_map(self, features: WithInputs) -> None:
        self._map = features
        self._make_room(features.n_outputs)

    def _make_room(self, n_mapped: int) -> None:
        """Make empty sums, and a block of rows that wait to be summed."""
        self._statistics = RidgeStatistics(n_mapped + 1)
        self._rows: Matrix = np.full((_BLOCK, n_mapped + 1), _CONSTANT)
        self._waiting = Members.of_none()
        self._n_waiting = 0
        self._n_summed = 0

    def _learn(self, X: Features, targets: Targets, weights: Weights) -> None:
        rows = self._preprocessed(X)
        members = self._members(targets, weights)
        start = 0
        while start < len(X):
            to_settling = next_settling(self._n_summed) - self._n_summed
            if not self._n_waiting and len(X) - start >= _MANY_ROWS:
                stop = start + min(_MANY_ROWS, to_settling)
                self._sum(self._mapped(rows[start:stop]), members.between(start, stop))
            else:
                block = min(_BLOCK, to_settling)
                stop = min(len(X), start + block - self._n_waiting)
                last = self._n_waiting + stop - start
                self._write_mapped(rows[start:stop], self._rows[self._n_waiting : last])
                self._waiting = self._waiting.followed_by(members.between(start, stop), self._n_waiting)
                self._n_waiting = last % block
                if last == block:
                    self._sum(self._rows[:block], self._waiting)
                    self._waiting = Members.of_none()
            start = stop

    def _mapped(self, rows: Features) -> Matrix:
        """Return the features of preprocessed rows, the constant last."""
        mapped = np.full((len(rows), self._rows.shape[1]), _CONSTANT)
        self._write_mapped(rows, mapped)
        return mapped

    def _write_mapped(self, rows: Features, out: Matrix) -> None:
        """Write the features of preprocessed rows; they are computed in the precision of the stream."""
        if self._map is None:
            out[:, :-1] = rows
        else:
            mapped = np.empty((len(rows), self._map.n_outputs), rows.dtype)
            self._map.write(rows, mapped)
            out[:, :-1] = mapped

    def _members(self, targets: Targets, weights: Weights) -> Members:
        """Return the classes of rows, and what each row counts."""
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

    def _sum(self, rows: Matrix, members: Members) -> None:
        """Add rows to the sums; now and then, let classes settle on their codewords."""
        self._add_to(self._statistics, rows, members)
        self._count(len(rows))

    def _count(self, n_rows: int) -> None:
        """Count instances that were added to the sums; when enough have been, let classes settle."""
        self._solved = None
        settling = next_settling(self._n_summed)
        self._n_summed += n_rows
        if self._n_summed >= settling and self._classes.provisional:
            self._classes.settle(self._statistics)

    def _add_to(self, statistics: RidgeStatistics, rows: Matrix, members: Members) -> None:
        """Add rows to sums, which fade by the decay of as many instances."""
        if self.decay < 1.0:
            members = members.times(self.decay ** np.arange(len(rows) - 1.0, -1.0, -1.0))
        statistics.add(rows, members, decay=self.decay ** len(rows))

    def _flush(self) -> None:
        """Take the rows that wait into the sums."""
        if self._n_waiting:
            self._sum(self._rows[: self._n_waiting], self._waiting)
            self._waiting, self._n_waiting = Members.of_none(), 0

    # ------------------------------------------------------------------ hashing

    @property
    def codewords_(self) -> NDArray[np.int8]:
        """The codeword of each class, in the order of ``classes_``; provisional until the class has settled on it."""
        self._demand_learned()
        words = self._completed()._solution()[1] if self._classes.provisional else self._classes.codewords
        return words.copy()

    def _encoder(self) -> Encoder:
        weights, _ = self._solution()
        frozen = self._features.freeze()
        features: FeatureMap = frozen
        if self._map is not None:
            features = WithInputs(replace(self._map.curved, inner=frozen))
        return Encoder(
            weights[:-1].astype(self._dtype),
            (_CONSTANT * weights[-1]).astype(self._dtype),
            features,
            self.version_,
            self.name,
        )

    def _solution(self) -> tuple[Matrix, Signs]:
        """Return the weights for all rows, those that wait included, and the codewords they are learned towards.

        Both are a deterministic function of the sums and the rows that wait: few of these move the solution for the
        others, many are added to a copy. Only the solution for the sums is kept, for the next time.
        """
        rows = self._rows[: self._n_waiting]
        if self._n_waiting and (self.decay < 1.0 or _FEW * self._n_waiting > self._statistics.total):
            statistics = copy.deepcopy(self._statistics)
            self._add_to(statistics, rows, self._waiting)
            solved = self._solve(statistics)
            return solved.solution.weights(solved.codewords), solved.codewords
        if (kept := self._solved) is None or kept.alpha != self.alpha:
            self._solved = kept = self._solve(self._statistics)
        codewords = self._classes.followed_by_new(kept.codewords)
        if not self._n_waiting:
            return kept.solution.weights(codewords), codewords
        return kept.solution.with_rows(rows, self._waiting, codewords), codewords

    def _solve(self, statistics: RidgeStatistics) -> _Solved:
        codewords = self._classes.assigned(statistics)
        n_class_bits, penalty = self.n_bits - self.structure_bits, self.alpha or 0.0
        if n_class_bits and not penalty:
            penalty = statistics.choose_penalty(self.seed_, self._in_order(statistics))
        solution = RidgeSolution(statistics, codewords, n_class_bits, float(penalty), self._n_features)
        return _Solved(self.alpha, solution, codewords)

    def _in_order(self, statistics: RidgeStatistics) -> NDArray[np.intp]:
        """Return the classes that have rows by their labels: an order that does not depend on the stream's."""
        labels = self._classes.labels
        return np.array(sorted(statistics.seen, key=lambda number: labels[number]), np.intp)

    # ------------------------------------------------------------------ what sums allow

    def empty_clone(self) -> Self:
        """Return a hasher that has seen nothing but has the same feature map, so that the two can :meth:`merge`.

        It takes rows of the same width, and computes in the same precision. Without a ``bandwidth``, the map is fixed
        after 256 rows; a clone made before has that of the rows so far, so merge before this hasher learns more.

        Examples
        --------
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
        >>> HROH().split_points(5000)
        [256, 1024, 2048, 4096, 4864]
        """
        self._demand_same_parameters()
        if self.decay < 1.0:
            raise InvalidInputError(f"With decay={self.decay} the last rows count most; only decay=1 learns in parts.")
        if not self.__sklearn_is_fitted__():
            n_before, first = 0, _BLOCK
        elif self._head is not None:
            n_before, first = self.n_samples_seen_, self._head_size() - self.n_samples_seen_
        else:
            n_before = self._n_summed + self._n_waiting
            first = -self._n_waiting % min(_BLOCK, next_settling(self._n_summed) - self._n_summed)
        cuts = [min(first, n_rows)]
        while (cut := next_settling(n_before + cuts[-1]) - n_before) <= n_rows:
            cuts.append(cut)
        if n_rows - cuts[-1] >= _BLOCK:
            cuts.append(n_rows - (n_rows - cuts[-1]) % _BLOCK)
        return cuts

    def merge(self, other: HROH) -> Self:
        """Take in all that another hasher learned, as if this one had seen both streams.

        The two must have the same feature map: the same ``random_state``, ``features``, ``n_components`` and
        ``bandwidth``, or one is the other's :meth:`empty_clone`. Their codebooks need not be the same; this one's
        holds. Classes that only the other knows follow those known here, in its order. The other hasher is left as it
        is. Where to cut a stream so that merging its parts equals learning it in order: :meth:`split_points`.
        """
        if not isinstance(other, HROH):
            raise InvalidInputError(
                f"merge takes another HROH, not {type(other).__name__}; no other method's state is a sum."
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
        numbers = self._classes.numbers(labels)
        self._statistics.merge(other._statistics, numbers)
        self._count(other._n_summed)
        self.n_samples_seen_ += other.n_samples_seen_
        self.n_unlabelled_ += other.n_unlabelled_
        self.n_unlearned_ += other.n_unlearned_
        return self

    def unlearn(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Take rows out again that were learned: afterwards it is as if they had never been seen.

        A class of which nothing is left keeps its codeword, if it had settled on one, for the day it comes back.

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
        rows, targets, labelled = self._check_next(X, y)
        weights = check_weights(sample_weight, len(rows), labelled)
        if labelled is not None:
            rows, weights = rows[labelled], None if weights is None else weights[labelled]
            targets = targets.take(labelled) if isinstance(targets, LabelSets) else targets[labelled]  # type: ignore[index]
        if not len(rows):
            return self
        self._demand_known(targets)
        members = self._members(targets, weights)
        trial = self._twin()
        if trial._head is not None:
            trial._open_head()
        trial._demand_enough(members)
        trial._flush()
        trial._subtract(trial._features.freeze().transform(np.ascontiguousarray(rows, self._dtype)), members)
        trial.n_unlearned_ += len(rows)
        self.__dict__.update(trial.__dict__)
        return self

    def _subtract(self, rows: Features, members: Members) -> None:
        """Take preprocessed rows out of the sums; raise if what is left cannot be the sums of any rows."""
        before = float(np.trace(self._statistics.gram))
        for start in range(0, len(rows), _MANY_ROWS):
            stop = min(start + _MANY_ROWS, len(rows))
            self._statistics.add(self._mapped(rows[start:stop]), members.between(start, stop), sign=-1.0)
        self._solved = None
        # Rows may be computed a little differently, in their own precision, than when they were learned.
        taken = before - float(np.trace(self._statistics.gram))
        self._statistics.demand_sums_of_rows(float(np.sqrt(np.finfo(self._dtype).eps)) * taken + _ROUNDING * before)

    def with_bits(self, n_bits: int, structure_bits: int = 0) -> Self:
        """Return a hasher with another code length that has learned what this one has.

        It equals one that had that length from the start, where there are no more classes than bits; otherwise
        the codewords are chosen afresh from all that was learned.
        """
        return self._with(n_bits=check_code_length(n_bits), structure_bits=structure_bits)

    def _resized(self, n_bits: int) -> Self | None:
        return self.with_bits(n_bits, self.structure_bits) if self.__sklearn_is_fitted__() else None

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

    def _demand_same_map(self, other: HROH) -> None:
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

    def _demand_enough(self, doomed: Members) -> None:
        """Raise if a class has fewer rows than are to be forgotten."""
        n_classes = len(self._classes)
        learned, lost = self._waiting.counts(n_classes), doomed.counts(n_classes)
        learned[: len(self._statistics.counts)] += self._statistics.counts
        worst = int(np.argmin(learned - lost))
        if lost[worst] > learned[worst] + NOTHING:
            raise InvalidLabelsError(
                f"There are {lost[worst]:g} rows of class {self._classes.labels[worst]!r} to unlearn, but only "
                f"{learned[worst]:g} were learned."
            )

    # ------------------------------------------------------------------ saving

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        state: dict[str, Any] = {"labels": self._classes.labels, "n_unlearned": self.n_unlearned_}
        state["settled"] = list(self._classes.settled.items())
        if self._head is not None:
            return state, {}
        sums, waiting = self._statistics, self._waiting
        arrays: Arrays = {
            "gram": lapack.dtrttp(sums.gram, uplo="L")[0],
            "sums": sums.sums,
            "counts": sums.counts,
            "waiting_rows": self._rows[: self._n_waiting],
            "waiting_owner": waiting.owner,
            "waiting_number": waiting.number,
            "waiting_share": waiting.share,
            "waiting_weight": waiting.weight,
        }
        state |= {"total": sums.total, "squares": sums.squares, "n_summed": self._n_summed}
        if self._map is not None:
            state["bandwidth"] = self._bandwidth
            if isinstance(self._map.curved, Anchors):
                arrays["anchors"] = self._map.curved.anchors
        return state, arrays

    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        self._classes = self._make_classes(state["labels"], dict(state["settled"]))
        self.n_unlearned_ = state["n_unlearned"]
        if "gram" not in arrays:
            return
        if "bandwidth" in state:
            self._set_map(self._draw_map(state["bandwidth"], arrays.get("anchors")))
        sums = self._statistics
        sums.gram = lapack.dtpttr(len(sums.gram), arrays["gram"], uplo="L")[0]
        sums.sums, sums.counts = np.array(arrays["sums"]), np.array(arrays["counts"])
        sums.total, sums.squares, self._n_summed = state["total"], state["squares"], state["n_summed"]
        names = ("owner", "number", "share", "weight")
        self._waiting = Members(*(arrays[f"waiting_{name}"] for name in names))
        self._n_waiting = len(arrays["waiting_rows"])
        self._rows[: self._n_waiting] = arrays["waiting_rows"]
