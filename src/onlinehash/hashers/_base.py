"""The contract of a hasher: a hasher learns, and only frozen encoders leave it."""

from __future__ import annotations

import copy
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.arrays import Place, is_on_device, to_host, way_to_host
from onlinehash._internal.files import Arrays, Source, write_bytes
from onlinehash._internal.threads import single_threaded_products
from onlinehash._internal.validation import (
    as_array,
    check_choice,
    check_feature_names,
    check_features,
    check_finite,
    check_n_bits,
    check_positive_int,
    check_targets,
    precision_of,
)
from onlinehash.codebooks import ClassTable
from onlinehash.codes import code_width, unpack_bits, unpack_signs
from onlinehash.encoders import Encoder
from onlinehash.exceptions import InvalidFeaturesError, InvalidInputError, InvalidLabelsError, NotLearnedError
from onlinehash.features import StreamFeatures, make_features
from onlinehash.hashers._estimator import Estimator
from onlinehash.hashers._saving import HeadPart, Weights, join_head, pack_hasher, read_hasher, unpack_hasher
from onlinehash.types import Features, Labels, LabelSets, Signs, Targets

# What a method is written with.
__all__ = ["Arrays", "Changeable", "Encoder", "Features", "LabelSets"]
__all__ += ["Labels", "Mask", "OnlineHasher", "Rows", "Signs", "Targets", "Weights"]

Mask = NDArray[np.bool_] | None
"""Which rows to learn from; None for all."""

MAX_BITS = 1 << 14
"""Longest code: 2 KiB. A longer one would take more room than its vector, and 16 bits could not hold its distances."""

Changeable = Mapping[str, Callable[[str, Any], object]]
"""Parameters that may change after learning has begun, each with the check of its value: ``check(name, value)``."""

VALUES_PER_CHUNK = 1 << 22  # a memory-mapped X is never read whole
VALUES_PER_CHUNK_ON_DEVICE = 1 << 26


def check_output(name: str, value: Any) -> str:
    """Return the value if it is one that :meth:`OnlineHasher.transform` knows."""
    return check_choice(name, value, ("codes", "bits", "signs"))


