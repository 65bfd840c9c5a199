"""Rows of a stream, with their targets and weights: checked, in parts, joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._containers import check_feature_names
from onlinehash._validation import check_features, check_finite, check_targets, precision_of
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError
from onlinehash.types import LabelSets, Targets

if TYPE_CHECKING:
    from onlinehash.hashers._base import OnlineHasher

Mask = NDArray[np.bool_] | None
"""Which rows have a label; None if all do."""

Weights = NDArray[np.float64] | None
"""The weight of each row; None if all are 1."""

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
        return Rows(self.X[index], take_targets(self.targets, index), weights)

    def head_part(self) -> HeadPart:
        """Return a copy of the rows, with labels as JSON can hold them."""
        labels: list[Any]
        if self.targets is None:
            labels = [None] * len(self.X)
        elif isinstance(self.targets, LabelSets):
            labels = [list(labels) for labels in self.targets]
        else:
            labels = self.targets.tolist()
        return self.X.copy(), labels, self.weights


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


def check_rows(
    hasher: OnlineHasher, X: ArrayLike, y: Any, n_features: int | None
) -> tuple[NDArray[Any], Targets, Mask]:
    """Return rows, targets and a mask of labelled rows that a hasher can learn from."""
    owner = type(hasher).__name__
    check_feature_names(X)
    rows = check_features(X, n_features=n_features, owner=owner)
    targets: Targets = None
    labelled: Mask = None
    if hasher.supervised:
        targets, labelled = check_targets(y, len(rows))
        if isinstance(targets, LabelSets) and not hasher.multi_label:
            raise InvalidLabelsError(f"{owner} learns from one label per row; y holds several.")
    elif y is not None and (len(y) if hasattr(y, "__len__") else np.asarray(y).size) != len(rows):
        raise InvalidLabelsError(f"X has {len(rows)} rows, y has another length; pass one label per row, or none.")
    check_finite(rows, precision_of(rows) if n_features is None else hasher._dtype)
    return rows, targets, labelled


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
