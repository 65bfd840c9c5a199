"""HROH: Hadamard ridge online hashing, from sums that do not depend on the order of the stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._arrays import Place, is_on_device
from onlinehash._files import Arrays
from onlinehash._threads import single_threaded_factors
from onlinehash._validation import check_choice, check_non_negative_int, check_positive, check_positive_int
from onlinehash.codebooks import make_codebook
from onlinehash.encoders import Encoder
from onlinehash.exceptions import InvalidInputError
from onlinehash.features import Anchors, Fourier, HadamardFourier, WithInputs
from onlinehash.hashers._anchors import head_rows, median_squared_distance
from onlinehash.hashers._base import OnlineHasher
from onlinehash.hashers._codeword_assignment import SettlingClasses
from onlinehash.hashers._from_sums import FromSums
from onlinehash.hashers._general_bits import general_directions
from onlinehash.hashers._parameters import Changeable
from onlinehash.hashers._ridge import NOTHING, Matrix, RidgeStatistics
from onlinehash.hashers._rows import Mask, Rows, Weights
from onlinehash.hashers._scores import check_sharpness, choose_sharpness
from onlinehash.hashers._solution import RidgeSolution
from onlinehash.hashers._stream_sums import CONSTANT, StreamSums
from onlinehash.hashers._traits import Traits
from onlinehash.types import Features, Signs, Targets

_HEAD = 256  # rows from which the bandwidth is taken


def _check_penalty(name: str, value: Any) -> None:
    if value is not None:
        check_positive(name, value)


class _Solved(NamedTuple):
    """A solution, the penalty as it was given, and the codewords it was solved for."""

    alpha: float | None
    solution: RidgeSolution
    codewords: Signs


@dataclass(eq=False, repr=False, kw_only=True)
class HROH(FromSums):
    """Learn by ridge regression on classes and their codewords, from sums over the stream.

    With z = phi(x) the features of a row and t the codeword of its class, all that is kept is::

        A = sum z z^T,   S_c = sum of z over class c,   s = z (A + lambda I)^-1 S^T,   codes = sign(f(s) T)

    with s the scores of the classes, f(s) = expm1(beta s / max |s|) the same scores sharpened, and T the codewords.
    Sums have no order: a stream sorted by class costs nothing, two hashers :meth:`merge` into one, rows can be taken
    out again (:meth:`unlearn`), and the number of bits or the codebook can change later, without the data
    (:meth:`with_bits`, :meth:`with_codebook`). There is no learning rate, and the penalty lambda follows from the sums.

    By default phi(x) is the row, scaled to unit length, a constant, and 2048 random Fourier features of it. With m
    features in all, an instance costs O(m^2), a snapshot O(m^3 / 3); a snapshot soon after another only updates
    it. Memory is O(m^2): 64 MB for m = 2800.

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
        r: 2/3 ln(C / 8) + 2 C / r^2; where that is below 1/4, and beyond 1024 classes, the code is linear. None is the
        linear code, codes = sign(s T). May be changed at any time.
    general_bits : int, default=0
        How many of the bits are kept general, for classes that are never learned: directions of the row along which
        classes differ most. Half of the bits is a good number. See the method's page.
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
    learns_on_device: ClassVar[bool] = True
    changeable: ClassVar[Changeable] = {
        **OnlineHasher.changeable,
        "alpha": _check_penalty,
        "sharpness": check_sharpness,
    }

    codebook: str | Mapping[int | str, ArrayLike] = "ladder"
    assignment: str = "learned"
    sharpness: str | float | None = "auto"
    general_bits: int = 0
    features: str = "fourier"
    n_components: int = 2048
    bandwidth: float | None = None
    alpha: float | None = None
    decay: float = 1.0
    preprocess: str | ArrayLike = "unit"

    # ------------------------------------------------------------------ learning

    def _take(self, rows: Rows, counted: Mask) -> None:
        if is_on_device(rows.X) and self._place is None:
            self._place = Place.of(rows.X)
        super()._take(rows, counted)

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
        self._n_features = n_features
        self._classes = self._make_classes([], {})
        self.n_unlearned_ = 0
        self._map = None
        self._place = None
        self._solved: _Solved | None = None
        if self.features == "none":
            self._set_map(None)
        elif self.features != "anchors" and self.bandwidth is not None:
            self._set_map(self._draw_map(self.bandwidth))

    def _make_classes(self, labels: list[int | str], settled: dict[int, int]) -> SettlingClasses:
        n_general = check_non_negative_int("general_bits", self.general_bits)
        if n_general >= self.n_bits:
            raise InvalidInputError(
                f"general_bits={n_general} leaves no bit for classes, of n_bits={self.n_bits}; use fewer."
            )
        if n_general > self._n_features:
            raise InvalidInputError(
                f"general_bits={n_general} is more than the {self._n_features} features of a row; use fewer."
            )
        codebook = make_codebook(self.codebook, self._n_class_bits, self.seed_)
        learned = self.assignment == "learned" and not isinstance(self.codebook, Mapping)
        return SettlingClasses(codebook, labels, settled, n_compared=self._n_class_bits if learned else 0)

    @property
    def _n_class_bits(self) -> int:
        return self.n_bits - self.general_bits

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

    def _set_map(self, features: WithInputs | None) -> None:
        self._map = features
        self._sums = StreamSums(self._n_features, features, self.decay)

    def _learn(self, X: Features, targets: Targets, weights: Weights) -> None:
        self._solved = None
        if self._place is not None:
            self._move_to(self._place)
        self._sums.learn(self._preprocessed(X), self._members(targets, weights), self._classes)

    # ------------------------------------------------------------------ hashing

    @property
    def codewords_(self) -> NDArray[np.int8]:
        """The codeword of each class, in the order of ``classes_``; provisional until the class keeps it."""
        self._demand_learned()
        words = self._completed()._solution()[1] if self._classes.provisional else self._classes.codewords
        return words.copy()

    @property
    def sharpness_(self) -> float:
        """Sharpness of a snapshot taken now; 0 is the linear code."""
        self._demand_learned()
        return self._completed()._sharpness()

    def _sharpness(self) -> float:
        n_classes = len(self._seen())
        if self.sharpness == "auto":
            return choose_sharpness(n_classes, self._n_class_bits)
        return float(self.sharpness or 0.0) if n_classes else 0.0

    def _seen(self) -> NDArray[np.intp]:
        """Return the numbers of the classes that have rows, those that wait included."""
        return np.flatnonzero(self._sums.counts(len(self._classes)) > NOTHING)

    def _encoder(self) -> Encoder:
        sharpness = self._sharpness()
        weights, words, by_class = self._solution()
        if sharpness:
            seen = self._seen()  # a class that was unlearned leaves no trace
            weights, words = weights[:, seen], words[seen]
        elif by_class:
            weights = weights @ words.astype(np.float64)
        intercept = CONSTANT * weights[-1]
        weights = weights[:-1]
        if self.general_bits:
            statistics = self._sums.complete(self._n_features)
            directions, offset = general_directions(
                statistics, self._in_order(statistics), self.general_bits, self.seed_
            )
            directions = np.pad(directions, ((0, len(weights) - len(directions)), (0, 0)))
            weights, intercept = np.hstack([weights, directions]), np.concatenate([intercept, offset])
        frozen = self._features.freeze()
        return Encoder(
            weights.astype(self._dtype, order="C"),
            intercept.astype(self._dtype),
            frozen if self._map is None else WithInputs(replace(self._map.curved, inner=frozen)),
            self.version_,
            self.name,
            codewords=words if sharpness else None,
            sharpness=sharpness,
        )

    def _solution(self) -> tuple[Matrix, Signs, bool]:
        """Return the weights of all classes or bits, the codewords, and which of the two the weights are.

        They are those for all rows, and a deterministic function of the sums and the rows that wait: a few of these
        move the solution for the others, many are added to a copy. Only the solution for the sums is kept.
        """
        sums = self._sums
        if not sums.few_waiting:
            solved = self._solve(sums.complete())
            return solved.solution.columns(solved.codewords), solved.codewords, solved.solution.by_class
        kept = self._solved
        if kept is None or (kept.alpha, kept.solution.by_class) != (self.alpha, self._by_class(sums.statistics)):
            self._solved = kept = self._solve(sums.statistics)
        words = self._classes.followed_by_new(kept.codewords)
        solution = kept.solution
        columns = solution.with_rows(sums.rows, sums.members, words) if sums.n_waiting else solution.columns(words)
        return columns, words, solution.by_class

    def _by_class(self, statistics: RidgeStatistics) -> bool:
        """Return whether to solve for the classes: if their scores are sharpened, or if they are fewer than bits."""
        return self._sharpness() > 0.0 or len(statistics.counts) < self._n_class_bits

    def _solve(self, statistics: RidgeStatistics) -> _Solved:
        codewords = self._classes.assigned(statistics)
        words = None if self._by_class(statistics) else codewords
        with single_threaded_factors(len(statistics.gram)):
            penalty = self.alpha or statistics.choose_penalty(self.seed_, self._in_order(statistics))
            return _Solved(self.alpha, RidgeSolution(statistics, float(penalty), words), codewords)

    def _in_order(self, statistics: RidgeStatistics) -> NDArray[np.intp]:
        """Return the classes that have rows by their labels: an order that does not depend on the stream's."""
        labels = self._classes.labels
        return np.array(sorted(statistics.seen, key=lambda number: labels[number]), np.intp)

    # ------------------------------------------------------------------ saving

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        state: dict[str, Any] = {"labels": self._classes.labels, "n_unlearned": self.n_unlearned_}
        state["settled"] = list(self._classes.settled.items())
        if self._head is not None:
            return state, {}
        sums, arrays = self._sums.state()
        state |= sums
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
        self._sums.restore(state, arrays)