class Rows(NamedTuple):
    """Checked rows of a stream with their targets and weights; those on the host are plain NumPy arrays."""

    X: NDArray[Any]
    targets: Targets
    weights: Weights

    def take(self, index: slice | NDArray[Any]) -> Rows:
        """Return some of the rows."""
        X, weights = self.X, self.weights
        if type(X) is np.ndarray:
            X = X[index]
        elif isinstance(index, slice):
            start, stop, _ = index.indices(X.shape[0])
            X = X[start:stop, :]
        else:
            place = Place.of(X)
            X = place.xp.take(X, place.put(np.flatnonzero(index)), axis=0)
        return Rows(X, take_targets(self.targets, index), None if weights is None else weights[index])

    def chunks(self, counted: Mask, dtype: np.dtype[Any]) -> Iterator[Rows]:
        """Yield the rows that count, in chunks, in a precision; rows on a device stay as they are."""
        n_rows, n_features = self.X.shape
        on_host = type(self.X) is np.ndarray
        step = max(1, (VALUES_PER_CHUNK if on_host else VALUES_PER_CHUNK_ON_DEVICE) // n_features)
        for start in range(0, n_rows, step):
            chunk = self if n_rows <= step else self.take(slice(start, start + step))
            if counted is not None:
                chunk = chunk.take(counted[start : start + step])
            yield Rows(np.ascontiguousarray(chunk.X, dtype), *chunk[1:]) if on_host else chunk

    def head_part(self) -> HeadPart:
        """Return a copy of the rows, with labels as JSON can hold them."""
        labels: list[Any]
        if self.targets is None:
            labels = [None] * self.X.shape[0]
        elif isinstance(self.targets, LabelSets):
            labels = [list(labels) for labels in self.targets]
        else:
            labels = self.targets.tolist()
        return to_host(self.X) if is_on_device(self.X) else self.X.copy(), labels, self.weights


def take_targets(targets: Any, index: slice | NDArray[Any]) -> Any:
    """Return the targets of some rows."""
    return targets.take(index) if isinstance(targets, LabelSets) else None if targets is None else targets[index]


@dataclass(eq=False, repr=False)
class OnlineHasher(Estimator, ABC):
    """Base class of all hashers: checks the input, then learns.

    A method is a dataclass whose fields are its parameters. It implements :meth:`_start`, :meth:`_learn` and
    :meth:`_encoder`, and names the attributes to save in ``_saved``. It may also ask for the head of the stream
    (:meth:`_head_size`, :meth:`_open`), and for whole batches (:meth:`_batch_rows`, :meth:`_finish`). Input is refused
    before anything changes.

    The first batch fixes the parameters. After a parameter was changed, learning, saving and snapshots are refused,
    except for those in :attr:`changeable`; ``fit`` starts again with the new ones.

    Class attributes declare what else a method can do: :attr:`unlearns`, :attr:`merges` and :attr:`takes_weights`.

    Attributes
    ----------
    unlearns : bool
        Whether the method has ``unlearn(X, y)``, which removes rows and counts them in ``n_unlearned_``.
    merges : bool
        Whether the method has ``empty_clone()``, ``merge(other)`` and ``split_points(n_rows)``, so that parts of a
        stream can be learned separately and merged.
    takes_weights : bool
        Whether ``fit`` and ``partial_fit`` take ``sample_weight``, as those of :class:`HROH` do.
    learns_on_device : bool
        Whether ``partial_fit`` takes arrays of PyTorch and CuPy on a GPU, and computes there.
    changeable : mapping from name to check
        Parameters that may change at any time, and the check of their values. ``output`` is one of them.
    n_features_in_ : int
        Number of features of the rows learned from.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X, if it was a DataFrame or Table with names that are strings.
    n_samples_seen_ : int
        Number of instances learned from.
    n_unlabelled_ : int
        Number of rows without a label, which a supervised method does not learn from.
    version_ : int
        Version of a snapshot taken now: the number of instances learned plus the number unlearned.
    seed_ : int
        The seed in use, drawn from ``random_state`` at the first batch.

    Examples
    --------
    >>> from onlinehash import make_hasher
    >>> hasher = make_hasher("hcoh", n_bits=16, random_state=0)
    >>> hasher.partial_fit([0.3, 0.7], "cat").partial_fit([[0.9, 0.1], [0.8, 0.1]], ["dog", None]).snapshot()
    <Encoder hcoh version 2: 2 features to 16 bits>
    >>> hasher.n_samples_seen_, hasher.n_unlabelled_
    (2, 1)
    """

    name: ClassVar[str]
    supervised: ClassVar[bool] = True
    multi_label: ClassVar[bool] = False
    unlearns: ClassVar[bool] = False
    merges: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = False
    learns_on_device: ClassVar[bool] = False
    changeable: ClassVar[Changeable] = {"output": check_output}
    _saved: ClassVar[tuple[str, ...]] = ()
    """Attributes that hold what was learned, of the hasher or ("_sketch.rows") of an object that it has: arrays, and
    what JSON holds."""

    n_bits: int = 32
    _: KW_ONLY
    preprocess: str | ArrayLike = "running"
    random_state: Any = None
    output: str = "codes"

    # ------------------------------------------------------------------ what a method implements

    @abstractmethod
    def _start(self, n_features: int) -> None:
        """Check the parameters and create the empty state."""

    @abstractmethod
    def _learn(self, X: Features, targets: Targets, weights: Weights) -> None:
        """Learn from the next rows, in the precision of the stream; weights are None unless some were given."""

    @abstractmethod
    def _encoder(self) -> Encoder:
        """Return the frozen hash functions."""

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state, a JSON part and arrays: the classes, and what ``_saved`` names."""
        found = [(name, getattr(*_place_of(self, name), None)) for name in self._saved]
        arrays = {name: value for name, value in found if isinstance(value, np.ndarray)}
        state = {name: list(value.items()) if isinstance(value, dict) else value for name, value in found}
        labels = {} if self._classes is None else {"labels": self._classes.labels}
        return labels | {name: value for name, value in state.items() if name not in arrays}, arrays

    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Restore what :meth:`_state` returned."""
        if self._classes is not None:
            self._classes.restore(state["labels"])
        for name in self._saved:
            owner, attribute = _place_of(self, name)
            value, before = arrays.get(name), getattr(owner, attribute, None)
            if value is None:
                setattr(owner, attribute, dict(state[name]) if isinstance(before, dict) else state[name])
            elif isinstance(before, np.ndarray) and before.shape == value.shape:
                before[...] = value  # which may be laid out in another order
            else:
                setattr(owner, attribute, value)

    def _head_size(self) -> int:
        """Return how many rows of the stream are needed together before learning starts."""
        return 0

    def _open(self, head: Features, targets: Targets) -> None:
        """Initialise the state from the preprocessed head of the stream, which is learned from right after."""

    def _batch_rows(self) -> int:
        """Return how many rows are learned together, the ``batch_size``: :meth:`_learn` gets a multiple of them."""
        return check_positive_int("batch_size", getattr(self, "batch_size", 1))

    def _finish(self, X: Features, targets: Targets, weights: Weights) -> None:
        """Learn from rows that do not fill a batch, as if the stream ended here; a snapshot does so on a copy."""
        self._learn(X, targets, weights)

    def _resized(self, n_bits: int) -> Self | None:
        """Return a hasher of another code length that learned the same, or None if that needs the data."""

    @property
    def _can_unlearn(self) -> bool:
        """Whether rows can be unlearned with these parameters, by a method that unlearns."""
        return self.unlearns

    def _unlearn_learned(self, X: Features, y: Any) -> Self:
        """Unlearn rows that certainly were learned, which may cost less than to unlearn any."""
        return self.unlearn(X, y)  # type: ignore[attr-defined, no-any-return]

    # ------------------------------------------------------------------ learning

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Discard what was learned and learn from X in one pass, row by row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : labels, as in :meth:`partial_fit`
        """
        return self._fit(X, y)

    def partial_fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn from the next instances of the stream: one row or many.

        How the stream is split into calls makes no difference beyond rounding. If the input is refused, nothing
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
        self._absorb(*self._check_next(X, y, None))
        if type(X) is not np.ndarray:
            self._keep_names(X)
        return self

    def _fit(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        checked = self._check_rows(X, y, sample_weight, None)
        fresh = type(self)(**self.get_params(deep=False))  # if learning fails, nothing is lost
        fresh._absorb(*checked)
        for name in ("n_samples_seen_", "_learned_with", "feature_names_in_", *self._saved):
            self.__dict__.pop(name, None)
        self.__dict__.update(fresh.__dict__)
        self._keep_names(X)
        return self

    def _check_next(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> tuple[Rows, Mask, int]:
        """Check the next rows of the stream: a table of them, or a single one with its label."""
        self._demand_same_parameters()
        if type(X) is not np.ndarray:
            check_feature_names(X, getattr(self, "feature_names_in_", None))
            if not is_on_device(X):
                X = as_array(X)
        if X.ndim == 1 and np.ndim(y) == 0:
            X = X[None, ...]
            if y is not None:
                y = np.array([y]) if type(y) is int or isinstance(y, np.integer) else [y]
        return self._check_rows(X, y, sample_weight, getattr(self, "n_features_in_", None))

    def _check_rows(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, n_features: int | None
    ) -> tuple[Rows, Mask, int]:
        """Return rows to learn from, a mask of those that count, and the number of rows without a label."""
        owner = type(self).__name__
        if type(X) is not np.ndarray:
            check_feature_names(X)
            if is_on_device(X) and not self.learns_on_device:
                raise InvalidFeaturesError(
                    f"X is on {X.device}, but {owner} learns on the CPU, by compiled loops; pass {way_to_host(X, 'X')}."
                )
        rows = check_features(X, n_features=n_features, owner=owner, on_device=True)
        n_rows = rows.shape[0]
        targets: Targets = None
        labelled: Mask = None
        if self.supervised:
            if type(y) is not np.ndarray and self.learns_on_device and is_on_device(y):
                y = to_host(y)
            targets, labelled = check_targets(y, n_rows)
            if isinstance(targets, LabelSets) and not self.multi_label:
                raise InvalidLabelsError(f"{owner} learns from one label per row; y holds several.")
        elif y is not None and (len(y) if hasattr(y, "__len__") else np.asarray(y).size) != n_rows:
            raise InvalidLabelsError(f"X has {n_rows} rows, y has another length; pass one label per row, or none.")
        dtype = precision_of(rows) if n_features is None else self._dtype
        check_finite(rows, dtype, raw=isinstance(self.preprocess, str) and self.preprocess == "none")
        counted, n_unlabelled = labelled, 0 if labelled is None else n_rows - int(labelled.sum())
        weights: Weights = None
        if sample_weight is not None:
            weights = _check_weights(sample_weight, n_rows, labelled)
            if not weights.all():
                counted = weights > 0.0 if labelled is None else labelled & (weights > 0.0)
        return Rows(rows, targets, weights), counted, n_unlabelled

    def _absorb(self, rows: Rows, counted: Mask, n_unlabelled: int) -> None:
        """Learn from checked rows; if the first ones are refused, the hasher is as before."""
        n_rows, n_features = rows.X.shape
        n_counted = n_rows if counted is None else int(counted.sum())
        if n_counted and "n_samples_seen_" not in self.__dict__:
            before = dict(self.__dict__)
            try:
                self._prepare(n_features, precision_of(rows.X), self._draw_seed())
                self._take(rows, counted)
            except BaseException:
                self.__dict__ = before
                raise
            self.n_features_in_, self.n_samples_seen_ = n_features, n_counted
        elif n_counted:
            self._take(rows, counted)
            self.n_samples_seen_ += n_counted
        self.n_unlabelled_ = getattr(self, "n_unlabelled_", 0) + n_unlabelled

    def _prepare(self, n_features: int, dtype: np.dtype[Any], seed: int) -> None:
        """Create the state of a hasher that has seen nothing."""
        check_code_length(self.n_bits)
        for name, check in self.changeable.items():
            check(name, getattr(self, name))
        self.seed_, self._dtype = seed, dtype
        self._classes: ClassTable | None = None  # new labels are admitted to it, or refused, before anything is learned
        self._features: StreamFeatures = make_features(self.preprocess, n_features, dtype)
        self._n_together = self._batch_rows()
        self._start(n_features)
        self._head = self._head_size() or None  # rows that are needed to start; None once there are enough
        self._waiting: list[HeadPart] = []  # rows that wait for the head of the stream, or for their batch
        self._fix_parameters()

    def _draw_seed(self) -> int:
        """Return ``random_state`` if it is an integer, otherwise an integer drawn from it."""
        state = self.random_state
        if isinstance(state, (int, np.integer)) and state >= 0:
            return int(state)
        if isinstance(state, np.random.Generator):
            return int(state.integers(2**31))
        source = np.random if state is None else state
        if not (source is np.random or isinstance(source, np.random.RandomState)):
            raise InvalidInputError(f"random_state={state!r} is not None, a non-negative integer or a NumPy generator.")
        return int(source.randint(2**31))

    def _take(self, rows: Rows, counted: Mask) -> None:
        """Learn from checked rows in chunks, leaving out those that do not count."""
        if self._classes is not None and rows.targets is not None:
            self._classes.admit(rows.targets if counted is None else take_targets(rows.targets, counted))
        with single_threaded_products(rows.X.shape[0]):
            for chunk in rows.chunks(counted, self._dtype):
                if self._head is not None or self._n_together > 1:
                    self._gather(chunk)
                elif chunk.X.shape[0]:
                    self._learn(*chunk)

    def _gather(self, rows: Rows) -> None:
        """Learn from the head of the stream, and then from whole batches; other rows wait."""
        while n_rows := rows.X.shape[0]:
            n_waiting = sum(len(labels) for _, labels, _ in self._waiting)
            needed = (self._head or self._n_together) - n_waiting
            if self._head is not None or n_waiting or n_rows < needed:
                self._waiting.append(rows.take(slice(needed)).head_part())
                if n_rows >= needed:
                    self._learn_waiting()
            else:
                needed = n_rows - n_rows % needed
                self._learn(*rows.take(slice(needed)))
            rows = rows.take(slice(needed, None))

    def _learn_waiting(self, *, to_the_end: bool = False) -> None:
        """Learn from the rows that wait, in whole batches; from all of them if the stream ends here."""
        X, labels, weights = join_head(self._waiting)
        targets = check_targets(labels, len(labels))[0] if self.supervised else None
        rows = Rows(X.astype(self._dtype, copy=False), targets, weights)
        if self._head is not None:
            self._head = None
            head = np.empty_like(rows.X)
            copy.deepcopy(self._features).learn(rows.X, head)
            self._open(head, targets)
        n_whole = len(X) - len(X) % self._n_together
        if n_whole:
            self._learn(*rows.take(slice(n_whole)))
        rest, self._waiting = rows.take(slice(n_whole, None)), []
        if len(rest.X) and to_the_end:
            self._finish(*rest)
        elif len(rest.X):
            self._waiting.append(rest.head_part())

    def _preprocessed(self, X: Features) -> Features:
        """Update the preprocessing with the next rows of the stream, and return them preprocessed."""
        rows = np.empty_like(X)
        self._features.learn(X, rows)
        return rows

    def _keep_names(self, X: Any) -> None:
        """Keep the feature names of the first rows learned from that have any."""
        if self.__sklearn_is_fitted__() and not hasattr(self, "feature_names_in_"):
            names = check_feature_names(X)
            if names is not None:
                self.feature_names_in_ = np.array(names, object)

    def _fix_parameters(self) -> None:
        """Remember the parameters that are learned with."""
        self._learned_with = self.get_params(deep=False)

    def _demand_same_parameters(self, *besides: str) -> None:
        """Raise if a parameter, other than those named, was changed since learning began and may not change."""
        for name, before in self.__dict__.get("_learned_with", {}).items():
            value = getattr(self, name)
            if value is before or name in besides:
                continue
            if np.array_equal(value, before) if isinstance(before, np.ndarray) else repr(value) == repr(before):
                continue
            if name not in self.changeable:
                way = f"with_{name.removeprefix('n_')}"
                other = f", or {way}({value!r})" if hasattr(self, way) else ""
                raise InvalidInputError(
                    f"{name}={value!r:.80} was changed after {type(self).__name__} learned with "
                    f"{name}={before!r:.80}; call fit to start again{other}."
                )
            self.changeable[name](name, value)

    # ------------------------------------------------------------------ hashing

    def snapshot(self) -> Encoder:
        """Return the current hash functions, frozen; later learning does not change them.

        Rows that wait for their batch, or for the head of the stream, to be complete are included, on a copy: a
        snapshot does not change the stream.
        """
        self._demand_learned()
        self._demand_same_parameters()
        final = self
        with single_threaded_products():
            if self._waiting:
                final = copy.deepcopy(self)
                final._learn_waiting(to_the_end=True)
            names, encoder = getattr(self, "feature_names_in_", None), final._encoder()
        return encoder if names is None else replace(encoder, feature_names=tuple(names))

    @property
    def version_(self) -> int:
        """Version of a snapshot taken now: the number of instances learned plus the number unlearned."""
        return int(getattr(self, "n_samples_seen_", 0) + getattr(self, "n_unlearned_", 0))

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the codes of X in the format given by ``output``.

        "codes": packed, uint8 of shape (n_samples, ceil(n_bits / 8)), as indexes and metrics take them. "bits": 0 and
        1, uint8 of shape (n_samples, n_bits), for estimators that compare features. "signs": -1 and +1, int8.
        """
        rows: NDArray[Any] = self.snapshot().encode(X)
        if self.output != "codes":
            rows = (unpack_bits if self.output == "bits" else unpack_signs)(rows, self.n_bits)
        return self._in_container(rows, X)

    def project(self, X: ArrayLike) -> Features:
        """Return the real values whose signs are the bits, shape (n_samples, n_bits)."""
        return self.snapshot().project(X)

    # ------------------------------------------------------------------ saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write parameters and learned state to one file (safetensors, no pickle).

        A stream resumed from the file continues exactly as if it had never stopped.
        """
        self._demand_learned()
        write_bytes(path, self.to_bytes())

    def to_bytes(self, *, encoder: bool = False) -> bytes:
        """Return the file that :meth:`save` writes, with an encoder if wanted; before learning, parameters only."""
        check_code_length(self.n_bits)
        self._demand_same_parameters()
        return pack_hasher(self, self.snapshot() if encoder else None)

    @classmethod
    def load(cls, source: Source) -> Self:
        """Read a hasher that :meth:`save` wrote, from a path or from its bytes."""
        return unpack_hasher(cls, source, *read_hasher(source))

    # ------------------------------------------------------------------ scikit-learn

    def _demand_learned(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise (_fitted_error() if "sklearn" in sys.modules else NotLearnedError)(
                f"This {type(self).__name__} has not learned from any instance yet; call partial_fit or fit first."
            )

    @property
    def _n_features_out(self) -> int:
        """Number of columns that :meth:`transform` returns, for ``get_feature_names_out``."""
        return code_width(self.n_bits) if self.output == "codes" else self.n_bits

    def __sklearn_is_fitted__(self) -> bool:
        return "n_samples_seen_" in self.__dict__


@cache
def _fitted_error() -> type[NotLearnedError]:
    from sklearn.exceptions import NotFittedError

    return type("HasherNotLearnedError", (NotLearnedError, NotFittedError), {"__module__": __name__})


def __getattr__(name: str) -> Any:
    if name == "HasherNotLearnedError":  # NotLearnedError that scikit-learn knows as NotFittedError
        return _fitted_error()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _place_of(hasher: OnlineHasher, name: str) -> tuple[Any, str]:
    """Return the object that has an attribute, and its name there."""
    owner, _, attribute = name.rpartition(".")
    return getattr(hasher, owner) if owner else hasher, attribute


def _check_weights(sample_weight: Any, n_rows: int, labelled: Mask) -> NDArray[np.float64]:
    """Return one weight per row, none of them negative."""
    try:
        weights = np.asarray(to_host(sample_weight) if is_on_device(sample_weight) else sample_weight, np.float64)
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


# ---------------------------------------------------------------------- parameters


def check_code_length(n_bits: Any) -> int:
    """Return the number of bits as an int from 1 to ``MAX_BITS``."""
    if check_n_bits(n_bits) > MAX_BITS:
        raise InvalidInputError(f"n_bits={n_bits} is too many; a code has at most {MAX_BITS} bits.")
    return int(n_bits)
