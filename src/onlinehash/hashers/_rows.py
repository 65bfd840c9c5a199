"""Rows of a stream, with their targets and weights: checked, in parts, joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._arrays import Place, is_on_device, to_host, way_to_host
from onlinehash._containers import as_array, check_feature_names
from onlinehash._validation import check_features, check_finite, check_targets, precision_of
from onlinehash.exceptions import InvalidFeaturesError, InvalidInputError, InvalidLabelsError
from onlinehash.types import LabelSets, Targets

if TYPE_CHECKING:
    from onlinehash.hashers._base import OnlineHasher

Mask = NDArray[np.bool_] | None
"""Which rows have a label; None if all do."""

Weights = NDArray[np.float64] | None
"""The weight of each row; None if all are 1."""

_CHUNK = 1 << 22  # elements of X processed at a time: a memory-mapped X is never read whole
_DEVICE_CHUNK = 1 << 26

HeadPart = tuple[NDArray[Any], list[Any], Weights]
"""Rows, labels as JSON and weights of a part of the head of a stream."""


class Rows(NamedTuple):
    """Rows of a stream, with their targets and weights."""

    X: NDArray[Any]
    targets: Targets
    weights: Weights

    def take(self, index: slice | NDArray[Any]) -> Rows:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[index]
        return Rows(_some(self.X, index), take_targets(self.targets, index), weights)

    def counted(self, labelled: Mask) -> Mask:
        """Return which rows have a label and a weight that is not zero; None if all do."""
        if self.weights is None or self.weights.all():
            return labelled
        return self.weights > 0.0 if labelled is None else labelled & (self.weights > 0.0)

    def labels(self, counted: Mask) -> Targets:
        """Return the targets of the rows that count."""
        return self.targets if counted is None else take_targets(self.targets, counted)

    def chunks(self, counted: Mask, dtype: np.dtype[Any]) -> Iterator[Rows]:
        """Yield the rows that count, in chunks, in a precision; rows on a device stay as they are."""
        on_device = is_on_device(self.X)
        step = max(1, (_DEVICE_CHUNK if on_device else _CHUNK) // self.X.shape[1])
        for start in range(0, self.X.shape[0], step):
            chunk = self if self.X.shape[0] <= step else self.take(slice(start, start + step))
            if counted is not None:
                chunk = chunk.take(counted[start : start + step])
            yield chunk if on_device else chunk._replace(X=np.ascontiguousarray(chunk.X, dtype))

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


def _some(X: Any, index: slice | NDArray[Any]) -> Any:
    """Return some rows of an array."""
    if not is_on_device(X):
        return X[index]
    if isinstance(index, slice):
        start, stop, _ = index.indices(X.shape[0])
        return X[start:stop, :]
    place = Place.of(X)
    return place.xp.take(X, place.put(np.flatnonzero(index)), axis=0)


def take_targets(targets: Targets, index: slice | NDArray[Any]) -> Targets:
    """Return the targets of some rows."""
    if targets is None:
        return None
    return targets.take(index) if isinstance(targets, LabelSets) else targets[index]


def join_head(parts: Sequence[HeadPart]) -> HeadPart:
    """Return the parts of the head of a stream as one."""
    rows = np.concatenate([rows for rows, _, _ in parts])
    labels = [label for _, labels, _ in parts for label in labels]
    if all(weights is None for _, _, weights in parts):
        return rows, labels, None
    return rows, labels, np.concatenate([np.ones(len(x)) if weights is None else weights for x, _, weights in parts])


def single_row(X: Any, y: Any) -> tuple[Any, Any]:
    """Return X as an array, and y; a single vector as a table of one row, and its label in a list."""
    rows = X if is_on_device(X) else as_array(X)
    if rows.ndim == 1 and np.ndim(y) == 0:
        return rows[None, ...], None if y is None else [y]
    return rows, y


def check_rows(
    hasher: OnlineHasher, X: ArrayLike, y: Any, sample_weight: ArrayLike | None, n_features: int | None
) -> tuple[Rows, Mask]:
    """Return rows that a hasher can learn from, and a mask of those that have a label."""
    owner = type(hasher).__name__
    check_feature_names(X)
    if is_on_device(X) and not hasher.learns_on_device:
        raise InvalidFeaturesError(
            f"X is on {X.device}, but {owner} learns on the CPU, by compiled loops; pass {way_to_host(X, 'X')}."  # type: ignore[union-attr]
        )
    rows = check_features(X, n_features=n_features, owner=owner, on_device=True)
    if is_on_device(y) and hasher.learns_on_device:
        y = to_host(y)
    targets: Targets = None
    labelled: Mask = None
    if hasher.supervised:
        targets, labelled = check_targets(y, rows.shape[0])
        if isinstance(targets, LabelSets) and not hasher.multi_label:
            raise InvalidLabelsError(f"{owner} learns from one label per row; y holds several.")
    elif y is not None and (len(y) if hasattr(y, "__len__") else np.asarray(y).size) != rows.shape[0]:
        raise InvalidLabelsError(f"X has {len(rows)} rows, y has another length; pass one label per row, or none.")
    check_values(hasher, rows, precision_of(rows) if n_features is None else hasher._dtype)
    return Rows(rows, targets, _check_weights(sample_weight, rows.shape[0], labelled)), labelled


def check_values(hasher: OnlineHasher, rows: NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Raise if rows hold values from which a hasher cannot learn in a precision."""
    check_finite(rows, dtype, raw=hasher._takes_raw_rows)


def _check_weights(sample_weight: ArrayLike | None, n_rows: int, labelled: Mask) -> Weights:
    """Return one weight per row, none of them negative, or None."""
    if sample_weight is None:
        return None
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
