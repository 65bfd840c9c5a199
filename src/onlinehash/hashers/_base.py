"""The contract of a hasher: it learns, and only frozen encoders leave it."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, check_random_state

from onlinehash._containers import as_array, check_feature_names
from onlinehash._files import Arrays, Source, complete, name_of, pack_arrays, read_arrays, write_bytes
from onlinehash._validation import (
    check_choice,
    check_features,
    check_finite,
    check_n_bits,
    check_targets,
    plain_label,
    precision_of,
)
from onlinehash.codes import unpack_bits, unpack_signs
from onlinehash.codes.packing import code_width
from onlinehash.encoders import Encoder
from onlinehash.exceptions import FileFormatError, InvalidInputError, InvalidLabelsError, NotLearnedError
from onlinehash.features import RunningCentring, StreamFeatures, make_features
from onlinehash.types import Codes, Features, LabelSets, Targets

LAYOUT = 1
MAX_BITS = 1 << 14
"""Longest code: 2 KiB. Longer ones would take more room than the vectors, and counts of bits leave 16 bits."""

_COUNTERS = ("n_features_in_", "n_samples_seen_", "n_unlabelled_", "seed_")
_CHUNK = 1 << 22  # elements of X in work at a time: a memory-mapped X is never read whole

Mask = NDArray[np.bool_] | None
"""Which rows have a label; None where all do."""

Weights = NDArray[np.float64] | None
"""How much each row counts; None where all count 1."""


Changeable = Mapping[str, Callable[[str, Any], object]]
"""Parameters that may change after learning has begun, each with the check of its value: ``check(name, value)``."""


@dataclass(frozen=True)
class Traits:
    """What a method needs and costs, in words, for the table of all methods (d features, r bits)."""

    takes: str
    cost: str
    memory: str
    shines: str


class HasherNotLearnedError(NotLearnedError, NotFittedError):  # type: ignore[misc]
    """A hasher was used before it learned; scikit-learn knows it as ``NotFittedError``."""


def check_output(name: str, value: Any) -> str:
    """Return what :meth:`OnlineHasher.transform` is to return, if it is one of the choices."""
    return check_choice(name, value, ("codes", "bits", "signs"))


def check_code_length(n_bits: Any) -> int:
    """Return the number of bits as an int from 1 to ``MAX_BITS``.

    Examples
    --------
    >>> check_code_length(64)
    64
    """
    if check_n_bits(n_bits) > MAX_BITS:
        raise InvalidInputError(f"n_bits={n_bits} is too many; a code has at most {MAX_BITS} bits.")
    return int(n_bits)


class OnlineHasher(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all hashers: checks input once, at the door, then learns.

    A method gives :meth:`_start` (make the empty state), :meth:`_learn` (take checked rows in stream order),
    :meth:`_encoder` (freeze) and :meth:`_state` with :meth:`_restore` (all that a saved stream needs to go on). It may
    also ask for the head of the stream (:meth:`_head_size`, :meth:`_open`), and keep rows that wait for their
    batch to fill (:meth:`_finish`). Whatever may refuse input does so before anything changes.

    The first batch fixes the parameters. To learn, take a snapshot or save after one was changed is refused, except for
    those in :attr:`changeable`; ``fit`` starts again with the new ones.

    What else a method can do is declared by class attributes, all False here: :attr:`unlearns`, :attr:`merges` and
    :attr:`takes_weights`.

    Attributes
    ----------
    unlearns : bool
        Whether it has ``unlearn(X, y)``, which takes rows out again, and counts them in ``n_unlearned_``.
    merges : bool
        Whether it has ``empty_clone()``, ``merge(other)`` and ``split_points(n_rows)``, by which the parts of a stream
        are learned apart and put together.
    takes_weights : bool
        Whether ``fit`` and ``partial_fit`` take ``sample_weight``, as those of :class:`WeightedHasher` do.
    changeable : mapping from name to check
        Parameters that may change at any time, and the check of their values. ``output`` is one of them: what
        :meth:`transform` returns, "codes" (packed bytes), "bits" (0 and 1) or "signs" (-1 and +1).
    n_features_in_ : int
        Width of the rows learned from.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X, if it was a DataFrame or Table with names that are strings.
    n_samples_seen_ : int
        Number of instances learned from.
    n_unlabelled_ : int
        Number of rows without a label, which a supervised method does not learn from.
    version_ : int
        Version of a snapshot taken now: the number of instances learned, plus that of instances unlearned, where the
        method unlearns. 0 before the first.
    seed_ : int
        The seed in use; drawn from ``random_state`` at the first batch.

    Examples
    --------
    >>> from onlinehash import make_hasher
    >>> from onlinehash.hashers import OnlineHasher
    >>> hasher = make_hasher("hcoh", n_bits=16, random_state=0)
    >>> isinstance(hasher, OnlineHasher)
    True
    >>> hasher.partial_fit([0.3, 0.7], "cat").partial_fit([[0.9, 0.1], [0.8, 0.1]], ["dog", None]).snapshot()
    <Encoder hcoh version 2: 2 features to 16 bits>
    >>> hasher.n_samples_seen_, hasher.n_unlabelled_
    (2, 1)
    """

    name: ClassVar[str]
    traits: ClassVar[Traits]
    supervised: ClassVar[bool] = True
    multi_label: ClassVar[bool] = False
    unlearns: ClassVar[bool] = False
    merges: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = False
    changeable: ClassVar[Changeable] = {"output": check_output}
    n_bits: int
    preprocess: Any
    output: str = "codes"
    random_state: Any
    _learned_with: dict[str, Any]

    # ------------------------------------------------------------------ learning

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Forget what was learned and learn from X in one pass, row by row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : labels, as in :meth:`partial_fit`
        """
        return self._fit(X, y, None)

    def _fit(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None) -> Self:
        rows, targets, labelled = self._check(X, y, None)
        self._start_again(rows, targets, labelled, check_weights(sample_weight, len(rows), labelled))
        self._keep_names(X)
        return self

    def partial_fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn from the next instances of the stream: one row or many.

        How the stream is cut into calls makes no difference beyond rounding. If the input is refused, nothing
        has changed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_features,) with a single label
        y : array-like of shape (n_samples,), or a single label
            Integers, strings, or members of an Enum, which stand for their values. None, NaN or NA is a row without a
            label: skipped by a supervised method, and counted. Methods that learn from several labels per row also take
            a list of lists of labels, or a 0/1 indicator matrix of shape (n_samples, n_classes). Unsupervised methods
            ignore it.
        """
        return self._partial_fit(X, y, None)

    def _partial_fit(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None) -> Self:
        rows, targets, labelled = self._check_next(X, y)
        self._absorb(rows, targets, labelled, check_weights(sample_weight, len(rows), labelled))
        self._keep_names(X)
        return self

    def _check_next(self, X: ArrayLike, y: Any) -> tuple[NDArray[Any], Targets, Mask]:
        """Check the next rows of the stream: a table of them, or a single one with its label."""
        self._demand_same_parameters()
        check_feature_names(X, getattr(self, "feature_names_in_", None))
        rows = as_array(X)
        if rows.ndim == 1 and np.ndim(y) == 0:
            rows, y = rows[np.newaxis], None if y is None else [y]
        return self._check(rows, y, getattr(self, "n_features_in_", None))

    def _check(self, X: ArrayLike, y: Any, n_features: int | None) -> tuple[NDArray[Any], Targets, Mask]:
        check_feature_names(X)
        rows = check_features(X, n_features=n_features, owner=type(self).__name__)
        targets: Targets = None
        labelled: Mask = None
        if self.supervised:
            targets, labelled = check_targets(y, len(rows))
            if isinstance(targets, LabelSets) and not self.multi_label:
                raise InvalidLabelsError(f"{type(self).__name__} learns from one label a row; y holds several.")
        elif y is not None and (len(y) if hasattr(y, "__len__") else np.asarray(y).size) != len(rows):
            raise InvalidLabelsError(f"X has {len(rows)} rows, y has another length; pass one label a row, or none.")
        check_finite(rows, precision_of(rows) if n_features is None else self._dtype)
        return rows, targets, labelled

    def _start_again(self, X: NDArray[Any], targets: Targets, labelled: Mask, weights: Weights) -> None:
        """Forget what was learned and learn from checked rows; if that fails, nothing was forgotten."""
        fresh = type(self)(**self.get_params(deep=False))
        fresh._absorb(X, targets, labelled, weights)
        for name in ("n_samples_seen_", "_learned_with", "feature_names_in_"):
            self.__dict__.pop(name, None)
        self.__dict__.update(fresh.__dict__)

    def _absorb(self, X: NDArray[Any], targets: Targets, labelled: Mask, weights: Weights) -> None:
        n_labelled = len(X) if labelled is None else int(labelled.sum())
        if n_labelled and not self.__sklearn_is_fitted__():
            before = dict(self.__dict__)
            try:
                self._prepare(X.shape[1], precision_of(X), self._draw_seed())
                self._take(X, targets, labelled, weights)
            except BaseException:
                self.__dict__ = before
                raise
        elif n_labelled:
            self._take(X, targets, labelled, weights)
        if n_labelled:
            self.n_features_in_ = X.shape[1]
            self.n_samples_seen_ = getattr(self, "n_samples_seen_", 0) + n_labelled
        self.n_unlabelled_ = getattr(self, "n_unlabelled_", 0) + len(X) - n_labelled

    def _keep_names(self, X: Any) -> None:
        """Keep the feature names of the first rows learned from that have any."""
        if self.__sklearn_is_fitted__() and not hasattr(self, "feature_names_in_"):
            names = check_feature_names(X)
            if names is not None:
                self.feature_names_in_ = np.array(names, object)

    def _named(self, encoder: Encoder) -> Encoder:
        """Return an encoder that checks the feature names that were learned from, if any."""
        names = getattr(self, "feature_names_in_", None)
        return encoder if names is None else replace(encoder, feature_names=tuple(names))

    def _prepare(self, n_features: int, dtype: np.dtype[Any], seed: int) -> None:
        """Make the state of a hasher that has seen nothing."""
        check_code_length(self.n_bits)
        for name, check in self.changeable.items():
            check(name, getattr(self, name))
        self.seed_, self._dtype = seed, dtype
        self._features: StreamFeatures = make_features(self.preprocess, n_features)
        self._start(n_features)
        self._head: list[tuple[Features, list[Any], Weights]] | None = [] if self._head_size() else None
        self._fix_parameters()

    def _take(self, X: NDArray[Any], targets: Targets, labelled: Mask, weights: Weights) -> None:
        """Learn from checked rows in chunks, leaving out those without a label."""
        self._admit(targets if labelled is None else _some(targets, labelled))
        step = max(1, _CHUNK // X.shape[1])
        for start in range(0, len(X), step):
            chunk = slice(start, start + step)
            rows, part = X[chunk], _some(targets, chunk)
            shares = None if weights is None else weights[chunk]
            if labelled is not None:
                rows, part = rows[labelled[chunk]], _some(part, labelled[chunk])
                shares = None if shares is None else shares[labelled[chunk]]
            rows = np.ascontiguousarray(rows, self._dtype)
            if self._head is not None:
                self._collect(rows, part, shares)
            elif len(rows):
                self._learn(rows, part, shares)

    def _collect(self, rows: Features, targets: Targets, weights: Weights) -> None:
        """Keep rows until the head of the stream is complete, then start with it."""
        assert self._head is not None
        missing = self._head_size() - sum(len(labels) for _, labels, _ in self._head)
        some = slice(missing)
        labels = _as_list(_some(targets, some), len(rows[some]))
        self._head.append((rows[some].copy(), labels, None if weights is None else weights[some]))
        if len(rows) >= missing:
            self._open_head()
            if len(rows) > missing:
                rest = slice(missing, None)
                shares = None if weights is None else weights[rest]
                self._learn(rows[rest], _some(targets, rest), shares)

    def _open_head(self) -> None:
        assert self._head is not None
        rows, labels, weights = _joined(self._head)
        targets = check_targets(labels, len(labels))[0] if self.supervised else None
        self._head = None
        self._open(rows, targets)
        self._learn(rows, targets, weights)

    def _twin(self) -> Self:
        """Return a copy with the same parameters, the objects themselves, and a state of its own."""
        return copy.deepcopy(self, {id(value): value for value in self.get_params(deep=False).values()})

    def _fix_parameters(self) -> None:
        """Keep the parameters as they are now: those that are learned with."""
        self._learned_with = {name: _frozen(value) for name, value in self.get_params(deep=False).items()}

    def _resized(self, n_bits: int) -> Self | None:
        """Return a hasher of another code length that has learned the same; None where that takes the data."""
        return None

    def _as_part(self) -> Self:
        """Prepare an empty clone to learn a part of a stream, only to be merged."""
        return self

    def _demand_same_parameters(self, *besides: str) -> None:
        """Raise if a parameter that shapes the state was changed since learning began; check those that may change."""
        for name, before in self.__dict__.get("_learned_with", {}).items():
            value = getattr(self, name)
            if name in besides or _same(before, value):
                continue
            if name not in self.changeable:
                way = f"with_{name.removeprefix('n_')}"
                other = f", or {way}({_in_words(value)})" if hasattr(self, way) else ""
                raise InvalidInputError(
                    f"{name}={_in_words(value)} was changed after {type(self).__name__} learned with "
                    f"{name}={_in_words(before)}; call fit to start again{other}."
                )
            self.changeable[name](name, value)

    def _draw_seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)) and self.random_state >= 0:
            return int(self.random_state)
        if isinstance(self.random_state, np.random.Generator):
            return int(self.random_state.integers(2**31))
        try:
            return int(check_random_state(self.random_state).randint(2**31))
        except ValueError as error:
            raise InvalidInputError(
                f"random_state={self.random_state!r} is not None, a non-negative integer or a NumPy generator."
            ) from error

    @abstractmethod
    def _start(self, n_features: int) -> None:
        """Check the parameters and make the state of a hasher that has seen nothing."""

    def _head_size(self) -> int:
        """Return how many rows of the stream are wanted together before learning starts."""
        return 0

    def _open(self, head: Features, targets: Targets) -> None:
        """Take what is needed from the head of the stream; it is learned from right after."""

    def _admit(self, targets: Targets) -> None:
        """Refuse labels that cannot be learned from; nothing has changed yet."""

    @abstractmethod
    def _learn(self, X: Features, targets: Targets, weights: Weights) -> None:
        """Learn from the next rows, in the precision of the stream; weights are None unless some were given."""

    def _preprocessed(self, X: Features) -> Features:
        """Move the preprocessing along the stream and return the rows it gives."""
        rows = np.empty_like(X)
        self._features.learn(X, rows)
        return rows

    # ------------------------------------------------------------------ hashing

    def snapshot(self) -> Encoder:
        """Return the hash functions as they are now, frozen; later learning does not touch them.

        Rows that wait for their batch, or for the head of the stream, to fill are included, on a copy: a look at the
        hash functions does not change the stream.
        """
        self._demand_learned()
        self._demand_same_parameters()
        if self._head is None and not self._is_waiting():
            return self._named(self._encoder())
        twin = copy.deepcopy(self)
        if twin._head is not None:
            twin._open_head()
        twin._finish()
        return self._named(twin._encoder())

    @property
    def version_(self) -> int:
        """Version of a snapshot taken now: the number of instances learned, plus that of instances unlearned."""
        n_unlearned = getattr(self, "n_unlearned_", 0) if self.unlearns else 0
        return int(getattr(self, "n_samples_seen_", 0) + n_unlearned)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the codes of X in the form that ``output`` asks for.

        "codes": packed, uint8 of shape (n_samples, ceil(n_bits / 8)), as indexes and metrics take them. "bits": 0 and
        1, uint8 of shape (n_samples, n_bits), for estimators that compare features. "signs": -1 and +1, int8 likewise.
        """
        codes = self._packed(X)
        if self.output == "codes":
            return codes
        return (unpack_bits if self.output == "bits" else unpack_signs)(codes, self.n_bits)

    @property
    def _n_features_out(self) -> int:
        """Number of columns that :meth:`transform` returns, for ``get_feature_names_out``."""
        return code_width(self.n_bits) if self.output == "codes" else self.n_bits

    def _packed(self, X: ArrayLike) -> Codes:
        """Return packed codes."""
        rows = self._check_queries(X)
        return self.snapshot().encode(rows)

    def decision_function(self, X: ArrayLike) -> Features:
        """Return the real values whose signs are the bits, shape (n_samples, n_bits)."""
        rows = self._check_queries(X)
        return self.snapshot().project(rows)

    def _check_queries(self, X: ArrayLike) -> NDArray[Any]:
        self._demand_learned()
        check_feature_names(X, getattr(self, "feature_names_in_", None))
        return check_features(X, n_features=self.n_features_in_, owner=type(self).__name__)

    @abstractmethod
    def _encoder(self) -> Encoder:
        """Freeze the hash functions."""

    def _is_waiting(self) -> bool:
        """Tell whether rows wait that :meth:`_finish` would learn from."""
        return False

    def _finish(self) -> None:
        """Learn from the rows that wait, as if the stream ended here."""

    # ------------------------------------------------------------------ saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write parameters and learned state to one file (safetensors, no pickle).

        A stream resumed from the file continues exactly as if it had never stopped.
        """
        self._demand_learned()
        write_bytes(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the file that :meth:`save` writes; of a hasher that has not learned yet, its parameters."""
        check_code_length(self.n_bits)
        self._demand_same_parameters()
        arrays: Arrays = {}
        params = {key: _pack(f"param.{key}", value, arrays) for key, value in self.get_params(deep=False).items()}
        if not self.__sklearn_is_fitted__():
            return pack_arrays("hasher", LAYOUT, {"method": self.name, "params": params, "counters": None}, arrays)
        if not isinstance(self.random_state, int):
            params["random_state"] = self.seed_
        state, tensors = self._state()
        arrays.update({f"state.{key}": value for key, value in tensors.items()})
        if isinstance(self._features, RunningCentring):
            arrays["mean"] = self._features.mean
            state["n_centred"] = self._features.n_seen
        if self._head:
            arrays["head"], state["head_labels"], weights = _joined(self._head)
            if weights is not None:
                arrays["head_weights"] = weights
        counters = {name: getattr(self, name) for name in _COUNTERS}
        header = {
            "method": self.name,
            "dtype": self._dtype.name,
            "params": params,
            "counters": counters,
            "state": state,
        }
        if hasattr(self, "feature_names_in_"):
            header["feature_names"] = list(self.feature_names_in_)
        return pack_arrays("hasher", LAYOUT, header, arrays)

    @classmethod
    def load(cls, source: Source) -> Self:
        """Read a hasher that :meth:`save` wrote, from a path or from its bytes."""
        return cls._taken_from(source, *read_arrays(source, "hasher", LAYOUT))

    @classmethod
    def _taken_from(cls, source: Source, header: dict[str, Any], arrays: Arrays) -> Self:
        """Return the hasher that the header and the arrays of a file hold."""
        if header.get("method") != cls.name:
            raise FileFormatError(
                f"{name_of(source)} holds a {header.get('method')} hasher; load it with onlinehash.load_hasher."
            )
        with complete(source, "hasher"):
            params = {key: _unpack(f"param.{key}", value, arrays) for key, value in header["params"].items()}
            known = set(cls._get_param_names())
            if odd := sorted(params.keys() ^ known):
                stands = "has no" if odd[0] in known else "has an unknown"
                raise FileFormatError(
                    f"{name_of(source)} {stands} parameter {odd[0]!r} of {cls.__name__}; it was written by another "
                    "version of onlinehash. Use that one, or learn again."
                )
            return cls(**params)._restored(header, arrays)

    def _restored(self, header: dict[str, Any], arrays: Arrays) -> Self:
        """Take back what was learned, if anything was."""
        if header["counters"] is None:
            return self
        counters, state = header["counters"], header["state"]
        self._prepare(counters["n_features_in_"], np.dtype(header["dtype"]), counters["seed_"])
        self.__dict__.update({name: counters[name] for name in _COUNTERS})
        if "feature_names" in header:
            self.feature_names_in_ = np.array(header["feature_names"], object)
        if "mean" in arrays:
            self._features = RunningCentring(arrays["mean"], state["n_centred"])
        if self._head is not None:
            head = (arrays["head"], state["head_labels"], arrays.get("head_weights")) if "head" in arrays else None
            self._head = None if head is None else [head]
        self._restore(state, {key[6:]: value for key, value in arrays.items() if key.startswith("state.")})
        return self

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], Arrays]:
        """Return what was learned: a JSON part and arrays."""

    @abstractmethod
    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Take back what :meth:`_state` returned."""

    # ------------------------------------------------------------------ scikit-learn

    def _demand_learned(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise HasherNotLearnedError(
                f"This {type(self).__name__} has not learned from any instance yet; call partial_fit or fit first."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return "n_samples_seen_" in self.__dict__

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.supervised
        tags.transformer_tags.preserves_dtype = []
        return tags


class WeightedHasher(OnlineHasher):
    """Base of methods whose :meth:`_learn` takes the weights of rows: ``fit`` and ``partial_fit`` accept them.

    Examples
    --------
    >>> from onlinehash import HCOH, HROH
    >>> issubclass(HROH, WeightedHasher), HROH.takes_weights, HCOH.takes_weights
    (True, True, False)
    """

    takes_weights: ClassVar[bool] = True

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Forget what was learned and learn from X; see :meth:`partial_fit`."""
        return self._fit(X, y, sample_weight)

    def partial_fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from the next instances of the stream: one row or many.

        Parameters
        ----------
        X, y : as in every hasher
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts; one that counts 2 is as good as two. Not negative.
        """
        return self._partial_fit(X, y, sample_weight)


def check_weights(sample_weight: ArrayLike | None, n_rows: int, labelled: Mask) -> Weights:
    """Return one weight per row, none of them negative, or None."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"sample_weight holds something that is not a number: {error}.") from error
    if weights.shape != (n_rows,):
        raise InvalidInputError(
            f"sample_weight has shape {weights.shape}; X has {n_rows} rows, pass one weight per row."
        )
    if not weights[labelled if labelled is not None else slice(None)].any():
        raise InvalidInputError("sample_weight is zero for every row that has a label; nothing would be learned.")
    if not (np.isfinite(weights) & (weights >= 0.0)).all():
        raise InvalidInputError("sample_weight holds a value that is negative or not finite; use weights from 0.")
    return weights


def _some(targets: Targets, rows: slice | NDArray[Any]) -> Targets:
    """Return the targets of some rows."""
    if targets is None:
        return None
    return targets.take(rows) if isinstance(targets, LabelSets) else targets[rows]


def _joined(head: list[tuple[Features, list[Any], Weights]]) -> tuple[Features, list[Any], Weights]:
    """Return the rows, labels and weights of the head of a stream, put together."""
    rows = np.concatenate([rows for rows, _, _ in head])
    labels = [label for _, labels, _ in head for label in labels]
    if all(weights is None for _, _, weights in head):
        return rows, labels, None
    weights = [np.ones(len(part)) if weights is None else weights for part, _, weights in head]
    return rows, labels, np.concatenate(weights)


def _as_list(targets: Targets, n_rows: int) -> list[Any]:
    """Return targets as JSON can hold them."""
    if targets is None:
        return [None] * n_rows
    return [list(labels) for labels in targets] if isinstance(targets, LabelSets) else targets.tolist()


def _frozen(value: Any) -> Any:
    """Return a parameter as it is now, whatever happens to it later."""
    if isinstance(value, Mapping):
        return {label: np.array(word) for label, word in value.items()}
    return np.array(value) if isinstance(value, (np.ndarray, list, tuple)) else value


def _same(one: Any, other: Any) -> bool:
    """Tell whether two values of a parameter are the same."""
    if one is other:
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(np.array_equal(one[label], other[label]) for label in one)
    if any(isinstance(value, (np.ndarray, list, tuple)) for value in (one, other)):
        return np.array_equal(one, other)
    return bool(one == other)


def _in_words(value: Any) -> str:
    """Return a parameter for a message: arrays and mappings by their size only."""
    if isinstance(value, Mapping):
        return f"<{len(value)} codewords>"
    return f"<array of shape {np.shape(value)}>" if isinstance(value, (np.ndarray, list, tuple)) else repr(value)


def _pack(name: str, value: Any, arrays: Arrays) -> Any:
    """Return value as JSON, moving arrays into ``arrays``."""
    if isinstance(value, Mapping):
        arrays[name] = np.array([np.asarray(word, np.int8) for word in value.values()])
        return {"labels": [plain_label(label, name) for label in value]}
    if isinstance(value, (np.ndarray, list, tuple)):
        arrays[name] = np.asarray(value)
        return {"array": True}
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, (int, float, str, type(None))) else None


def _unpack(name: str, value: Any, arrays: Arrays) -> Any:
    if not isinstance(value, dict):
        return value
    if "labels" in value:
        return dict(zip(value["labels"], arrays[name], strict=True))
    return arrays[name]
