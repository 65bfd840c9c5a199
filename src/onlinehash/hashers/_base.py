"""The contract of a hasher: a hasher learns, and only frozen encoders leave it."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags

from onlinehash._containers import check_feature_names
from onlinehash._files import Arrays, Source, write_bytes
from onlinehash._validation import check_features, check_targets, precision_of
from onlinehash.codes import unpack_bits, unpack_signs
from onlinehash.codes.packing import code_width
from onlinehash.encoders import Encoder
from onlinehash.exceptions import NotLearnedError
from onlinehash.features import StreamFeatures, make_features
from onlinehash.hashers._parameters import (
    Changeable,
    check_code_length,
    check_output,
    demand_same_parameters,
    draw_seed,
    frozen_value,
)
from onlinehash.hashers._rows import HeadPart, Mask, Rows, Weights, check_rows, check_values, join_head, single_row
from onlinehash.hashers._saving import pack_hasher, read_hasher, unpack_hasher
from onlinehash.hashers._traits import Traits
from onlinehash.types import Codes, Features, Targets


class HasherNotLearnedError(NotLearnedError, NotFittedError):  # type: ignore[misc]
    """A hasher was used before it learned; scikit-learn knows it as ``NotFittedError``."""


@dataclass(eq=False, repr=False)
class OnlineHasher(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of all hashers: checks the input, then learns.

    A method is a dataclass whose fields are its parameters. It implements :meth:`_start`, :meth:`_learn`,
    :meth:`_encoder`, :meth:`_state` and :meth:`_restore`. It may also ask for the head of the stream
    (:meth:`_head_size`, :meth:`_open`), and keep rows until their batch is full (:meth:`_is_waiting`, :meth:`_finish`).
    Input is refused before anything changes.

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
        Whether ``fit`` and ``partial_fit`` take ``sample_weight``, as those of :class:`WeightedHasher` do.
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
    traits: ClassVar[Traits]
    supervised: ClassVar[bool] = True
    multi_label: ClassVar[bool] = False
    unlearns: ClassVar[bool] = False
    merges: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = False
    learns_on_device: ClassVar[bool] = False
    changeable: ClassVar[Changeable] = {"output": check_output}
    _saved: ClassVar[tuple[str, ...]] = ()

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

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state: a JSON part and arrays."""

    @abstractmethod
    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Restore what :meth:`_state` returned."""

    def _head_size(self) -> int:
        """Return how many rows of the stream are needed together before learning starts."""
        return 0

    def _open(self, head: Features, targets: Targets) -> None:
        """Initialise the state from the head of the stream, which is learned from right after."""

    def _admit(self, targets: Targets) -> None:
        """Raise if there are labels that cannot be learned from; nothing has changed yet."""

    def _is_waiting(self) -> bool:
        """Return whether rows wait that :meth:`_finish` would learn from."""
        return False

    def _finish(self) -> None:
        """Learn from the waiting rows, as if the stream ended here."""

    def _resized(self, n_bits: int) -> Self | None:
        """Return a hasher of another code length that learned the same, or None if that needs the data."""

    def _as_part(self) -> Self:
        """Prepare an empty clone to learn a part of a stream, only to be merged."""
        return self

    # ------------------------------------------------------------------ learning

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Discard what was learned and learn from X in one pass, row by row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : labels, as in :meth:`partial_fit`
        """
        return self._fit(X, y, None)

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
        return self._partial_fit(X, y, None)

    def _fit(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None) -> Self:
        checked = check_rows(self, X, y, sample_weight, None)
        fresh = type(self)(**self.get_params(deep=False))  # if learning fails, nothing is lost
        fresh._absorb(*checked)
        for name in ("n_samples_seen_", "_learned_with", "feature_names_in_", *(f"_{name}" for name in self._saved)):
            self.__dict__.pop(name, None)
        self.__dict__.update(fresh.__dict__)
        self._keep_names(X)
        return self

    def _partial_fit(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None) -> Self:
        self._absorb(*self._check_next(X, y, sample_weight))
        self._keep_names(X)
        return self

    def _check_next(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None) -> tuple[Rows, Mask]:
        """Check the next rows of the stream: a table of them, or a single one with its label."""
        self._demand_same_parameters()
        check_feature_names(X, getattr(self, "feature_names_in_", None))
        return check_rows(self, *single_row(X, y), sample_weight, getattr(self, "n_features_in_", None))

    def _learn_checked(self, X: NDArray[Any], targets: Targets, labelled: Mask) -> None:
        """Learn from rows that a collection has checked; those without labels are left out, and not counted."""
        rows = Rows(X, targets if self.supervised else None, None)
        if self.supervised and labelled is not None:
            rows = rows.take(labelled)
        if self._takes_raw_rows and len(rows.X):
            check_values(self, rows.X, self._dtype if self.__sklearn_is_fitted__() else precision_of(rows.X))
        if len(rows.X):
            self._absorb(rows, None)

    @property
    def _takes_raw_rows(self) -> bool:
        """Whether rows are learned from as they are."""
        return isinstance(self.preprocess, str) and self.preprocess == "none"

    def _absorb(self, rows: Rows, labelled: Mask) -> None:
        """Learn from checked rows; if the first ones are refused, the hasher is as before."""
        n_rows, n_features = rows.X.shape
        n_unlabelled = 0 if labelled is None else n_rows - int(labelled.sum())
        counted = rows.counted(labelled)
        n_counted = n_rows if counted is None else int(counted.sum())
        if n_counted and not self.__sklearn_is_fitted__():
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
        self._features: StreamFeatures = make_features(self.preprocess, n_features, dtype)
        self._start(n_features)
        self._head: list[HeadPart] | None = [] if self._head_size() else None
        self._fix_parameters()

    def _draw_seed(self) -> int:
        return draw_seed(self.random_state)

    def _take(self, rows: Rows, counted: Mask) -> None:
        """Learn from checked rows in chunks, leaving out those that do not count."""
        self._admit(rows.labels(counted))
        for chunk in rows.chunks(counted, self._dtype):
            rest = chunk if self._head is None else self._collect(chunk)
            if rest.X.shape[0]:
                self._learn(*rest)

    def _collect(self, rows: Rows) -> Rows:
        """Keep rows until the head of the stream is complete, then learn from it; return the rows after the head."""
        assert self._head is not None
        missing = self._head_size() - sum(len(labels) for _, labels, _ in self._head)
        self._head.append(rows.take(slice(missing)).head_part())
        if rows.X.shape[0] >= missing:
            self._open_head()
        return rows.take(slice(missing, None))

    def _open_head(self) -> None:
        assert self._head is not None
        rows, labels, weights = join_head(self._head)
        rows = rows.astype(self._dtype, copy=False)
        targets = check_targets(labels, len(labels))[0] if self.supervised else None
        self._head = None
        self._open(rows, targets)
        self._learn(rows, targets, weights)

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
        self._learned_with = {name: frozen_value(value) for name, value in self.get_params(deep=False).items()}

    def _demand_same_parameters(self, *besides: str) -> None:
        """Raise if a parameter, other than those named, was changed since learning began and may not change."""
        demand_same_parameters(self, self.__dict__.get("_learned_with", {}), besides)

    # ------------------------------------------------------------------ hashing

    def snapshot(self) -> Encoder:
        """Return the current hash functions, frozen; later learning does not change them.

        Rows that wait for their batch, or for the head of the stream, to be complete are included, on a copy: a
        snapshot does not change the stream.
        """
        self._demand_learned()
        self._demand_same_parameters()
        final = self
        if self._head is not None or self._is_waiting():
            final = copy.deepcopy(self)
            if final._head is not None:
                final._open_head()
            final._finish()
        names, encoder = getattr(self, "feature_names_in_", None), final._encoder()
        return encoder if names is None else replace(encoder, feature_names=tuple(names))

    @property
    def version_(self) -> int:
        """Version of a snapshot taken now: the number of instances learned plus the number unlearned."""
        n_unlearned = getattr(self, "n_unlearned_", 0) if self.unlearns else 0
        return int(getattr(self, "n_samples_seen_", 0) + n_unlearned)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the codes of X in the format given by ``output``.

        "codes": packed, uint8 of shape (n_samples, ceil(n_bits / 8)), as indexes and metrics take them. "bits": 0 and
        1, uint8 of shape (n_samples, n_bits), for estimators that compare features. "signs": -1 and +1, int8.
        """
        codes = self._packed(X)
        if self.output == "codes":
            return codes
        return (unpack_bits if self.output == "bits" else unpack_signs)(codes, self.n_bits)

    def decision_function(self, X: ArrayLike) -> Features:
        """Return the real values whose signs are the bits, shape (n_samples, n_bits)."""
        rows = self._check_queries(X)
        return self.snapshot().project(rows)

    def _packed(self, X: ArrayLike) -> Codes:
        """Return packed codes."""
        rows = self._check_queries(X)
        return self.snapshot().encode(rows)

    def _check_queries(self, X: ArrayLike) -> NDArray[Any]:
        self._demand_learned()
        check_feature_names(X, getattr(self, "feature_names_in_", None))
        return check_features(X, n_features=self.n_features_in_, owner=type(self).__name__, on_device=True)

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
            raise HasherNotLearnedError(
                f"This {type(self).__name__} has not learned from any instance yet; call partial_fit or fit first."
            )

    @property
    def _n_features_out(self) -> int:
        """Number of columns that :meth:`transform` returns, for ``get_feature_names_out``."""
        return code_width(self.n_bits) if self.output == "codes" else self.n_bits

    def __sklearn_is_fitted__(self) -> bool:
        return "n_samples_seen_" in self.__dict__

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.supervised
        tags.transformer_tags.preserves_dtype = []
        return tags
