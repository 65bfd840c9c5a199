"""The contract of a hasher: it learns, and only frozen encoders leave it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, check_random_state

from onlinehash._files import Arrays, read_arrays, write_arrays
from onlinehash._validation import check_features, check_finite, check_labels, precision_of
from onlinehash.encoders import Encoder
from onlinehash.exceptions import FileFormatError, InvalidInputError, NotLearnedError
from onlinehash.features import RunningCentring, make_features
from onlinehash.types import Codes, Features, Labels

_LAYOUT = 1


class HasherNotLearnedError(NotLearnedError, NotFittedError):  # type: ignore[misc]
    """A hasher was used before it learned; scikit-learn knows it as ``NotFittedError``."""


class OnlineHasher(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all hashers: checks input once, at the door, then learns.

    A method gives four things: :meth:`_start` (make the empty state for a first batch), :meth:`_learn` (take checked
    rows), :meth:`_encoder` (freeze) and :meth:`_state` with :meth:`_restore` (all that a saved stream needs to go on).
    Anything that may refuse input does so before it changes anything.

    Attributes
    ----------
    n_features_in_ : int
        Width of the rows learned from.
    n_seen_ : int
        Number of instances learned from.
    seed_ : int
        The seed in use; drawn from ``random_state`` at the first batch.
    """

    name: ClassVar[str]
    n_bits: int
    preprocess: Any
    random_state: Any

    # ------------------------------------------------------------------ learning

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Forget what was learned and learn from X in one pass, row by row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels, integers or strings.
        """
        rows, labels = self._check(X, y, None)
        fresh = type(self)(**self.get_params(deep=False))
        fresh._absorb(rows, labels)
        self.__dict__.update(fresh.__dict__)
        return self

    def partial_fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn from the next instances of the stream: one row or many.

        How the stream is cut into calls makes no difference beyond rounding. If the input is refused, nothing
        has changed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_features,) with a single label
        y : array-like of shape (n_samples,), or a single label
        """
        if np.ndim(y) == 0 and y is not None and np.ndim(X) == 1:
            X, y = np.asarray(X)[np.newaxis], [y]
        self._absorb(*self._check(X, y, getattr(self, "n_features_in_", None)))
        return self

    def _check(self, X: ArrayLike, y: Any, n_features: int | None) -> tuple[NDArray[Any], Labels]:
        rows = check_features(X, n_features=n_features, owner=type(self).__name__)
        labels = check_labels(y, len(rows))
        check_finite(rows, precision_of(rows) if n_features is None else self._dtype)
        return rows, labels

    def _absorb(self, X: NDArray[Any], y: Labels) -> None:
        if not self.__sklearn_is_fitted__():
            seed = self._draw_seed()
            state = dict(self.__dict__)
            try:
                self.seed_ = seed
                self._dtype = precision_of(X)
                self._features = make_features(self.preprocess, X.shape[1])
                self._start(X.shape[1])
                self._learn(X, y)
            except BaseException:
                self.__dict__ = state
                raise
            self.n_features_in_ = X.shape[1]
            self.n_seen_ = len(X)
        else:
            self._learn(X, y)
            self.n_seen_ += len(X)

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

    @abstractmethod
    def _learn(self, X: NDArray[Any], y: Labels) -> None:
        """Learn from checked rows, or raise before anything has changed."""

    # ------------------------------------------------------------------ hashing

    def snapshot(self) -> Encoder:
        """Return the hash functions as they are now, frozen; later learning does not touch them."""
        self._demand_learned()
        return self._encoder()

    def transform(self, X: ArrayLike) -> Codes:
        """Return packed codes of X, shape (n_samples, ceil(n_bits / 8))."""
        self._demand_learned()
        check_features(X, n_features=self.n_features_in_, owner=type(self).__name__)
        return self.snapshot().encode(X)

    def decision_function(self, X: ArrayLike) -> Features:
        """Return the real values whose signs are the bits, shape (n_samples, n_bits)."""
        self._demand_learned()
        check_features(X, n_features=self.n_features_in_, owner=type(self).__name__)
        return self.snapshot().project(X)

    @abstractmethod
    def _encoder(self) -> Encoder:
        """Freeze the hash functions."""

    # ------------------------------------------------------------------ saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write parameters and learned state to one file (safetensors, no pickle).

        A stream resumed from the file continues exactly as if it had never stopped.
        """
        self._demand_learned()
        arrays: Arrays = {}
        params = {key: _pack(f"param.{key}", value, arrays) for key, value in self.get_params(deep=False).items()}
        if not isinstance(self.random_state, int):
            params["random_state"] = self.seed_
        state, tensors = self._state()
        if isinstance(self._features, RunningCentring):
            arrays["mean"] = self._features.mean
        arrays.update({f"state.{key}": value for key, value in tensors.items()})
        counters = {
            "n_features_in_": self.n_features_in_,
            "n_seen_": self.n_seen_,
            "seed_": self.seed_,
            "dtype": self._dtype.name,
        }
        header = {"method": self.name, "params": params, "counters": counters, "state": state}
        write_arrays(path, "hasher", _LAYOUT, header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a hasher that :meth:`save` wrote."""
        header, arrays = read_arrays(path, "hasher", _LAYOUT)
        if header["method"] != cls.name:
            raise FileFormatError(f"{path} holds a {header['method']} hasher; load it with onlinehash.load_hasher.")
        hasher = cls(**{key: _unpack(f"param.{key}", value, arrays) for key, value in header["params"].items()})
        counters = header["counters"]
        hasher._dtype = np.dtype(counters.pop("dtype"))
        hasher.__dict__.update(counters)
        hasher._features = make_features(hasher.preprocess, hasher.n_features_in_)
        if "mean" in arrays:
            hasher._features = RunningCentring(arrays["mean"], hasher.n_seen_)
        hasher._start(hasher.n_features_in_)
        tensors = {key.removeprefix("state."): value for key, value in arrays.items() if key.startswith("state.")}
        hasher._restore(header["state"], tensors)
        return hasher

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
        return "n_seen_" in self.__dict__

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _pack(name: str, value: Any, arrays: Arrays) -> Any:
    """Return value as JSON, moving arrays into ``arrays``."""
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": True}
    if isinstance(value, Mapping):
        arrays[name] = np.array([np.asarray(word, np.int8) for word in value.values()])
        return {"labels": [label.item() if isinstance(label, np.generic) else label for label in value]}
    if isinstance(value, (list, tuple)):
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
