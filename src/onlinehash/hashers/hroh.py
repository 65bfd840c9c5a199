"""HROH: Hadamard ridge online hashing, from sums that do not depend on the order of the stream."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.arrays import Place, is_on_device, to_host
from onlinehash._internal.threads import single_threaded_products
from onlinehash._internal.validation import check_choice, check_non_negative_int, check_positive, check_positive_int
from onlinehash.codebooks import make_codebook
from onlinehash.encoders import Calibration
from onlinehash.encoders.calibration import softmax
from onlinehash.encoders.shortlist import MOST_SCORED_CLASSES, Shortlist
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError
from onlinehash.features import Centring, Fourier, RunningCentring, place_features
from onlinehash.hashers._base import (
    Arrays,
    Changeable,
    Encoder,
    OnlineHasher,
    Rows,
    Weights,
    check_code_length,
)
from onlinehash.hashers._class_bits import SettlingClasses, check_sharpness, choose_sharpness, general_directions
from onlinehash.hashers._mixins import WithCodewords, median_squared_distance
from onlinehash.hashers._ridge import (
    CONSTANT,
    HOST,
    NOTHING,
    ROWS_PER_BLOCK,
    ROWS_PER_SUM,
    Members,
    RidgeSolution,
    RidgeStatistics,
    StreamSums,
    next_settling,
    on_host,
)
from onlinehash.types import Features, Labels, LabelSets, Signs, Targets

HEAD_ROWS = 256  # from which the bandwidth is taken


def _check_penalty(name: str, value: Any) -> None:
    if value is not None:
        check_positive(name, value)


def _check_balance(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) <= 1.0:
        raise InvalidInputError(f"{name}={value!r} is not a number from 0 to 1.")


class _Solution(NamedTuple):
    """The scores of classes, the codewords of all classes, and the parameters that were solved for."""

    ridge: RidgeSolution
    codewords: Signs
    solved_for: tuple[float | None, float, bool]


@dataclass(eq=False, repr=False, kw_only=True)
class HROH(WithCodewords):
    """Learn by ridge regression on classes and their codewords, from sums over the stream.

    With z = phi(x) the features of a row and t the codeword of its class, all that is kept is::

        A = sum z z^T,   S_c = sum of z over class c,   s = z (A + lambda I)^-1 S^T,   codes = sign(f(s) T)

    with s the scores of the classes, f(s) = expm1(beta s / max |s|) the same scores sharpened, and T the codewords.
    Sums have no order: a stream sorted by class costs nothing, two hashers :meth:`merge` into one, rows can be taken
    out again (:meth:`unlearn`), and the number of bits or the codebook can change later, without the data
    (:meth:`with_bits`, :meth:`with_codebook`). There is no learning rate, and the penalty lambda follows from the sums.

    By default phi(x) is the row, scaled to unit length, a constant, and 2048 random Fourier features of it. With m
    features in all, an instance costs O(m^2), a snapshot O(m^3 / 3) for each penalty
    that is compared. Memory is O(m^2): 64 MB for m = 2800.

    Rows of PyTorch or CuPy that are on a GPU are learned from there. The sums then stay on that GPU; later rows that
    are elsewhere are copied to it. A saved hasher is loaded into the memory of the host. Snapshots are the same on both
    sides.

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes.
    codebook : "ladder", "hadamard", "random", or mapping from label to -1/+1 codeword, default="ladder"
        Codewords have n_bits - general_bits bits. A row with several labels counts for each with an equal share.
    assignment : {"learned", "arrival"}, default="learned"
        Which class gets which of the codewords. "learned": similar classes, judged by the sums, get similar ones,
        which makes the bits easier to learn where there are more classes than bits. After 1024, 2048, 4096, ...
        instances every class that has at least 20 of them keeps its codeword. "arrival": in order of first appearance.
        A mapping is taken as it is.
    sharpness : "auto", float or None, default="auto"
        How much high scores outweigh low ones ("beta"). "auto" follows from the number of classes C and of class bits
        r: 2/3 ln(min(C, 1024) / 8) + 2 min(C, 256) / r^2; where that is below 1/4, the code is linear. With
        confidence_bits it is that times 1 + (16 / r)^2, and at least 2. None is the linear code, codes = sign(s T). May
        be changed at any time.
    general_bits : int, default=0
        How many of the bits are kept general, for classes that are never learned: directions of the row along which
        classes differ most, and rotations of them where a row has fewer features. Half of the bits is a good number.
        See the method's page.
    confidence_bits : int, default=0
        How many of the class bits are inverted at most where the class of a row is not sure, so that it is found after
        the sure ones. 2 is a good number at 16 and 32 class bits. May be changed at any time. See the method's page.
    features : {"fourier", "none"}, default="fourier"
        What goes beside the row itself: random Fourier features, by fast Hadamard transforms, or nothing.
    n_components : int, default=2048
        Number of Fourier features.
    bandwidth : float, optional
        Squared width ("sigma^2") of the Gaussian kernel. By default the median squared distance in the first 256 rows,
        which are kept until then. Give it where hashers must agree before they have seen anything.
    alpha : float, optional
        The penalty ("lambda"). By default chosen from the sums by generalised cross-validation; then, where classes
        have fewer than 50 rows on average, class means have a say in the scores, the more the fewer the rows per class,
        and less with more than 256 classes. If it is given, or with ``sharpness=None``, scores are those of regression
        alone. It is applied last and may be changed at any time.
    balance : float, default=0.5
        How much classes with many rows outweigh those with few, from 0 (not at all) to 1 (as they are): a class of n
        rows counts as n^balance, and all together as many as there are. It is applied last and may be changed at any
        time.
    temperature : float, default=0.05
        "T" of :meth:`predict_proba`: softmax(s / T). May be changed at any time.
    decay : float, default=1.0
        Factor on everything learned before, per instance, for streams that drift. 0.9999 forgets half in about 7000
        instances.
    preprocess : "unit", "running", "none", or array-like of shape (n_features,), default="unit"
        Unit length, after subtracting the mean given, if any. The constant feature does the centring. "running"
        depends on the order of the stream, and rows cannot be unlearned under it.
    random_state : int, Generator, RandomState or None, default=None
    output : {"codes", "bits", "signs"}, default="codes"
        As in :class:`HCOH`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in order of first appearance.
    codewords_ : ndarray of int8, shape (n_classes, n_bits - general_bits)
        Their codewords.
    n_unlearned_ : int
        Number of rows that were unlearned.
    sharpness_ : float
        Sharpness of a snapshot taken now; 0 is the linear code.
    alpha_ : float
        Penalty of the regression in a snapshot taken now.

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
    unlearns: ClassVar[bool] = True
    merges: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    learns_on_device: ClassVar[bool] = True
    _saved = ("n_unlearned_", "_classes.settled")
    changeable: ClassVar[Changeable] = {
        **OnlineHasher.changeable,
        "alpha": _check_penalty,
        "balance": _check_balance,
        "confidence_bits": check_non_negative_int,
        "sharpness": check_sharpness,
        "temperature": check_positive,
    }

    codebook: str | Mapping[int | str, ArrayLike] = "ladder"
    assignment: str = "learned"
    sharpness: str | float | None = "auto"
    general_bits: int = 0
    confidence_bits: int = 0
    features: str = "fourier"
    n_components: int = 2048
    bandwidth: float | None = None
    alpha: float | None = None
    balance: float = 0.5
    temperature: float = 0.05
    decay: float = 1.0
    preprocess: str | ArrayLike = "unit"

    # ------------------------------------------------------------------ learning

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Discard what was learned and learn from X; see :meth:`partial_fit`."""
        return self._fit(X, y, sample_weight)

    def partial_fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from the next instances of the stream: one row or many.

        Parameters
        ----------
        X, y : as in every hasher
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights, not all of them 0. A row of weight 2 adds as much to the sums, and to the running mean
            of ``preprocess="running"``, as two rows; a row of weight 0 is left out, and so is its class. Instances are
            counted as rows, whatever their weights. With a running mean, one row of weight 2 is not exactly two rows:
            the mean moves between these.
        """
        self._absorb(*self._check_next(X, y, sample_weight))
        self._keep_names(X)
        return self

    def _prepare(self, n_features: int, dtype: np.dtype[Any], seed: int) -> None:
        super()._prepare(n_features, getattr(self, "_dtype", dtype), seed)  # an empty clone has its precision already

    def _start(self, n_features: int) -> None:
        check_choice("assignment", self.assignment, ("learned", "arrival"))
        check_choice("features", self.features, ("fourier", "none"))
        check_positive_int("n_components", self.n_components)
        if self.bandwidth is not None:
            check_positive("bandwidth", self.bandwidth)
        if not 0.0 < check_positive("decay", self.decay) <= 1.0:
            raise InvalidInputError(f"decay={self.decay!r} is more than 1; what came before cannot gain weight.")
        self._n_features = n_features
        self._classes: SettlingClasses = self._make_classes()
        self.n_unlearned_ = 0
        self._solved: _Solution | None = None
        if not self._head_size():
            self._make_sums(self.bandwidth)

    def _make_classes(self) -> SettlingClasses:
        n_general = check_non_negative_int("general_bits", self.general_bits)
        if n_general >= self.n_bits:
            raise InvalidInputError(
                f"general_bits={n_general} leaves no bit for classes, of n_bits={self.n_bits}; use fewer."
            )
        codebook = make_codebook(self.codebook, self._n_class_bits, self.seed_)
        learned = self.assignment == "learned" and not isinstance(self.codebook, Mapping)
        return SettlingClasses(codebook, n_compared=self._n_class_bits if learned else 0)

    @property
    def _n_class_bits(self) -> int:
        return self.n_bits - self.general_bits

    def _head_size(self) -> int:
        return HEAD_ROWS if self.features == "fourier" and self.bandwidth is None else 0

    def _open(self, head: Features, targets: Targets) -> None:
        self._make_sums(median_squared_distance(head))

    def _make_sums(self, bandwidth: float | None) -> None:
        """Fix the feature map, and start the sums of its outputs."""
        self._map: Fourier | None = None
        if self.features == "fourier":
            assert bandwidth is not None
            self._map = Fourier.draw(self._n_features, self.n_components, float(bandwidth), self.seed_)
        self._sums = StreamSums(self._n_features, self._map, self.decay)

    def _learn(self, X: Features, targets: Targets, weights: Weights) -> None:
        self._solved = None
        if is_on_device(X) and self._sums.place == HOST:
            self._flush()
            self._sums = self._sums.moved_to(Place.of(X))
        self._sums.learn(self._centred(X, weights), self._members(targets, weights), self._classes)

    # ------------------------------------------------------------------ hashing

    @property
    def codewords_(self) -> NDArray[np.int8]:
        """The codeword of each class, in the order of ``classes_``; provisional until the class keeps it."""
        self._demand_learned()
        words = self._completed()._solution().codewords if self._classes.provisional else self._classes.codewords
        return words.copy()

    @property
    def sharpness_(self) -> float:
        """Sharpness of a snapshot taken now; 0 is the linear code."""
        self._demand_learned()
        return self._completed()._sharpness()

    @property
    def alpha_(self) -> float:
        """Penalty of the regression in a snapshot taken now."""
        self._demand_learned()
        return self._completed()._solution().ridge.penalty

    def _sharpness(self) -> float:
        n_classes = len(self._seen())
        if self.sharpness == "auto":
            return choose_sharpness(n_classes, self._n_class_bits, self.confidence_bits)
        return float(self.sharpness or 0.0) if n_classes else 0.0

    def _seen(self) -> NDArray[np.intp]:
        """Return the numbers of the classes that have rows, those that wait included."""
        return np.flatnonzero(self._sums.counts(len(self._classes)) > NOTHING)

    def _encoder(self) -> Encoder:
        ridge, words, _ = self._solution()
        seen = self._seen()  # a class that was unlearned leaves no trace
        weights, words = ridge.columns[:, seen], words[seen]
        intercept = CONSTANT * weights[-1]
        weights = weights[:-1]
        if self.general_bits:
            statistics = self._sums.complete(self._n_features)
            directions, offset = general_directions(
                statistics, self._in_order(statistics), self.general_bits, self.seed_
            )
            directions = np.pad(directions, ((0, len(weights) - len(directions)), (0, 0)))
            weights, intercept = np.hstack([weights, directions]), np.concatenate([intercept, offset])
        frozen, n_classes, shortlist = self._features.freeze(), len(words), None
        if n_classes > MOST_SCORED_CLASSES:
            columns, offset = weights[:, :n_classes], intercept[:n_classes]
            shortlist = Shortlist.fit(columns, offset, partial(ridge.products, seen), self.seed_, self._dtype)
        return Encoder(
            weights.astype(self._dtype, order="C"),
            intercept.astype(self._dtype),
            frozen if self._map is None else replace(self._map, inner=frozen),
            self.version_,
            self.name,
            codewords=words,
            sharpness=self._sharpness(),
            classes=tuple(map(self._classes.labels.__getitem__, seen)),
            calibration=Calibration(self.temperature),
            shortlist=shortlist,
            confidence_bits=self.confidence_bits,
        )

    def _solution(self) -> _Solution:
        """Return the solution for all rows, a deterministic function of the sums and of the rows that wait."""
        angles = self.alpha is None and bool(self.sharpness)
        wanted = self.alpha, self.balance, angles
        if self._solved is None or self._solved.solved_for != wanted:
            statistics = self._sums.complete()
            words = self._classes.assigned(statistics)
            statistics.grow(len(self._classes))
            classes = self._in_order(statistics)
            ridge = RidgeSolution(statistics, self.balance, self.alpha, self.seed_, classes, angles)
            self._solved = _Solution(ridge, words, wanted)
        return self._solved

    def _in_order(self, statistics: RidgeStatistics) -> NDArray[np.intp]:
        """Return the classes that have rows by their labels: an order that does not depend on the stream's."""
        labels = self._classes.labels
        return np.array(sorted(statistics.seen, key=lambda number: labels[number]), np.intp)

    # ------------------------------------------------------------------ classes

    def decision_function(self, X: ArrayLike) -> Features:
        """Return the scores of the classes, shape (n_samples, n_classes), in the order of ``classes_``.

        A class of which everything was unlearned has -inf.
        """
        scores = self.snapshot().class_scores(X)
        scores = to_host(scores) if is_on_device(scores) else scores
        seen = self._completed()._seen()
        if not len(seen):
            raise InvalidInputError("Everything that was learned was unlearned; no class is left to score.")
        every = np.full((len(scores), len(self._classes)), -np.inf, scores.dtype)
        every[:, seen] = scores
        return every

    def predict(self, X: ArrayLike) -> Labels:
        """Return the class with the highest score of every row.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from onlinehash import HROH
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = HROH(n_bits=16, n_components=256, random_state=0).partial_fit(X[:1000], y[:1000])
        >>> bool((hasher.predict(X[1000:]) == y[1000:]).mean() > 0.95)
        True
        """
        best: Labels = self.classes_[self.decision_function(X).argmax(axis=1)]
        return best

    def predict_proba(self, X: ArrayLike) -> Features:
        """Return the probabilities of the classes, shape (n_samples, n_classes), in the order of ``classes_``."""
        return softmax(self.decision_function(X), self.temperature)

    def leave_one_out(self, X: ArrayLike, y: Any) -> Features:
        """Return the scores that learned rows would have, had they not been learned.

        They follow from the sums, without learning again: each row costs O(m^2). They show what scores are worth, and
        which labels the other rows contradict. Rows that were not learned get scores that are too low. With
        ``balance=1`` and ``alpha`` given they are those of a hasher that never saw the row, to rounding; otherwise
        nearly: the penalty, the factor that keeps the total of the balanced counts, and the weight of class means and
        their sizes, but for those of the row's own classes, are those of all rows.

        Parameters
        ----------
        X, y : as they were learned, with weight 1; needs ``decay=1`` and no running mean

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``. A class of which everything was unlearned has -inf, and the class of a single
            row has 0 without it.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from onlinehash import HROH
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = HROH(n_components=128, random_state=0).partial_fit(X[:500], y[:500])
        >>> without = hasher.leave_one_out(X[:500], y[:500])
        >>> bool((hasher.classes_[without.argmax(axis=1)] == y[:500]).mean() > 0.9)
        True
        """
        self._demand_learned()
        self._demand_lasting_rows()
        rows, labelled, _ = self._check_next(X, y, None)
        if labelled is not None and not labelled.all():
            raise InvalidLabelsError("y has rows without a label; scores without a row follow from its label.")
        final, members, parts = self._completed(), self._learned_members(rows.targets, None), []
        seen = final._seen()
        if len(gone := np.setdiff1d(members.number, seen)):
            raise InvalidLabelsError(f"All rows of class {self._classes.labels[gone[0]]!r} were unlearned.")
        with single_threaded_products():
            ridge, sums = final._solution().ridge, final._sums
            for start in range(0, rows.X.shape[0], ROWS_PER_SUM):
                stop = min(start + ROWS_PER_SUM, rows.X.shape[0])
                mapped = sums.mapped(final._frozen_rows(rows.X[start:stop, :]))
                parts.append(ridge.scores_without(mapped, members.between(start, stop)))
        scores = np.concatenate(parts)
        scores[:, np.delete(np.arange(scores.shape[1]), seen)] = -np.inf
        return scores

    # ------------------------------------------------------------------ what sums allow

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
        if (features := self._completed()._map) is not None:
            twin.bandwidth = features.bandwidth
        twin.n_features_in_, twin._dtype = self.n_features_in_, self._dtype
        if hasattr(self, "feature_names_in_"):
            twin.feature_names_in_ = self.feature_names_in_
        return twin

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
            n_before, first = 0, ROWS_PER_BLOCK
        elif self._head is not None:
            n_before, first = self.n_samples_seen_, self._head_size() - self.n_samples_seen_
        else:
            sums = self._sums
            n_before = sums.n_summed + sums.n_waiting
            first = -sums.n_waiting % min(ROWS_PER_BLOCK, next_settling(sums.n_summed) - sums.n_summed)
        cuts = [min(first, n_rows)]
        while (cut := next_settling(n_before + cuts[-1]) - n_before) <= n_rows:
            cuts.append(cut)
        if n_rows - cuts[-1] >= ROWS_PER_BLOCK:
            cuts.append(n_rows - (n_rows - cuts[-1]) % ROWS_PER_BLOCK)
        return cuts

    def merge(self, other: HROH) -> Self:
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

    @property
    def _can_unlearn(self) -> bool:
        return self.decay == 1.0 and not (isinstance(self.preprocess, str) and self.preprocess == "running")

    def unlearn(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Take rows out again that were learned: afterwards scores are as if they had never been seen.

        A class keeps its codeword, if it had settled on one, even if nothing of it is left, in case it comes back.
        Where classes outnumber bits, codes may therefore differ from those of a hasher that never saw the rows.

        What cannot have been learned is refused, and nothing has changed then: classes never seen, more rows of a class
        than were learned, and rows without which the sums are those of no rows at all. The last is found by factoring
        the new sums on trial, on a copy: O(m^3 / 3) per call, as much as a snapshot, so unlearn many rows at once.
        It cannot be known whether a row was learned that resembles others of its class: the sums keep no rows. To
        unlearn such a row makes the sums wrong without an error.

        Parameters
        ----------
        X, y, sample_weight : as they were learned
        """
        trial = copy.deepcopy(self, {id(value): value for value in self.get_params(deep=False).values()})
        rows, members = trial._learned_rows(X, y, sample_weight)
        if not rows.X.shape[0]:
            return self
        trial._flush()
        trial._sums.subtract(trial._frozen_rows(rows.X), members)
        trial.n_unlearned_ += rows.X.shape[0]
        self.__dict__.update(trial.__dict__)
        return self

    def _unlearn_learned(self, X: ArrayLike, y: Any) -> Self:
        rows, members = self._learned_rows(X, y, None)
        self._solved = None
        self._sums.learn(self._frozen_rows(rows.X), members.negative(), self._classes)
        self.n_unlearned_ += rows.X.shape[0]
        return self

    def _learned_rows(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None) -> tuple[Rows, Members]:
        """Return rows that are to be unlearned, and their classes; raise if they cannot have been learned."""
        self._demand_learned()
        self._demand_lasting_rows()
        rows, counted, _ = self._check_next(X, y, sample_weight)
        if counted is not None:
            rows = rows.take(counted)
        if not rows.X.shape[0]:
            return rows, Members.of_none()
        members = self._learned_members(rows.targets, rows.weights)
        if self._head is not None:
            self._learn_waiting()
        self._sums.demand_enough(members, self._classes.labels)
        return rows, members

    def relabel(self, label: int | str, into: int | str) -> Self:
        """Give all rows of a class another label, which other rows may have: then the two classes are one.

        It is as if these rows had been learned with that label; a row that had both counts once. The version rises by
        one, since codes change.

        Examples
        --------
        >>> from onlinehash import HROH
        >>> hasher = HROH(8, n_components=8, random_state=0)
        >>> hasher.partial_fit([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], ["cat", "kitten", "dog"])
        HROH(n_bits=8, n_components=8, random_state=0)
        >>> hasher.relabel("kitten", into="cat").predict([[0.9, 0.1]])
        array(['cat'], dtype='<U6')
        """
        self._demand_learned()
        self._demand_same_parameters()
        number = self._classes.number(label)
        if number is None or number not in self._completed()._seen():
            raise InvalidLabelsError(f"No row of class {label!r} was learned; there is nothing to relabel.")
        if label != into:
            whole = self._completed()
            whole._classes.admit(np.array([into]))
            whole._flush()
            whole._sums.statistics.move(number, int(whole._classes.numbers(np.array([into]))[0]))
            whole.n_unlearned_ += 1
            self.__dict__.update(whole.__dict__)
        return self

    def _demand_lasting_rows(self) -> None:
        """Raise if a row that was learned cannot be taken out again."""
        self._demand_same_parameters()
        if self.decay < 1.0:
            raise InvalidInputError(
                f"With decay={self.decay} a row's weight has faded; only with decay=1 can rows be taken out again."
            )
        if isinstance(self._features, RunningCentring):
            raise InvalidInputError(
                "The running mean has moved since; use preprocess='unit' to take rows out again later."
            )

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
        twin._classes = twin._make_classes()
        twin._classes.restore(self._classes.labels)
        twin._solved = None
        return twin

    def _completed(self) -> Self:
        """Return this hasher, or a copy whose feature map is fixed by the rows seen so far, if it is not fixed yet."""
        if self._head is None:
            return self
        twin = copy.deepcopy(self)
        twin._learn_waiting()
        return twin

    def _demand_same_map(self, other: HROH) -> None:
        self._demand_map_of_its_own()
        other._demand_map_of_its_own()
        mine, theirs = self._map_settings(), other._map_settings()
        for name, value in mine.items():
            if name in theirs and value != theirs[name]:
                raise InvalidInputError(
                    f"The two hashers have different feature maps: {name} is {value!s:.80} here and "
                    f"{theirs[name]!s:.80} there. Make the second from the first by empty_clone(), or give both the "
                    "same random_state, bandwidth and preprocess."
                )

    def _demand_map_of_its_own(self) -> None:
        """Raise if the map follows one stream's rows, so that no other hasher can have it."""
        if isinstance(self._features, RunningCentring):
            raise InvalidInputError("A running mean belongs to one stream; merge with preprocess='unit'.")

    def _map_settings(self) -> dict[str, Any]:
        """Return what makes the map of a row, by name."""
        settings: dict[str, Any] = {"features": self.features, "number of columns of X": self.n_features_in_}
        if self._map is not None:
            bandwidth = self._map.bandwidth
            settings |= {"random_state": self.seed_, "bandwidth": bandwidth, "n_components": self.n_components}
        settings["preprocess"] = self._features.mean.tolist() if isinstance(self._features, Centring) else "none"
        if hasattr(self, "feature_names_in_"):
            settings["names of the columns of X"] = list(self.feature_names_in_)
        return settings

    def _centred(self, X: Any, weights: Weights) -> Any:
        """Return the next rows of the stream preprocessed, where the sums are; a running mean counts their weights."""
        if not isinstance(self._features, RunningCentring):
            return self._frozen_rows(X)
        rows = np.ascontiguousarray(on_host(X), self._dtype)  # row after row: not what a GPU is for
        centred = np.empty_like(rows)
        self._features.learn(rows, centred, weights)
        return centred

    def _frozen_rows(self, X: Any) -> Any:
        """Return rows preprocessed as they are now, where the sums are."""
        features, place = self._features.freeze(), self._sums.place
        if place == HOST:
            return features.transform(np.ascontiguousarray(on_host(X), self._dtype))
        return place_features(features, place, "float64")(place.to(X, "float64"))

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
            sets = [np.unique(self._classes.numbers(np.array(labels))) for labels in targets]
            sizes = np.array([len(numbers) for numbers in sets])
            owner, numbers = np.repeat(np.arange(len(sets)), sizes), np.concatenate(sets).astype(np.intp)
            share = 1.0 / sizes[owner]
        return Members(owner, numbers, share, np.ones(len(targets)) if weights is None else weights)

    def _learned_members(self, targets: Targets, weights: Weights) -> Members:
        """Return the classes and the weights of rows that were learned."""
        try:
            return self._members(targets, weights)
        except KeyError as error:
            raise InvalidLabelsError(f"No row of class {error.args[0]!r} was ever learned.") from error

    # ------------------------------------------------------------------ saving

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        state, arrays = super()._state()
        if self._head is not None:
            return state, arrays
        sums, arrays = self._sums.state()
        return state | sums | {"bandwidth": self._map.bandwidth if self._map else None}, arrays

    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        super()._restore(state, arrays)
        self._classes.restore_settled()
        if "bandwidth" in state:
            self._make_sums(state["bandwidth"])
            self._sums.restore(state, arrays)
